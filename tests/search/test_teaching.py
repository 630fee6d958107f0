"""Lessons before a search, and the words of its questions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.methods.search.mars_prompt import Socratic
from hocket.methods.search.training_free_grpo import SemanticAdvantage
from hocket.tasks.lessons import lessons_of
from hocket.train.optimise.run import SearchRun, SearchSettings, resumed, searcher_of
from hocket.train.optimise.target import fingerprint
from hocket.train.optimise.teaching import lesson_steps, lessons_for


def test_the_shipped_model_is_taught_where_the_task_teaches_what_the_searcher_asks() -> None:
    task = tasks.find("conventions")
    steps = lessons_for(task, "training-free-grpo").lessons.steps
    assert steps != lessons_of(task).steps  # type: ignore[union-attr]
    assert lesson_steps(task, "nano", "training-free-grpo", None) == steps
    assert lesson_steps(task, "nano", "training-free-grpo", 0) == 0
    assert lesson_steps(task, "smollm2", "training-free-grpo", None) == 0
    assert lesson_steps(task, "nano", "optagent", None) == 0
    assert lesson_steps(task, "smollm2", "optagent", 7) == 7
    assert lesson_steps(tasks.find("sums"), "nano", "training-free-grpo", None) == 0
    with pytest.raises(ConfigurationError, match="sums has no lessons"):
        lesson_steps(tasks.find("sums"), "nano", "training-free-grpo", 5)
    with pytest.raises(ConfigurationError, match=r"mine.py:answers cannot be trained"):
        lesson_steps(task, "mine.py:answers", "training-free-grpo", 5)


def test_a_search_teaches_once_and_goes_on_with_what_was_taught(tmp_path: Path) -> None:
    settings = SearchSettings(
        "conventions", "training-free-grpo", 8, practice=4, development=4, evaluation=2, lessons=1, longest=4
    )
    said: list[str] = []
    run = SearchRun(settings, tmp_path / "run", remark=said.append)
    found = run.run()
    assert said == [lessons_for(run.task, "training-free-grpo").remark(1)]
    untaught = SearchRun(SearchSettings("conventions"), tmp_path / "other").target
    assert found["weights"] == fingerprint(run.target.policies) != fingerprint(untaught.policies)
    again = SearchRun(resumed(tmp_path / "run"), tmp_path / "run", remark=said.append).run()
    assert again == found
    assert len(said) == 1


def test_wordings_are_the_tasks_where_the_model_reflects_itself() -> None:
    def asks(**more: Any) -> str:
        asked = SearchSettings("conventions", "training-free-grpo", **more)
        return searcher_of(asked, tasks.find(asked.task))[1].merge  # type: ignore[attr-defined, no-any-return]

    assert asks() == "Proposed:\n{edits}\nMerged:"
    assert asks(pairs=(("searcher.merge", "{edits}"),)) == "{edits}"
    assert asks(reflector="nano") == SemanticAdvantage().merge


def test_a_wording_that_nothing_fills_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"searcher.contrast has a placeholder \{answers\} that nothing fills"):
        SemanticAdvantage(contrast="{question} {answers}")
    with pytest.raises(ConfigurationError, match=r"searcher\.merge cannot be filled in"):
        SemanticAdvantage(merge="{edits")
    with pytest.raises(ConfigurationError, match=r"searcher.study has a placeholder \{step\} that nothing fills"):
        Socratic(study="{prompt} {step}")
