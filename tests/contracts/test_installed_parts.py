"""Wrappers of worlds, variants of tasks and commands of an installed package, found beside the library's own."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tiny_runs import call

from hocket import tasks
from hocket.apps.cli.command import ROW_COMMANDS
from hocket.core.errors import ConfigurationError
from hocket.core.wrappers import WRAPPERS, WorldWrapper
from hocket.tasks.form import VARIANTS
from hocket.tasks.joint import JointTask

PACKAGE = "hocket_parts_of_mine"

PARTS = '''
"""Parts."""

from dataclasses import dataclass

from hocket.apps.cli.command import Command
from hocket.core.wrappers import WorldWrapper
from hocket.agents.environments.wrapper import WrappedWorld
from hocket.zoo.joint.paths import LifelongPaths
from hocket.tasks.form import TaskVariant
from hocket.tasks.joint import JointTask
from hocket.zoo.tasks.paths import paths_task


class MyTask(JointTask):
    """Mine."""


@dataclass(frozen=True)
class Dim(WrappedWorld):
    """A world in less light."""

    light: float = 1.0

    def open(self, width):
        return self.world.open(width)


DIM = WorldWrapper(
    name="light=NUMBER&dusk=BOOL",
    description="less light",
    settings={"light": float, "dusk": bool},
    layer=2,
    wrap=lambda world, light=1.0, dusk=False: Dim(world, 0.5 if dusk else light),
    form=MyTask,
    suggested={"steps": 7},
    clash=lambda given: "dusk and flicker; drop one" if given.get("dusk") and "flicker" in given else None,
)

MINE = TaskVariant(
    name="mapf:mine",
    description="mine",
    make=lambda name, settings: paths_task(name, settings, {}, LifelongPaths),
)

GREET = Command(
    name="greet",
    description="says hello to somebody",
    details="Says hello to somebody, at length.",
    flags=lambda parser: parser.add_argument("who"),
    run=lambda options, pairs: print(f"hello {options.who} {pairs} {options.json}") or 3,
)
'''


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file with the parts, in a package as an installer leaves one."""
    about = tmp_path / f"{PACKAGE}-1.0.dist-info"
    for folder in (tmp_path / PACKAGE, about):
        folder.mkdir()
    (tmp_path / PACKAGE / "__init__.py").write_text(PARTS)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[hocket.methods]\nmine = {PACKAGE}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    forget()
    yield tmp_path / PACKAGE / "__init__.py"
    forget()


def forget() -> None:
    """As a new process: nobody has looked for installed packages yet."""
    from hocket.core.discovery import sources

    sources.cache_clear()
    for registry in (WRAPPERS, VARIANTS, ROW_COMMANDS):
        vars(registry).pop("declared", None)
    sys.modules.pop(PACKAGE, None)


def wrapped(name: str) -> list[str]:
    """The classes of a task's world, outermost first."""
    task = tasks.find(name)
    assert isinstance(task, JointTask)
    found, world = [], task.world
    while world is not None:
        found.append(type(world).__name__)
        world = getattr(world, "world", None)
    return found


@pytest.mark.usefixtures("installed")
def test_a_wrapper_stands_in_its_layer() -> None:
    assert wrapped("mpe:flee?light=0.5") == ["Dim", "Flee"]
    assert wrapped("mpe:flee?attack=noise&flicker=2&light=0.5") == ["Attacked", "Dim", "Flickering", "Flee"]
    assert wrapped("mpe:flee?dusk=true&messages=3") == ["Messaged", "Dim", "Flee"]


@pytest.mark.usefixtures("installed")
def test_a_wrapper_brings_a_form_and_suggestions() -> None:
    task = tasks.find("mpe:flee?light=0.5")
    assert type(task).__name__ == "MyTask"
    assert task.suggested["steps"] == 7
    assert tasks.find("mpe:flee?light=0").suggested["steps"] == 60


@pytest.mark.usefixtures("installed")
def test_settings_that_clash_or_are_unknown_are_refused_with_what_wrappers_take() -> None:
    with pytest.raises(ConfigurationError, match=r"^task mpe:flee: dusk and flicker; drop one$"):
        tasks.find("mpe:flee?dusk=true&flicker=2")
    with pytest.raises(ConfigurationError, match=r"^task mpe:flee has no setting 'lihgt'; did you mean 'light'\?$"):
        tasks.find("mpe:flee?lihgt=1")
    with pytest.raises(ConfigurationError, match=r"light.*messages.*traitor"):
        tasks.find("mpe:flee?xyzzy=1")
    with pytest.raises(ConfigurationError, match="has no setting 'traitor'") as refused:
        tasks.find("mapf:once?traitor=1")
    assert "traitor" not in str(refused.value).partition(";")[2]


def test_a_wrapper_names_all_its_settings() -> None:
    with pytest.raises(ValueError, match="'light=NUMBER' has the settings light, dusk; name just these"):
        WorldWrapper("light=NUMBER", "", {"light": float, "dusk": bool}, 1, lambda world: world)


@pytest.mark.usefixtures("installed")
def test_a_variant_is_found_by_its_form_and_not_listed() -> None:
    assert tasks.find("mapf:mine?agents=2").name == "mapf:lifelong"
    assert "mapf:mine" not in [entry.name for entry in tasks.catalogue()]
    with pytest.raises(ConfigurationError, match="did you mean 'mine'"):
        tasks.find("mapf:mien")


@pytest.mark.usefixtures("installed")
def test_a_command_is_listed_without_its_file_and_run_with_it() -> None:
    assert "  greet       says hello to somebody\n" in call("--help").out
    assert PACKAGE not in sys.modules
    assert "Says hello to somebody, at length." in call("greet", "--help").out
    done = call("greet", "you", "--a.b", "1", "--json")
    assert (done.code, done.out) == (3, "hello you [('a.b', 1)] True\n")
    assert "did you mean 'greet'" in call("gret").err


def test_a_command_of_the_librarys_name_is_refused(installed: Path) -> None:
    installed.write_text(PARTS.replace('"greet"', '"train"'))
    forget()
    done = call("doctor")
    assert done.code == 2
    assert f"{PACKAGE} brings a command 'train', and there is one already; rename it" in done.err


@pytest.mark.parametrize(
    ("code", "loaded"),
    [
        ("hocket.tasks.find('mpe:spread?messages=3')", ["messages=SYMBOLS"]),
        ("hocket.tasks.find('mapf:planned?length=9')", ["mapf:lifelong", "mapf:once", "mapf:planned"]),
        ("hocket.apps.cli.parser.main([])", []),
    ],
)
def test_no_other_file_is_imported(code: str, loaded: list[str]) -> None:
    script = f"""
import json, sys, hocket.tasks, hocket.apps.cli.parser
from hocket.apps.cli.command import ROW_COMMANDS
{code}
from hocket.core.wrappers import WRAPPERS
from hocket.tasks.form import VARIANTS
all = [one for known in (VARIANTS, WRAPPERS, ROW_COMMANDS) for one in known.own.values()]
print(json.dumps([one.name for one in all if one.module in sys.modules]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == loaded
