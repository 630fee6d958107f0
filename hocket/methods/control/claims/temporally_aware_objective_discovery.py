"""TA-LPO's claims."""

from __future__ import annotations

import itertools
from functools import partial
from statistics import fmean

import torch
from torch import Tensor

from hocket.core.keys import Key
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, gap, same_gradient, say
from hocket.lab.discover import compared
from hocket.lab.toys.control import ADVANTAGES, cart_pole
from hocket.methods.base.ppo import PPO
from hocket.methods.control.temporally_aware_objective_discovery.lifetimes import Lifetimes, Timed
from hocket.methods.control.temporally_aware_objective_discovery.method import BLIND, TA_LPO, TimedDrift
from hocket.methods.control.temporally_aware_objective_discovery.timed_drift import timed_drift
from hocket.methods.group_relative.discovered_policy_optimisation import LearntDrift
from hocket.objectives.drift import ClipDrift, DriftSurrogate
from hocket.objectives.learnt_drift import network_drift

claim = Claims("temporally-aware-objective-discovery", "arXiv:2402.05828")
TIMES, FRESH, TRAINED_ON, UNSEEN = (0.0, 0.5, 1.0), range(3), 20, (10, 40)
TOLD, UNTIMED = TimedDrift(), LearntDrift(str(BLIND))


def _networks() -> list[tuple[Tensor, Tensor]]:
    """The shipped network and random ones."""
    noise = Key.of(8).numpy()
    drawn = (torch.from_numpy(noise.normal(size=(17, 8))) for _ in range(10))
    return [TOLD.weights, *((weights[:16], weights[16]) for weights in drawn)]


@claim("Whatever the weights and at every time f is at least 0, and 0 at r = 1 with slope 0 there.", "arXiv 2201.02373")
def whatever_the_weights_and_at_every_time_f_is_at_least_0_and_0_at() -> Finding:
    log_ratio, least, at_one, slopes = torch.linspace(-3, 3, 601, dtype=torch.float64), [], [], []
    for (inner, outer), a, time in itertools.product(_networks(), ADVANTAGES, TIMES):
        least.append(float(timed_drift(log_ratio, torch.full_like(log_ratio, a), time, inner, outer).min()))
        leaf = torch.zeros(1, dtype=torch.float64, requires_grad=True)
        value = timed_drift(leaf, torch.tensor([a], dtype=torch.float64), time, inner, outer).sum()
        slopes.append(gap(torch.autograd.grad(value, leaf)[0], 0.0))
        at_one.append(gap(value, 0.0))
    holds = min(least) >= 0 and max(at_one) == 0 and max(slopes) < EXACT
    return Finding(holds, say(networks=11, least_value=min(least), value_at_r_1=max(at_one), slope=max(slopes)))


@claim("f is the formula's, number by number in float64, at times between.")
def f_is_the_formulas_number_by_number_in_float64_at_times_between() -> Finding:
    error = 0.0
    for (inner, outer), d, a, time in itertools.product(
        _networks()[:4], (-1.3, -0.2, 0.1, 0.9), (-2.0, 0.7), (0.0, 0.3)
    ):
        ratio = torch.tensor(d, dtype=torch.float64).exp()
        plain = torch.stack([1 - ratio, (1 - ratio) ** 2, ratio.log(), ratio.log() ** 2])
        x = torch.cat([plain, a * plain])
        hidden = torch.tanh(inner[:8].T @ x + time * (inner[8:].T @ x))
        wanted = max(0.0, float(outer @ hidden) - 1e-6)
        log_ratio, advantage = (torch.tensor([one], dtype=torch.float64) for one in (d, a))
        error = max(error, abs(float(timed_drift(log_ratio, advantage, time, inner, outer)) - wanted))
    return below(EXACT, off=error)


@claim("As shipped it is the timed network's drift in the place of LPO's, the mean over decisions.")
def as_shipped_it_is_the_timed_networks_drift_in_the_place_of_lpos() -> Finding:
    shipped = TA_LPO.objective == DriftSurrogate(drift=TimedDrift(file=None), aggregate="token-mean")
    inner, outer = TOLD.weights
    return Finding(shipped and bool((inner[8:] != 0).any()), say(numbers=inner.numel() + outer.numel()))


