"""`hocket init`: every kind of project is whole, its files fit together, and nothing is overwritten."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hocket import tasks
from hocket.apps.cli.parser import main
from hocket.apps.init.project import KINDS, TEMPLATES, make_project
from hocket.core.errors import ConfigurationError
from hocket.train.config import configure, read_pairs

MODULES = ("env", "recipe", "reward", "task", "team", "test_project", "tools")


@pytest.fixture(params=KINDS)
def project(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A new project, with its folder as the current one and its modules free to be imported."""
    folder = tmp_path / "mine"
    make_project(folder, request.param)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    for module in MODULES:
        sys.modules.pop(module, None)


def test_its_tests_pass(project: Path) -> None:
    module = importlib.import_module("test_project")
    tests = [value for name, value in inspect.getmembers(module, inspect.isfunction) if name.startswith("test_")]
    assert len(tests) >= 3
    for test in tests:
        test()


def test_its_configuration_names_its_files(project: Path) -> None:
    pairs = read_pairs(Path("config.yaml"))
    task = tasks.find(dict(pairs)["task"])
    config = configure(pairs, task)
    assert config.total_steps >= 40
    assert config.task.startswith(("task.py:", "env.py:"))
    assert (project / "README.md").read_text().startswith("# mine\n")
    named = "".join(map(str, dict(pairs).values()))
    assert all(f"{file.stem}.py:" in named for file in project.glob("*.py") if file.stem != "test_project")


def test_a_readme_is_short_and_every_template_has_the_same_parts() -> None:
    for kind in KINDS:
        files = {file.name for file in (TEMPLATES / kind).iterdir() if file.is_file()}
        assert files >= {"README.md", "config.yaml", "recipe.py", "test_project.py"}
        assert len((TEMPLATES / kind / "README.md").read_text().splitlines()) <= 12


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", "new", "--kind", "team", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["kind"] == "team"
    assert all((tmp_path / "new" / name).is_file() for name in told["files"])
    before = {file: file.read_bytes() for file in (tmp_path / "new").iterdir()}
    assert main(["init", "new"]) == 2
    assert "nothing is overwritten" in capsys.readouterr().err
    assert {file: file.read_bytes() for file in (tmp_path / "new").iterdir()} == before
    assert main(["init", "other", "--kind", "tool"]) == 2
    assert "did you mean 'tools'" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()
    assert main(["init", "other", "--update.lr", "1"]) == 2
    assert "takes no settings" in capsys.readouterr().err


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="nothing is overwritten"):
        make_project(tmp_path / "file", "text")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_it_improves_and_its_types_hold(kind: str, tmp_path: Path) -> None:
    """With the figures of the pages: success, or the return of control, before and after the run."""
    folder = tmp_path / "mine"
    make_project(folder, kind)
    # An editable install is found by a hook that mypy does not see.
    environment = {**os.environ, "MYPYPATH": str(Path(__file__).parents[2])}

    def python(*arguments: str) -> str:
        command = [sys.executable, "-m", *arguments]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    python("pytest", "-q")
    python("mypy", "--strict", "--ignore-missing-imports", "--follow-imports=silent", ".")
    summary = json.loads(python("hocket", "train", "config.yaml", "--quiet", "--json"))
    measure = summary["measure"]
    least = {"text": 0.15, "tools": 0.5, "team": 0.15, "control": 10.0}[kind]
    assert summary["after"][measure] - summary["before"][measure] >= least
