"""Claims of policy gradients whose momentum looks where the policy is now."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np

from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, below, say
from hocket.lab.exact.mdp import Array, ExactEpisode, TabularMDP, softmax
from hocket.lab.exact.worlds import world
from hocket.methods.control.n_pg_igt.method import N_PG_IGT, Ascent, NormalisedAscent, Way, curvature, slope
from hocket.methods.control.n_pg_igt.regulators import regulator

claim = Claims("n-pg-igt", "recalled")


def tiny() -> TabularMDP:
    """Two states, two actions, three decisions: 128 episodes."""
    draw = Key.of(5).derive("tiny").numpy()
    moves = draw.dirichlet(np.ones(2), size=(2, 2))
    return TabularMDP(moves, draw.normal(size=(2, 2)), np.array([0.3, 0.7]), horizon=3)


def episodes(mdp: TabularMDP, logits: Array) -> list[tuple[float, ExactEpisode]]:
    """Every episode, and how likely it is."""
    assert mdp.horizon is not None
    shares, found = softmax(logits), []
    for states in itertools.product(range(mdp.states), repeat=mdp.horizon + 1):
        for actions in itertools.product(range(mdp.actions), repeat=mdp.horizon):
            chance = float(mdp.start[states[0]])
            for step, action in enumerate(actions):
                chance *= float(shares[step, states[step], action])
                chance *= float(mdp.transition[states[step], action, states[step + 1]])
            at, did = np.array(states), np.array(actions)
            found.append((chance, ExactEpisode(at, did, mdp.reward[at[:-1], did])))
    return found


def value(mdp: TabularMDP, logits: Array) -> float:
    return mdp.value(softmax(logits))


def differences(mdp: TabularMDP, logits: Array, width: float = 1e-5) -> Array:
    """The gradient of the exact value, by central differences."""
    found = np.zeros_like(logits)
    for place in np.ndindex(logits.shape):
        moved = np.zeros_like(logits)
        moved[place] = width
        found[place] = (value(mdp, logits + moved) - value(mdp, logits - moved)) / (2 * width)
    return found


def some(mdp: TabularMDP, name: str) -> Array:
    return Key.of(7).derive(name).numpy().normal(size=mdp.shape)


@claim("Averaged over all episodes, the estimate is the gradient of the exact value.")
def averaged_over_all_episodes_the_estimate_is_the_gradient_of_the() -> Finding:
    mdp = tiny()
    logits = some(mdp, "logits")
    mean = sum(chance * slope(logits, one) for chance, one in episodes(mdp, logits))
    return below(1e-8, off=float(np.abs(mean - differences(mdp, logits)).max()))


@claim("So is the Hessian's product with a vector the change of that gradient along it.")
def so_is_the_hessians_product_with_a_vector_the_change_of_that() -> Finding:
    mdp = tiny()
    logits, vector = some(mdp, "logits"), some(mdp, "vector")
    mean = sum(chance * curvature(logits, one, vector) for chance, one in episodes(mdp, logits))
    width = 1e-3
    ends = [differences(mdp, logits + side * width * vector, 1e-4) for side in (1, -1)]
    return below(2e-5, off=float(np.abs(mean - (ends[0] - ends[1]) / (2 * width)).max()))


@claim("Drawn evenly between two policies, it is on average the difference of their gradients, however far they are.")
def drawn_evenly_between_two_policies_it_is_on_average_the() -> Finding:
    mdp = tiny()
    before, now = some(mdp, "logits"), some(mdp, "other")
    places, weights = np.polynomial.legendre.leggauss(12)
    found = np.zeros(mdp.shape)
    for place, weight in zip((places + 1) / 2, weights / 2, strict=True):
        at = before + place * (now - before)
        found += weight * sum(chance * curvature(at, one, now - before) for chance, one in episodes(mdp, at))
    return below(1e-6, off=float(np.abs(found - differences(mdp, now) + differences(mdp, before)).max()))


def climbed(way: Way, steps: int = 30) -> tuple[float, float]:
    """How far average and gradient are apart in the end on a parabola without noise, and how long the gradient is."""
    draw = Key.of(1).derive("parabola").numpy()
    root, best = draw.normal(size=(4, 4)), draw.normal(size=4)
    bend = root @ root.T + np.eye(4)
    now = Ascent(np.zeros(4), np.zeros(4), np.zeros(4))
    for made in range(steps):
        past = now
        now = now.step(
            way,
            (2 / (made + 2)) ** 0.8,
            0.3,
            lambda point: -bend @ (point - best),
            lambda point, vector: -bend @ vector,
            0.5,
        )
    exact = -bend @ (past.point - best)
    return float(np.abs(now.average - exact).max()), float(np.linalg.norm(exact))


@claim("Where the objective is quadratic, both averages are the gradient at the present point; plain momentum is not.")
def where_the_objective_is_quadratic_both_averages_are_the_gradient() -> Finding:
    (transport, _), (curved, _), (plain, length) = (climbed(way) for way in ("transport", "curvature", "momentum"))
    return below(1e-10, plain > 0.1 * length, transport=transport, curvature=curved)


@claim(
    "Curvature is looked at between the last two points, and the gradient at the present one; REINFORCE keeps nothing."
)
def curvature_is_looked_at_between_the_last_two_points_and_the() -> Finding:
    asked: list[tuple[str, float]] = []

    def gradient(point: Array) -> Array:
        asked.append(("gradient", float(point[0])))
        return np.array([5.0])

    def curved(point: Array, vector: Array) -> Array:
        asked.append(("curved", float(point[0])))
        return 2.0 * vector

    now = Ascent(np.array([3.0]), np.array([1.0]), np.array([7.0]), made=4)
    curving = now.step("curvature", 0.5, 0.1, gradient, curved, 0.25)
    plain = now.step("none", 0.5, 0.1, gradient, curved, 0.25)
    ahead = now.step("transport", 0.5, 0.1, gradient, curved, 0.25)
    return Finding(
        asked == [("curved", 1.5), ("gradient", 3.0), ("gradient", 3.0), ("gradient", 5.0)]
        and (curving.average[0], plain.average[0], ahead.average[0]) == (0.5 * (7 + 4) + 2.5, 5.0, 6.0)
        and (curving.point[0], plain.point[0]) == (3.1, 3.5),
        say(asked=len(asked), average=float(curving.average[0])),
    )


@claim("A step is as long as it says whatever the rewards are, and rewards times a constant give the same policies.")
def a_step_is_as_long_as_it_says_whatever_the_rewards_are_and() -> Finding:
    mdp = world("episodes:4x3")
    assert isinstance(mdp, TabularMDP)
    larger = TabularMDP(mdp.transition, 64 * mdp.reward, mdp.start, mdp.horizon)
    apart, lengths = 0.0, []
    for way in ("transport", "curvature", "momentum"):
        solver = NormalisedAscent(way=way, rate=0.7, decay=0.0)
        both = [solver.init(one, Key.of(0)) for one in (mdp, larger)]
        for step in range(20):
            key = Key.of(0).derive(step)
            both = [solver.step(one, state, key)[0] for one, state in zip((mdp, larger), both, strict=True)]
            lengths.append(float(np.linalg.norm(both[0]["point"] - both[0]["before"])))
        apart = max(apart, float(np.abs(both[0]["point"] - both[1]["point"]).max()))
    return below(1e-9, apart=apart, lengths=float(np.abs(np.array(lengths) - 0.7).max()))


@claim("A run is followed by hand: shares of 2/(t + 2), to 4/5 but with curvature, and steps of rate/(t + 1)^decay.")
def a_run_is_followed_by_hand_shares_of_2_to_4_5_but_with_curvature() -> Finding:
    mdp, worst = tiny(), 0.0
    ways: tuple[Way, ...] = ("transport", "curvature", "momentum", "none")
    for way in ways:
        solver = NormalisedAscent(way=way, rate=0.6, decay=0.4)
        state = solver.init(mdp, Key.of(2))
        point, before, average = (np.zeros(mdp.shape) for _ in range(3))
        for made in range(5):
            key = Key.of(2).derive(made)
            state, told = solver.step(mdp, state, key)
            share = 1.0 if made == 0 or way == "none" else (2 / (made + 2)) ** (1.0 if way == "curvature" else 0.8)
            at = point + (1 - share) / share * (point - before) if way == "transport" else point
            if way == "curvature" and made:
                middle = before + float(key.derive("place").numpy().random()) * (point - before)
                seen = mdp.episode(softmax(middle), key.derive("between"))
                average = average + curvature(middle, seen, point - before)
            drawn = mdp.episode(softmax(at), key.derive("episode"))
            average = (1 - share) * average + share * slope(at, drawn)
            length = 0.6 / (made + 1) ** 0.4 / (1.0 if way == "none" else float(np.linalg.norm(average)))
            before, point = point, point + length * average
            off = [state["point"] - point, state["before"] - before, state["average"] - average]
            worst = max(worst, *(float(np.abs(one).max()) for one in off), abs(told["return"] - drawn.rewards.sum()))
            worst = max(
                worst, abs(told["average"] - float(np.linalg.norm(average))), abs(int(state["made"]) - made - 1)
            )
    still = Ascent(np.ones(2), np.ones(2), np.zeros(2)).step(
        "momentum", 0.5, 1.0, lambda point: 0 * point, lambda point, vector: vector, 0.5
    )
    return below(1e-12, bool((still.point == 1).all()), off=worst)


# ---------------------------------------------------------------- a linear regulator


MARKS = (1000, 2000, 4000, 8000, 16000)
"""Episodes after which the gap is looked at."""


@cache
def gaps(way: Way, rate: float, decay: float, seeds: int = 6) -> Array:
    """The mean gap to the best gains after so many episodes, NaN where a run left all numbers behind."""
    world, solver = regulator(3), NormalisedAscent(way=way, rate=rate, decay=decay)
    found = np.zeros((seeds, len(MARKS)))
    for seed in range(seeds):
        state, drawn, made = solver.init(world, Key.of(seed)), 0.0, 0
        while drawn < MARKS[-1]:
            with np.errstate(all="ignore"):
                state, told = solver.step(world, state, Key.of(seed).derive(made))
                left = world.optimum - world.value(state["point"])
            if not np.isfinite(left):
                found[seed] = np.nan
                break
            met = [place for place, mark in enumerate(MARKS) if drawn < mark <= drawn + told["episodes"]]
            found[seed, met] = left
            drawn, made = drawn + told["episodes"], made + 1
    return np.asarray(found.mean(0))


def falls(row: Array) -> float:
    """The slope of log gap against log episodes."""
    return float(np.polyfit(np.log(MARKS), np.log(row), 1)[0])


@claim(
    "In a regulator the gap of transport, with its theorem's steps of 1/t, falls faster in episodes than that of "
    "REINFORCE at its best step and at every other tried, of t^(-1/2) and t^(-2/3) (predicted).",
    slow=True,
)
def in_a_regulator_the_gap_of_transport_with_its_theorems_steps_of() -> Finding:
    ours, rates = gaps("transport", 1.0, 1.0), ((0.02, 0.5), (0.04, 0.5), (0.05, 2 / 3), (0.1, 2 / 3), (0.2, 2 / 3))
    plain = [gaps("none", rate, decay) for rate, decay in rates]
    kept = [row for row in plain if np.isfinite(row).all()]
    best = min(kept, key=lambda row: float(row[-1]))
    told = say(slope=falls(ours), reinforce_at_its_best=falls(best), steepest_of_reinforce=min(map(falls, kept)))
    told += f"; after 1,000 and 16,000 episodes {ours[0]:.4f} and {ours[-1]:.4f} are left, of REINFORCE at its best "
    told += f"{best[0]:.4f} and {best[-1]:.4f}; of {len(plain)} steps {len(plain) - len(kept)} lost all"
    return Finding(falls(ours) < min(map(falls, kept)) - 0.1, told)


claim.spares("1.0 -> 40.0", "what a gradient of no length is divided by, which leaves it 0")
claim.spares("-1 -> 1", "the last axis of a table is its second")
claim.solved(N_PG_IGT, {"way": "none"}, better={"value": 1, "regret": -1})
