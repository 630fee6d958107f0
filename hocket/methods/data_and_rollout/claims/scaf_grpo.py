"""Scaf-GRPO's claims."""

from __future__ import annotations

from itertools import pairwise

from hocket.core.components import value_at
from hocket.core.signals import RIGHT
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import Claims, Finding, runs, say
from hocket.lab.toys.hard_half import HARD_HALF, hard, on_hard
from hocket.lab.toys.recorded_answers import lines
from hocket.methods.base.grpo import GRPO
from hocket.methods.data_and_rollout.scaf_grpo import PARTS, SCAF_GRPO, SCAF_GRPO_PROMPT, STAGES
from hocket.recipe import Recipe
from hocket.rollout.independent import Independent
from hocket.rollout.rescue import HELPED, HintAsPrefix
from hocket.types import Assignment
from hocket.zoo.tasks.worked_sums import WorkedSums

claim = Claims("scaf-grpo", "arXiv:2510.19807; dvlab-research/Scaf-GRPO")
EARLY = SCAF_GRPO.but({"rollout.after": 5})
HELPING = SCAF_GRPO.but({"rollout.after": 0, "rollout.tries": 4})
LADDER = tuple(HintAsPrefix("demonstration", part / 8) for part in range(1, 8))


def seen(recipe: Recipe, steps: int = 8) -> dict[str, dict[int, int]]:
    """Per scenario and step, the rung that its rescued sample was made with."""
    bench, found = Bench(HARD_HALF, recipe, lr=0.1), dict[str, dict[int, int]]()
    for step in range(1, steps + 1):
        for one in bench.step().trajectories:
            if HELPED.present(one):
                found.setdefault(one.scenario.id, {})[step] = HELPED.get(one)
    return found


@claim("Climbing finds the least hint that works: the rung that playing every rung alone would find.")
def climbing_finds_the_least_hint_that_works_the_rung_that_playing() -> Finding:
    bench = Bench(HARD_HALF, HELPING, lr=0.1)
    climbed = {one.scenario.id: HELPED.get(one) for one in bench.step().trajectories if HELPED.present(one)}
    alone = dict[str, int]()
    for rung in range(len(LADDER), 0, -1):
        # A ladder of this rung alone, its draws being those of its place in the whole one.
        shut = tuple(HintAsPrefix("nothing" if place != rung else "demonstration", place / 8) for place in range(1, 8))
        once = Bench(HARD_HALF, HELPING.but({"rollout.ladder": shut}), lr=0.1)
        alone |= {one.scenario.id: rung for one in once.step().trajectories if HELPED.present(one)}
    return Finding(climbed == alone and len(set(climbed.values())) > 0, say(rungs=str(climbed), by_force=str(alone)))


@claim("Nobody is helped in the warm-up, nor where a sample succeeds; one failure gives way, the others stay.")
def nobody_is_helped_in_the_warm_up_nor_where_a_sample_succeeds_one() -> Finding:
    helped = seen(EARLY)
    steps = sorted({step for rungs in helped.values() for step in rungs})
    result = Bench(HARD_HALF, HELPING, lr=0.1).step()
    groups: dict[str, list[bool]] = {}
    for one in result.trajectories:
        groups.setdefault(one.scenario.id, []).append(HELPED.present(one))
    counts = {(hard(int(name[-1])), sum(told)) for name, told in groups.items()}
    holds = min(steps) == 6 and counts == {(False, 0), (True, 1)} and all(len(told) == 8 for told in groups.values())
    return Finding(
        holds and SCAF_GRPO.rollout.at(50).samples == 8, say(steps_with_help=str(steps), helped=str(sorted(counts)))
    )


@claim("What was made with a hint is on-policy: its log-probs are known, and its first ratio is 1.")
def what_was_made_with_a_hint_is_on_policy_its_log_probs_are_known() -> Finding:
    bench = Bench(HARD_HALF, HELPING, lr=0.1)
    result = bench.step()
    helped = [one for one in result.trajectories if HELPED.present(one)]
    known = all(turn.logp is not None for one in helped for turn in one.turns)
    return Finding(
        known and {one.source for one in helped} == {"helped"} and result.metrics["kl/behaviour"] < 1e-6,
        say(helped=len(helped), kl=result.metrics["kl/behaviour"]),
    )


