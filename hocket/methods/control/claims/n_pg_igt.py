"""Claims of policy gradients whose momentum looks where the policy is now."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np

from hocket.core.keys import Key
from hocket.exact.mdp import Array, Episode, TabularMDP, softmax
from hocket.exact.worlds import world
from hocket.lab.claims.harness import Claims, Finding, below, say
from hocket.methods.control.n_pg_igt import N_PG_IGT, Ascent, NormalisedAscent, Way, curvature, slope

claim = Claims("n-pg-igt", "recalled")


def tiny() -> TabularMDP:
    """Two states, two actions, three decisions: 128 episodes."""
    draw = Key.of(5).derive("tiny").numpy()
    moves = draw.dirichlet(np.ones(2), size=(2, 2))
    return TabularMDP(moves, draw.normal(size=(2, 2)), np.array([0.3, 0.7]), horizon=3)


def episodes(mdp: TabularMDP, logits: Array) -> list[tuple[float, Episode]]:
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
            found.append((chance, Episode(at, did, mdp.reward[at[:-1], did])))
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
def _() -> Finding:
    mdp = tiny()
    logits = some(mdp, "logits")
    mean = sum(chance * slope(logits, one) for chance, one in episodes(mdp, logits))
    return below(1e-8, off=float(np.abs(mean - differences(mdp, logits)).max()))


@claim("So is the Hessian's product with a vector the change of that gradient along it.")
def _() -> Finding:
    mdp = tiny()
    logits, vector = some(mdp, "logits"), some(mdp, "vector")
    mean = sum(chance * curvature(logits, one, vector) for chance, one in episodes(mdp, logits))
    width = 1e-3
    ends = [differences(mdp, logits + side * width * vector, 1e-4) for side in (1, -1)]
    return below(2e-5, off=float(np.abs(mean - (ends[0] - ends[1]) / (2 * width)).max()))


@claim("Drawn evenly between two policies, it is on average the difference of their gradients, however far they are.")
def _() -> Finding:
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
def _() -> Finding:
    (transport, _), (curved, _), (plain, length) = (climbed(way) for way in ("transport", "curvature", "momentum"))
    return below(1e-10, plain > 0.1 * length, transport=transport, curvature=curved)


@claim(
    "Curvature is looked at between the last two points, and the gradient at the present one; REINFORCE keeps nothing."
)
def _() -> Finding:
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
def _() -> Finding:
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
def _() -> Finding:
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


MOVE, PUSH, NOISE = np.array([[1.0, 0.2], [0.0, 0.9]]), np.array([0.3, 0.6]), 0.1
COST, EFFORT, SPREAD, LENGTH = np.eye(2), 0.1, 0.5, 3
"""A small linear regulator: `x' = A x + b u + w`, `u ~ N(-k x, s^2)`, rewards `-(x'x + 0.1 u^2) / H`."""


def regulated(gain: Array) -> float:
    """The exact return, by the covariance of the state."""
    spread, closed, found = np.eye(2), MOVE - np.outer(PUSH, gain), 0.0
    for _ in range(LENGTH):
        found -= float(np.trace(spread) + EFFORT * (gain @ spread @ gain + SPREAD**2))
        spread = closed @ spread @ closed.T + SPREAD**2 * np.outer(PUSH, PUSH) + NOISE**2 * np.eye(2)
    return found / LENGTH


def sampled(gain: Array, draw: np.random.Generator) -> Array:
    """The gradient's estimate from one trajectory."""
    state, scores, rewards = draw.normal(size=2), [], []
    for _ in range(LENGTH):
        off = SPREAD * draw.normal()
        push = off - gain @ state
        scores.append(-off * state / SPREAD**2)
        rewards.append(-(state @ state + EFFORT * push**2) / LENGTH)
        state = MOVE @ state + PUSH * push + NOISE * draw.normal(size=2)
    to_go = np.cumsum(rewards[::-1])[::-1]
    found: Array = to_go @ np.array(scores)
    return found


def left(way: Way, rate: float, decay: float, steps: int = 2000, seeds: int = 8) -> float:
    """The mean gap to the best gain found, infinite where a run left all numbers behind."""
    best = max(regulated(np.array(pair)) for pair in itertools.product(np.linspace(0, 2, 81), repeat=2))
    gaps = []
    for seed in range(seeds):
        draw = Key.of(seed).derive("regulator").numpy()
        now = Ascent(np.zeros(2), np.zeros(2), np.zeros(2))
        with np.errstate(all="ignore"):
            for made in range(steps):
                share, length = (2 / (made + 2)) ** 0.8, rate / (made + 1) ** decay
                now = now.step(way, share, length, partial(sampled, draw=draw), lambda point, vector: vector, 0.5)
            gaps.append(best - regulated(now.point))
    return float(np.mean(gaps)) if np.isfinite(gaps).all() else np.inf


@claim(
    "A small linear regulator is learnt with steps thirty times as long; REINFORCE is lost at twice its best step.",
    slow=True,
)
def _() -> Finding:
    begun = max(regulated(np.array(pair)) for pair in itertools.product(np.linspace(0, 2, 81), repeat=2))
    begun -= regulated(np.zeros(2))
    transported = [left("transport", rate, 0.8) for rate in (0.1, 0.3, 1.0, 3.0)]
    plain = [left("none", rate, 0.5) for rate in (0.01, 0.02, 0.05)]
    return Finding(
        bool(np.isfinite(transported).all() and min(transported) < begun / 4 and not np.isfinite(plain[-1])),
        say(begun=begun, transported=transported, reinforce=plain),
    )


claim.spares("1.0 -> 40.0", "what a gradient of no length is divided by, which leaves it 0")
claim.spares("-1 -> 1", "the last axis of a table is its second")
claim.solved(N_PG_IGT, {"way": "none"}, better={"value": 1, "regret": -1})
