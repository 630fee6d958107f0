"""The Python of docs/using.md runs as it stands, with fewer steps."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "using.md"


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("gymnasium")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 3
    quick = '"nano", **{"threads": 1, "precision": "fp32"})'
    shorter = 'steps=1, **{"evaluation.n": 2, "curriculum.prompts": 2, "update.epochs": 1})'
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks:
        for long, short in (
            ("steps=10)", shorter),
            ('"nano")', quick),
            ("n=20", "n=2"),
            ("evaluate(50)", "evaluate(2)"),
        ):
            block = block.replace(long, short)
        exec(compile(block, "page.py", "exec"), names)
    printed = capsys.readouterr().out.splitlines()
    assert float(printed[0].split()[0]) >= 8
    assert "5" in printed[1]
    assert (tmp_path / "reward.svg").is_file()
    assert (tmp_path / "nano-copy" / "config.json").is_file()
    assert (tmp_path / "cartpole" / "config.yaml").is_file()
    assert len(names["messages"]) == 4
