"""What discovered-policy-optimisation claims."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from hocket.core.keys import Key
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.discover import Bandits, Strategy, compared
from hocket.lab.toys.control_runs import SEEDS
from hocket.lab.toys.trust_regions import ADVANTAGES, _on_par, slope, worst
from hocket.methods.group_relative.discovered_policy_optimisation import LearntDrift, TanhDrift
from hocket.methods.group_relative.mdpo import ForwardKLDrift
from hocket.methods.group_relative.spo import QuadraticDrift
from hocket.objectives.drift import ClipDrift, Drift, DriftSurrogate
from hocket.objectives.learnt_drift import network_drift
from hocket.objectives.surrogate import ClippedSurrogate
from hocket.recipes import find

claim = Claims("discovered-policy-optimisation", "arXiv 2210.05639")


DRIFTS: Mapping[str, Drift] = {
    "PPO": ClipDrift(),
    "DPO": TanhDrift(),
    "learnt": LearntDrift(),
    "SPO": QuadraticDrift(),
    "MDPO": ForwardKLDrift(),
}


@claim("PPO's, DPO's and any learnt f meet the three conditions of a drift.", "arXiv 2201.02373")
def _drift_conditions() -> Finding:
    log_ratio = torch.linspace(-3, 3, 601, dtype=torch.float64)
    noise, least, at_one, flatness = Key.of(8).numpy(), math.inf, 0.0, 0.0
    networks = [torch.from_numpy(noise.normal(size=(9, 8))) for _ in range(20)]
    drifts: list[Callable[[Tensor, Tensor], Tensor]] = [
        *(lambda x, a, f=drift: f(x, a, 0.5) for drift in DRIFTS.values()),
        *(lambda x, a, w=one: network_drift(x, a, w[:8], w[8]) for one in networks),
    ]
    for drift in drifts:
        for advantage in ADVANTAGES:
            least = min(least, float(drift(log_ratio, torch.full_like(log_ratio, advantage)).min()))
            leaf = torch.zeros(1, dtype=torch.float64, requires_grad=True)
            value = drift(leaf, torch.tensor([advantage], dtype=torch.float64)).sum()
            (gradient,) = torch.autograd.grad(value, leaf)
            at_one, flatness = max(at_one, float(value.detach().abs())), max(flatness, float(gradient.abs()))
    return Finding(
        least >= 0 and at_one == 0 and flatness < 1e-12,
        f"{', '.join(DRIFTS)} and 20 random networks: least value {least:.1g}, at r = 1 value {at_one:.1g} and slope "
        f"{flatness:.1g}",
    )


@claim("For all of them the slope at r = 1 is the policy gradient's.", "arXiv 2201.02373")
def _drifts_start_as_the_policy_gradient() -> Finding:
    names = ("ppo", "discovered-policy-optimisation", "learnt-policy-optimisation", "spo", "mdpo", "trpo")
    gap = max(worst([(slope(find(name), 1.0, a), a) for a in ADVANTAGES]) for name in names)
    clip = find("ppo").but(name="ppo-as-drift", objective=DriftSurrogate(drift=ClipDrift(), aggregate="token-mean"))
    places = [(r, a) for a in ADVANTAGES for r in (0.3, 0.79, 0.81, 1.0, 1.19, 1.21, 2.5)]
    same = worst([(slope(clip, r, a), slope(find("ppo"), r, a)) for r, a in places])
    assert isinstance(find("ppo").objective, ClippedSurrogate)
    return Finding(
        gap < 1e-12 and same < 1e-12,
        f"slope at r = 1 off A by at most {gap:.1e} in {len(names)} recipes; the clip as a drift off PPO by {same:.1e}",
    )


@claim("The shipped learnt drift is worth more than f = 0 under repeated epochs.", slow=True)
def _shipped_drift_is_worth_it() -> Finding:
    inner, outer = LearntDrift().weights
    penalties = [lambda x, a: network_drift(x, a, inner, outer), None]
    rows = torch.stack([compared(Bandits(), penalties, 64, Key.of(90 + seed)) for seed in SEEDS])
    gains = (rows[:, 0] - rows[:, 1]).tolist()
    return Finding(
        min(gains) > 0,
        f"fresh two-state bandits, {len(SEEDS)} seeds of 64, 8 epochs per batch: return {float(rows[:, 0].mean()):.3f} "
        f"with the shipped drift, {float(rows[:, 1].mean()):.3f} without; least gain {min(gains):.3f}",
    )


@claim("Meta-training on two-state bandits finds an f not worse than f = 0.", slow=True)
def _discovery_finds_a_drift() -> Finding:
    family, strategy = Bandits(noise=3.0, iterations=30), Strategy(pairs=8, bandits=8)
    gains = []
    for seed in SEEDS:
        weights = strategy.run(family, 16, Key.of(seed).derive("check"))
        learnt, none = compared(family, [strategy.penalty(weights[None]), None], 64, Key.of(seed).derive("fresh"))
        gains.append(float(learnt - none))
    return Finding(
        statistics.mean(gains) > 0 and min(gains) > -0.05,
        f"16 generations of 16 candidates from random weights, {len(SEEDS)} seeds: gain over f = 0 on fresh bandits "
        f"{statistics.mean(gains):+.3f} ({min(gains):+.3f} to {max(gains):+.3f})",
    )


@claim("DPO matches PPO within noise on CartPole.", slow=True)
def on_par_with_ppo_discovered_policy_optimisation() -> Finding:
    return _on_par("discovered-policy-optimisation")()
