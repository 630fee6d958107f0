"""Names found where they are declared, without importing anything else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hocket.agents.search.searcher import SEARCHERS
from hocket.agents.workflows import OutsideAgent
from hocket.agents.workflows.library import library
from hocket.agents.workflows.workflow import Workflow
from hocket.apps.cli.command import ROW_COMMANDS, Command
from hocket.core.discovery import CLASS, Registry, constant
from hocket.core.errors import ConfigurationError
from hocket.core.names import ANALYSES, RECIPES, TASKS, WORKFLOWS
from hocket.core.wrappers import WRAPPERS, WorldWrapper
from hocket.lab.exact.solver import SOLVERS
from hocket.lab.exact.worlds import WORLDS
from hocket.methods.control.sysllm.summaries import SUMMARISERS
from hocket.recipe import Recipe
from hocket.recipes import all_recipes
from hocket.tasks.form import VARIANTS, TaskForm, TaskVariant

SHAPES = '''
"""Shapes."""


class Plain:
    """No name."""

    size = 1


class Round(Plain):
    """A shape."""

    name = "round"
    description = "a circle"


class Square(Plain):
    name = "square"

    name_of_side = "edge"


RED = Colour(name="red", description="like blood", family="warm")
PALE: Colour = RED.but(
    name="pale-red",
    tone=Tone(name="no colour"),
)
'''


@pytest.fixture
def shapes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A package with declarations, in files that cannot be imported."""
    package = f"shapes_{request.node.name[:40].replace('[', '_').replace(']', '')}"
    for file in ("__init__.py", "inner/__init__.py", "inner/claims/toys.py", "inner/shapes.py"):
        path = tmp_path / package / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("" if file.endswith("__init__.py") else SHAPES)
    monkeypatch.syspath_prepend(str(tmp_path))
    return package


def test_declarations_are_read_from_the_source(shapes: str) -> None:
    classes = Registry("shape", (shapes, "nowhere.at.all"), CLASS, None).declared
    assert [(one.name, one.attribute, one.description) for one in classes.values()] == [
        ("round", "Round", "a circle"),
        ("square", "Square", ""),
    ]
    assert classes["round"].module == f"{shapes}.inner.shapes"
    colours = Registry("colour", (shapes,), constant("Colour", r"[A-Z_]+\.but"), None)
    assert [(one.name, one.attribute, one.family) for one in colours.declared.values()] == [
        ("pale-red", "PALE", ""),
        ("red", "RED", "warm"),
    ]
    with pytest.raises(NameError):  # Only now is the file run.
        colours.find("red")


def test_underscores_are_hyphens_where_a_name_is_looked_up(shapes: str) -> None:
    colours = Registry("colour", (shapes,), constant("Colour", r"[A-Z_]+\.but"), None)
    assert colours.declared["pale_red"].name == colours.own["pale-red"].name == "pale-red"
    assert "pale_red" in colours
    assert list(colours.declared) == ["pale-red", "red"]
    assert len(colours.declared) == 2


def test_names_that_differ_in_underscores_alone_are_refused(shapes: str, tmp_path: Path) -> None:
    (tmp_path / shapes / "other.py").write_text('DULL = Colour(name="pale_red")\n')
    with pytest.raises(ConfigurationError, match="both declare the colour 'pale_red'; rename one"):
        _ = Registry("colour", (shapes,), constant("Colour", r"[A-Z_]+\.but"), None).declared


@pytest.mark.parametrize("registry", [ANALYSES, RECIPES, SEARCHERS, SOLVERS, SUMMARISERS, TASKS, WORKFLOWS, WORLDS])
def test_all_names_are_spelled_with_hyphens(registry: Registry) -> None:
    assert [name for name in registry.own if "_" in name] == []
    for name in registry.own:
        assert registry.declared[name.replace("-", "_")].name == name


def test_unknown_names_get_a_sentence(shapes: str) -> None:
    known = Registry("shape", (shapes,), CLASS, None)
    with pytest.raises(ConfigurationError, match=r"there is no shape 'Rounds'; did you mean 'round'\?; a file is FILE"):
        known.find("Rounds")
    with pytest.raises(ConfigurationError, match=r"shape 'x\.py' names a file alone; write x\.py:NAME for a shape"):
        known.find("x.py")
    with pytest.raises(ConfigurationError, match=r"shape: there is no file x\.py"):
        known.find("x.py:A")
    assert "round" in known
    assert "Rounds" not in known


def test_two_things_of_one_name_are_refused(shapes: str) -> None:
    with pytest.raises(ConfigurationError, match="both declare the shape 'round'; rename one"):
        _ = Registry("shape", (shapes, f"{shapes}.inner"), CLASS, None).declared


def test_installed_packages_declare_more(shapes: str, tmp_path: Path) -> None:
    about = tmp_path / "shapes-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: shapes\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[test.shapes]\nmine = {shapes}.inner\n")
    known = Registry("shape", (), CLASS, "test.shapes")
    assert not known.own
    assert set(known.declared) == {"round", "square"}


def test_every_declared_thing_is_what_its_source_says() -> None:
    workflows = {name: one.load() for name, one in WORKFLOWS.declared.items()}
    assert all(issubclass(kind, Workflow) and kind.name == name for name, kind in workflows.items())
    assert {name: kind.description for name, kind in workflows.items() if name in library()} == {
        name: one.description for name, one in library().items()
    }
    assert workflows["outside:"] is OutsideAgent
    kinds = ((TASKS, TaskForm), (VARIANTS, TaskVariant), (WRAPPERS, WorldWrapper), (ROW_COMMANDS, Command))
    for registry, kind in kinds:
        assert registry.declared
        for name, one in registry.declared.items():
            found = one.load()
            assert isinstance(found, kind)
            assert (found.name, found.description) == (name, one.description)
    for name, one in TASKS.declared.items():
        assert one.load().family == one.family, name


def test_recipes_are_found_so() -> None:
    assert {name: one.load() for name, one in RECIPES.own.items()} == all_recipes()
    assert isinstance(RECIPES.find("grpo"), Recipe)


def test_finding_one_imports_no_other() -> None:
    code = (
        "import sys; from hocket.agents.workflows.library import find; find('agentflow'); "
        "print(sorted(m for m in sys.modules if m.startswith(('hocket.methods.teams', 'hocket.methods.agents.a'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "['hocket.methods.agents.agentflow']", done.stderr
