"""QARL's claims."""

from __future__ import annotations

import functools
import itertools
from dataclasses import replace
from typing import cast

import numpy as np

from hocket.core.keys import Key
from hocket.hooks.meta_solvers import nash
from hocket.lab.claims.harness import Claims, Finding, below, say
from hocket.lab.exact.mdp import Array, softmax
from hocket.methods.control.qarl.method import QARL, QuantalAdversary
from hocket.methods.control.qarl.world import DisturbedGame, gusts

claim = Claims("qarl", "arXiv:2311.01642")
SOLVER = cast(QuantalAdversary, QARL.solver)
PENNIES = np.array([[2.0, -1.0], [-1.0, 1.0]])
SEEDS = 3


def _matrix(table: Array) -> DisturbedGame:
    """A game of one state that does not go on."""
    return DisturbedGame(np.ones((1, *table.shape, 1)), table[None], np.ones(1), 1e-9, "matrix")


def _played(
    table: Array, temperatures: tuple[float, float], steps: int, eta: float = SOLVER.eta
) -> list[tuple[Array, Array]]:
    """Both policies after every step, from odds that are not even."""
    world, rng, solver = _matrix(table), Key.of(1).numpy(), replace(SOLVER, eta=eta)
    policy, adversary = (rng.normal(size=(1, size)) for size in table.shape)
    value, result = np.zeros(1), []
    for _ in range(steps):
        policy, adversary, value = solver.moved(world, policy, adversary, value, temperatures)
        result.append((softmax(policy)[0], softmax(adversary)[0]))
    return result


def _gap(table: Array, pair: tuple[Array, Array]) -> float:
    """NashConv."""
    return float((table @ pair[1]).max() - (pair[0] @ table).min())


@claim(
    "In matrix games the steps end at the logit equilibrium, where each side is the softmax of its values against the "
    "other, as a root finder finds it.",
    "theorem 1",
)
def the_steps_end_at_the_logit_equilibrium() -> Finding:
    from scipy.optimize import root

    off = 0.0
    for number, (mine, other) in enumerate(((0.3, 0.3), (0.2, 1.0), (1.0, 0.4))):
        table = PENNIES if number == 0 else Key.of(number).numpy().normal(size=(3, 4))
        rows = len(table)

        def miss(logits: Array, table: Array = table, mine: float = mine, other: float = other) -> Array:
            first, second = softmax(logits[: len(table)]), softmax(logits[len(table) :])
            return np.concatenate(
                [logits[: len(table)] - table @ second / mine, logits[len(table) :] + first @ table / other]
            )

        result = root(miss, np.zeros(sum(table.shape)), tol=1e-12).x
        last = _played(table, (mine, other), 1500)[-1]
        for policy, expected in zip(last, (softmax(result[:rows]), softmax(result[rows:])), strict=True):
            off = max(off, float(np.abs(policy - expected).max()))
    return below(1e-8, off=off)


@claim(
    "The colder the equilibrium, the nearer to Nash's: NashConv falls with the temperatures, below their sum times the "
    "log of the number of actions; without temperatures the same steps cycle in matching pennies, and their last "
    "policies stay at a NashConv above 0.5.",
    "section 4",
)
def colder_equilibria_are_nearer_to_nash_and_play_without_temperature_cycles() -> Finding:
    warmths = (1.0, 0.5, 0.3, 0.2)
    gaps = [_gap(PENNIES, _played(PENNIES, (warmth, warmth), 1200, 0.05)[-1]) for warmth in warmths]
    cycle = [_gap(PENNIES, pair) for pair in _played(PENNIES, (0.0, 0.0), 1000)]
    falls = all(later < earlier for earlier, later in itertools.pairwise(gaps))
    bounded = all(gap < 2 * warmth * np.log(2) for gap, warmth in zip(gaps, warmths, strict=True))
    nash_gap = _gap(PENNIES, (nash(PENNIES)[0], nash(-PENNIES.T)[0]))
    held = falls and bounded and abs(nash_gap) < 1e-9 and min(cycle[-200:]) > 0.5
    return Finding(held, say(warmest=gaps[0], coldest=gaps[-1], cycling=float(min(cycle[-200:]))))


@claim("The value of a policy is the least over all adversaries that are certain of their gusts, one by one.")
def the_value_is_that_of_the_worst_adversary() -> Finding:
    world = gusts(3)
    policy = softmax(Key.of(2).numpy().normal(size=(3, 3)))
    worst = min(
        world.against(np.eye(3)[list(choice)]).value(policy) for choice in itertools.product(range(3), repeat=3)
    )
    held = world.value(policy) < world.optimum < world.calm
    return below(1e-9, held, off=abs(world.value(policy) - worst))


@claim(
    "The adversary's temperature falls by its factor after each step in which the protagonist earns enough, in no "
    "other, and never below its end.",
    "section 4.2",
)
def the_temperature_falls_where_the_protagonist_earns_enough() -> Finding:
    world, wrong, stayed, fell = gusts(3), 0, 0, 0
    solver = replace(SOLVER, inner=2, enough=0.55, hot=2.0, cold=0.5, cooling=0.8, noise=3.0)
    for seed in range(4):
        state = solver.init(world, Key.of(seed))
        for number in range(40):
            after, figures = solver.step(world, state, Key.of(number))
            before, after_step = float(state["temperature"]), float(after["temperature"])
            earned = world.against(softmax(after["adversary"])).value(softmax(after["policy"]))
            enough = earned >= 0.55 * world.calm
            wrong += after_step != (max(0.5, 0.8 * before) if enough else before) or figures["temperature"] != before
            stayed, fell, state = stayed + (not enough), fell + (after_step < before), after
    return Finding(wrong == 0 and stayed > 0 and fell > 4, say(wrong=wrong, kept=stayed, fell=fell))


@functools.cache
def _worst(**settings: float) -> tuple[float, ...]:
    """What the last policies of some seeds earn against their worst adversaries, as a share of the optimum."""
    world, solver, result = gusts(4), replace(SOLVER, **settings), []  # type: ignore[arg-type]
    for seed in range(SEEDS):
        state = solver.init(world, Key.of(seed))
        for number in range(QARL.steps):
            state, _ = solver.step(world, state, Key.of(number))
        result.append(world.value(solver.answer(world, state)) / world.optimum)
    return tuple(result)


@claim(
    "Against its worst adversary it holds nine tenths of the optimum at every seed; RARL, which is the same without "
    "temperatures, holds less at every seed, with a larger spread, as does one whose adversary never becomes rational.",
    "section 5",
    learns=True,
)
def it_holds_more_against_the_worst_adversary_than_rarl() -> Finding:
    quantal, rational, hot = _worst(), _worst(rational=True), _worst(enough=2.0)
    begun = gusts(4).value(np.full((4, 3), 1 / 3)) / gusts(4).optimum
    held = min(quantal) > 0.9 > max(*rational, *hot) and np.ptp(quantal) < np.ptp(rational) and min(quantal) > begun
    return Finding(bool(held), say(qarl=quantal, rarl=rational, hot=hot, even_odds=begun))


@claim(
    "An adversary that is cold from the start serves as well here, within a hundredth: the curriculum is not needed."
)
def a_cold_adversary_from_the_start_serves_as_well() -> Finding:
    gap = float(np.mean(_worst()) - np.mean(_worst(hot=SOLVER.cold)))
    return Finding(abs(gap) < 0.01, say(gap=gap))


claim.solved(QARL, {"rational": True}, better={"value": 1})
