"""docs/python.md: its code runs, from top to bottom, in a clean folder."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "python.md"


def test_the_code_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)
    out = capsys.readouterr().out
    assert "there is no setting 'stepz'; did you mean 'steps'?" in out
    assert "EvaluationResult(accuracy " in out
    assert "begins at step 0\n" in out
    assert names["run"].summary["reason"] == "finished"