@claim("Success without hints rises on questions that start at 0, where GRPO stays, and the hints needed get shorter.")
def success_without_hints_rises_on_questions_that_start_at_0_where() -> Finding:
    made = runs(HARD_HALF, EARLY, GRPO, steps=60, every=70, seeds=range(3), lr=0.1)
    found = {name: [on_hard(bench) for bench in group] for name, group in made.items()}
    rungs = [[row["rollout/rung"] for row in bench.history if "rollout/rung" in row] for bench in made["scaf-grpo"]]
    first, last = (
        [sum(part) / len(part) for part in side] for side in ([r[:5] for r in rungs], [r[-5:] for r in rungs])
    )
    holds = min(found["scaf-grpo"]) > 0.6 and max(found["grpo"]) < 0.05 and min(first) > max(last)
    return Finding(holds, lines(hard_without_hints=found, first_rungs=first, last_rungs=last))


@claim(
    "The largest hint at once serves the questions without hints worse than the least: what it tells is never learnt."
)
def the_largest_hint_at_once_serves_the_questions_without_hints() -> Finding:
    most = EARLY.but({"rollout.ladder": (HintAsPrefix("demonstration", 0.875),)}, name="most")
    made = runs(HARD_HALF, EARLY, most, steps=60, every=70, seeds=range(3), lr=0.1)
    found = {name: [on_hard(bench) for bench in group] for name, group in made.items()}
    return Finding(min(found["scaf-grpo"]) > max(found["most"]) + 0.3, lines(hard_without_hints=found))


@claim("The paper's ladder has twelve rungs, each telling at least what the one before it in its stage told.")
def the_papers_ladder_has_twelve_rungs_each_telling_at_least_what() -> Finding:
    asking = next(
        Assignment(one)
        for one in (WorkedSums().scenario("train", number) for number in range(99))
        if all(len(one.metadata[stage]) > 3 for stage in STAGES[1:]) and one.metadata["knowledge"]
    )
    ladder = SCAF_GRPO_PROMPT.rollout.ladder  # type: ignore[attr-defined]
    told = [one.hint if (one := help_.asked(asking, None)) is not None else "" for help_ in ladder]
    stages = [told[place : place + len(PARTS)] for place in range(0, len(told), len(PARTS))]
    grows = all((after or "").startswith(before or "") for side in stages for before, after in pairwise(side))
    whole = all(
        " ".join(asking.scenario.metadata[stage]) in (side[-1] or "")
        for stage, side in zip(STAGES, stages, strict=True)
    )
    return Finding(len(told) == 12 and grows and whole, say(last=repr(told[-1])))


@claim(
    "As shipped 8 samples, any right one of which is success; after 50 steps one failure gives way to one try of a "
    "rung, which keeps its hint.",
    "dvlab-research/Scaf-GRPO; one try is chosen here",
)
def as_shipped_8_samples_any_right_one_of_which_is_success_after_50() -> Finding:
    names = ("samples", "success", "take", "tries", "beside", "after")
    found = [value_at(SCAF_GRPO, f"rollout.{name}") for name in names]
    shares = [[one.share for one in value_at(recipe, "rollout.ladder")] for recipe in (SCAF_GRPO, SCAF_GRPO_PROMPT)]
    bare = any(one.bare for recipe in (SCAF_GRPO, SCAF_GRPO_PROMPT) for one in value_at(recipe, "rollout.ladder"))
    holds = shares == [[part / 8 for part in range(1, 8)], [0.25, 0.5, 0.75, 1.0] * 3] and not bare
    return Finding(holds and found == [8, RIGHT, 1, 1, False, 50], say(settings=str(found)))


claim.shipped(
    SCAF_GRPO,
    without={"rollout": Independent(samples=8)},
    settings={"rollout.after": 0},
    sees=lambda run: {"failed": run.mean("rollout/failed"), "rescued": run.mean("rollout/rescued")},
)
