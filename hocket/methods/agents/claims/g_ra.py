"""G-RA's claims."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from statistics import fmean
from typing import Any

from hocket import tasks
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome
from hocket.core.columns import InfoColumn
from hocket.core.packing import pack
from hocket.core.signals import returns
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, below, gap, say
from hocket.lab.talk import TalkBench, last_message
from hocket.lab.toys.episodes import identical, random_batches
from hocket.lab.toys.recorded_answers import line, shaped
from hocket.lab.toys.talks import played_by
from hocket.methods.agents.g_ra import G_RA, GatedAccumulation
from hocket.methods.base.grpo import GRPO
from hocket.recipe import Recipe
from hocket.testing import Part, rehearse
from hocket.types import Scenario, Trajectory
from hocket.zoo.household import Households, plan

claim = Claims("g-ra", "arXiv:2508.10548")
LOOKS = InfoColumn("looks", "How often the worker looked.")
STEPS_DONE = InfoColumn("steps", "How many steps were done.")
HANDED_IN = InfoColumn("handed in", "Whether the work was handed in.")
EPISODES = random_batches()


def gated(threshold: float) -> Recipe:
    """G-RA with another threshold of the outcome."""
    return G_RA.but({"combine.thresholds": (threshold,)})


@claim("With tau = -infinity it equals direct accumulation.")
def with_tau_infinity_it_equals_direct_accumulation() -> Finding:
    return identical(gated(-math.inf), GRPO, EPISODES)


@claim("With tau = +infinity it is the pure outcome reward.")
def with_tau_infinity_it_is_the_pure_outcome_reward() -> Finding:
    return identical(gated(math.inf), GRPO, EPISODES, "turn_scores")


@claim("Immediate rewards count where the outcome exceeds tau.")
def immediate_rewards_count_where_the_outcome_exceeds_tau() -> Finding:
    def wanted(row: Mapping[str, Any], tau: float) -> float:
        outcome: float = row["scores"]["reward"]
        return outcome + (outcome > tau) * float(sum(turn["reward"] for turn in row["turn_scores"]))

    cases = [(rows, tau) for rows in EPISODES for tau in (0.0, 0.5, 1.0)]
    worst = max(gap(shaped(gated(tau), rows), [wanted(row, tau) for row in rows]) for rows, tau in cases)
    return below(EXACT, returns_against_R_plus_gated_r=worst)


@claim("Of several levels each counts only while all above exceed their thresholds.", "chosen here")
def of_several_levels_each_counts_only_while_all_above_exceed_their() -> Finding:
    recipe = G_RA.but({"combine": GatedAccumulation(thresholds=(0.5, 0.0), levels=(("solved",), ("form",)))})
    cases, fixed = [(1.0, 0.2), (1.0, -0.2), (0.4, 0.2), (None, 0.2)], {"group": "g", "logp": [-1.0]}
    values = shaped(recipe, [{**fixed, "scores": {"solved": s, "form": f, "tool": 0.1}} for s, f in cases])
    return Finding(gap(values, [1.0 + 0.2 + 0.1, 1.0 - 0.2, 0.4, 0.0]) < EXACT, f"solved, form {cases}: {line(values)}")


@claim(
    "With tau = -infinity the gate is open also without a verdict; where nothing can be judged there is none.",
    "derived",
)
def with_tau_infinity_the_gate_is_open_also_without_a_verdict_where() -> Finding:
    fixed: dict[str, Any] = {"group": "g", "logp": [-1.0], "turn": [0], "turn_scores": [{"steps": 0.3}]}
    judged = [{**fixed, "scores": {"solved": verdict}} for verdict in (None, 1.0, 0.0)]
    unjudged = [{**fixed, "scores": {}}] * 2
    found = [shaped(gated(-math.inf), judged), shaped(gated(0.0), judged), shaped(gated(0.0), unjudged)]
    wanted = [[0.3, 1.3, 0.3], [0.0, 1.3, 0.0], [0.3, 0.3]]
    return below(EXACT, off=gap(found, wanted))


HOUSES = tasks.find("household?dense=0.1")


@cache
def errands() -> tuple[list[Trajectory], list[Trajectory]]:
    """Errands in four houses by their shortest plans, and without the plans' last move."""
    done, undone = [], []
    for number in range(4):
        scenario = HOUSES.scenario("train", number)
        moves = plan(Households(dense=0.1).make(scenario).house)
        flow = HOUSES.workflow  # type: ignore[attr-defined]
        done += rehearse(flow, scenario, {"policy": moves})
        undone += rehearse(flow, scenario, {"policy": Part(*moves[:-1], otherwise="wait")})
    return done, undone


def worth(recipe: Recipe, played: Sequence[Trajectory]) -> list[float]:
    """The returns that credit sees."""
    batch, _ = recipe.compute_credit(pack(played), recipe.init(), {})
    return [float(value) for value in returns(batch)]


