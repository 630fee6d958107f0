"""The page about adding a method is true: its file's claim runs, it trains and resumes, and it can be installed."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tiny_runs import call, resume, rows, train

from hocket.core.components import to_plain
from hocket.core.names import RECIPES
from hocket.lab.claims.registry import checks_of
from hocket.recipes import find

PAGE = Path(__file__).parents[2] / "docs" / "adding-a-method.md"
PACKAGE = "hocket_methods_of_mine"


def code() -> str:
    """The file that the page shows."""
    block = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert block is not None
    return block[1]


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    file = tmp_path / "mine.py"
    file.write_text(code())
    return file


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package with the method in it, as an installer leaves one."""
    site = tmp_path / "site"
    about = site / f"{PACKAGE}-1.0.dist-info"
    for folder in (site / PACKAGE, about):
        folder.mkdir(parents=True)
    (site / PACKAGE / "__init__.py").touch()
    (site / PACKAGE / "median.py").write_text(code())
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[hocket.methods]\nmine = {PACKAGE}\n")
    monkeypatch.syspath_prepend(str(site))
    importlib.invalidate_caches()
    vars(RECIPES).pop("declared", None)
    yield
    vars(RECIPES).pop("declared", None)
    forget()


def forget() -> None:
    """As a new process: the package is not imported yet."""
    for name in [name for name in sys.modules if name.startswith(PACKAGE)]:
        del sys.modules[name]


def test_its_claim_holds_through_the_command_line(mine: Path) -> None:
    checked = call("recipes", "--check", mine, "--json")
    assert checked.code == 0, checked.err
    (row,) = checked.json
    assert (row["id"], row["verdict"], len(row["checks"])) == ("median-grpo", "works", 2)
    shown = call("recipes", f"{mine}:MEDIAN_GRPO", "--json").json
    assert (shown["name"], shown["parent"]) == ("median-grpo", "grpo")
    assert shown["composition"]["credit"]["type"] == f"{mine}:MedianBaseline"


def test_a_claim_that_fails_says_so(mine: Path) -> None:
    broken = mine.with_name("broken.py")
    broken.write_text(mine.read_text().replace("rewards.quantile(0.5)", "rewards.mean()"))
    checked = call("recipes", "--check", broken, "--json")
    assert checked.code == 1
    assert checked.json[0]["verdict"] == "fails"


def test_it_trains_and_resumes_from_the_run_alone(mine: Path, tmp_path: Path) -> None:
    train(tmp_path, "median", "--recipe", f"{mine}:MEDIAN_GRPO", "--task", "sums", steps=2)
    assert f"{mine}:MedianBaseline" in (tmp_path / "median" / "config.yaml").read_text()
    resume(tmp_path, "median", "--steps", "3", "--quiet")
    assert rows(tmp_path / "median")[-1]["step"] == 3


@pytest.mark.usefixtures("installed")
def test_an_installed_package_offers_it_by_name(tmp_path: Path) -> None:
    assert to_plain(find("median-grpo"))["credit"]["type"] == f"{PACKAGE}.median.MedianBaseline"
    assert [check().holds for check in checks_of("median-grpo")] == [True, True]
    train(tmp_path, "median", "--recipe", "median-grpo", "--task", "sums", steps=2)
    forget()
    resume(tmp_path, "median", "--steps", "3", "--quiet")
    assert rows(tmp_path / "median")[-1]["step"] == 3
