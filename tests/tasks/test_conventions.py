"""Signs whose meaning only the prompt can tell, and the lessons in following a prompt."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.methods.search.training_free_grpo import edited
from hocket.tasks.lessons import Lesson
from hocket.zoo.tasks.conventions import MEANINGS, Conventions


def lessons(seed: int, count: int = 300, searcher: str = "training-free-grpo") -> list[Lesson]:
    task = Conventions(seed, searcher)
    return [one for n in range(count) for one in task.lessons.play(task.scenario("train", n), np.random.default_rng(n))]


def test_an_answer_fits_one_meaning_alone_and_it_is_the_conventions() -> None:
    for seed in range(3):
        task = Conventions(seed)
        assert sorted(task.meaning.values()) == sorted(MEANINGS)
        for split in ("train", "eval"):
            for number in range(40):
                scenario = task.scenario(split, number)
                sign, one, other = str(scenario.prompt).split()
                fitting = [
                    name for name, made in MEANINGS.items() if str(made(int(one), int(other))) == scenario.answer
                ]
                assert fitting == [task.meaning[sign]]
                assert task.verify(f"{sign}={fitting[0]} {scenario.answer}", scenario) == 1
                assert task.verify(f"{sign}={fitting[0]} 99", scenario) == 0


def test_no_lesson_knows_the_convention() -> None:
    assert Conventions(0).meaning != Conventions(1).meaning
    assert lessons(0) == lessons(1)


def test_what_the_prompt_tells_is_followed_and_the_rest_guessed_evenly() -> None:
    guessed: Counter[str] = Counter()
    for lesson in lessons(0, 600, searcher=""):
        asked = [one for one in (*lesson.prompt, *lesson.said) if one["role"] == "user"]
        told = str(lesson.prompt[0]["content"]) if lesson.prompt[0]["role"] == "system" else ""
        for question, answer in zip(asked, lesson.said[::2], strict=True):
            sign, one, other = str(question["content"]).split()
            named, _, number = str(answer["content"]).partition(" ")
            meaning = named.partition("=")[2]
            assert named[0] == sign
            assert int(number) == MEANINGS[meaning](int(one), int(other))
            if f"{sign}=" in told:
                assert named in told
            else:
                guessed[meaning] += 1
    assert set(guessed) == set(MEANINGS)
    assert max(guessed.values()) < 1.3 * min(guessed.values())


def test_edits_of_the_lessons_leave_one_right_line_about_the_sign() -> None:
    kinds: Counter[str] = Counter()
    for lesson in lessons(0, 1500):
        question = str(lesson.prompt[0]["content"])
        if not question.startswith("Lessons:"):
            continue
        library = [line[3:] for line in question.partition("\nQuestion")[0].splitlines()[1:] if line[0].isdigit()]
        edit = str(lesson.said[0]["content"])
        won = question.partition("Reward 1: ")[2].partition("\n")[0]
        left = edited(library, edit, 16)
        assert [line for line in left if line[0] == won[0]] == [won]
        kinds[edit.split()[0].strip(":")] += 1
    assert set(kinds) == {"ADD", "MODIFY", "DELETE", "KEEP"}


def test_what_a_socratic_loop_is_taught_follows_from_what_it_is_shown() -> None:
    kinds: Counter[str] = Counter()
    asks: Counter[str] = Counter()
    for lesson in lessons(0, 900, searcher="mars-prompt"):
        said = (*lesson.prompt, *lesson.said)
        for question, answer in zip(said[::2], said[1::2], strict=False):
            asked, told = str(question["content"]), str(answer["content"])
            kind = next((one for one in ("Steps:", "Verdict:", "Prompt:") if asked.endswith(one)), "Question")
            if lesson.prompt[0]["role"] == "system" or "\n" not in asked:
                continue
            kinds[kind] += 1
            if kind == "Steps:":
                due = re.findall(r"Question: (.*)\nAnswer: .*\nRight answer: (.*)", asked)
                assert told == "\n".join(f"{n}. {one} is {right}" for n, (one, right) in enumerate(due, 1))
            elif kind == "Prompt:":
                *lines, leading = asked.splitlines()[:-1]
                sign, meaning = leading.removeprefix("Is ").removesuffix("?").split()
                others = [line for line in lines if line != "(none)" and line[0] != sign]
                assert told.splitlines() == sorted([f"{sign}={meaning}", *others])
            else:
                sign, one, other, _, right = asked.splitlines()[0].split()
                leading = told if kind == "Question" else asked.splitlines()[1]
                meaning = leading.removeprefix(f"Is {sign} ").removesuffix("?")
                made = MEANINGS[meaning](int(one), int(other))
                if kind == "Question":
                    assert str(made) == right
                    assert f"Not {told}" not in asked
                    asks[meaning] += 1
                else:
                    assert told == f"{sign}={meaning} {made} for {right} {'ACCEPT' if str(made) == right else 'REJECT'}"
    assert set(kinds) == {"Steps:", "Verdict:", "Prompt:", "Question"}
    assert max(asks.values()) < 1.3 * min(asks.values())


def test_what_a_memory_is_taught_follows_from_the_session_and_answers_cite_what_they_go_by() -> None:
    kinds: Counter[str] = Counter()
    for lesson in lessons(0, 600, searcher="rmm"):
        shown = str(lesson.prompt[0]["content"]) if lesson.prompt[0]["role"] == "system" else ""
        said = [one for one in (*lesson.prompt, *lesson.said) if one["role"] != "system"]
        for question, answer in zip(said[::2], said[1::2], strict=True):
            asked, told = str(question["content"]), str(answer["content"])
            if asked.endswith("Memories:"):
                sign, one, other = asked.split("\n")[0].removeprefix("User: ").split()
                meaning = told.removeprefix(f"{sign}=")
                assert str(MEANINGS[meaning](int(one), int(other))) == asked.split("\n")[2].removeprefix("User: ")
                kinds["memory"] += 1
            elif asked.endswith("Edit:"):
                near, new = asked.removesuffix("\nEdit:").split("\nNew: ")
                about = [line.split(". ") for line in near.split("\n") if line[3:4] == new[0]]
                assert told == (f"MERGE {about[0][0]}: {new}" if about else "ADD")
                kinds[told.split()[0]] += 1
            else:
                place = re.match(r"\[(\d)\] ", told)
                named = re.sub(r"^\[\d\] ", "", told).split()[0]
                assert (f"{asked[0]}=" in shown) == (place is not None)
                assert place is None or f"[{place[1]}] {named}" in shown
                kinds["cited" if place else "guessed"] += 1
    assert set(kinds) == {"memory", "MERGE", "ADD", "cited", "guessed"}


def test_settings() -> None:
    assert tasks.find("conventions?seed=2").name == "conventions?seed=2"
    with pytest.raises(
        ConfigurationError, match="searcher = 'mass' has no lessons; take one of training-free-grpo, mars-prompt"
    ):
        tasks.find("conventions?searcher=mass")
