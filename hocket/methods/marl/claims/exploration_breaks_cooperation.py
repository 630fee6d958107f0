"""Claims on exploration, shared parameters and cooperation."""

from __future__ import annotations

import functools
import itertools

import numpy as np

from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, below, say
from hocket.methods.marl.exploration_breaks_cooperation import STAG, GroupHunt, HuntCurves, Parameters, learnt

claim = Claims("exploration-breaks-cooperation", "How Exploration Breaks Cooperation, abstract")
HUNT, EPSILON, LAST = GroupHunt(), 0.2, 500
KINDS: tuple[Parameters, ...] = ("shared", "separate", "identified")


@functools.cache
def _curves(kind: Parameters, epsilon: float = EPSILON, falls: bool = False, safe: float = HUNT.safe) -> HuntCurves:
    return learnt(GroupHunt(safe=safe), kind, epsilon=epsilon, falls=falls)


@claim("A hunt pays by its rule in all 256 joint actions, in plain loops, and all joining is stable and pays most.")
def a_hunt_pays_by_its_rule() -> Finding:
    off, group, totals = 0.0, [0, 0, 1, 1, 2, 2, 2, 2], {}
    for joins in itertools.product((False, True), repeat=8):
        paid = HUNT.paid(np.array(joins))
        for agent in range(8):
            entire = all(joins[other] for other in range(8) if group[other] == group[agent])
            off = max(off, abs(paid[agent] - ((STAG if entire else 0.0) if joins[agent] else HUNT.safe)))
        totals[joins] = float(paid.sum())
    every = (True,) * 8
    alone = [HUNT.paid(np.arange(8) != agent)[agent] for agent in range(8)]
    return below(1e-12, max(totals, key=totals.__getitem__) == every and max(alone) < STAG, off=off)


@claim("Without exploration all go on joining, whatever is shared.", slow=True)
def without_exploration_all_go_on_joining() -> Finding:
    rates = {kind: float(_curves(kind, 0.0).rate(LAST).min()) for kind in KINDS}
    return Finding(min(rates.values()) == 1.0, say(**rates))


@claim(
    "With exploration a shared table ends cooperation everywhere, separate tables keep it in pairs; over 12 seeds no "
    "run of the one reaches any of the other. If agents see the size of their group, a shared table does as well.",
    "abstract",
    slow=True,
    learns=True,
)
def a_shared_table_ends_cooperation_where_sight_is_partial() -> Finding:
    rates = {kind: _curves(kind).rate(LAST) for kind in KINDS}
    gap = float(rates["separate"].min() - rates["shared"].max())
    left = float(rates["separate"].mean() - rates["identified"].mean())
    figures = {kind: float(rate.mean()) for kind, rate in rates.items()}
    return Finding(gap > 0.2 and abs(left) < 0.05, say(**figures, least_gap=gap, gap_with_full_sight=left))


@claim("An exploration that falls to 0 does not bring cooperation back under a shared table.", "abstract", slow=True)
def falling_exploration_does_not_bring_cooperation_back() -> Finding:
    rates = {kind: _curves(kind, 0.4, True).rate(LAST) for kind in KINDS}
    figures = {kind: float(rate.mean()) for kind, rate in rates.items()}
    return Finding(float(rates["shared"].max() + 0.2) < float(rates["separate"].min()), say(**figures))


@claim(
    "What decides is whether joining pays more than staying away at the noise: on the mean over agents for a shared "
    "table, in each group for separate ones. So with safe = 3 the shared table cooperates in all groups, against "
    "what is best in the large one.",
    "derived",
    slow=True,
)
def what_decides_is_the_mean_over_agents() -> Finding:
    sizes, noise = np.array(HUNT.sizes)[HUNT.group], EPSILON / 2
    worth = STAG * (1 - noise) ** (sizes - 1)
    outcomes: dict[str, float] = {}
    held = True
    for safe in (3.0, 3.4):
        shared, separate = (_curves(kind, safe=safe).rate(LAST) for kind in ("shared", "separate"))
        predicted = float(worth.mean() > safe), float((worth > safe).mean())
        outcomes |= {f"shared, {safe}": float(shared.mean()), f"separate, {safe}": float(separate.mean())}
        held &= abs(float(shared.mean()) - predicted[0]) < 0.1 and abs(float(separate.mean()) - predicted[1]) < 0.1
    return Finding(held, say(**outcomes, mean_worth=float(worth.mean())))


@claim("A step of learning is Q-learning's, in plain loops.")
def a_step_of_learning_is_q_learning() -> Finding:
    off = 0.0
    for kind in KINDS:
        curves = learnt(HUNT, kind, epsilon=0.5, hunts=30, seeds=2, rate=0.1, key=Key.of(3))
        off = max(off, float(np.abs(curves.tables - _by_loops(kind)).max()))
    return below(1e-9, off=off)


def _by_loops(kind: Parameters) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    rng, group, sizes = Key.of(3).numpy(), [0, 0, 1, 1, 2, 2, 2, 2], [2, 2, 2, 2, 4, 4, 4, 4]
    tables = 8 if kind == "separate" else 1
    rows = 4 if kind == "identified" else 2
    values = np.array([[[[2 * HUNT.safe, 2 * STAG]] * rows] * tables] * 2)
    ended = [[True] * 8 for _ in range(2)]

    def row(agent: int, success: bool) -> int:
        return (2 * (sizes[agent] == 4) if kind == "identified" else 0) + success

    for _ in range(30):
        luck, coin = rng.random((2, 8)), rng.random((2, 8))
        after = values.copy()
        for seed in range(2):
            joins = []
            for agent in range(8):
                mine = values[seed, agent if kind == "separate" else 0, row(agent, ended[seed][agent])]
                joins.append(bool(coin[seed, agent] < 0.5 if luck[seed, agent] < 0.5 else mine[1] > mine[0]))
            wholes = [all(joins[other] for other in range(8) if group[other] == group[agent]) for agent in range(8)]
            for agent in range(8):
                table = agent if kind == "separate" else 0
                paid = (STAG if wholes[agent] else 0.0) if joins[agent] else HUNT.safe
                target = paid + HUNT.discount * max(values[seed, table, row(agent, wholes[agent])])
                place = seed, table, row(agent, ended[seed][agent]), int(joins[agent])
                after[place] += 0.1 / {"shared": 8, "separate": 1, "identified": 4}[kind] * (target - values[place])
            ended[seed] = wholes
        values = after
    return np.asarray(values)
