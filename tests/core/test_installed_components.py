"""Stages of an installed package: written by their dotted path, read again, and resumed with."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tiny_runs import resume, rows, train

from hocket.core.components import from_plain, load_type, to_plain, type_name
from hocket.core.errors import ConfigurationError
from hocket.methods.base.grpo import GRPO
from hocket.recipe import Recipe

CREDIT = """
from dataclasses import dataclass, replace

from hocket.stages import Credit


@dataclass(frozen=True)
class Doubled(Credit):
    factor: float = 2.0

    def __call__(self, batch):
        seen = batch.occurrences
        return replace(seen, advantage=self.factor * seen.weight.double())


class Bare:
    pass


def plain():
    pass
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    folder = tmp_path / "installed" / "hocket_recipes_of_mine"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "credits.py").write_text(CREDIT)
    monkeypatch.syspath_prepend(folder.parent)
    yield "hocket_recipes_of_mine.credits"
    for name in [name for name in sys.modules if name.startswith(folder.name)]:
        del sys.modules[name]


def test_a_class_of_a_package_is_written_by_its_path_and_read_again(package: str) -> None:
    made = GRPO.but({"credit": {"type": f"{package}.Doubled", "factor": 3.0}})
    plain = to_plain(made)
    assert plain["credit"] == {"type": f"{package}.Doubled", "factor": 3.0}
    assert from_plain(plain) == made


def test_a_room_is_told_by_its_whole_name(package: str) -> None:
    assert type_name(Recipe) == "hocket.recipe.Recipe"
    assert type_name(load_type(f"{package}.Doubled")) == f"{package}.Doubled"
    imitation = type("Mine", (), {"__module__": "hocket.recipes"})
    assert type_name(imitation) == "hocket.recipes.Mine"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("credits.Dubled", "has no 'Dubled'; did you mean 'Doubled'"),
        ("credits.Bare", "is no dataclass"),
        ("credits.plain", "is no dataclass"),
        ("nothing.Doubled", "nothing cannot be imported"),
        ("credits.", "package.module.NAME"),
    ],
)
def test_what_is_no_component_is_refused(package: str, name: str, words: str) -> None:
    root = package.partition(".")[0]
    with pytest.raises(ConfigurationError, match=words):
        GRPO.but({"credit": {"type": f"{root}.{name}"}})


def test_a_run_with_a_stage_of_a_package_resumes(package: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(f"credit: {{type: {package}.Doubled}}\n")
    train(tmp_path, "mine", file, steps=2)
    assert f"{package}.Doubled" in (tmp_path / "mine" / "config.yaml").read_text()
    for name in [name for name in sys.modules if name.startswith(package.partition(".")[0])]:
        del sys.modules[name]
    resume(tmp_path, "mine", "--steps", "3", "--quiet")
    assert rows(tmp_path / "mine")[-1]["step"] == 3
