"""Discovered policy optimisation's claims."""

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from statistics import mean

import torch
from torch import Tensor

from hocket.core.keys import Key
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, below, gap, say
from hocket.lab.discover import Bandits, Strategy, compared
from hocket.lab.hand_formulas import CountedAnswer, off, stale_rows
from hocket.lab.toys.control import ADVANTAGES, on_par, slope
from hocket.methods.group_relative.discovered_policy_optimisation import LearntDrift, TanhDrift
from hocket.methods.group_relative.mdpo import ForwardKLDrift
from hocket.methods.group_relative.spo import QuadraticDrift
from hocket.objectives.drift import ClipDrift, Drift, DriftSurrogate
from hocket.objectives.learnt_drift import network_drift
from hocket.objectives.surrogate import ClippedSurrogate
from hocket.recipes import find

claim = Claims("discovered-policy-optimisation", "arXiv 2210.05639")
DRIFTS: dict[str, Drift] = {"PPO": ClipDrift(), "DPO": TanhDrift(), "learnt": LearntDrift(), "SPO": QuadraticDrift()}
DRIFTS["MDPO"] = ForwardKLDrift()


@claim("PPO's, DPO's and any learnt f meet the three conditions of a drift.", "arXiv 2201.02373")
def ppos_dpos_and_any_learnt_f_meet_the_three_conditions_of_a_drift() -> Finding:
    log_ratio, noise = torch.linspace(-3, 3, 601, dtype=torch.float64), Key.of(8).numpy()
    least, at_one, slopes = [], [], []
    drifts: list[Callable[[Tensor, Tensor], Tensor]] = [partial(drift, progress=0.5) for drift in DRIFTS.values()]
    for weights in (torch.from_numpy(noise.normal(size=(9, 8))) for _ in range(20)):
        drifts.append(partial(network_drift, inner=weights[:8], outer=weights[8]))
    for drift, a in itertools.product(drifts, ADVANTAGES):
        least.append(float(drift(log_ratio, torch.full_like(log_ratio, a)).min()))
        leaf = torch.zeros(1, dtype=torch.float64, requires_grad=True)
        value = drift(leaf, torch.tensor([a], dtype=torch.float64)).sum()
        slopes.append(gap(torch.autograd.grad(value, leaf)[0], 0.0))
        at_one.append(gap(value, 0.0))
    holds = min(least) >= 0 and max(at_one) == 0 and max(slopes) < EXACT
    saw = say(least_value=min(least), value_at_r_1=max(at_one), slope=max(slopes))
    return Finding(holds, f"{', '.join(DRIFTS)} and 20 random networks: {saw}")


@claim(
    "Loss and gradient are the closed form's, counted by hand, with alpha 2 and beta 0.6; the learnt one's network's."
)
def loss_and_gradient_are_the_closed_forms_counted_by_hand_with() -> Finding:
    def loss(answers: Sequence[CountedAnswer], learnt: bool) -> tuple[Tensor, dict[str, float]]:
        d, a = (torch.cat(part) for part in zip(*((one.logp - one.old, one.advantage) for one in answers), strict=True))
        x, scale = torch.where(a >= 0, d.expm1() * a, d * a), 0.6 + 1.4 * (a >= 0).double()
        drift = network_drift(d, a, *LearntDrift().weights) if learnt else (x - scale * (x / scale).tanh()).relu()
        return (drift - d.exp() * a).mean(), {}

    gaps = []
    for name, learnt in (("discovered-policy-optimisation", False), ("learnt-policy-optimisation", True)):
        alone = find(name).but(credit=find("grpo").credit, regularisers=())
        gaps += [off(alone, rows, partial(loss, learnt=learnt)) for rows in stale_rows("drifts", gap=1.5)]
    return below(EXACT, off_by_hand=max(gaps))


@claim("For all of them the slope at r = 1 is the policy gradient's.", "arXiv 2201.02373")
def for_all_of_them_the_slope_at_r_1_is_the_policy_gradients() -> Finding:
    names = ("ppo", "discovered-policy-optimisation", "learnt-policy-optimisation", "spo", "mdpo", "trpo")
    off, ppo = max(abs(slope(find(name), 1.0, a) - a) for name in names for a in ADVANTAGES), find("ppo")
    clip = ppo.but(name="ppo-as-drift", objective=DriftSurrogate(drift=ClipDrift(), aggregate="token-mean"))
    places = itertools.product((0.3, 0.79, 0.81, 1.0, 1.19, 1.21, 2.5), ADVANTAGES)
    same = max(abs(slope(clip, *place) - slope(ppo, *place)) for place in places)
    assert isinstance(ppo.objective, ClippedSurrogate)
    finding = below(EXACT, slope_at_r_1_off_A=off, the_clip_as_a_drift_off_PPO=same)
    return Finding(finding.holds, f"{len(names)} recipes: {finding.saw}")


@claim("The shipped learnt drift is worth more than f = 0 under repeated epochs.", slow=True)
def the_shipped_learnt_drift_is_worth_more_than_f_0_under_repeated() -> Finding:
    inner, outer = LearntDrift().weights
    penalties = [partial(network_drift, inner=inner, outer=outer), None]
    rows = torch.stack([compared(Bandits(), penalties, 64, Key.of(90 + seed)) for seed in SEEDS])
    (shipped, without), least = rows.mean(0).tolist(), float((rows[:, 0] - rows[:, 1]).min())
    saw = say(seeds_of_64=len(SEEDS), epochs_per_batch=8, return_with_the_shipped_drift=shipped, without=without)
    return Finding(least > 0, f"fresh two-state bandits: {saw}, {say(least_gain=least)}")


@claim("Meta-training on two-state bandits finds an f not worse than f = 0.", slow=True)
def meta_training_on_two_state_bandits_finds_an_f_not_worse_than_f() -> Finding:
    family, strategy, gains = Bandits(noise=3.0, iterations=30), Strategy(pairs=8, bandits=8), []
    for seed in SEEDS:
        weights = strategy.run(family, 16, Key.of(seed).derive("check"))
        learnt, none = compared(family, [strategy.penalty(weights[None]), None], 64, Key.of(seed).derive("fresh"))
        gains.append(float(learnt - none))
    saw = say(generations=16, candidates=16, seeds=len(SEEDS), gain_over_f_0_on_fresh_bandits=gains)
    return Finding(mean(gains) > 0 and min(gains) > -0.05, saw)


claim("DPO matches PPO within noise on CartPole.", slow=True)(on_par("discovered-policy-optimisation"))


claim.spares("discovered-policy-optimisation: objective.horizon = 5120", "no length divides a mean over tokens")

claim.shipped(find("discovered-policy-optimisation"), "objective")
claim.shipped(find("learnt-policy-optimisation"), "objective")