@claim("In an environment its return is the outcome: the parts it names count only where that exceeds tau.")
def in_an_environment_its_return_is_the_outcome_the_parts_it_names() -> Finding:
    done, undone = errands()
    kept, shut, added = worth(G_RA, done), worth(G_RA, undone), worth(GRPO, undone)
    holds = min(kept) > 1.05 and max(map(abs, shut)) == 0.0 and min(added) > 0.05
    return Finding(
        holds, say(errand_done=line(kept), all_but_done=line(shut), all_but_done_without_the_gate=line(added))
    )


@claim("A part that nobody in the batch reached is worth 0, and shuts the gate it stands for.", "chosen here")
def a_part_that_nobody_in_the_batch_reached_is_worth_0_and_shuts() -> Finding:
    done = [one for one in errands()[0] if "made" not in one.scores]
    first, last = (
        G_RA.but({"combine": GatedAccumulation((0.0, 0.0), levels)})
        for levels in ((("made",), ("reward",)), (("reward",), ("made",)))
    )
    above, below_it = worth(first, done), worth(last, done)
    holds = len(done) > 1 and gap(above, [0.0] * len(done)) == 0.0 and gap(below_it, [1.0] * len(done)) == 0.0
    return Finding(holds, say(made_above_the_return=line(above), made_between_return_and_found=line(below_it)))


TURNS, STEPS = 20, ("read", "edit", "test", "write")
WORDS = ("look", *STEPS, "hand in")


@played_by("worker")
async def repair(scenario: Scenario, team: Team) -> Outcome:
    """Four steps in their order, then handing in, in at most `TURNS` turns. Looking around pays 0.1 and helps nobody.
    Each step pays 0.2 when its turn has come, as a critic of single steps would. Handing in is worth 1 after all steps,
    0.1 before; without it there is no verdict."""
    done, looks, worth, earned = 0, 0, None, list[float]()
    while len(earned) < TURNS and worth is None:
        word = str(await team.worker.fresh()(f"steps done: {done}"))
        looks += word == "look"
        right = done < len(STEPS) and word == STEPS[done]
        done += right
        earned.append(0.1 if word == "look" else 0.2 if right else 0.0)
        if word == "hand in":
            worth = 1.0 if done == len(STEPS) else 0.1
    info = {LOOKS.name: looks, STEPS_DONE.name: done, HANDED_IN.name: worth is not None}
    return Outcome(rewards={"verdict": worth}, turn_rewards={"steps": earned}, info=info)


BRIEF, CURIOUS = {"hand in": 1.5}, {"look": 2.5, "hand in": -0.5}
"""Logits before training: hands in sooner rather than later; looks around and around."""


def bench(recipe: Recipe, seed: int, start: Mapping[str, float]) -> TalkBench:
    jobs = [Scenario(f"job {number}", "job") for number in range(4)]
    return TalkBench(repair, jobs, WORDS, recipe, view=last_message, prior=lambda *_: start, seed=seed, lr=0.1)


def share(trained: TalkBench, column: InfoColumn) -> float:
    """The mean of what the workflow noted, over fresh episodes."""
    return fmean(float(column.get(one)) for one in trained.play(50))


@claim(
    "Where a harmless call pays 0.1, adding up ends completion while reward rises; the gate raises completion "
    "and keeps the calls bounded.",
    slow=True,
)
def where_a_harmless_call_pays_0_1_adding_up_ends_completion_while() -> Finding:
    start = share(bench(G_RA, 0, CURIOUS), HANDED_IN)
    made = [[bench(recipe, seed, CURIOUS).run(25) for seed in SEEDS] for recipe in (gated(-math.inf), G_RA)]
    lost, kept = ([share(run, HANDED_IN) for run in runs] for runs in made)
    looks, bounded = ([share(run, LOOKS) for run in runs] for runs in made)
    grown = [fmean(row[-5:]) - row[0] for row in [[row["reward/mean"] for row in run.history] for run in made[0]]]
    holds = min(grown) > 0.3 and max(lost) < start / 2 and min(kept) > start and max(bounded) < 0.75 * min(looks)
    saw = say(handed_in_at_the_start=start, adding_up=line(lost), total_reward_rises_by=line(grown), looks=line(looks))
    return Finding(holds, f"{saw}; {say(gated=line(kept), looks_of_20=line(bounded))}")


@claim("Too high a tau loses the benefit of shaping.", slow=True)
def too_high_a_tau_loses_the_benefit_of_shaping() -> Finding:
    ours, shut = ([share(bench(one, seed, BRIEF).run(45), STEPS_DONE) for seed in SEEDS] for one in (G_RA, gated(2.0)))
    holds = min(ours) > max(shut) + 0.5 and fmean(ours) > fmean(shut) + 1
    return Finding(holds, say(steps_done_of_4={"tau = 0": line(ours), "tau = 2": line(shut)}))


claim.shipped(G_RA, "combine")
