"""Claims about LexPro-1.0."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from hocket import tasks
from hocket.apps.report import map as maps
from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.claims.lesson_data import Pupil, after_lessons, begin
from hocket.methods.surveys.lexpro_1 import CIRCUMSTANCES, LEXPRO_1, PROVINCES, Statutes, code
from hocket.train.aio import run_async
from hocket.types import Assignment, Trajectory

claim = Claims("lexpro-1", "technical report (abstract)")

TASK = "statutes"
DOCUMENTS = 160
"""Steps of supervised tuning, of 16 documents each."""
STEPS = 40
"""Steps of RL, of 8 cases with 8 answers each."""
RATE = 2.5e-4
"""Of learning by RL; lessons have a rate of their own."""


def _judged(question: str, book: int) -> str:
    """The answer to a case, worked out from the tables of the code."""
    law = code(book)
    facts = re.fullmatch(r"Case: (\w+) of (\d+)((?:, \w+)*)\.", question)
    assert facts is not None
    offence, amount, named = facts[1], int(facts[2]), facts[3].split(", ")[1:]
    article = law.articles[offence][1 if amount >= law.limits[offence] else 0]
    low, high = law.ranges[article]
    lower = sum(law.years[name] for name in named if name in ("confessed", "repaid"))
    upper = sum(law.years[name] for name in named if name in ("repeat", "leader"))
    return f"art {article}, {low - lower}-{high + upper}"


@claim("Answers are those of the code's tables; the rule pays 1 for article and range, 1/4 for the article alone.")
def answers_are_those_of_the_codes_tables() -> Finding:
    wrong, ranges = 0, 0
    for book in (0, 1, 2):
        task = Statutes(book)
        for number in range(200):
            scenario = task.scenario("train", number)
            answer = _judged(str(scenario.prompt), book)
            article = answer.partition(",")[0]
            paid = [
                task.verify(text, scenario)
                for text in (
                    f"<think>so</think><answer>{answer}</answer>",
                    f"<answer>{article}, 0-1</answer>",
                    f"<answer>{article}0, {answer.partition(', ')[2]}</answer>",
                    answer,
                )
            ]
            wrong += scenario.answer != answer or paid != [1.0, 0.25, 0.0, 0.0]
            ranges += not re.fullmatch(r"art \d+, [1-9]\d*-[1-9]\d*", answer)
    return Finding(not wrong and not ranges, say(cases=600, wrong=wrong, no_range=ranges))


@claim("Cases of evaluation have patterns of article and circumstances that no case of training has.")
def cases_of_evaluation_have_other_patterns() -> Finding:
    task = Statutes()

    def patterns(split: str, count: int) -> set[tuple[str, ...]]:
        cases = [task.scenario(split, number) for number in range(count)]  # type: ignore[arg-type]
        return {(str(case.answer).partition(",")[0], *case.metadata["circumstances"]) for case in cases}

    known, unseen = patterns("train", 1000), patterns("eval", 400)
    every = 8 * 2 ** len(CIRCUMSTANCES)
    holds = not known & unseen and len(known) + len(unseen) > 0.9 * every
    return Finding(holds, say(of_training=len(known), of_evaluation=len(unseen), common=len(known & unseen)))


@claim("Of raw documents a province's share of errors grows from 0 to 40 %; of those that are selected none has one.")
def selection_leaves_no_error() -> Finding:
    errors: dict[bool, dict[int, list[float]]] = {True: {}, False: {}}
    reasons = []
    for select, by_province in errors.items():
        task = Statutes(select=select)
        for number in range(3000):
            scenario = task.scenario("train", number)
            document = scenario.metadata["demonstration"]
            by_province.setdefault(scenario.metadata["province"], []).append(task.verify(document, scenario) < 1)
            reasons.append("<think>" in document)
    raw = errors[False]
    first, last = (
        fmean(mark for place in places for mark in raw[place]) for places in (range(5), range(26, PROVINCES))
    )
    selected = sum(sum(marks) for marks in errors[True].values())
    holds = selected == 0 and len(raw) == PROVINCES and raw[0].count(True) == 0 and first < 0.06 and 0.3 < last < 0.45
    figures = say(first_five=first, last_five=last, selected=selected, with_reasons=fmean(reasons))
    return Finding(holds and abs(fmean(reasons) - 0.5) < 0.03, figures)


def _exam(pupil: Pupil, count: int = 200) -> tuple[float, float]:
    """The share of unseen patterns judged rightly, and of answers with reasons; sampled as in training."""
    task = tasks.find(TASK)
    cases = [Assignment(task.scenario("eval", number), 1, pupil.parts.decoding) for number in range(count)]
    played: Sequence[Trajectory] = run_async(pupil.parts.player.play(cases, key=Key.of(0).derive("exam")))
    return fmean(map(task.success, played)), fmean("<think>" in attempt.answer for attempt in played)


@claim(
    "RL after supervised tuning judges patterns of facts that training never had rightly more often, by at least 6 "
    "points; tuning on as many documents more does so further, and states reasons less often.",
    slow=True,
    learns=True,
)
def rl_after_tuning_is_above_its_start() -> Finding:
    """The longer tuning takes half of its documents at the rate of tuning and half at that of RL."""
    tuned = after_lessons("sft", TASK, TASK, {"curriculum.prompts": 16, "update.lr": 0.003}, steps=DOCUMENTS)
    start = _exam(tuned)
    rl = {"update.lr": RATE, "curriculum.prompts": 8}
    reinforced = _exam(after_lessons("grpo", TASK, TASK, rl, steps=DOCUMENTS).run(STEPS))
    with tempfile.TemporaryDirectory() as folder:
        tuned.run(2 * STEPS).parts.lead.policy.save(Path(folder))
        settled = begin("sft", TASK, {"curriculum.prompts": 16, "update.lr": RATE, "model": folder, "seed": 1})
        more = _exam(settled.run(2 * STEPS))
    figures = {"tuned": start, "tuned_longer": more, "then_rl": reinforced}
    holds = start[0] + 0.06 < reinforced[0] < more[0] and reinforced[1] > more[1]
    return Finding(
        holds, ", ".join(f"{name} right {right:.3f} reasons {why:.3f}" for name, (right, why) in figures.items())
    )


@claim("Every step of its pipeline has a recipe or says why not, and what it names is in the library.")
def every_step_has_a_recipe() -> Finding:
    problems = maps.problems(LEXPRO_1)
    return Finding(not problems, say(problems=len(problems), steps=len(LEXPRO_1.axes[0].cells)))
