"""ReAd: what is logged and kept, what a task tells of its episodes, lessons, and what is refused."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from statistics import fmean
from typing import Any

import pytest

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.claims.lesson_data import after_lessons
from hocket.methods.teams.claims.read_advantage_feedback import ALONE, FEW, SMALL, TAUGHT, episode, task_of
from hocket.methods.teams.read_advantage_feedback import PROPOSED, READ, AdvantageFeedback, LoggedCritic, sensible
from hocket.testing import Part
from hocket.types import Scenario


def test_nobody_is_judged_at_first_the_latest_steps_are_kept_and_a_copy_resumes() -> None:
    pupil = after_lessons(READ.but({"hooks.0.keep": 40}), SMALL, TAUGHT, FEW, steps=1)
    refused, sizes = list[float](), list[int]()
    for _ in range(2):
        pupil.run(1)
        everything = [*pupil.results[-1].trajectories, *pupil.results[-1].discarded]
        refused.append(fmean(len(said) for one in everything for row in PROPOSED.get(one) for said in row.values()))
        memory: Any = pupil.parts.hooks.memories["LoggedCritic"]
        sizes.append(len(memory["inputs"]))
    assert refused[1] > refused[0] == 1
    assert sizes == [40, 40]
    hook = LoggedCritic(keep=40)
    assert hook.restore(hook.state(memory, pupil.parts), pupil.parts) == memory == hook.begin(pupil.parts, memory)


def test_refused_counts_proposals_beyond_the_first() -> None:
    made = episode(AdvantageFeedback(agents=1), task_of(ALONE).scenario("train", 0), Part("go 2", otherwise="go 2"))
    for tried, share in (
        ([], 0),
        ([{"alice": [(0.0, "a")] * 3, "bob": [(0.0, "b")]}, {"alice": [(0.0, "c")]}], 2 / 3),
    ):
        PROPOSED.write(made, tried)
        assert task_of("advised_carry").describe(made)["refused"] == pytest.approx(share)


def test_replies_are_read_by_their_last_line_unless_the_name_says_otherwise() -> None:
    flows = [task_of(name).workflow for name in ("advised_carry", "advised_carry?reading=answer")]
    assert [type(one.reading).__name__ for one in flows] == ["LastLine", "Tagged"]
    assert not flows[0].instruct


def test_what_is_sensible_leaves_to_others_what_they_go_for() -> None:
    seen = "Rooms 1 to 9, 3 a row.\nalice in 1 with nothing. bob in 1 with nothing.\n"
    seen += "To do: fetch hat (in 2), fetch cup (in 9).\nYou: bob in 1 with nothing. Here: nothing."
    assert [sensible(seen, others) for others in ({}, {"alice": "go 2"}, {"alice": "wait"})] == ["go 2", "go 9", "go 2"]


def test_in_lessons_a_third_of_first_proposals_is_anything_and_the_sensible_one_follows_a_refusal() -> None:
    task, anything, values = task_of("advised_carry"), list[bool](), list[float]()
    for number in range(40):
        lessons = task.lessons.play(task.scenario("train", number), Key.of(number).numpy())
        talks = [(str(one.prompt[0]["content"]), str(one.said[0]["content"])) for one in lessons]
        for (asked, said), (then, _) in itertools.pairwise([*talks, ("", "")]):
            good = sensible(asked, dict(re.findall(r"^(\w+) will (.+)\.$", asked, re.MULTILINE)))
            if "\nRefused: " in asked:
                assert said == good
                continue
            told = re.search(r"\nRefused: (.+) \(([-+][0-9.]+)\)\.$", then)
            assert (said != good) == (told is not None and told[1] == said)
            anything.append(said != good)
            values += [float(told[2])] if said != good and told else []
    assert 0.25 < fmean(anything) < 0.37
    assert -0.2 <= min(values) < -0.15
    assert -0.05 < max(values) <= 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AdvantageFeedback(agents=5), "agents = 5 is 1 to 4"),
        (lambda: AdvantageFeedback(rounds=-1), "rounds = -1"),
        (lambda: LoggedCritic(keep=0), "keep = 0"),
        (lambda: LoggedCritic(wait=0), "wait = 0"),
        (lambda: LoggedCritic(ridge=0.0), "ridge = 0.0"),
        (
            lambda: episode(AdvantageFeedback(), task_of("advised_carry?team=3").scenario("eval", 0), Part()),
            "plays worlds of task carry with 2",
        ),
        (lambda: episode(AdvantageFeedback(), Scenario("s"), Part()), "plays worlds of task carry"),
    ],
)
def test_settings_out_of_range_and_other_worlds_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises((ValueError, ConfigurationError), match=message):
        make()
