"""Mobile-R1's claims, on pages in words from which a wrong click leads astray and a button leads back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from statistics import fmean
from typing import Any

from hocket.core.batch import Batch
from hocket.core.columns import ACTIONS, RETURNS
from hocket.core.keys import Key
from hocket.curriculum.random_order import Shuffled
from hocket.lab.claims.harness import Claims, Finding, gap, say
from hocket.lab.talk import TalkBench
from hocket.lab.toys.recorded_answers import group_relative, line
from hocket.lab.toys.screens import WORDS, bench, chance, page
from hocket.lab.toys.talks import as_prior
from hocket.methods.agents.mobile_r1 import MOBILE_R1, MOBILE_R1_STEPS
from hocket.recipe import Recipe
from hocket.tasks import find
from hocket.train.ledger import Ledger
from hocket.types import Trajectory
from hocket.zoo.screens import Screens

claim = Claims("mobile-r1", "arXiv:2506.20332, by its abstract and reviews of it")
SEEDS = range(3)
PHONE = Screens(strays=True, slip=0.2, spare=3)
"""Where the agent is trained: a wrong click leads astray, and so does one right move in five."""

CALM, LOST = Screens(strays=True, spare=3), Screens(strays=True, spare=3, lost=True)
"""Where it is measured: no error but its own, and one error injected at the start."""

FORMS = [word for word in WORDS if word.split()[0] in ("click", "type", "say")]


@claim("The stage of single moves asks for each recorded move alike, on the page as it is after those before.")
def the_stage_of_single_moves_asks_for_each_recorded_move_alike_on() -> Finding:
    task: Any = find("screens?longest=3&strays=true&slip=0.9&spare=2")
    curriculum: Any = MOBILE_R1_STEPS.curriculum
    drawn = curriculum(task, 0, 900, Ledger(), Key.of(1))
    whole = {one.id: one for one in MOBILE_R1.curriculum(task, 0, 900, Ledger(), Key.of(1))}
    wrong, counts = 0, Counter[tuple[int, int]]()
    for one in drawn:
        plan, step = whole[one.origin].metadata["plan"], one.metadata["step"]
        counts[len(plan), step] += 1
        wrong += one.metadata["plan"] != (plan[step],) or one.id == one.origin
        played = task.workflow.world.make(one)
        played.reset(Key.of(0))
        marks = [ask.startswith("x ") for ask in played.observe("agent").text.split("\n")[0].split("; ")]
        wrong += marks != [place < step for place in range(len(plan))] or played.following != plan[step]
        played.act({"agent": plan[step]})
        wrong += bool(played.acting) or played.astray is not None
    uneven = max(
        abs(counts[length, step] / sum(counts[length, place] for place in range(length)) - 1 / length)
        for length in (2, 3)
        for step in range(length)
    )
    again = curriculum(task, 16, 64, Ledger(), Key.of(1)) == drawn[16:80]
    again &= (curriculum.prompts, MOBILE_R1.curriculum) == (16, Shuffled(16))
    return Finding(wrong == 0 and uneven < 0.08 and again, say(wrong=wrong, shares_off=uneven, asked=len(drawn)))


def by_hand(one: Trajectory) -> float:
    """What an episode earns, counted anew."""
    actions = one.info[ACTIONS.name]
    form = sum(action in FORMS for action in actions) / len(actions)
    if "step" in one.scenario.metadata:
        number, step = int(one.scenario.metadata["screen"]), int(one.scenario.metadata["step"])
        return float(actions == [page(number).plan[step]]) + form
    return float(one.info[RETURNS.name]["agent"] == 1.0) + form


@claim("Single moves earn [recorded] + [readable], whole tasks [done] + the share readable; A is GRPO's, at all moves.")
def single_moves_earn_recorded_readable_whole_tasks_done_the_share() -> Finding:
    worst, groups, several = 0.0, 0, 0
    for recipe, seed in ((recipe, seed) for recipe in (MOBILE_R1_STEPS, MOBILE_R1) for seed in SEEDS):
        result = bench(recipe, seed, PHONE).step()
        batch, rows = result.batch, result.trajectories
        assert isinstance(batch, Batch)
        seen = batch.occurrences
        for name in {one.scenario.id for one in rows}:
            members = [number for number, one in enumerate(rows) if one.scenario.id == name]
            found = [seen.advantage[seen.trajectory == number] for number in members]
            due = group_relative([by_hand(rows[number]) for number in members])
            worst = max(worst, gap([float(one[0]) for one in found], due))
            worst = max(worst, *(float((one - one[0]).abs().max()) for one in found))
            groups += 1
        several += recipe is MOBILE_R1_STEPS and any(len(one.turns) > 1 for one in rows)
    saw = say(off_by_hand=worst, groups=groups, steps_of_several_moves=int(several))
    return Finding(worst < 1e-6 and groups == 24 and not several, saw)


def going_on(recipe: Recipe, before: TalkBench, seed: int) -> TalkBench:
    """A stage that begins with what another has learnt."""
    (policy,) = before.policies.values()
    return bench(recipe, seed, PHONE, prior=as_prior(policy))


@cache
def first(seed: int) -> TalkBench:
    """After 24 steps of single moves."""
    return bench(MOBILE_R1_STEPS, seed, PHONE).run(24)


def measured(made: Sequence[TalkBench]) -> tuple[list[float], list[float]]:
    """By seed the chance to do all of a page without an error from outside, and after one."""
    return [chance(one, CALM) for one in made], [chance(one, LOST) for one in made]


@claim(
    "After single moves alone success falls sharply once an error is injected; whole tasks make it come back, as many "
    "more single moves do not.",
    slow=True,
)
def after_single_moves_alone_success_falls_sharply_once_an_error_is() -> Finding:
    steps = measured([first(seed) for seed in SEEDS])
    whole = measured([going_on(MOBILE_R1, first(seed), seed).run(40) for seed in SEEDS])
    more = measured([going_on(MOBILE_R1_STEPS, first(seed), seed).run(40) for seed in SEEDS])
    holds = max(lost / calm for calm, lost in zip(*steps, strict=True)) < 0.4 and min(steps[0]) > 0.7
    holds &= min(whole[1]) > 0.8 and min(whole[0]) > 0.95 and max(more[1]) < 0.4
    saw = f"single moves {line(steps[0])}, after an error {line(steps[1])}; then whole tasks {line(whole[0])}, after an"
    return Finding(holds, f"{saw} error {line(whole[1])}; more single moves instead {line(more[0])}, {line(more[1])}")


def reaching(made: TalkBench) -> tuple[int, int]:
    """Rollouts and moves of a stage until the chance on the pages it is trained on is 60 %, 100 steps at most."""
    played, said = 0, 0
    while chance(made, PHONE) < 0.6 and len(made.history) < 100:
        rows = made.step().trajectories
        played, said = played + len(rows), said + sum(len(one.turns) for one in rows)
    return played, said


@claim(
    "Without the stage of single moves whole tasks take more rollouts to 60 % on pages that go wrong by themselves, "
    "and more moves than both stages together.",
    slow=True,
)
def without_the_stage_of_single_moves_whole_tasks_take_more() -> Finding:
    after = [reaching(going_on(MOBILE_R1, bench(MOBILE_R1_STEPS, seed, PHONE).run(16), seed)) for seed in range(5)]
    alone = [reaching(bench(MOBILE_R1, seed, PHONE)) for seed in range(5)]
    rollouts = [[float(one) for one, _ in found] for found in (after, alone)]
    moves = [[moves + 16 * 4 * 8.0 for _, moves in after], [float(moves) for _, moves in alone]]
    holds = fmean(rollouts[0]) < 0.6 * fmean(rollouts[1]) and fmean(moves[0]) < 0.7 * fmean(moves[1])
    saw = say(rollouts_after_single_moves=rollouts[0], without=rollouts[1], moves_of_both_stages=moves[0])
    return Finding(holds, f"{saw}, {say(of_whole_tasks_alone=moves[1])}")


LESSONS = {"recipe": "sft", "task": "lessons:screens?strays=true&slip=0.2&spare=4", "steps": 40, "update.lr": 0.003}

claim.shipped(
    MOBILE_R1_STEPS,
    "curriculum",
    "rewards",
    first=LESSONS,
    settings={"curriculum.prompts": 8},
    sees=lambda run: {"right": run.mean("reward/right"), "groups": run.mean("groups/with_signal")},
)
claim.shipped(
    MOBILE_R1,
    "rewards",
    first=LESSONS,
    settings={"curriculum.prompts": 8},
    sees=lambda run: {"form": run.mean("reward/form"), "groups": run.mean("groups/with_signal")},
)

claim.spares("mobile-r1: rewards.0.rule.weight = 40.0", "the weight is that of the reward around the rule")
claim.spares("mobile-r1: rewards.0.rule.weight = 0.0", "the weight is that of the reward around the rule")
