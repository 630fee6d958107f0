"""Each page of docs/first-hour runs from a clean folder, and ends with the trained thing in use.

Quick: its commands in this process, with two steps. Slow: its commands as they stand, with the figures it states.
"""

from __future__ import annotations

import json
import re
import runpy
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from tiny_runs import call

DOCS = Path(__file__).parents[2] / "docs" / "first-hour"
PAGES = sorted(page.stem for page in DOCS.glob("*.md"))
FENCE = re.compile(r'^```(?P<language>\w+)(?: title="(?P<file>[^"]+)")?\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL)

FIGURES = {  # The run that a page trains, the least it gains, and the least it ends with.
    "text": ("prices", 0.9, 0.9),
    "control": ("cart", 5.0, 50.0),
    "team": ("table", 0.25, 0.85),
    "method": ("median", 0.4, 0.7),
}


@dataclass(frozen=True)
class Page:
    """A page's files and commands.

    Attributes:
        files: text by name. commands: in the order of the page.
    """

    files: dict[str, str]
    commands: list[list[str]]

    @staticmethod
    def read(name: str) -> Page:
        """The page of this name."""
        fences = list(FENCE.finditer((DOCS / f"{name}.md").read_text()))
        files = {fence["file"]: fence["text"] for fence in fences if fence["file"]}
        lines = [line for fence in fences if fence["language"] == "bash" for line in fence["text"].splitlines()]
        return Page(files, [shlex.split(line, comments=True) for line in lines])

    def write(self, folder: Path, **changes: str) -> None:
        """Writes the files, with every pattern of `changes` replaced."""
        for name, text in self.files.items():
            for old, new in changes.items():
                text = re.sub(old, new, text)
            (folder / name).write_text(text)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_on_a_screen_and_uses_what_it_trained(name: str) -> None:
    assert len((DOCS / f"{name}.md").read_text().splitlines()) <= 60
    page = Page.read(name)
    assert any(command[:2] == ["hocket", "train"] for command in page.commands)
    assert ["python", "use.py"] in page.commands
    assert "hocket.load(" in page.files["use.py"] or "run.load()" in page.files["use.py"]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = Page.read(name)
    page.write(tmp_path, **{r"steps=\d+": "steps=1", r"range\(1000\)": "range(60)"})
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for file in page.files:
        monkeypatch.delitem(sys.modules, Path(file).stem, raising=False)
    for command in page.commands:
        if command[0] == "python":
            runpy.run_path(command[1], run_name="__main__")
            continue
        short = command[1:]
        for flag, value in (("--steps", "2"), ("--n", "8"), ("--samples", "2")):
            if flag in short:
                short[short.index(flag) + 1] = value
        if command[1] == "train":
            short += ["--evaluation.n", "8", "--evaluation.between", "4"]
        if command[1] == "study":
            short += ["--dry-run"]
        ended = call(*short)
        assert ended.code == 0, (command, ended.err)
    for file in page.files:
        sys.modules.pop(Path(file).stem, None)
    assert capsys.readouterr().out.strip(), "use.py prints what it got"


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_a_page_gets_what_it_states(name: str, tmp_path: Path) -> None:
    page = Page.read(name)
    page.write(tmp_path)
    for command in page.commands:
        program = [sys.executable, "-m", "hocket"] if command[0] == "hocket" else [sys.executable]
        subprocess.run([*program, *command[1:]], cwd=tmp_path, check=True, timeout=600)
    run, gain, final = FIGURES[name]
    summary = json.loads((tmp_path / "runs" / run / "summary.json").read_text())
    measure = summary["measure"]
    assert summary["gain"] >= gain
    assert summary["after"][measure] >= final
