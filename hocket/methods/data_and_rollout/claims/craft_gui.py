"""CRAFT-GUI's claims, on pages in words."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any

from hocket.core.batch import Batch
from hocket.core.columns import ACTIONS
from hocket.core.keys import Key
from hocket.curriculum.difficulty_stages import stages_of
from hocket.curriculum.random_order import Shuffled
from hocket.lab.claims.harness import Claims, Finding, gap, say
from hocket.lab.toys.recorded_answers import group_relative
from hocket.lab.toys.screens import bench, chance, page
from hocket.methods.data_and_rollout.craft_gui import (
    CRAFT_GUI,
    DifficultyStages,
    GradedMoves,
    Understood,
    difficulty,
)
from hocket.recipe import Recipe
from hocket.rewards.judging import Answer, Judge, JudgedBy, Question
from hocket.tasks import find
from hocket.train.ledger import Ledger
from hocket.types import Scenario, Trajectory

claim = Claims("craft-gui", "arXiv:2508.11360 (abstract); the rule of the stages and the weights are ours")
KINDS = {"click": 1, "type": 2, "say": 2}


def cost(plan: Sequence[str]) -> int:
    """The difficulty, counted anew."""
    return sum(KINDS[move.split()[0]] for move in plan)


@claim("Stages rise with difficulty, hold every task once, and are alike in size.")
def stages_rise_with_difficulty_hold_every_task_once_and_are_alike() -> Finding:
    wrong, spread = 0, 0
    for number in range(60):
        rng = Key.of(number).derive("stages").numpy()
        count = int(rng.integers(1, 7))
        hard = rng.integers(0, 12, int(rng.integers(count, 40))).tolist()
        found = stages_of(hard, count)
        wrong += sum(found[i] > found[j] for i in range(len(hard)) for j in range(len(hard)) if hard[i] < hard[j])
        sizes = Counter(found)
        wrong += len(found) != len(hard) or set(sizes) != set(range(count))
        spread = max(spread, max(sizes.values()) - min(sizes.values()))
    plans = [page(number).plan for number in range(24)]
    off = max(abs(difficulty(plan) - cost(plan)) for plan in plans)
    off += abs(difficulty(["scroll down", "click 1"]) - 2)
    return Finding(wrong == 0 and spread <= 1 and off == 0, say(wrong=wrong, sizes_apart=spread, difficulty_off=off))


@claim(
    "As shipped each of three stages asks a third of 256 tasks for 160 scenarios, easier ones first, none again before "
    "all of the stage; then all tasks are asked, as they are from the start without the order."
)
def as_shipped_each_of_three_stages_asks_a_third_of_256_tasks_for() -> Finding:
    task, key, ledger = find("screens"), Key.of(3), Ledger()
    curriculum: Any = CRAFT_GUI.curriculum
    pool = {Shuffled(1)(task, place, 1, ledger, key)[0].id for place in range(256)}
    run = [one for step in range(46) for one in curriculum(task, 16 * step, 16, ledger, key)]
    spans = [run[:160], run[160:320], run[320:480], run[480:736]]
    hard = [[cost(one.metadata["plan"]) for one in span] for span in spans]
    members = [{one.id for one in span} for span in spans]
    wrong = sum(max(one) > min(two) for one, two in pairwise(hard[:3]))
    wrong += sum(bool(members[one] & members[two]) for one in range(3) for two in range(one))
    wrong += sorted(map(len, members[:3])) != [85, 85, 86] or members[0] | members[1] | members[2] != pool
    wrong += any(len({one.id for one in span[:85]}) != 85 for span in spans[:3]) or members[3] != pool
    mixed = DifficultyStages(order="shuffled")
    every = [one.id for step in range(16) for one in mixed(task, 16 * step, 16, ledger, key)]
    wrong += sorted(every) != sorted(pool)
    again = curriculum(task, 150, 20, Ledger(), key)
    wrong += [one.id for one in again] != [one.id for one in run[150:170]]
    other = [curriculum(task, 0, 16, ledger, Key.of(4)), DifficultyStages()(task, 0, 16, ledger, Key.of(4))]
    wrong += other[0] != other[1] or other[0] == run[:16] or curriculum.prompts != 16
    saw = say(wrong=int(wrong), difficulty_by_stage={str(n): (min(one), max(one)) for n, one in enumerate(hard[:3])})
    return Finding(not wrong, saw)


def earned(plan: Sequence[str], actions: Sequence[str | None]) -> tuple[float, float | None]:
    """The grade, and the share understood."""
    scenario = Scenario("s", "?", metadata={"plan": tuple(plan)})
    told = [Trajectory(scenario, [], info={ACTIONS.name: list(actions)})]
    (grade,) = asyncio.run(GradedMoves()(told, key=Key.of(0)))
    (share,) = asyncio.run(Understood()(told, key=Key.of(0)))
    return grade, share


GRADES: Sequence[tuple[Sequence[str], Sequence[str | None], float, float | None]] = (
    (("click 3",), ("click 3",), 1.0, None),
    (("click 3",), ("Click  3.",), 1.0, None),
    (("click 3",), ("click 2",), 0.4, None),
    (("click 3",), ("say 12",), 0.1, None),
    (("click 3",), ("hm",), 0.0, None),
    (("click 3",), (None,), 0.0, None),
    (("type 2 17",), ("type 2 18",), 0.7, None),
    (("type 2 17",), ("type 1 18",), 0.4, None),
    (("type 2 one two",), ("type 1 two three",), 0.4 + 0.6 * 0.25, None),
    (("say 58",), ("say 58",), 1.0, 1.0),
    (("say 58",), ("say 57",), 0.4, 0.0),
    (("click 3", "say 58"), ("click 3",), 0.5, 0.0),
    (("click 3", "say 58"), ("say 58", "click 3"), 0.5, 0.0),
    (("click 3", "say 58"), ("click 2", "click 1", "click 3", "say 58"), 1.0, 1.0),
    (("say 58", "say 12"), ("say 58", "click 1", "say 13"), 0.7, 0.5),
    (("click 1", "click 2"), (), 0.0, None),
    (("click 1",), ("click 1", "hm"), 1.0, None),
)
"""Plans, what was done, and by hand the grade and the share of what was to be said."""


@claim(
    "A plan's grade is the mean of the best grade earned while each move was wanted: 0.1 for form, 0.3 for kind, 0.6 "
    "for arguments; what was understood is the share said of what was to be said."
)
def a_plans_grade_is_the_mean_of_the_best_grade_earned_while_each() -> Finding:
    off, wrong = 0.0, 0
    for plan, actions, grade, share in GRADES:
        found = earned(plan, actions)
        off, wrong = max(off, abs(found[0] - grade)), wrong + (found[1] != share)
    return Finding(off < 1e-12 and wrong == 0, say(grades_off=off, shares_wrong=wrong, plans=len(GRADES)))


class _Says(Judge):
    """Answers always the same."""

    def __init__(self, said: str) -> None:
        super().__init__("test")
        self.said, self.heard = said, list[str]()

    def ask(self, questions: Sequence[Question]) -> Sequence[Answer]:
        self.heard += [question.prompt for question in questions]
        return [Answer(self.said) for _ in questions]


@claim("Where there is a judge it says what was understood, from the page and the last reply.")
def where_there_is_a_judge_it_says_what_was_understood_from_the() -> Finding:
    (rule,) = [one for one in CRAFT_GUI.rewards if isinstance(one, JudgedBy)]
    scenario = Scenario("s", "press 1\n1 button", metadata={"plan": ("click 1",)})
    done = Trajectory(scenario, [], info={ACTIONS.name: ["click 1"], "answer": "click 1"})
    values = list[Any]()
    for said in ("yes", "no"):
        judge = _Says(said)
        values += asyncio.run(CRAFT_GUI.but({"rewards.1.judge": judge}).rewards[1]([done], key=Key.of(0)))
    told = "press 1\n1 button" in judge.heard[0] and "click 1" in judge.heard[0]
    return Finding(values == [1.0, 0.0] and told and rule.weight == 0.2, say(yes=values[0], no=values[1]))


@claim("R = [all done] + grade + 0.2 understood, and A is GRPO's of it, the same at all moves of an episode.")
def r_all_done_grade_0_2_understood_and_a_is_grpos_of_it_the_same() -> Finding:
    worst, groups = 0.0, 0
    for seed in range(3):
        result = bench(CRAFT_GUI.but({"curriculum.pool": 24}), seed).step()
        batch, rows = result.batch, result.trajectories
        assert isinstance(batch, Batch)
        seen = batch.occurrences
        for name in {one.scenario.id for one in rows}:
            members = [number for number, one in enumerate(rows) if one.scenario.id == name]
            values = list[Any]()
            for number in members:
                plan, actions = rows[number].scenario.metadata["plan"], rows[number].info[ACTIONS.name]
                grade, share = earned(plan, actions)
                done = _done(plan, actions) == len(plan)
                values.append(done + grade + 0.2 * (share or 0.0))
            found = [seen.advantage[seen.trajectory == number] for number in members]
            worst = max(worst, gap([float(one[0]) for one in found], group_relative(values)))
            worst = max(worst, *(float((one - one[0]).abs().max()) for one in found))
            groups += 1
    return Finding(worst < 1e-6 and groups == 12, say(off_by_hand=worst, groups=groups))


def _done(plan: Sequence[str], actions: Sequence[str]) -> int:
    """How many moves of the plan were made, counted anew."""
    done = 0
    for move in actions:
        done += done < len(plan) and move == plan[done]
    return done


MATCH = CRAFT_GUI.but(rewards=())
"""Exact match: the world's own verdict alone."""


