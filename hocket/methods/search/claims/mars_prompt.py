"""MARS's claims."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from statistics import fmean
from typing import Any

from hocket.agents.search.plain import RandomMutation
from hocket.agents.search.searcher import SearchBench, Searcher
from hocket.core.texts import Texts
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.claims.prompt_checks import SearchOutcome, random_lines, sought, told_of
from hocket.lab.texts_worlds import InstructedPolicy, Mentors, calls_to, searched
from hocket.methods.search.mars_prompt import MARS_PROMPT, Socratic

claim = Claims("mars-prompt", "arXiv:2503.16874")
SEEDS = range(16)
LONG = Socratic(turns=10, patience=60)
STEERED: Mapping[str, Any] = {"budget": 500, "evaluation": 48}


def all_seeds(
    searcher: Searcher, budget: int = 3000, *, wise: float = 0.5, critic: float = 1.0, start: str = ""
) -> list[SearchBench]:
    """A search per seed, in a world of six kinds of question whose best prompt has six rules and no myth."""
    found = []
    for seed in SEEDS:
        reflect = Mentors(wise=wise, critic=critic, seed=seed)
        texts = Texts({"policy": start} if start else {})
        found.append(searched(InstructedPolicy(), reflect, searcher, seed=seed, budget=budget, start=texts))
    return found


@claim(
    "The loop reaches the known best prompt in every seed, with fewer target calls than random mutation has need of."
)
def the_loop_reaches_the_known_best_prompt_in_every_seed_with_fewer() -> Finding:
    ours = [calls_to(bench) for bench in all_seeds(LONG)]
    blind = [calls_to(bench) for bench in all_seeds(RandomMutation(patience=50))]
    fewer = all(one < other for one, other in zip(ours, blind, strict=True))
    return Finding(fewer and max(ours) < 3000, say(calls=ours, random_mutation=blind))


@claim("So it does as shipped, where the shipped number of turns suffices: more of the best prompt at equal calls.")
def so_it_does_as_shipped_where_the_shipped_number_of_turns() -> Finding:
    ours = [bench.best.score for bench in all_seeds(MARS_PROMPT.searcher, 120)]
    blind = [bench.best.score for bench in all_seeds(RandomMutation(patience=50), 120)]
    return Finding(fmean(ours) > fmean(blind) + 0.1, say(accuracy=ours, random_mutation=blind))


@claim("What it returns is never worse on development than the start, whoever speaks.")
def what_it_returns_is_never_worse_on_development_than_the_start() -> Finding:
    benches = [
        bench
        for wise in (0.0, 0.5, 1.0)
        for bench in all_seeds(LONG, 200, wise=wise, critic=0.5, start="Rule 0. Rule 1. Rule 2.")
    ]
    worse = sum(bench.best.score < bench.trials[0].score for bench in benches)
    bad = sum(min(trial.score for trial in bench.trials) < bench.best.score for bench in benches)
    return Finding(worse == 0 and bad > 0, say(searches=len(benches), worse=worse, with_worse_candidates=bad))


@claim("A critic that knows saves target calls against having none; one that is right half the time saves none.")
def a_critic_that_knows_saves_target_calls_against_having_none_one() -> Finding:
    knows, coin = (fmean(calls_to(one) for one in all_seeds(LONG, 400, critic=c)) for c in (1.0, 0.5))
    none = fmean(calls_to(one) for one in all_seeds(replace(LONG, critic=False), 400))
    holds = knows < 0.6 * none and coin > 0.8 * none
    return Finding(holds, say(calls_with_one_that_knows=knows, half_right=coin, without=none))


@claim("A teacher who hints at nothing right gains nothing.")
def a_teacher_who_hints_at_nothing_right_gains_nothing() -> Finding:
    gains = [bench.best.score - bench.trials[0].score for bench in all_seeds(LONG, 400, wise=0.0, critic=0.5)]
    return Finding(max(gains) == 0, say(gains=gains))


def heard(
    searcher: Searcher, says: Callable[[str], str], budget: int = 400, **how: Any
) -> tuple[SearchBench, list[str]]:
    """A search whose roles answer by `says`, and all that they were asked."""
    asked: list[str] = []

    def reflect(question: str) -> str:
        asked.append(question)
        return says(question)

    return searched(InstructedPolicy(), reflect, searcher, budget=budget, **how), asked


@claim("A rejected question never reaches the student, and the teacher hears why before it asks again.")
def a_rejected_question_never_reaches_the_student_and_the_teacher() -> Finding:
    _, asked = heard(LONG, Mentors(wise=0.3))
    myths = [one for one in asked if one.startswith("You are the student") and "What of Myth" in one]
    remarks = [one for one in asked if one.startswith("You are the teacher") and "The critic rejected" in one]
    return Finding(not myths and len(remarks) > 5, say(students_shown_rejected=len(myths), told_why=len(remarks)))


@claim(
    "A step of the plan has as many questions as said, each with its number; one that is rejected is asked twice more."
)
def a_step_of_the_plan_has_as_many_questions_as_said_each_with_its() -> Finding:
    told = dict[str, tuple[object, ...]]()
    for verdict in ("ACCEPT", "REJECT"):

        def says(question: str, verdict: str = verdict) -> str:
            return verdict if question.startswith("You are the critic") else speaking(question)

        _, asked = heard(Socratic(turns=2, retries=2, patience=60), says)
        taught = [one for one in asked if one.startswith("You are the teacher")]
        numbers = [number for one in taught for number in re.findall(r"question \(number (\S+)\)", one)]
        studied = sum(one.startswith("You are the student") for one in asked)
        rising = sorted(numbers, key=float) == numbers and len(numbers) == len(taught)
        told[verdict] = (len(taught), len(set(numbers)), studied, rising)
    return Finding(told == {"ACCEPT": (4, 4, 4, True), "REJECT": (12, 12, 0, True)}, str(told))


@claim("So many prompts in a row that are no better end the search, and a better one begins the count anew.")
def so_many_prompts_in_a_row_that_are_no_better_end_the_search_and() -> Finding:
    found = []
    for third, (examples, practice) in itertools.product(("Rule 0.", None), ((2, 12), (5, 3))):
        students = itertools.count(1)

        def says(question: str, third: str | None = third, students: Iterator[int] = students) -> str:
            student = question.startswith("You are the student")
            return third if student and next(students) == 3 and third else speaking(question)

        bench, asked = heard(Socratic(turns=9, patience=4, examples=examples), says, 2000, practice=practice)
        found.append((len(bench.trials) - 1, asked[0].count("Answer: ")))
    return Finding(found == [(7, 2), (7, 3), (4, 2), (4, 3)], str(found))


@functools.cache
def conventions(*, shuffled: bool = False) -> dict[int, SearchOutcome]:
    """Searches by a small language model in all seats; the last six conventions were not looked at before."""
    return {
        seed: sought("mars-prompt", seed=seed, shuffled=shuffled, through=shuffled, **STEERED) for seed in range(12)
    }


@claim(
    "A small language model in all seats, taught to follow a prompt and to plan, ask, judge and rewrite but never this "
    "convention: what its signs mean is found by text alone, wholly for two conventions in three or more, each rises "
    "by more than .3; no weight changes, and random lines find less in more target calls.",
    slow=True,
)
def a_small_language_model_in_all_seats_taught_to_follow_a_prompt() -> Finding:
    found = conventions()
    blind = {
        seed: sought("random-mutation", course="mars-prompt", seed=seed, reflect=random_lines, **STEERED)
        for seed in found
    }
    ours, others = list(found.values()), list(blind.values())
    chance = fmean(one.start for one in ours) < 0.35
    wholly = fmean(one.best >= 0.9 * one.ceiling for one in ours)
    rises = all(one.best > one.start + 0.3 and one.evaluation[1] > one.evaluation[0] + 0.3 for one in ours)
    less = fmean(one.best for one in ours) > fmean(one.best for one in others) + 0.15
    fewer = fmean(one.calls for one in ours) < 0.7 * fmean(one.calls for one in others)
    same = all(one.same for one in ours)
    holds = chance and wholly >= 2 / 3 and rises and less and fewer and same
    return Finding(holds, f"wholly {wholly:.2f}, {told_of(found, blind)}")


@claim(
    "Where right answers are dealt out anew, to look at and to choose by, less than a fifth of that is gained on "
    "unseen questions.",
    slow=True,
)
def where_right_answers_are_dealt_out_anew_to_look_at_and_to_choose() -> Finding:
    gains = {
        name: [one.evaluation[1] - one.evaluation[0] for one in found.values()]
        for name, found in (("answers", conventions()), ("shuffled", conventions(shuffled=True)))
    }
    return Finding(fmean(gains["shuffled"]) < 0.2 * fmean(gains["answers"]), say(gain_from=gains))


def speaking(question: str) -> str:
    """A reflecting model whose student always has another version."""
    if question.startswith("You are the planner"):
        return "1. Say what is asked.\n2. Say how to answer."
    if question.startswith("You are the critic"):
        return "ACCEPT: it helps."
    asked = re.search(r"\d+\.\d+", question)
    if question.startswith("You are the student"):
        return f"Add the numbers, as asked in part {asked[0] if asked else 0}."
    return f"What is asked in part {asked[0] if asked else 0}?"


claim.searched(MARS_PROMPT, speaking)
