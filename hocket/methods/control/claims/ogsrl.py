"""OGSRL's claims."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
from scipy.optimize import linprog

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.exact.solver import State
from hocket.methods.control.ogsrl.method import OGSRL, GuardedPlanning, modelled
from hocket.methods.control.ogsrl.world import ENDLESS, Treatment, sepsis

claim = Claims("ogsrl", "Offline Guarded Safe Reinforcement Learning, abstract")


def chain(seed: int) -> Treatment:
    """Six states of illness, three treatments, survival (6) and death (7): the stronger, the safer and the dearer."""
    rng, moves = Key.of(seed).numpy(), np.zeros((8, 3, 8))
    for state in range(6):
        for action in range(3):
            moves[state, action, :6] = 0.5 * rng.dirichlet(np.full(6, 0.5))
            survives = 0.5 * rng.beta(1 + 2 * action, 3)
            moves[state, action, 6:] = survives, 0.5 - survives
    over = np.arange(8) >= 6
    moves[over, :, 7] = 1.0
    paid, cost = (np.arange(8) == 6).astype(float), np.where(over[:, None], 0.0, np.arange(3.0))
    reward, even = np.where(over[:, None], 0.0, moves @ paid), np.full((8, 3), 1 / 3)
    return Treatment(
        moves, reward, np.eye(8)[0], None, ENDLESS, "chain", behaviour=even, paid=paid, cost=cost, over=over
    )


@claim("The multipliers' solution has the value of the linear programme, and keeps the bound.", "dual constraints")
def the_multipliers_solution_is_that_of_the_linear_programme() -> Finding:
    gaps, slacks = [], []
    for seed in range(4):
        world = chain(seed)
        spent = world.sums(world.best.policy, world.cost)[0]
        bound = 0.5 * spent
        optimum = _programme(world, bound)
        multiplier, visits = 0.0, np.zeros(world.shape)
        for number in range(1, 1501):
            priced = replace(world, reward=world.reward - multiplier * world.cost)
            policy = priced.best.policy
            visited = world.visits(policy) / (1 - world.discount)
            visits += (visited - visits) / number
            multiplier = max(multiplier + (world.sums(policy, world.cost)[0] - bound) / np.sqrt(number), 0.0)
        mixed = visits / np.maximum(visits.sum(-1, keepdims=True), 1e-12)
        earned, used = world.sums(mixed, world.reward, world.cost)
        gaps.append(abs(earned - optimum) / optimum)
        slacks.append(used / bound - 1)
    return Finding(max(gaps) < 0.02 and max(slacks) < 0.02, say(gap=max(gaps), over_the_bound=max(slacks)))


def _programme(world: Treatment, bound: float) -> float:
    """The best return by expected visits of states before the end, with the cost bounded."""
    live = np.flatnonzero(~world.over)
    flow = np.zeros((len(live), len(live), world.actions))
    for row, state in enumerate(live):
        flow[row] = -world.transition[live][:, :, state]
        flow[row, row] += 1
    reward, cost = world.reward[live].ravel(), world.cost[live].ravel()
    outcomes = linprog(-reward, cost[None], [bound], flow.reshape(len(live), -1), world.start[live])
    return -float(outcomes.fun)


@claim("The solver's step is that scheme, on the guard and the cost at once: it ends within both bounds.")
def the_solver_ends_within_both_bounds() -> Finding:
    world, solver = chain(1), GuardedPlanning(episodes=100, least=9, violations=0.5, cost=0.7)
    state = solver.init(world, Key.of(0))
    for number in range(1000):
        state, figures = solver.step(world, state, Key.of(number))
    model, outside = modelled(world, state, 9)
    strayed, spent = model.sums(solver.answer(model, state), outside, model.cost)
    free, bounds = model.sums(model.best.policy, outside, model.cost), (0.5, figures["model/cost_bound"])
    binding = all(loose > 1.1 * bound for loose, bound in zip(free, bounds, strict=True))
    within = strayed < 1.08 * bounds[0] and spent < 1.05 * bounds[1]
    figure = {"violations": strayed, "cost": spent, "bound": bounds[1]}
    return Finding(within and binding, say(**figure, violations_unbound=free[0], cost_unbound=free[1]))


@claim("Bounds that no policy of the model keeps are refused.")
def bounds_that_no_policy_keeps_are_refused() -> Finding:
    errors: list[str] = []
    guarded = GuardedPlanning(episodes=50, least=10_000, violations=0.1)
    for solver in (guarded, replace(guarded, least=0, cost=0.0)):
        world = replace(chain(0), cost=chain(0).cost + 1.0)
        try:
            solver.init(world, Key.of(0))
        except ConfigurationError as error:
            errors.append(str(error))
    return Finding(len(errors) == 2 and "violations" in errors[0] and "cost" in errors[1], "; ".join(errors))


@functools.cache
def _planned(least: int, violations: float = 0.05) -> tuple[Treatment, State, float]:
    world = sepsis()
    solver = GuardedPlanning(least=least, violations=violations, cost=float("inf"))
    state = solver.init(world, Key.of(0))
    for number in range(OGSRL.steps if least else 1):
        state, _ = solver.step(world, state, Key.of(number))
    return world, state, world.value(solver.answer(world, state))


@claim("The world is that of the package: clinicians .782, chance .780, best .875.", slow=True)
def the_world_is_that_of_the_package() -> Finding:
    world = sepsis()
    outcomes = [world.value(world.behaviour), world.value(world.even), world.optimum]
    off = max(abs(computed - other) for computed, other in zip(outcomes, (0.7818, 0.7801, 0.8751), strict=True))
    return Finding(off < 1e-3, say(clinicians=outcomes[0], chance=outcomes[1], best=outcomes[2]))


@claim(
    "From 20,000 episodes the guarded plan is better than the clinicians; the unguarded one believes its errors.",
    slow=True,
)
def the_guarded_plan_is_better_than_the_clinicians() -> Finding:
    world, state, guarded = _planned(20)
    model, _ = modelled(world, state, 20)
    unguarded = model.best.policy
    believed, earned = model.sums(unguarded, model.reward)[0], world.value(unguarded)
    clinicians, clone = world.value(world.behaviour), world.value(model.behaviour)
    held = guarded > clinicians + 0.02 and guarded > clone + 0.02 and guarded > earned and believed > earned + 0.05
    return Finding(held, say(guarded=guarded, unguarded=earned, believed=believed, clone=clone, clinicians=clinicians))
