"""The clips of ReAgent-V."""

from __future__ import annotations

import pytest

from hocket.core.errors import ConfigurationError
from hocket.methods.search.claims.reagent_v import TASK
from hocket.methods.search.reagent_v import ClipAgent, named_tools, read_grade, read_revision
from hocket.testing import rehearse
from hocket.types import Scenario
from hocket.zoo.tasks.clips import picked, relevance, shown


def test_frames_are_picked_by_what_they_share_with_the_question() -> None:
    wrong = 0
    for number in range(60):
        one = TASK.scenario("train", number)
        clip, question = one.metadata["clip"], str(one.prompt)
        who = question.split()[3]
        mine = [place for place, frame in enumerate(clip) if frame["seen"].startswith(who)]
        others = [place for place in range(len(clip)) if place not in mine]
        wrong += picked(clip, question, 3) != sorted((mine + others)[:3])
        wrong += relevance(clip[0], question) != (0.5 if 0 in mine else 0.0)
    clip = [{"seen": "cat runs", "sounds": "bell"}, {"seen": "dog sits"}, {"seen": "cat hops", "sounds": "horn"}]
    told = shown(clip, [0, 2], ["sounds", "signs"]) == "1 cat runs; 3 cat hops\nsounds: 1 bell; 3 horn\nsigns: none"
    assert wrong == 0
    assert told


def test_an_answer_is_what_a_reader_of_the_whole_clip_finds() -> None:
    wrong, tools = 0, set()
    for number in range(200):
        one = TASK.scenario("train", number)
        clip, words = one.metadata["clip"], str(one.prompt).strip("?").split()
        tool, who = one.metadata["tool"], words[3]
        start = next(n for n, frame in enumerate(clip) if frame.get(tool) == words[-1]) + 1 if tool else 0
        done = [frame["seen"].split()[1] for frame in clip[start:] if frame["seen"].split()[0] == who]
        wrong += one.answer != (done[-1] if words[-1] == "last" else done[0])
        tools.add(tool)
    assert wrong == 0
    assert tools == {"", "sounds", "signs"}


def test_a_scenario_without_a_clip_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="--task clips"):
        rehearse(ClipAgent(), Scenario("s", "What is 1 + 1?"), {role: [] for role in ClipAgent.roles})


def test_revisions_grades_and_tools_are_read() -> None:
    revisions = {
        "<answer>a</answer> 7": ("a", 0.7), "<answer>B.</answer>, 10 of ten": ("b", 1.0), "a 7": (None, 0.0),
        "<answer>a</answer> sure": (None, 0.0), "3 <answer>x</answer> 12": (None, 0.0),
    }  # fmt: skip
    grades = {"8 sounds": 0.8, "10": 1.0, "good": 0.0, "0": 0.0}
    tools: dict[str, list[str]] = {"Signs, sounds": ["sounds", "signs"], "none": [], "soundsystem": []}
    assert {text: read_revision(text) for text in revisions} == revisions
    assert {text: read_grade(text) for text in grades} == grades
    assert {text: named_tools(text) for text in tools} == tools
