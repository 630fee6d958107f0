"""SubPO's claims."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from functools import cache

import numpy as np

from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, below, say
from hocket.lab.exact.mdp import Array, TabularMDP, softmax
from hocket.methods.control.subpo import SUBPO, Coverage, SubmodularGradient, cover, gradient

claim = Claims("subpo", "the paper, as the catalogue recalls it")
ROOT = Key.of(0).derive("subpo")


def drawn(seed: int, states: int = 4, items: int = 5, horizon: int = 4, *, modular: bool = False) -> Coverage:
    """A random world, with items that several states cover."""
    noise = ROOT.derive("world", seed).numpy()
    transition: Array = noise.dirichlet(np.full(states, 0.5), size=(states, 2))
    start = np.full(states, 1 / states)
    one = TabularMDP(transition, np.zeros((states, 2)), start, horizon, name=f"drawn {seed}")
    return Coverage(one, noise.random((states, items)) < 0.5, noise.random(items), modular)


def bandit(seed: int, arms: int = 8, items: int = 10, picks: int = 3) -> Coverage:
    """Every action leads to the state of its arm, from anywhere; the first state covers nothing."""
    noise = ROOT.derive("bandit", seed).numpy()
    transition = np.zeros((arms + 1, arms, arms + 1))
    transition[:, np.arange(arms), np.arange(arms) + 1] = 1
    covers = np.vstack([np.zeros((1, items), bool), noise.random((arms, items)) < 0.35])
    one = TabularMDP(transition, np.zeros((arms + 1, arms)), np.eye(arms + 1)[0], picks, name=f"bandit {seed}")
    return Coverage(one, covers, noise.random(items))


def utility(world: Coverage, visited: set[int]) -> float:
    """F of visited states, as a set of items."""
    items = {item for state in visited for item in np.flatnonzero(world.covers[state]).tolist()}
    return float(sum(world.weights[item] for item in sorted(items)))


@claim("Marginal gains telescope to F of the trajectory less F of its first state.")
def marginal_gains_telescope_to_f_of_the_trajectory_less_f_of_its() -> Finding:
    gaps, spread = [], []
    for seed in range(30):
        world = drawn(seed, horizon=8)
        one = world.moves.episode(world.moves.even, ROOT.derive("episode", seed))
        states = one.states.tolist()
        whole = utility(world, set(states)) - utility(world, {states[0]})
        gaps.append(abs(float(world.marginals(one).sum()) - whole))
        spread.append(float(world.own[one.states[1:]].sum()) - whole)
    return below(1e-12, min(spread) >= 0 and max(spread) > 1, largest_difference=max(gaps))


@claim("F is monotone, and what a state adds never grows with what was covered before.")
def f_is_monotone_and_what_a_state_adds_never_grows_with_what_was() -> Finding:
    least, returns = [], []
    for seed in range(5):
        world = drawn(seed)
        sets = np.arange(len(world.worth))
        for state in range(world.moves.states):
            gain = world.gain(sets, np.full_like(sets, state))
            least.append(float(gain.min()))
            returns += [gain[a] - gain[a | b] for a in sets.tolist() for b in sets.tolist()]
    return Finding(
        min(least) >= 0 and min(returns) > -1e-12 and max(returns) > 0.1, say(gain=least, diminishing=returns)
    )


@claim("Exact values are those of all paths, and the optimum that of the best decisions in view of what was covered.")
def exact_values_are_those_of_all_paths_and_the_optimum_that_of_the() -> Finding:
    gaps = []
    for seed in range(3):
        world = drawn(seed, states=3, horizon=3)
        policy = ROOT.derive("policy", seed).numpy().dirichlet(np.ones(2), size=(3, 3))
        total = 0.0
        for states in itertools.product(range(3), repeat=4):
            chance = float(world.moves.start[states[0]])
            for step, (state, after) in enumerate(itertools.pairwise(states)):
                chance *= float(policy[step, state] @ world.moves.transition[state, :, after])
            total += chance * utility(world, set(states))
        best = sum(float(world.moves.start[state]) * _best(world, (state,)) for state in range(3))
        gaps += [abs(world.value(policy) - total), abs(world.optimum - best)]
    return below(1e-12, largest_difference=max(gaps))


def _best(world: Coverage, states: tuple[int, ...]) -> float:
    """The best expected F from a history on, by looking at all of them."""
    if len(states) > world.horizon:
        return utility(world, set(states))
    following = [_best(world, (*states, after)) for after in range(world.moves.states)]
    return max(float(world.moves.transition[states[-1], action] @ following) for action in range(world.moves.actions))


@claim("For a modular F its gradient is that of plain REINFORCE on the states' own rewards, to the bit.")
def for_a_modular_f_its_gradient_is_that_of_plain_reinforce_on_the() -> Finding:
    same: list[float] = []
    apart: list[float] = []
    for seed in range(10):
        for modular in (True, False):
            world, key = drawn(seed, modular=modular), ROOT.derive("modular", seed)
            steps = [
                SubmodularGradient(marginal=one).step(world, {"logits": np.zeros(world.moves.shape)}, key)
                for one in (True, False)
            ]
            left, right = (state["logits"] for state, _ in steps)
            (same if modular else apart).append(float(np.abs(left - right).max()))
    return Finding(max(same) == 0 and min(apart) > 1e-3, say(modular=same, with_diminishing_returns=apart))


@claim("The gradient's mean is the slope of the exact value, by finite differences.")
def the_gradients_mean_is_the_slope_of_the_exact_value_by_finite() -> Finding:
    world = cover(2, 2)
    logits = 0.5 * ROOT.derive("logits").numpy().normal(size=world.moves.shape)
    slope = np.zeros_like(logits)
    for place in np.ndindex(*logits.shape):
        moved = np.zeros_like(logits)
        moved[place] = 1e-5
        slope[place] = (world.value(softmax(logits + moved)) - world.value(softmax(logits - moved))) / 2e-5
    policy, found = softmax(logits), []
    for number in range(1500):
        key = ROOT.derive("slope", number)
        played = [world.moves.episode(policy, key.derive(one)) for one in range(4)]
        found.append(gradient(policy, played, np.stack([world.marginals(one) for one in played])))
    doubt = np.maximum(np.std(found, 0) / math.sqrt(len(found)), 1e-9)
    error, size = float((np.abs(np.mean(found, 0) - slope) / doubt).max()), float((np.abs(slope) / doubt).max())
    return Finding(error < 4.5 and size > 8, say(standard_errors=error, largest_slope_in_them=size))


@claim(
    "Where states do not matter it comes to at least 1 - 1/e of the best set of picks, as greedy picks do.", slow=True
)
def where_states_do_not_matter_it_comes_to_at_least_1_1_e_of_the() -> Finding:
    greedy, learnt = [], []
    for seed in range(6):
        world = bandit(seed)
        best = max(utility(world, set(picks)) for picks in itertools.combinations(range(1, 9), 3))
        covered = np.zeros(1, np.int64)
        for _ in range(3):
            gains = [float(world.gain(covered, np.array([arm]))[0]) for arm in range(1, 9)]
            covered = covered | world.bits[1 + int(np.argmax(gains))]
        greedy.append(float(world.worth[covered][0]) / best)
        learnt.append(world.value(trained(world, steps=150, seed=seed)) / best)
    limit = 1 - 1 / math.e
    return Finding(min(greedy) >= limit and min(learnt) >= limit, say(greedy=greedy, learnt=learnt))


def trained(world: Coverage, steps: int = 200, seed: int = 0, *, marginal: bool = True) -> Array:
    """The policy after so many steps."""
    solver, key = replace(SUBPO.solver, marginal=marginal), Key.of(seed)  # type: ignore[type-var]
    state = solver.init(world, key)
    for step in range(steps):
        state, _ = solver.step(world, state, key.derive(step))
    return solver.answer(world, state)


@cache
def grids() -> dict[bool, list[float]]:
    """What it comes to on the grid, with marginal gains and with additive rewards."""
    world = cover(3, 3)
    return {
        marginal: [world.value(trained(world, seed=s, marginal=marginal)) for s in range(3)]
        for marginal in (True, False)
    }


@claim(
    "On the grid it covers more than the policy trained on additive rewards of states, and most of what can be.",
    slow=True,
)
def on_the_grid_it_covers_more_than_the_policy_trained_on_additive() -> Finding:
    found, world = grids(), cover(3, 3)
    holds = min(found[True]) > max(found[False]) + 1 and min(found[True]) > 0.85 * world.optimum
    return Finding(
        holds, say(marginal=found[True], additive=found[False], even=world.value(world.moves.even), best=world.optimum)
    )


@claim(
    "A step is rate times the mean score of rewards to go, less those of the other episodes, counted in plain loops."
)
def a_step_is_rate_times_the_mean_score_of_rewards_to_go_less_those() -> Finding:
    gaps = []
    for seed, marginal in itertools.product(range(3), (True, False)):
        world, key = drawn(seed, states=3, horizon=3), ROOT.derive("step", seed)
        logits = key.derive("logits").numpy().normal(size=world.moves.shape)
        solver = SubmodularGradient(episodes=4, rate=0.7, marginal=marginal)
        policy = softmax(logits)
        played = [world.moves.episode(policy, key.derive("episode", number)) for number in range(4)]
        earned = np.zeros((4, 3))
        for number, step in np.ndindex(4, 3):
            states = played[number].states.tolist()
            known = set(states[: step + 1]) if marginal else set[int]()
            earned[number, step] = utility(world, known | {states[step + 1]}) - utility(world, known)
        slope = np.zeros_like(logits)
        for number, step in np.ndindex(4, 3):
            others = [earned[other, step:].sum() for other in range(4) if other != number]
            credit = earned[number, step:].sum() - sum(others) / 3
            state, action = played[number].states[step], played[number].actions[step]
            slope[step, state] += credit * (np.eye(2)[action] - policy[step, state]) / 4
        after, told = solver.step(world, {"logits": logits}, key)
        gaps += [float(np.abs(after["logits"] - logits - 0.7 * slope).max()), abs(told["return"] - earned.sum() / 4)]
        gaps += [abs(told["slope"] - float((slope**2).sum()) ** 0.5)]
        gaps.append(float(np.abs(solver.answer(world, after) - softmax(after["logits"])).max()))
        gaps.append(float(np.abs(solver.init(world, key)["logits"]).max()))
    return below(1e-12, largest_difference=max(gaps))


claim.solved(SUBPO, {"marginal": False}, better={"value": 1, "regret": -1})