@claim("Where the timed half of its weights is 0 it is the untimed network's at every time; at n/N = 0 always.")
def where_the_timed_half_of_its_weights_is_0_it_is_the_untimed() -> Finding:
    log_ratio, advantage = (torch.from_numpy(Key.of(3).derive(name).numpy().normal(size=40)) for name in ("d", "a"))
    off, apart = 0.0, 0.0
    for inner, outer in _networks():
        plain = network_drift(log_ratio, advantage, inner[:8], outer)
        still = torch.cat([inner[:8], torch.zeros_like(inner[8:])])
        off = max(off, *(gap(timed_drift(log_ratio, advantage, time, still, outer), plain) for time in TIMES))
        off = max(off, gap(timed_drift(log_ratio, advantage, 0.0, inner, outer), plain))
        apart = max(apart, gap(timed_drift(log_ratio, advantage, 1.0, inner, outer), plain))
    return Finding(off < EXACT < 1e-3 < apart, say(off=off, at_the_end=apart))


@claim("With the clip as drift the surrogate is PPO's: equal gradients.", "arXiv 2201.02373")
def with_the_clip_as_drift_the_surrogate_is_ppos_equal_gradients() -> Finding:
    clipped = PPO.but(name="clip as drift", objective=DriftSurrogate(drift=ClipDrift(), aggregate="token-mean"))
    return same_gradient(clipped, PPO)


def _turns(drift: TimedDrift | LearntDrift, advantage: float, time: float) -> float:
    """How far log r goes in the advantage's direction, at most 3, before the surrogate pulls it back."""
    log_ratio = torch.linspace(0, 3, 1201, dtype=torch.float64)[1:].mul(1 if advantage > 0 else -1).requires_grad_()
    value = log_ratio.exp() * advantage - drift(log_ratio, torch.full_like(log_ratio, advantage), time)
    slope, log_ratio = torch.autograd.grad(value.sum(), log_ratio)[0] * advantage, log_ratio.detach()
    back = torch.nonzero(slope < 0).flatten()
    return float(log_ratio[back[0]].abs()) if len(back) else 3.0


@claim(
    "It holds back at first and lets go towards the end: how far a good action may be made likelier in a step rises "
    "with n/N (predicted: not flat); the untimed network's stands between."
)
def it_holds_back_at_first_and_lets_go_towards_the_end_how_far_a() -> Finding:
    reach = [_turns(TOLD, 1.0, time) for time in TIMES]
    untimed = {_turns(UNTIMED, 1.0, time) for time in TIMES}
    holds = reach[0] < reach[1] < reach[2] and len(untimed) == 1 and reach[0] < max(untimed) < reach[2]
    return Finding(holds, say(log_ratio_at_first=reach[0], half_way=reach[1], last=reach[2], untimed=max(untimed)))


def _returns(horizon: int) -> list[list[float]]:
    """What the timed network earns, the untimed one, and f = 0, on 256 fresh bandits; a row for each run."""
    timed = Timed(partial(timed_drift, inner=TOLD.weights[0], outer=TOLD.weights[1]))
    untimed = partial(network_drift, inner=UNTIMED.weights[0], outer=UNTIMED.weights[1])
    family = Lifetimes(iterations=horizon)
    return [compared(family, [timed, untimed, None], 256, Key.of(190 + seed)).tolist() for seed in FRESH]


@claim(
    "On fresh bandits it earns more than f = 0, but not more than the untimed network found at equal cost, neither in "
    "runs of 20 batches, which both were found on, nor of 10 or 40, which are new (predicted: more in all).",
    slow=True,
)
def on_fresh_bandits_it_earns_more_than_f_0_but_not_more_than_the() -> Finding:
    rows = {horizon: _returns(horizon) for horizon in (TRAINED_ON, *UNSEEN)}
    gains = {horizon: [timed - untimed for timed, untimed, _ in own] for horizon, own in rows.items()}
    above = min(fmean(timed - none for timed, _, none in own) for own in rows.values())
    level = all(min(own) < 0 and abs(fmean(own)) < 0.05 for own in gains.values())
    return Finding(level and above > 0, say(gain_over_untimed_by_batches=gains, least_gain_over_f_0=above))


@claim(
    "From bandits to the pole it carries over in part: after 8 batches of CartPole both of 2 seeds are above chance, "
    "but only one above 150 of 200 (predicted: both).",
    slow=True,
)
def from_bandits_to_the_pole_it_carries_over_in_part_after_8() -> Finding:
    scores = [cart_pole(TA_LPO.name, seed).score for seed in (0, 1)]
    return Finding(30 < min(scores) < 150 < max(scores), say(by_chance=22, returns=scores))


claim.spares("temporally-aware-objective-discovery: objective.horizon = 5120", "no length divides a mean over tokens")

claim.shipped(TA_LPO, "objective")