def silent(recipe: Recipe) -> list[float]:
    """By seed the share of groups whose rewards are all equal, over ten steps."""
    made = [bench(recipe.but({"curriculum.pool": 24}), seed, lr=0.1).run(10) for seed in range(4)]
    return [1 - fmean(row["groups/with_signal"] for row in one.history) / 4 for one in made]


@claim("The graded reward leaves fewer groups without any difference than exact match, in either order.")
def the_graded_reward_leaves_fewer_groups_without_any_difference() -> Finding:
    shares = {
        f"{name}, {order}": silent(recipe.but({"curriculum.order": order, "curriculum.per_stage": 24}))
        for name, recipe in (("graded", CRAFT_GUI), ("match", MATCH))
        for order in ("staged", "shuffled")
    }
    holds = all(
        max(shares[f"graded, {order}"]) < 0.5 * min(shares[f"match, {order}"]) for order in ("staged", "shuffled")
    )
    return Finding(holds, say(silent_groups=shares))


def reached(recipe: Recipe) -> tuple[list[int], list[int]]:
    """By seed the rollouts and the moves until the exact chance to do all of a page is 80 %, 120 steps at most."""
    rollouts, moves = list[int](), list[int]()
    for seed in range(6):
        made, played, said = bench(recipe.but({"curriculum.per_stage": 64}), seed), 0, 0
        while chance(made) < 0.8 and len(made.history) < 120:
            rows = made.step().trajectories
            played, said = played + len(rows), said + sum(len(one.turns) for one in rows)
        rollouts.append(played)
        moves.append(said)
    return rollouts, moves


