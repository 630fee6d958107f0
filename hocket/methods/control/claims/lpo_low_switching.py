"""LPO's claims."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from statistics import fmean

import numpy as np

from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, below, say
from hocket.lab.claims.solver_check import SolvedRun
from hocket.lab.exact.factored_mdp import causeway, estimated, factored
from hocket.lab.exact.mdp import Array, TabularMDP
from hocket.lab.exact.worlds import lock, random
from hocket.methods.control.lpo_low_switching import LPO_LOW_SWITCHING, LowSwitching, climbed, joined, sensitivity

claim = Claims("lpo-low-switching", "the paper, as the catalogue has it from its abstract")
ROOT = Key.of(0).derive("lpo")


@claim("For linear functions sensitivity is the ridge leverage score, and no difference of two functions has more.")
def for_linear_functions_sensitivity_is_the_ridge_leverage_score() -> Finding:
    gaps, above = [], []
    for number in range(20):
        noise = ROOT.derive("class", number).numpy()
        data, point = noise.normal(size=(6, 2)), noise.normal(size=2)
        core = data.T @ data + np.eye(2)
        score = float(sensitivity(core, point))
        # All weights of norm 1 in the plane; a shorter one is worth less beside the 1.
        angles = np.linspace(0, math.pi, 200_001)
        weights = np.stack([np.cos(angles), np.sin(angles)], 1)
        ratio = (weights @ point) ** 2 / (((weights @ data.T) ** 2).sum(1) + 1)
        shorter = 0.5 * weights
        less = (shorter @ point) ** 2 / (((shorter @ data.T) ** 2).sum(1) + 1)
        gaps.append(abs(float(ratio.max()) - score) / score)
        above.append(float(less.max()) - score)
    return below(1e-6, max(above) < 0, relative_difference_from_the_supremum=max(gaps))


@claim("The points that join grow like d log N, not like N, and stand for all: their matrix stays near the whole one.")
def the_points_that_join_grow_like_d_log_n_not_like_n_and_stand_for() -> Finding:
    rates, shares, near = [], [], []
    for size in (3, 6):
        counts = {total: [_stream(size, total, 2.0, draw)[0] for draw in range(10)] for total in (250, 1000, 4000)}
        means = [fmean(drawn) for drawn in counts.values()]
        # From N to 4 N there come keep * d * log 4 more, however large N is.
        rates += [(after - before) / (2 * size * math.log(4)) for before, after in itertools.pairwise(means)]
        shares.append(means[-1] / 4000)
        near += [one for draw in range(3) for one in _stream(size, 1000, 20.0, draw)[1]]
    steady = max(late / early for early, late in (rates[:2], rates[2:]))  # 4 where it grew like N.
    holds = min(rates) > 0.7 and max(rates) < 2 and steady < 1.5 and min(near) > 0.5 and max(near) < 2
    return Finding(holds, say(growth_to_d_log_4=rates, share_that_joined=shares, eigenvalues_to_the_whole=near))


def _stream(size: int, total: int, keep: float, draw: int) -> tuple[int, list[float]]:
    """How many of a stream of drawn points join, and the eigenvalues of the core matrix relative to the whole one."""
    visited = ROOT.derive("stream", size, total, draw).numpy().normal(size=(total, size)) / math.sqrt(size)
    core, count = joined(np.eye(size), visited, keep, ROOT.derive("keep", size, total, draw))
    whole = visited.T @ visited + np.eye(size)
    return count, np.linalg.eigvals(np.linalg.solve(whole, core)).real.tolist()


@claim("The core set counts every visit as often as it comes, on average, and with keep = inf is all of them.")
def the_core_set_counts_every_visit_as_often_as_it_comes_on_average() -> Finding:
    visited = ROOT.derive("even").numpy().normal(size=(40, 2))
    whole = visited.T @ visited + np.eye(2)
    drawn = [joined(np.eye(2), visited, 0.8, ROOT.derive("even", number))[0] for number in range(2000)]
    error = np.abs(np.mean(drawn, 0) - whole) / (np.std(drawn, 0) / math.sqrt(len(drawn)))
    every, count = joined(np.eye(2), visited, math.inf, ROOT)
    gap = float(np.abs(every - whole).max())
    holds = float(error.max()) < 4 and gap < 1e-10 and count == 40
    return Finding(holds, say(standard_errors=float(error.max()), all_kept=gap))


@claim("Each mirror step raises the optimistic value, up to that of the best policy there.")
def each_mirror_step_raises_the_optimistic_value_up_to_that_of_the() -> Finding:
    least, left = [], []
    for seed in range(10):
        world = random(4, 3, seed=seed, horizon=4)
        whole = factored(world)
        seen = 1e9 * world.transition  # As good as exact.
        shares, _ = estimated(whole, seen)
        values = [value for _, value in climbed(whole, shares, np.zeros(world.reward.shape), 2.0, 200)]
        least.append(min(after - before for before, after in itertools.pairwise(values)))
        left.append(abs(world.optimum - values[-1]))
    return Finding(min(least) > -1e-12 and max(left) < 0.02, say(least_gain=min(least), left_to_the_optimum=max(left)))


@claim("A visited pair's optimistic value is not below the true one, and the bonus shrinks as 1 / sqrt(visits).")
def a_visited_pairs_optimistic_value_is_not_below_the_true_one_and() -> Finding:
    core: Array = np.eye(3)
    pair, widths = np.array([0.0, 1.0, 0.0]), []
    for _ in range(4):
        widths.append(math.sqrt(float(sensitivity(core, pair))))
        for _ in range(100):
            core = core + np.outer(pair, pair)
    wanted = [1 / math.sqrt(1 + 100 * number) for number in range(4)]
    gaps = [abs(one - other) for one, other in zip(widths, wanted, strict=True)]
    world = lock(6)
    whole = factored(world)
    shares, inverse = estimated(whole, 3 * world.transition)
    width = np.sqrt(sensitivity(np.asarray(np.linalg.inv(inverse), np.float64), whole.features))
    *_, (_, value) = climbed(whole, shares, 2 * width, 2.0, 50)
    return Finding(max(gaps) < 1e-12 and value >= world.optimum, say(largest_difference=max(gaps), optimistic=value))


def _gradient(world: TabularMDP, seed: int, episodes: int, rate: float = 0.5) -> float:
    """What plain policy gradient on tables comes to: REINFORCE with rewards to go, an episode a step."""
    assert world.horizon is not None
    logits = np.zeros(world.shape)
    for number in range(episodes):
        raised = np.exp(logits - logits.max(-1, keepdims=True))
        policy = raised / raised.sum(-1, keepdims=True)
        one = world.episode(policy, ROOT.derive("gradient", seed, number))
        ahead = one.rewards[::-1].cumsum()[::-1]
        for step, (state, action) in enumerate(zip(one.states[:-1], one.actions, strict=True)):
            logits[step, state] += rate * ahead[step] * (np.eye(world.actions)[action] - policy[step, state])
    raised = np.exp(logits - logits.max(-1, keepdims=True))
    return world.value(raised / raised.sum(-1, keepdims=True))


@claim(
    "It opens a lock of 14 with few switches; without a bonus, and by plain policy gradient, it stays shut.", slow=True
)
def it_opens_a_lock_of_14_with_few_switches_without_a_bonus_and_by() -> Finding:
    world, seeds = lock(14), range(3)
    found: dict[str, list[tuple[float, float]]] = {"lpo": [], "without bonus": []}
    for name, solver in (("lpo", LowSwitching()), ("without bonus", LowSwitching(bonus=0.0))):
        found[name] = [_run(solver, world, seed, 600) for seed in seeds]
    plain = [_gradient(world, seed, 600) for seed in seeds]
    values = {name: [value for value, _ in rows] for name, rows in found.items()} | {"policy gradient": plain}
    switches = [count for _, count in found["lpo"]]
    holds = min(values["lpo"]) > 0.9 and max(values["without bonus"] + plain) < 0.2 and max(switches) < 0.25 * 600
    return Finding(holds, say(value=values, switches_in_600=switches))


def _run(solver: LowSwitching, world: TabularMDP, seed: int, episodes: int) -> tuple[float, float]:
    """The exact value of the last policy, and how often it was made anew."""
    key = Key.of(seed)
    state, switches = solver.init(world, key), 0.0
    for step in range(episodes):
        state, figures = solver.step(world, state, key.derive(step))
        switches += figures["rebuilt"]
    policy: Array = solver.answer(world, state)
    return world.value(policy), switches


@claim("A run is the module's, step by step in plain loops: when policies are made anew, how, and which pairs join.")
def a_run_is_the_modules_step_by_step_in_plain_loops_when_policies() -> Finding:
    gaps, rebuilt, kept = [], [], []
    for seed, world in enumerate((replace(random(3, 2, seed=1, horizon=3), discount=0.9), causeway(2))):
        solver, whole, key = LowSwitching(keep=0.6, bonus=0.7, rate=1.5, rounds=4), factored(world), Key.of(seed)
        state, size, horizon = solver.init(world, key), whole.features.shape[2], world.shape[0]
        core, count, grown = np.eye(size), 0, True
        seen, policy = np.zeros_like(world.transition), np.full(world.shape, 1 / world.actions)
        gaps.append(float(np.abs(solver.answer(world, state) - policy).max()))
        for step in range(12):
            if grown:
                inverse, (shares, _) = np.linalg.inv(core), estimated(whole, seen)
                logits = np.zeros(world.shape)
                for _ in range(4):
                    policy, value = np.exp(logits), np.zeros(world.states)
                    policy = policy / policy.sum(-1, keepdims=True)
                    for at in reversed(range(horizon)):
                        most = world.reward.max() * sum(world.discount**later for later in range(horizon - at))
                        quality = np.zeros((world.states, world.actions))
                        for place in np.ndindex(quality.shape):
                            phi = whole.features[place]
                            width = 0.7 * math.sqrt(phi @ inverse @ phi)
                            quality[place] = world.reward[place] + width + world.discount * phi @ shares @ value
                        quality = np.minimum(quality, most)
                        value = (policy[at] * quality).sum(-1)
                        logits[at] += 1.5 * quality
                policy = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
            rebuilt.append(float(grown))
            state, told = solver.step(world, state, key.derive(step))
            one = world.episode(policy, key.derive(step).derive("episode"))
            joining, draws = 0, key.derive(step).derive("keep").numpy().random(horizon)
            for at, draw in enumerate(draws):
                phi = whole.features[one.states[at], one.actions[at]]
                chance = min(1.0, 0.6 * float(phi @ np.linalg.inv(core) @ phi))
                if draw < chance:
                    core, joining = core + np.outer(phi, phi) / chance, joining + 1
                seen[one.states[at], one.actions[at], one.states[at + 1]] += 1
            grown, count = joining > 0, count + joining
            kept.append(joining)
            gaps += [abs(told["return"] - one.rewards.sum()), abs(told["kept"] - count)]
            gaps += [abs(told["rebuilt"] - rebuilt[-1]), float(np.abs(state["core"] - core).max())]
            gaps.append(float(np.abs(solver.answer(world, state) - policy).max()))
    mixed = 0 < sum(rebuilt) < len(rebuilt) and sum(kept) > 0
    return below(1e-9, mixed, largest_difference=max(gaps))


def _few(shipped: SolvedRun, plain: SolvedRun) -> dict[str, float]:
    return {
        "value kept of the optimum beyond 0.9": shipped["value"] - 0.9 * shipped["optimum"],
        "episodes without a switch": shipped["steps"] - shipped["switches"] - 1,
    }


claim.spares("-1 -> 1", "in line 108, the last of two dimensions")
claim.solved(LPO_LOW_SWITCHING, {"bonus": 0.0}, better={"value": 1, "regret": -1}, sees=_few)
