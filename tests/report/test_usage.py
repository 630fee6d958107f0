"""Who uses what, on a package of a few files."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest

from hocket.apps.cli.parser import main
from hocket.apps.report import usage
from hocket.apps.report.definitions import read_package
from hocket.apps.report.usage import DefinitionUsage, is_claim, row_of, unused, usages

FILES = {
    "__init__": "",
    "apps/cli/__init__": "",
    "apps/cli/parser": """
        from hocket import kernels
        from hocket.credit import Reached
        from hocket.train.loop import train

        def main(argv):
            from hocket.core.lazy import late
            train(task="sums", compute=kernels)
            return Reached, late
        """,
    "kernels": "def gate(): ...",
    "train/__init__": "",
    "train/loop": '''
        def train(task, compute):
            """Not a use: `hocket.core.texts.mentioned`."""
            return "hocket.core.texts.named", "from hocket.core.texts import started; started()"

        def forgotten():
            return train
        ''',
    "core/__init__": "",
    "core/lazy": "def late(): ...",
    "core/texts": """
        named = mentioned = started = None
        FIRST, SECOND = 1, 2
        _private = 3

        # Why.
        def tall():
            ...
        """,
    "credit/__init__": "",
    "credit/reached": "class Reached: ...",
    "credit/single": "class Single: ...\n\nclass Shared: ...\n\nclass ClaimedOnly: ...",
    "tasks/__init__": "",
    "tasks/forms": """
        SUMS = TaskForm(name="sums", make=0)
        MAZE = TaskForm(name="maze", make=0)
        NESTED = TaskForm(name="verified:TASK", make=0)
        OTHER = TaskForm(name="other", make=0)
        RIVER = WorldFamily(name="river", make=0)

        class Chat:
            name = "plain-chat"
        """,
    "methods/__init__": "",
    "methods/base/__init__": "",
    "methods/base/parent": "from hocket.credit import Shared\nPARENT = Recipe(Shared)\n\ndef helper(): ...",
    "methods/teams/__init__": "",
    "methods/teams/flat": """
        from hocket.credit.single import Shared, Single
        from hocket.methods.base.parent import PARENT

        FLAT = PARENT.but(
            name="flat", credit=(Shared, Single), task=f"verified:maze?width={3}", notes={"workflow": "any: plain-chat"}
        )
        """,
    "methods/teams/folder/__init__": "",
    "methods/teams/folder/method": "FOLDER = Recipe(world='river:3')",
    "methods/teams/claims/__init__": "",
    "methods/teams/claims/flat": """
        from hocket.credit.single import ClaimedOnly
        def _():
            return 1
        def _():
            return ClaimedOnly
        """,
}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        file = tmp_path / "hocket" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text))
    return tmp_path / "hocket"


@pytest.fixture
def users(package: Path) -> dict[str, DefinitionUsage]:
    return {one.name.removeprefix("hocket."): one for one in usages(package)}


def test_the_engine_is_what_commands_reach(users: dict[str, DefinitionUsage]) -> None:
    """By an import at the top or in a function, through a package or a module handed on, by a dotted text or a name."""
    reached = {name for name, one in users.items() if one.engine}
    assert reached == {
        *("apps.cli.parser.main", "train.loop.train", "kernels.gate", "core.lazy.late", "credit.reached.Reached"),
        *("core.texts.named", "core.texts.started", "tasks.forms.SUMS"),
    }


def test_rows_use_what_their_methods_and_claims_reach(users: dict[str, DefinitionUsage]) -> None:
    assert (users["credit.single.Single"].users, users["credit.single.Single"].enough) == ("flat", False)
    assert (users["credit.single.Shared"].users, users["credit.single.Shared"].enough) == ("flat, parent", True)
    assert users["credit.single.ClaimedOnly"].users == "claims of flat"
    assert users["train.loop.forgotten"].users == users["core.texts.mentioned"].users == "nobody"


def test_declared_names_are_uses(users: dict[str, DefinitionUsage]) -> None:
    by_name = {name: users[f"tasks.forms.{name}"].users for name in ("MAZE", "NESTED", "OTHER", "RIVER", "Chat")}
    assert by_name == {"MAZE": "flat", "NESTED": "flat", "OTHER": "nobody", "RIVER": "folder", "Chat": "flat"}


def test_lines_are_those_from_the_statement_before(package: Path) -> None:
    texts = read_package(package)["hocket.core.texts"].definitions
    assert [(one.name, one.line, one.lines) for one in texts.values() if one.public] == [
        *(("named", 2, 2), ("mentioned", 2, 0), ("started", 2, 0)),
        *(("FIRST", 3, 1), ("SECOND", 3, 0), ("tall", 7, 4)),
    ]


def test_what_is_unused_is_listed(package: Path) -> None:
    names = [one.definition.name for one in unused(package)]
    assert "Single" in names
    assert "Shared" not in names
    assert "_private" not in names


def test_rows_are_files_or_folders() -> None:
    assert row_of("hocket.methods.teams.flat") == row_of("hocket.methods.teams.claims.flat") == "flat"
    assert row_of("hocket.methods.teams.folder.method") == row_of("hocket.methods.teams.folder.claims") == "folder"
    assert row_of("hocket.methods.teams.claims.folder.world") == row_of("hocket.methods.teams.folder") == "folder"
    assert row_of("hocket.methods.teams") is row_of("hocket.methods") is row_of("hocket.credit.gae") is None
    assert is_claim("hocket.methods.teams.claims.flat")
    assert not is_claim("hocket.lab.claims.claim")


def test_the_command_lists_them(
    package: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few = unused(package)
    monkeypatch.setattr(usage, "unused", lambda: few)
    assert main(["primitives", "--unused", "--json"]) == 0
    listed = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert listed["hocket.credit.single.Single"] == {
        "name": "hocket.credit.single.Single",
        "line": 1,
        "lines": 1,
        "engine": False,
        "rows": ["flat"],
        "claims": [],
    }
    assert main(["primitives", "--unused"]) == 0
    page = capsys.readouterr().out
    assert "Single" in page
    assert "claims of flat" in page
    assert f"{len(few)} definitions" in page