@claim(
    "By exact match the staged order reaches 80 % of all pages with a fifth fewer rollouts than a uniform mix, or less "
    "still; by the graded reward with about as many, of fewer moves.",
    slow=True,
)
def by_exact_match_the_staged_order_reaches_80_of_all_pages_with_a() -> Finding:
    found = {
        f"{name}, {order}": reached(recipe.but({"curriculum.order": order}))
        for name, recipe in (("match", MATCH), ("graded", CRAFT_GUI))
        for order in ("staged", "shuffled")
    }
    rollouts, moves = ({name: one[place] for name, one in found.items()} for place in range(2))
    played, said = ({name: fmean(one) for name, one in figures.items()} for figures in (rollouts, moves))
    holds = played["match, staged"] < 0.8 * played["match, shuffled"]
    holds &= abs(played["graded, staged"] / played["graded, shuffled"] - 1) < 0.15
    holds &= said["graded, staged"] < 0.8 * said["graded, shuffled"]
    return Finding(holds, f"rollouts {say(of=rollouts)}; moves {say(of=moves)}")


claim.shipped(
    CRAFT_GUI,
    "curriculum",
    "rewards",
    first={"recipe": "sft", "task": "lessons:screens", "steps": 40, "update.lr": 3e-3},
    sees=lambda run: {"grade": run.mean("reward/grade"), "groups": run.mean("groups/with_signal")},
)

claim.spares("-1 -> 1", "the name of a stream of draws")
claim.spares("craft-gui: rewards.1.rule.weight = 40.0", "the weight is that of the reward around the rule")
claim.spares("craft-gui: rewards.1.rule.weight = 0.0", "the weight is that of the reward around the rule")
