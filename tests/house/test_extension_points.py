"""The page of extension points is true: its names exist with the signatures it gives, and its examples train."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import TINY, call

from hocket.apps.cli.parser import build_parser
from hocket.recipes import GRPO
from hocket.train.settings import Config

PAGE = (Path(__file__).parents[2] / "docs" / "extension-points.md").read_text()
EXAMPLES = {
    file: (text, command)
    for file, text, command in re.findall(
        r"```python\n# (\w+\.py)\n(.*?)```\n\n    (hocket train .*?)\n", PAGE, re.DOTALL
    )
}


def rows() -> Iterator[tuple[str, str, str, str]]:
    """What is brought, the base class, the signature and the flag of each row of the table."""
    for line in PAGE.splitlines():
        if line.startswith("| ") and not line.startswith("| you bring"):
            brought, base, signature, flag = line.strip("| ").split(" | ")
            yield brought, base, signature, flag


CLASSES = [
    (path, signature)
    for _, base, signature, _ in rows()
    for path in re.findall(r"`(hocket\.[a-z_.]+\.[A-Z]\w+)`", base)[:1]
]


def test_the_table_is_read() -> None:
    assert len(list(rows())) > 40
    assert len(CLASSES) > 25
    assert len(EXAMPLES) == 6


@pytest.mark.parametrize(("path", "signature"), CLASSES)
def test_members_are_those_of_the_class(path: str, signature: str) -> None:
    base = loaded(path)
    for asynchronous, name, parameters in re.findall(r"`(async )?(\w+)(\([^`)]*\))?`", signature):
        if name == base.__name__:
            continue
        member = getattr(base, name, None)
        if not parameters:
            assert name in vars(base) or name in annotations(base) or hasattr(base, name), f"{path} has no {name}"
            continue
        assert member is not None, f"{path} has no {name}"
        taken = [one.name for one in inspect.signature(member).parameters.values() if one.name != "self"]
        written = [one.strip("*") for one in parameters.strip("()").split(", ") if one]
        assert written == taken, f"{path}.{name} takes {taken}"
        assert inspect.iscoroutinefunction(member) == bool(asynchronous), f"{path}.{name}"


def loaded(path: str) -> Any:
    """What a dotted path names."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def annotations(base: type) -> set[str]:
    """The annotated names of a class and its bases."""
    return {name for one in base.__mro__ for name in vars(one).get("__annotations__", {})}


@pytest.mark.parametrize("path", sorted(set(re.findall(r"hocket(?:\.[a-z_]+)+\.[A-Z]\w+", PAGE))))
def test_names_exist(path: str) -> None:
    assert inspect.isclass(loaded(path))


def test_flags_exist() -> None:
    commands = next(action for action in build_parser()._actions if action.dest == "command").choices
    assert isinstance(commands, dict)
    settings = {*vars(Config()), *vars(GRPO)}
    for _, _, _, flag in rows():
        for command, name in re.findall(r"`(?:hocket (\w+) )?--(\w+)", flag):
            known = {option for action in commands[command or "train"]._actions for option in action.option_strings}
            assert f"--{name}" in known or (not command and name in settings), flag


@pytest.mark.parametrize("file", EXAMPLES)
def test_examples_train(file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, command = EXAMPLES[file]
    (tmp_path / file).write_text(text)
    monkeypatch.chdir(tmp_path)
    ended = call(*command.split()[1:], *TINY, "--steps", "1", "--lessons", "0", "--run", "one", "--quiet")
    assert ended.code == 0, ended.err
