"""The Python of docs/environments.md runs as it stands."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from hocket.tasks.environment import EnvironmentTask
from hocket.testing import rehearse

PAGE = Path(__file__).parents[2] / "docs" / "environments.md"


def test_the_page_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyspiel")
    own, exact = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    module = ModuleType("mine")
    monkeypatch.setitem(sys.modules, "mine", module)
    names = vars(module)
    exec(compile(own, "mine.py", "exec"), names)
    task = names["task"]
    assert isinstance(task, EnvironmentTask)
    played = rehearse(task.workflow, task.scenario("train", 0), lambda messages: "two")[0]
    assert played.failure is None
    assert sorted(played.info["returns"].values()) == [-1, 1]
    forfeited = rehearse(task.workflow, task.scenario("train", 0), lambda messages: "three")[0]
    assert sorted(forfeited.info["returns"].values()) == [-1, 1]

    exec(compile(exact, "exact.py", "exec"), names)
    assert names["even"] == pytest.approx(11 / 12)
    # What the page says of the shipped model.
    assert names["found"].illegal_met > 0.999
    assert capsys.readouterr().out
