"""Uni-O4's claims."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import cast

import numpy as np

from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, below, say
from hocket.lab.exact.mdp import Array, softmax
from hocket.lab.exact.solver import State
from hocket.lab.exact.worlds import random
from hocket.methods.control.uni_o4 import (
    UNI_O4,
    CountedModel,
    OfflineToOnline,
    RecordedEpisodes,
    advantages,
    cloning,
    counted,
    estimated,
    expectiles,
    in_sample,
    played,
    score,
    surrogate,
)

claim = Claims("uni-o4", "arXiv:2311.03351")
SOLVER = cast(OfflineToOnline, UNI_O4.solver)
WORLD = random(12, 4)
SEEDS = 4


def _slope(aim: Callable[[Array], float], logits: Array) -> Array:
    """By differences."""
    result = np.zeros_like(logits)
    for place in np.ndindex(logits.shape):
        moved = np.zeros_like(logits)
        moved[place] = 1e-6
        result[place] = (aim(logits + moved) - aim(logits - moved)) / 2e-6
    return result


@claim("The clones' gradient is that of the likelihood of the data and of log Z, by differences.", "section 3.1")
def the_gradient_of_clones_is_that_of_differences() -> Finding:
    rng = Key.of(0).numpy()
    logits, counts = rng.normal(size=(3, 4, 3)), rng.integers(0, 5, size=(4, 3)).astype(float)
    counts[2] = 0.0
    share = counts / np.maximum(counts.sum(1, keepdims=True), 1)

    def aim(moved: Array) -> float:
        policies, total = softmax(moved), 0.0
        for state in (0, 1, 3):
            total += float(sum(share[state] @ np.log(policy[state]) for policy in policies)) / 3
            total += 0.7 * float(np.log(sum(max(policy[state, a] for policy in policies) for a in range(3))))
        return total

    slopes = cloning(logits, counts, 0.7), cloning(logits, counts, 0.0)
    off = float(np.abs(slopes[0] - _slope(aim, logits)).max())
    return below(1e-8, bool(np.abs(slopes[0] - slopes[1]).max() > 0.01), off=off)


@claim(
    "Where two ways were recorded equally often, clones without disagreement are alike and each takes both; with it "
    "each takes one of them more than the other, and together they hold more mass.",
    "section 3.1",
)
def clones_that_disagree_cover_both_ways() -> Finding:
    counts, mass, likes = np.array([[10.0, 10.0, 0.0]]), {}, {}
    for alpha in (0.0, 0.5):
        logits = 0.1 * Key.of(0).numpy().normal(size=(4, 1, 3))
        for _ in range(600):
            logits = logits + 4.0 * cloning(logits, counts, alpha)
        policies = softmax(logits)[:, 0]
        mass[alpha], likes[alpha] = float(policies.max(0).sum()), float(np.ptp(policies[:, 0]))
    held = abs(mass[0.0] - 1) < 0.01 and likes[0.0] < 0.01 and mass[0.5] > 1.2 and likes[0.5] > 0.2
    return Finding(held, say(mass=mass, spread=likes))


@claim("Q backs up V and V is the expectile of Q over recorded actions; a pair without records has Q = V.")
def quality_and_value_are_those_of_the_records() -> Finding:
    data = SOLVER.recorded(WORLD, Key.of(3))
    few = RecordedEpisodes(data.states[:6, :9], data.actions[:6, :8], data.rewards[:6, :8])
    counts, model = few.counts(WORLD), counted(WORLD, few)
    quality, value = in_sample(model, counts, 0.9, 0.7)
    off, rows = 0.0, list(zip(few.states[:, :-1].ravel(), few.actions.ravel(), few.states[:, 1:].ravel(), strict=True))
    for state, action in zip(*np.nonzero(counts), strict=True):
        after = [onward for at, taken, onward in rows if (at, taken) == (state, action)]
        paid = float(WORLD.reward[state, action])
        off = max(off, abs(float(quality[state, action]) - paid - 0.9 * float(np.mean(value[after]))))
    for state in np.flatnonzero(counts.sum(1)):
        mine = [float(quality[at, taken]) - float(value[at]) for at, taken, _ in rows if at == state]
        off = max(off, abs(sum((0.7 if gap > 0 else 0.3) * gap for gap in mine)))
    off = max(off, float(np.abs((quality - value[:, None])[counts == 0]).max()))
    middle = expectiles(np.array([[1.0, 3.0]]), np.array([[0.5, 0.5]]), 0.5)[0]
    return below(1e-8, bool((counts == 0).any() and middle == 2.0), off=off)


@claim(
    "The surrogate's gradient is that of PPO's clipped sum over the decisions drawn, by differences; an "
    "advantage that is the same for all has none.",
    "eq. 2",
)
def the_gradient_of_the_surrogate_is_that_of_differences() -> Finding:
    rng = Key.of(1).numpy()
    anchor, logits = softmax(rng.normal(size=(3, 4))), rng.normal(size=(3, 4))
    states, actions, gain = rng.integers(0, 3, 40), rng.integers(0, 4, 40), rng.normal(size=40)

    def aim(moved: Array) -> float:
        policy, total = softmax(moved), 0.0
        for state, action, value in zip(states, actions, gain, strict=True):
            ratio = policy[state, action] / anchor[state, action]
            total += min(ratio * value, min(max(ratio, 0.8), 1.2) * value) / int((states == state).sum())
        return total

    # A pair whose draws differ in sign is clipped by their mean in a table; here each pair has one sign.
    gain = np.abs(gain) * np.where((states + actions) % 2 == 0, 1.0, -1.0)
    off = float(
        np.abs(surrogate(logits, anchor, estimated(states, actions, gain, anchor), 0.2) - _slope(aim, logits)).max()
    )
    clipped = float(np.abs(surrogate(np.log(anchor), anchor, np.ones((3, 4)), 0.2)).max())
    return below(1e-7, clipped < 1e-12, off=off)


@claim(
    "J is the sum of Q along the model's steps, as drawn ones say; with the true model and values it ranks policies."
)
def rollouts_rank_policies_as_exact_evaluation_does() -> Finding:
    exact = CountedModel(WORLD.transition, WORLD.reward)
    policies = softmax(3 * Key.of(2).numpy().normal(size=(30, 12, 4)))
    truth = np.array([WORLD.value(policy) for policy in policies])
    scores = score(policies, exact, WORLD.solved(WORLD.even).quality, WORLD.start, SOLVER.horizon)
    ranks = np.stack([np.argsort(np.argsort(values)) for values in (scores, truth)]).astype(np.float64)
    orders = float(np.asarray(np.corrcoef(ranks))[0, 1])
    walk = played(WORLD, np.broadcast_to(policies[0], (20_000, 12, 4)), 3, Key.of(5))
    drawn = float(WORLD.best.quality[walk.states[:, :-1], walk.actions].sum(1).mean())
    mine = float(score(policies[:1], exact, WORLD.best.quality, WORLD.start, 3)[0])
    return Finding(orders > 0.9 and abs(drawn - mine) < 0.05, say(rank_correlation=orders, J=mine, drawn=drawn))


@claim("Advantages online are the discounted sums of one-step errors, the last value bootstrapped.")
def advantages_are_sums_of_errors() -> Finding:
    data = played(WORLD, np.broadcast_to(WORLD.even, (5, 12, 4)), 6, Key.of(4))
    value, off = Key.of(6).numpy().normal(size=12), 0.0
    result = advantages(data, value, 0.9, 0.8)
    for row in range(5):
        errors = [
            data.rewards[row, t] + 0.9 * value[data.states[row, t + 1]] - value[data.states[row, t]] for t in range(6)
        ]
        for t in range(6):
            off = max(off, abs(sum((0.9 * 0.8) ** (u - t) * errors[u] for u in range(t, 6)) - result[row, t]))
    return below(1e-12, off=off)


@functools.cache
def _run(seed: int, gated: bool = True) -> list[State]:
    """Before the first round and after every one."""
    solver, key = replace(SOLVER, gated=gated), Key.of(seed)
    states = [solver.init(WORLD, key)]
    for number in range(UNI_O4.steps):
        states.append(solver.step(WORLD, states[-1], key.derive(number))[0])
    return states


@claim(
    "Nine in ten of the anchors that the model accepts are better in the true process (seen: 99 in 100).",
    "section 3.2",
)
def accepted_anchors_are_better() -> Finding:
    better, count = 0, 0
    for seed in range(SEEDS):
        states = _run(seed)
        for before, after in itertools.pairwise(states[: SOLVER.offline + 1]):
            for old, new in zip(before["anchors"], after["anchors"], strict=True):
                if not np.array_equal(old, new):
                    count += 1
                    better += WORLD.value(softmax(new)) >= WORLD.value(softmax(old)) - 1e-9
    return Finding(count > 100 and better > 0.9 * count, say(accepted=count, better=better / count))


@claim(
    "Offline it ends above its clones, which are worth what the data's policy is; the first rounds online do not drop "
    "below that by more than 0.01 of the best value, and in the end it is higher (four seeds).",
    "section 4",
    learns=True,
)
def offline_it_beats_its_clones_and_online_it_does_not_drop() -> Finding:
    rows: dict[str, list[float]] = {"clones": [], "offline": [], "drop": [], "online": []}
    for seed in range(SEEDS):
        values = [WORLD.value(SOLVER.answer(WORLD, state)) / WORLD.optimum for state in _run(seed)]
        rows["clones"].append(values[0])
        rows["offline"].append(values[SOLVER.offline])
        rows["drop"].append(values[SOLVER.offline] - min(values[SOLVER.offline :]))
        rows["online"].append(values[-1])
    risen = all(
        offline > clone + 0.1 and online > offline
        for clone, offline, online in zip(rows["clones"], rows["offline"], rows["online"], strict=True)
    )
    return Finding(
        risen and max(rows["drop"]) < 0.01, say(**{name: float(np.mean(values)) for name, values in rows.items()})
    )


@claim(
    "Replacing the anchor at every round gets as far offline, within 0.01 of the best value: no step has to be held."
)
def without_the_vote_it_gets_as_far() -> Finding:
    ends = {
        gated: np.mean([WORLD.value(SOLVER.answer(WORLD, _run(seed, gated)[SOLVER.offline])) for seed in range(SEEDS)])
        for gated in (True, False)
    }
    gap = float(ends[True] - ends[False]) / WORLD.optimum
    return Finding(abs(gap) < 0.01, say(gated=float(ends[True]), always=float(ends[False])))


claim.solved(UNI_O4, {"offline": UNI_O4.steps}, better={"value": 1})
