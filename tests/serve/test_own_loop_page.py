"""docs/own-loop.md: its loop learns without an error. docs/from-tinker.md: the client's code runs against a server."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from hocket.apps.serve.tinker.command import TinkerServer
from hocket.nano import BASE

DOCS = Path(__file__).parents[2] / "docs"
LOOP, CLIENT = (
    re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)[0]
    for page in ("own-loop.md", "from-tinker.md")
)


def run(code: str) -> None:
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(code, str(DOCS), "exec"), names)


def test_the_loop_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    run(LOOP.replace("8, 8, 20", "3, 8, 2"))
    assert re.search(r"^0: reward 0\.\d+, loss ", capsys.readouterr().out)
    assert (tmp_path / "my-engine" / "optimiser.json").is_file()


def test_the_client_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tinker")
    with TinkerServer(str(BASE), "nano", tmp_path) as server:
        monkeypatch.setenv("TINKER_BASE_URL", server.address)
        monkeypatch.setenv("TINKER_API_KEY", "tml-local")
        monkeypatch.setenv("TINKER_TELEMETRY", "0")
        run(CLIENT)
    losses = [float(found) for found in re.findall(r"'loss:sum': ([\d.]+)", capsys.readouterr().out)]
    assert losses == sorted(losses, reverse=True)
    assert len(losses) == 4
