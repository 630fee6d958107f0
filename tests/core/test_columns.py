"""Named columns: declared once, with what they hold, and no other key in `info` and `extras`."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import hocket
from hocket.core.annotators import Annotator
from hocket.core.batch import Batch
from hocket.core.columns import LABEL, TEXT, TOKEN_TEXTS, Column, InfoColumn, TurnColumn
from hocket.core.errors import ConfigurationError
from hocket.core.packing import pack
from hocket.stages import Policy
from hocket.train.annotate import annotate
from hocket.train.describe import described
from hocket.types import Scenario, Trajectory, Turn

HOUSE = Path(hocket.__file__).parent
KINDS = {kind.__name__ for kind in (Column, InfoColumn, TurnColumn, Annotator)}
HOLDERS = {"info", "extras"}
SPEAKS = re.compile(r"Column\(|Annotator\(|\binfo\b|\bextras\b")


@functools.cache
def modules() -> list[tuple[str, ast.Module]]:
    """Those that speak of columns; parsing all takes seconds."""
    texts = {path.relative_to(HOUSE).as_posix(): path.read_text(encoding="utf-8") for path in HOUSE.rglob("*.py")}
    return [(place, ast.parse(text)) for place, text in sorted(texts.items()) if SPEAKS.search(text)]


def declarations(module: ast.Module) -> Iterator[list[Any]]:
    """The arguments of every column made at the top of a module."""
    for statement in module.body:
        value = statement.value if isinstance(statement, (ast.Assign, ast.AnnAssign)) else None
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in KINDS:
            yield [argument.value if isinstance(argument, ast.Constant) else None for argument in value.args]


def keys_in(value: ast.expr | None) -> list[ast.expr]:
    """The keys of a mapping that is written out, also by a lambda."""
    value = value.body if isinstance(value, ast.Lambda) else value
    return [key for key in value.keys if key is not None] if isinstance(value, ast.Dict) else []


def keys(module: ast.Module, own: set[str]) -> Iterator[ast.expr]:
    """What stands as a key where `info` or `extras` is read or written; `own` are local names that hold such keys."""

    def held(node: ast.expr) -> bool:
        attribute = isinstance(node, ast.Attribute) and node.attr in HOLDERS
        return attribute or (isinstance(node, ast.Name) and node.id in own)

    for node in ast.walk(module):
        if isinstance(node, ast.Subscript) and held(node.value):
            yield node.slice
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and held(node.func.value):
            yield from node.args[:1] if node.func.attr in ("get", "pop", "setdefault") else []
        elif isinstance(node, ast.Compare) and any(held(one) for one in node.comparators):
            yield node.left
        elif (
            (isinstance(node, (ast.AugAssign, ast.AnnAssign)) and held(node.target))
            or (isinstance(node, ast.Assign) and any(held(one) for one in node.targets))
            or (isinstance(node, ast.keyword) and node.arg in HOLDERS)
        ):
            yield from keys_in(node.value)


def test_every_column_says_what_it_holds() -> None:
    found = {place: list(declarations(module)) for place, module in modules()}
    assert sum(map(len, found.values())) > 60
    for place, columns in found.items():
        names = [name for name, *_ in columns]
        assert len(set(names)) == len(names), place
        for name, holds, *_ in columns:
            assert name, place
            assert re.fullmatch(r"[A-Z`].* .*\.", str(holds)), f"{place}: {name}"


def test_info_and_extras_have_no_other_keys() -> None:
    """Outside the claims a key is a column's name or one that a setting gives; a claim may spell a declared one."""
    names = {name for _, module in modules() for name, *_ in declarations(module)}
    wrong = []
    for place, module in modules():
        # Simulators have dictionaries called info of their own.
        own = set() if place.startswith("agents/environments/") else HOLDERS
        for key in keys(module, own):
            word = isinstance(key, ast.Constant) and isinstance(key.value, str)
            spelt = word and not ("claims/" in place and key.value in names)  # type: ignore[attr-defined]
            # A column itself is no key of a dictionary: its name is.
            if spelt or (isinstance(key, ast.Name) and key.id.isupper()):
                wrong.append(f"{place}:{key.lineno}: {ast.unparse(key)}")
    assert not wrong, wrong


def one_trajectory(**info: Any) -> Trajectory:
    turn = Turn("agent", "policy", np.zeros(1, np.int64), np.arange(3), logp=-np.ones(3, np.float32), text="a b c")
    return Trajectory(Scenario("s"), [turn], info=info)


def test_a_column_is_read_and_one_that_is_missing_is_named() -> None:
    trajectory, other = one_trajectory(), one_trajectory()
    column = InfoColumn("mark", "A mark.")
    column.write(trajectory, 7)
    batch = pack([trajectory, other])
    assert column.get(trajectory) == 7
    assert column.get(other, 1) == 1
    assert not column.present(other)
    assert column.read(batch, "Reader") == [7, None] == column.rows(batch)
    assert TEXT.rows(batch) == [None, None]
    with pytest.raises(ConfigurationError, match="Reader reads 'text'"):
        TEXT.read(batch, "Reader")


def test_what_a_method_needs_of_every_decision_is_annotated_by_name() -> None:
    """An annotator of one's own, in one's own file."""

    def place(batch: Batch, policy: Policy, decisions: Tensor) -> Tensor:
        return torch.full((batch.decisions,), -1.0).index_copy(0, decisions, decisions.float())

    column = Annotator("place", "Where the decision stands.", place)
    batch = pack([one_trajectory()])

    class Named:
        name = "policy"

    with pytest.raises(ConfigurationError, match="Reader reads the place of every decision"):
        column.read(batch, "Reader")
    filled = annotate(batch, frozenset({column}), Named(), None)  # type: ignore[arg-type]
    assert column.read(filled, "Reader").tolist() == [0.0, 1.0, 2.0]
    assert not annotate(batch, frozenset(), Named(), None).annotations  # type: ignore[arg-type]


def test_texts_of_tokens_are_given_only_to_who_reads_them() -> None:
    class Fake:
        @staticmethod
        def decode(tokens: list[int]) -> str:
            return "abc"[tokens[0]]

        @staticmethod
        def label(trajectory: Trajectory) -> str:
            return "c"

        @staticmethod
        def history(scenario: str) -> list[float]:
            return [0.5]

    def told(*reads: Column) -> dict[str, list[Any]]:
        fake: Any = Fake()
        return described([one_trajectory()], task=fake, player=fake, ledger=fake, reads=frozenset(reads))

    assert TOKEN_TEXTS.name not in told()
    assert told(TOKEN_TEXTS)[TOKEN_TEXTS.name] == [["a", "b", "c"]]
    assert told()[LABEL.name] == ["c"]
