"""What g-ra claims."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from hocket.core.columns import InfoColumn
from hocket.core.keys import Key
from hocket.core.signals import returns
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.microscope import Reading
from hocket.lab.talk import TalkBench, last_message
from hocket.lab.toys.turn_toys import SEEDS, random_episodes, seen, worst
from hocket.methods.agents.g_ra import G_RA, GatedAccumulation
from hocket.methods.base.grpo import GRPO
from hocket.recipe import Recipe
from hocket.types import Scenario
from hocket.workflows.team import Team
from hocket.workflows.workflow import Outcome, Workflow

claim = Claims("g-ra", "arXiv:2508.10548")


LOOKS = InfoColumn("looks", "How often the worker looked.")
STEPS_DONE = InfoColumn("steps", "How many steps were done.")
HANDED_IN = InfoColumn("handed in", "Whether the work was handed in.")
SOLVED = InfoColumn("solved", "Whether the work was handed in whole.")


def gated(threshold: float) -> Recipe:
    """G-RA with another threshold of the outcome."""
    return G_RA.but({"combine.thresholds": (threshold,)})


@claim("With tau = -infinity it equals direct accumulation.")
def without_a_gate_everything_adds_up() -> Finding:
    gap = 0.0
    for number in range(20):
        rows = random_episodes(Key.of(number))
        gap = max(gap, worst(seen(gated(-math.inf), rows)["gradient"], seen(GRPO, rows)["gradient"]))
    return Finding(gap == 0.0, f"tau = -inf against plain accumulation, 20 random batches: {gap:.1e}")


@claim("With tau = +infinity it is the pure outcome reward.")
def a_shut_gate_leaves_the_outcome() -> Finding:
    gap = 0.0
    for number in range(20):
        rows = random_episodes(Key.of(number))
        bare = [{name: value for name, value in row.items() if name != "turn_scores"} for row in rows]
        gap = max(gap, worst(seen(gated(math.inf), rows)["gradient"], seen(GRPO, bare)["gradient"]))
    return Finding(gap == 0.0, f"tau = inf against the outcome alone, 20 random batches: {gap:.1e}")


def summed(recipe: Recipe, rows: Sequence[Any]) -> list[float]:
    """The return of each trajectory that credit sees."""
    batch, _ = recipe.assess(Reading({"version": 1, "trajectories": list(rows)}).batch, recipe.init(), {})
    values: list[float] = returns(batch).tolist()
    return values


@claim("Immediate rewards count where the outcome exceeds tau.")
def the_gate_is_strict() -> Finding:
    """R + [R > tau] sum r."""
    gap = 0.0
    for number in range(20):
        rows = random_episodes(Key.of(number))
        for tau in (0.0, 0.5, 1.0):
            wanted = [
                row["scores"]["reward"]
                + (row["scores"]["reward"] > tau) * sum(turn["reward"] for turn in row["turn_scores"])
                for row in rows
            ]
            gap = max(gap, worst(summed(gated(tau), rows), wanted))
    return Finding(gap < 1e-12, f"returns against R + [R > tau] sum r, tau 0, 0.5 and 1: {gap:.1e}")


@claim("Of several levels each counts only while all above exceed their thresholds.", "chosen here")
def levels_chain() -> Finding:
    """Outcome above format above tool calls; without an opinion on the outcome nothing else counts."""
    combine = GatedAccumulation(thresholds=(0.5, 0.0), levels=(("solved",), ("form",)))
    recipe = G_RA.but({"combine": combine})
    cases = [(1.0, 0.2), (1.0, -0.2), (0.4, 0.2), (None, 0.2)]
    rows = [
        {"group": "g", "scores": {"solved": solved, "form": form, "tool": 0.1}, "logp": [-1.0]}
        for solved, form in cases
    ]
    found = summed(recipe, rows)
    wanted = [1.0 + 0.2 + 0.1, 1.0 - 0.2, 0.4, 0.0]
    return Finding(worst(found, wanted) < 1e-12, f"solved, form {cases}: {[round(value, 2) for value in found]}")


TURNS = 20
STEPS = ("read", "edit", "test", "write")
WORDS = ("look", *STEPS, "hand in")


class Repair(Workflow):
    """Four steps in their order, then handing in, in at most `TURNS` turns. Looking around pays 0.1 and helps nobody.

    Each step pays 0.2 when its turn has come, as a critic of single steps would. Handing in is worth 1 after all
    steps, 0.1 before; without it there is no verdict.
    """

    roles = ("worker",)

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        done, looks, worth = 0, 0, None
        earned: list[float] = []
        while len(earned) < TURNS and worth is None:
            said = str(await team.worker.fresh()(f"steps done: {done}"))
            looks += said == "look"
            right = done < len(STEPS) and said == STEPS[done]
            done += right
            earned.append(0.1 if said == "look" else 0.2 if right else 0.0)
            if said == "hand in":
                worth = 1.0 if done == len(STEPS) else 0.1
        handed = worth is not None
        info = {LOOKS.name: looks, STEPS_DONE.name: done, HANDED_IN.name: handed, SOLVED.name: worth == 1.0}
        return Outcome(rewards={"verdict": worth}, turn_rewards={"steps": earned}, info=info)


BRIEF, CURIOUS = {"hand in": 1.5}, {"look": 2.5, "hand in": -0.5}
"""Logits before training: hands in sooner rather than later; looks around and around."""


def bench(recipe: Recipe, seed: int, start: Mapping[str, float]) -> TalkBench:
    scenarios = [Scenario(f"job {number}", "job") for number in range(4)]
    return TalkBench(Repair(), scenarios, WORDS, recipe, view=last_message, prior=lambda *_: start, seed=seed, lr=0.1)


def share(trained: TalkBench, column: InfoColumn) -> float:
    """The mean of what the workflow noted, over fresh episodes."""
    return fmean(float(column.get(one)) for one in trained.play(50))


@claim(
    "Where a harmless call pays 0.1, adding up ends completion while reward rises; the gate raises completion "
    "and keeps the calls bounded.",
    slow=True,
)
def adding_up_ends_completion() -> Finding:
    """Total reward rises while fewer and fewer episodes hand anything in; the gate turns that round."""
    start = share(bench(G_RA, 0, CURIOUS), HANDED_IN)
    direct = [bench(gated(-math.inf), seed, CURIOUS).run(25) for seed in SEEDS]
    ours = [bench(G_RA, seed, CURIOUS).run(25) for seed in SEEDS]
    lost, kept = ([share(run, HANDED_IN) for run in runs] for runs in (direct, ours))
    looks, bounded = ([share(run, LOOKS) for run in runs] for runs in (direct, ours))
    grown = [fmean(row["reward/mean"] for row in run.history[-5:]) - run.history[0]["reward/mean"] for run in direct]
    return Finding(
        min(grown) > 0.3 and max(lost) < start / 2 and min(kept) > start and max(bounded) < 0.75 * min(looks),
        f"25 steps, handed in {start:.2f} at the start: adding up {_shown(lost)} while total reward rises by "
        f"{_shown(grown)} and looks reach {_shown(looks)} of {TURNS}; gated {_shown(kept)}, looks {_shown(bounded)}; "
        "5 seeds",
    )


@claim("Too high a tau loses the benefit of shaping.", slow=True)
def a_threshold_too_high_loses_the_shaping() -> Finding:
    ours = [share(bench(G_RA, seed, BRIEF).run(45), STEPS_DONE) for seed in SEEDS]
    shut = [share(bench(gated(2.0), seed, BRIEF).run(45), STEPS_DONE) for seed in SEEDS]
    return Finding(
        min(ours) > max(shut) + 0.5 and fmean(ours) > fmean(shut) + 1,
        f"steps done of {len(STEPS)} after 45 training steps: tau = 0 {_shown(ours)}, tau = 2 {_shown(shut)}, 5 seeds",
    )


def _shown(numbers: Sequence[float]) -> str:
    return " ".join(f"{number:.2f}" for number in numbers)
