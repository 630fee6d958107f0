"""What mac-spgg claims."""

from __future__ import annotations

import functools
import itertools
from statistics import fmean

from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.sequential import Solution, backward_induction
from hocket.lab.talk import TalkBench
from hocket.methods.teams.mac_spgg import MAC_SPGG, PublicGood, PublicGoods
from hocket.types import Scenario, Trajectory

claim = Claims("mac-spgg", "derived")


SEEDS = range(5)
LEVELS = (0.0, 0.25, 0.5, 0.75, 1.0)
COUNTS = (2, 3, 4)
RETURN, COST = 0.5, 1.0
"""What a unit gives back to who paid it (multiplier / n), and what it costs: all numbers are exact in binary."""


FLIP = COST - RETURN
STEP = 1 / 64


def solved(agents: int, bonus: float, threshold: float | None = None, back: float = RETURN) -> Solution:
    """The equilibria of the game of `agents`."""
    return backward_induction(agents, LEVELS, PublicGood(back * agents, COST, bonus, threshold))


def _everywhere(found: Solution, action: float) -> bool:
    """Whether `action` is chosen after every history, and nothing else."""
    return all(chosen == {action} for chosen in found.choices.values())


@claim("backward induction: nobody contributes in the classical game, everybody all in the redesigned one")
def classical_and_redesigned() -> Finding:
    free = [_everywhere(solved(n, 0.0), 0.0) for n in COUNTS]
    full = [_everywhere(solved(n, 1.0), 1.0) for n in COUNTS]
    histories = len(solved(4, 1.0).choices)
    return Finding(
        all(free) and all(full),
        f"n = 2, 3, 4 with {len(LEVELS)} levels: nothing after every history in the classical game {free}, everything "
        f"with bonus 1 {full}; n = 4 has {histories} histories",
    )


@claim("it flips exactly at bonus = cost - multiplier / n")
def flips_at_the_margin() -> Finding:
    """On a grid of bonuses, and of returns: below the margin nothing, above everything, on it every play."""
    wrong, ties = 0, 0
    for n, eighth in itertools.product(COUNTS, range(2, 13)):
        back = eighth / 8
        for bonus in (COST - back - STEP, COST - back, COST - back + STEP):
            found = solved(n, bonus, back=back)
            if bonus == COST - back:
                ties += 1
                wrong += len(found.plays) != len(LEVELS) ** n or found.unique
            else:
                wrong += not _everywhere(found, float(bonus > COST - back)) or not found.unique
    return Finding(
        wrong == 0 and ties == 33,
        f"99 games: {wrong} differ from full contribution iff bonus > cost - multiplier/n; in the {ties} on the margin "
        "every play is an equilibrium",
    )


@claim("a bonus on joint success keeps every history contributing iff the threshold is one agent's most")
def success_bonus_thresholds() -> Finding:
    """A bonus on joint success: which histories contribute, for every threshold on the grid and beyond."""
    wrong, everywhere, on_path = 0, [], []
    for n in COUNTS:
        thresholds = [quarter / 4 for quarter in range(1, 4 * n + 3)]
        for threshold in thresholds:
            for bonus in (FLIP + STEP, 2.0):
                found = solved(n, bonus, threshold)
                for history, chosen in found.choices.items():
                    reachable = sum(history) + (n - len(history)) >= threshold
                    wrong += chosen != {float(reachable)}
            wrong += not _everywhere(solved(n, FLIP - STEP, threshold), 0.0)
        found_for = {threshold: solved(n, 2.0, threshold) for threshold in thresholds}
        everywhere.append(max(t for t, found in found_for.items() if _everywhere(found, 1.0)))
        on_path.append(max(t for t, found in found_for.items() if found.plays == {(1.0,) * n}))
    return Finding(
        wrong == 0 and everywhere == [1.0, 1.0, 1.0] and on_path == [2.0, 3.0, 4.0],
        f"every history contributes for B up to {everywhere} (one agent's most), the path of play up to {on_path} "
        f"(all agents' most), for n = 2, 3, 4; {wrong} choices differ from: all iff B can still be reached",
    )


WORDS = ("0", "1", "2", "3")
AGENTS = 3


def worth(text: str, scenario: Scenario) -> float:
    """The contribution that a word stands for."""
    return int(text) / (len(WORDS) - 1)


def bench(seed: int, flow: PublicGoods) -> TalkBench:
    """A table per agent; what it reads are the earlier words."""
    recipe = MAC_SPGG.but({"rollout.samples": 32, "update.minibatches": 1, "update.epochs": 2})
    return TalkBench(flow, [Scenario("good", "Contribute.")], WORDS, recipe, seed=seed, lr=0.12, verifier=worth)


def contributed(played: Trajectory) -> float:
    """The mean contribution."""
    given: list[float] = played.info["contributions"]
    return fmean(given)


@functools.cache
def learnt(bonus: float, threshold: float, seed: int, steps: int = 50) -> float:
    """The exact mean contribution of all agents after training."""
    trained = bench(seed, PublicGoods(AGENTS, RETURN * AGENTS, COST, bonus, threshold, effort="quality")).run(steps)
    return trained.expected(contributed)


@claim(
    "learners converge to the predicted equilibrium in the classical and the redesigned game", "section 4", slow=True
)
def learners_reach_the_equilibrium() -> Finding:
    """PPO on tables, three agents from a uniform start: the exact mean contribution after training."""
    free = max(learnt(0.0, 0.0, seed) for seed in SEEDS)
    full = min(learnt(1.0, 0.0, seed) for seed in SEEDS)
    success = min(learnt(1.0, 1.0, seed) for seed in SEEDS)
    return Finding(
        free < 0.05 and full > 0.95 and success > 0.95,
        f"from 0.50, after 50 steps at worst of 5 seeds: classical {free:.3f} (predicted 0), bonus 1 {full:.3f} "
        f"(predicted 1), bonus 1 for a sum of 1 or more {success:.3f} (predicted 1)",
    )


@claim("with a threshold that needs all of everybody they do not, though it is the only equilibrium's play", slow=True)
def learners_miss_a_far_threshold() -> Finding:
    """Where all must give all, that is the only equilibrium's play, and learners that start apart do not find it."""
    unique = solved(AGENTS, 1.0, float(AGENTS)).plays == {(1.0,) * AGENTS}
    found = [learnt(1.0, float(AGENTS), seed) for seed in SEEDS]
    below = sum(mean < 0.4 for mean in found)
    return Finding(
        unique and below >= 3,
        f"B = n: backward induction predicts 1, learners end at {', '.join(f'{mean:.2f}' for mean in found)}",
    )
