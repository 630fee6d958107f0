"""What users may get wrong with films and teams that plan together, and that a film is played end to end."""

from __future__ import annotations

import numpy as np
import pytest

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.methods.teams.claims.videochat_m1 import film
from hocket.methods.teams.videochat_m1.method import PeersLeftOut, PlanTogether
from hocket.methods.teams.videochat_m1.task import Films, carried_out, memory, readable, steps_of
from hocket.tasks.lessons import lessons_of
from hocket.testing import rehearse
from hocket.types import Scenario
from hocket.zoo.tasks.clips import DOES, TOOLS

ANYTHING = {f"agent_{n}": ["look 1", "look 2", "runs sits"] for n in (1, 2, 3)}


@pytest.mark.parametrize("scenes", [5, 100])
def test_films_have_a_length(scenes: int) -> None:
    with pytest.raises(ConfigurationError, match=rf"scenes = {scenes} must lie in \[6, 99\]"):
        tasks.find(f"films?scenes={scenes}")


@pytest.mark.parametrize("scenes", [6, 12, 24])
def test_of_a_film_the_word_asked_about_is_in_one_track_alone_at_two_scenes_a_third_apart(scenes: int) -> None:
    task, tracks = Films(scenes), []
    for number in range(120):
        one = task.scenario(("train", "eval")[number % 2], number // 2)  # type: ignore[arg-type]
        clip, cue, places = (one.metadata[name] for name in ("clip", "cue", "places"))
        at = {tool: [n for n, frame in enumerate(clip, 1) if frame.get(tool) == cue] for tool in TOOLS}
        assert sorted(at.values(), key=len) == [[], places]
        assert places[1] - places[0] >= scenes // 3
        assert one.answer == " ".join(clip[n - 1]["seen"].split()[1] for n in places)
        assert (task.verify(f"<answer>{one.answer}</answer>", one), task.verify(f"{one.answer} too", one)) == (1.0, 0.0)
        assert len(clip) == scenes
        assert all({frame.get(tool) for frame in clip} - {None} for tool in TOOLS)
        tracks.append(one.metadata["track"])
    assert 0.35 < tracks.count("sounds") / len(tracks) < 0.65


@pytest.mark.parametrize(
    ("step", "text", "legal", "bears"),
    [
        ("sounds bell", "2 5", True, True),
        ("signs bell", "none", True, False),
        ("sounds horn", "3", True, False),
        ("signs horn", "1 4", True, False),
        ("look 2", f"cat {DOES[1]}", True, True),
        ("look 1", f"cat {DOES[0]}", True, False),
        ("look 7", "error", False, False),
        ("look 0", "error", False, False),
    ],
)
def test_a_search_answers_with_scenes_and_a_look_with_what_is_seen(
    step: str, text: str, legal: bool, bears: bool
) -> None:
    found = carried_out(step, film().metadata["clip"], "bell")
    assert (found.text, found.legal, found.bears) == (text, legal, bears)


def test_plans_are_calls_and_memory_tells_each_once() -> None:
    plans = {"Sounds bell; look 2": True, "look 2 look 3": True, "look 2, please": False, "hm": False, "": False}
    assert {text: readable(text) for text in plans} == plans
    assert steps_of("First SOUNDS bell, then look 12.") == ["sounds bell", "look 12"]
    steps = ("look 2", "signs bell", "look 1", "sounds bell", "look 2")
    lines = memory([carried_out(step, film().metadata["clip"], "bell") for step in steps])
    assert lines == f"signs bell: none\nsounds bell: 2 5\nlook 1: cat {DOES[0]}\nlook 2: cat {DOES[1]}"
    assert memory([]) == "nothing"


@pytest.mark.parametrize("settings", [{"agents": 0}, {"calls": 0}, {"form": -1.0}, {"process": -0.1}, {"own": 1.5}])
def test_teams_have_agents_calls_and_weights(settings: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match="agents and calls are at least 1, form and process at least 0"):
        PlanTogether(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("metadata", [{}, {"clip": [{"seen": "cat runs"}]}, {"clip": [{}], "cue": "bell"}])
def test_a_scenario_without_a_film_is_refused(metadata: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match="scenario s has none; take --task films, or rows with columns clip"):
        rehearse(PlanTogether(), Scenario("s", "?", "runs", metadata=metadata), ANYTHING)


def test_dropout_is_a_chance() -> None:
    with pytest.raises(ValueError, match=r"dropout is a chance, in \[0, 1\], not 1.5"):
        PeersLeftOut(dropout=1.5)


def test_one_agent_with_one_call_answers_alone() -> None:
    task = Films(6)
    case = task.scenario("train", 0)
    (one,) = rehearse(
        PlanTogether(agents=1, calls=1), case, {"agent_1": ["look 1", str(case.answer)]}, verifier=task.verify
    )
    assert one.scores["team"].value == 0.5
    assert one.info["tool_calls"] == 1


def test_lessons_hold_calls_that_can_be_carried_out_and_are_no_solution() -> None:
    task = Films(12)
    lessons = lessons_of(task)
    assert lessons is not None
    right = answers = 0
    for number in range(60):
        case = task.scenario("train", number)
        talks = lessons.play(case, np.random.default_rng(number))
        assert len(talks) == lessons.talks
        for talk in talks:
            said = str(talk.said[0]["content"])
            if "Answer?" in str(talk.prompt[0]["content"]):
                answers += 1
                right += said == case.answer
            else:
                clip, cue = case.metadata["clip"], case.metadata["cue"]
                assert all(carried_out(step, clip, cue).legal for step in said.split("; "))
    assert 0.05 < right / answers < 0.5
