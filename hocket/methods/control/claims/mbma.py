"""MBMA's claims."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import cast

import numpy as np

from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, below, say
from hocket.lab.exact.mdp import Array, TabularMDP, drawn, softmax
from hocket.lab.exact.worlds import random
from hocket.methods.control.mbma import MBMA, ManyActions, averaged, gradient_variance, played, stationary

claim = Claims("mbma", "arXiv:2210.13011")
SOLVER = cast(ManyActions, MBMA.solver)
WORLD = random(12, 4)
MIXED = np.array([[0.7, 0.3], [0.5, 0.5]])
PATHS = 40_000


def _two_states(offset: float) -> TabularMDP:
    """The first action of the first state stays there, and pays more by 0.5 than all else, which pays `offset`."""
    transition = np.array([[[0.95, 0.05], [0.05, 0.95]], [[0.9, 0.1], [0.9, 0.1]]])
    reward = np.array([[offset + 0.5, offset], [offset, offset]])
    return TabularMDP(transition, reward, np.array([1.0, 0.0]), discount=0.5, name="two states")


def _measured(world: TabularMDP, policy: Array, steps: int, actions: int, key: Key) -> float:
    """The variance of drawn gradients."""
    luck = key.numpy().random((steps, actions + 1, PATHS))
    share = stationary(np.einsum("sa,sat->st", policy, world.transition))
    at = drawn(np.broadcast_to(share, (PATHS, len(share))), key.derive("start").numpy().random(PATHS))
    quality, total = world.solved(policy).quality, np.zeros((PATHS, *policy.shape))
    for step in range(steps):
        taken = drawn(policy[at], luck[step, 0])
        for number in range(actions):
            action = taken if number == 0 else drawn(policy[at], luck[step, number])
            score = np.eye(policy.shape[1])[action] - policy[at]
            total[np.arange(PATHS), at] += score * quality[at, action][:, None] / (steps * actions)
        at = drawn(world.transition[at, taken], luck[step, -1])
    return float(total.var(0).sum())


@claim(
    "The variance of drawn gradients is the law's, for 1, 2, 4 and 8 actions on a path of three states.", "section 3"
)
def the_variance_is_the_laws() -> Finding:
    off, values = 0.0, []
    for actions in (1, 2, 4, 8):
        law = gradient_variance(_two_states(0.0), MIXED, 3, actions)
        off = max(off, abs(_measured(_two_states(0.0), MIXED, 3, actions, Key.of(actions)) / law - 1))
        values.append(law)
    return Finding(off < 0.04 and values[0] > 3 * values[3], say(off=off, law=values))


@claim(
    "Which is less noisy, four actions at a state or a path four times as long, is as the law says, and drawn "
    "gradients agree: actions where the taken one leads back to where it does the same, else the path.",
    "the many-actions optimality condition",
)
def the_law_says_whether_actions_or_a_longer_path_win() -> Finding:
    figures, held = dict[str, str](), []
    for offset, actions_win in ((1.0, True), (-1.0, False)):
        world = _two_states(offset)
        law = [gradient_variance(world, MIXED, *shape) for shape in ((1, 4), (4, 1))]
        measured = [_measured(world, MIXED, *shape, Key.of(7)) for shape in ((1, 4), (4, 1))]
        held += [(law[0] < law[1]) is actions_win, (measured[0] < measured[1]) is actions_win]
        figures[f"offset {offset:g}"] = f"{measured[0]:.4f} and {measured[1]:.4f}"
    return Finding(all(held), say(**figures))


@claim("The gradient is the mean over a state's actions of grad log pi times advantage, in plain loops.", "eq. 3")
def the_gradient_is_the_mean_over_actions() -> Finding:
    rng = Key.of(0).numpy()
    policy = softmax(rng.normal(size=(3, 4)))
    at, taken, gain = rng.integers(0, 3, 7), rng.integers(0, 4, 7), rng.normal(size=7)
    besides, further, known = rng.integers(0, 4, (7, 5)), rng.normal(size=(7, 5)), rng.random((7, 5)) < 0.6
    expected = np.zeros((3, 4))
    for row in range(7):
        pairs = [(taken[row], gain[row])]
        pairs += [(besides[row, n], further[row, n]) for n in range(5) if known[row, n]]
        for action, worth in pairs:
            for other in range(4):
                expected[at[row], other] += worth * ((other == action) - policy[at[row], other]) / len(pairs)
    off = float(np.abs(averaged(policy, at, taken, gain, besides, further, known) - expected).max())
    return below(1e-12, off=off)


@claim(
    "With the true model the further actions' values are those of three steps and the critic after them; a pair "
    "without records is not judged, and a rollout that comes to one ends there with the critic's value.",
    "section 4",
)
def further_actions_are_judged_by_rollouts() -> Finding:
    policy, value = softmax(Key.of(3).numpy().normal(size=(12, 4))), Key.of(4).numpy().normal(size=12)
    many = replace(SOLVER, further=4000)
    at, every = np.arange(12), 1e6 * WORLD.transition
    first, judged, known = many.judged(every, 1e6 * WORLD.reward, policy, value, at, 0.9, Key.of(5))
    exact = WORLD.backup(value)
    for _ in range(SOLVER.horizon - 1):
        exact = WORLD.backup((policy * exact).sum(-1))
    off = max(
        abs(float(judged[state][first[state] == action].mean()) - float(exact[state, action]))
        for state in range(12)
        for action in range(4)
        if (first[state] == action).sum() > 200
    )
    few = np.zeros_like(every)
    few[0, 1, 5] = 3.0
    paid = np.where(few.sum(-1) > 0, 6.0, 0.0)
    first, judged, known = many.judged(few, paid, policy, value, at[:1], 0.9, Key.of(6))
    ends = float(np.abs(judged[known] - (2.0 + 0.9 * value[5])).max())
    held = bool((known == (first == 1)).all() and known.any())
    return Finding(off < 0.1 and ends < 1e-12 and held, say(off=off, ends=ends))


@claim(
    "In a model counted from 240 decisions the gradient at states of the true process is nearer to the true one than "
    "that at states of the model, with the same values from the model, in the mean of 20 draws.",
    "section 4.1",
)
def true_states_leave_less_bias() -> Finding:
    policy, off = softmax(Key.of(8).numpy().normal(size=(12, 4))), {"true states": 0.0, "model states": 0.0}
    for seed in range(20):
        states, actions, _ = played(WORLD, policy, 24, 10, Key.of(seed))
        counts = np.zeros(WORLD.transition.shape)
        np.add.at(counts, (states[:, :-1], actions, states[:, 1:]), 1.0)
        measured = counts.sum(-1, keepdims=True)
        model = replace(WORLD, transition=np.where(measured > 0, counts / np.maximum(measured, 1), 1 / WORLD.states))
        quality = model.solved(policy).quality
        truth = _gradient(WORLD.visits(policy).sum(-1), policy, WORLD.solved(policy).quality)
        for name, share in (("true states", WORLD.visits(policy)), ("model states", model.visits(policy))):
            off[name] += float(((_gradient(share.sum(-1), policy, quality) - truth) ** 2).sum()) / 20
    return Finding(0 < off["true states"] < off["model states"], say(**off))


def _gradient(share: Array, policy: Array, quality: Array) -> Array:
    gain: Array = share[:, None] * policy * (quality - (policy * quality).sum(-1, keepdims=True))
    return gain


@functools.cache
def _values(further: int, seed: int) -> list[float]:
    """After every step."""
    solver, key, values = replace(SOLVER, further=further), Key.of(seed), []
    state = solver.init(WORLD, key)
    for number in range(MBMA.steps):
        state, _ = solver.step(WORLD, state, key.derive(number))
        values.append(WORLD.value(solver.answer(WORLD, state)))
    return values


@claim(
    "With seven further actions it is worth in half of the decisions what one action is worth in the end, in the mean "
    "of four runs of 1,200 decisions, and more in the end.",
    "section 5",
    learns=True,
)
def it_needs_fewer_decisions() -> Finding:
    many, single = (np.mean([_values(further, seed) for seed in range(4)], 0) for further in (SOLVER.further, 0))
    reached = int((many > single[-1]).argmax()) + 1
    begun = WORLD.value(WORLD.even)
    figures = say(before=begun, many=float(many[-1]), one=float(single[-1]), best=WORLD.optimum, steps_to_it=reached)
    held = many[-1] > single[-1] > begun and many.max() > single[-1] and reached <= MBMA.steps // 2
    return Finding(bool(held), figures)


claim.solved(MBMA, {"further": 0}, better={"value": 1})
