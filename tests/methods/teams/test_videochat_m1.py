"""What users may get wrong with films and teams that plan together, and that a film is played end to end."""

from __future__ import annotations

import pytest

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.methods.teams.videochat_m1.method import PeersLeftOut, PlanTogether
from hocket.methods.teams.videochat_m1.task import Films, carried_out
from hocket.tasks.lessons import lessons_of
from hocket.testing import rehearse
from hocket.types import Scenario

ANYTHING = {f"agent_{n}": ["look 1", "look 2", "runs sits"] for n in (1, 2, 3)}


@pytest.mark.parametrize("scenes", [5, 100])
def test_films_have_a_length(scenes: int) -> None:
    with pytest.raises(ConfigurationError, match=rf"scenes = {scenes} must lie in \[6, 99\]"):
        tasks.find(f"films?scenes={scenes}")


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
    import numpy as np

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
