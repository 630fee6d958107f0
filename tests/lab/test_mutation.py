"""Mutation: wrong versions of a method are made, put in place, and noticed or not."""

from __future__ import annotations

import json

import pytest

from hocket.cli.parser import main
from hocket.core.errors import ConfigurationError
from hocket.lab.claims.mutants import of_code, of_recipe
from hocket.lab.claims.mutation import mutate, within
from hocket.recipes import find

SOURCE = """
class Stage:
    margin: float = 0.5

    def __post_init__(self):
        if self.margin < 0:
            raise ValueError(f"{1 + 1}")

    def __call__(self, a, b):
        if not a < b and b:
            return a - 0.25 * b
        return min(a, -b)

MINE = GRPO.but(name="mine", **{"objective.low": 0.1})
"""


def test_expressions_are_changed_one_at_a_time_and_checks_of_settings_stay() -> None:
    found = list(of_code(SOURCE))
    assert [(one.line, one.name) for one in found] == [
        (10, "not a < b and b -> not a < b or b"),
        (10, "not a < b -> a < b"),
        (10, "a < b -> a >= b"),
        (11, "a - 0.25 * b -> a + 0.25 * b"),
        (11, "a - 0.25 * b -> a"),
        (11, "0.25 * b -> 0.25"),
        (11, "0.25 -> 10.0"),
        (12, "min(a, -b) -> max(a, -b)"),
        (12, "-b -> b"),
    ]
    trees = {compile(one.code(), "changed", "exec").co_consts for one in found if one.code is not None}
    assert len(trees) == len(found)


def test_own_settings_of_a_recipe_are_set_back_dropped_and_moved() -> None:
    names = [one.name for one in of_recipe("DAPO", find("dapo"))]
    assert "dapo: rollout = Independent" in names
    assert "dapo: shaping = ()" in names
    assert "dapo: objective.high = 0.0" in names
    assert not [name for name in names if "objective.low" in name]  # That is its parent's.


def test_an_unknown_row_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigurationError, match="no check is known for 'gmop'"):
        list(mutate("gmop"))
    assert main(["recipes", "--mutate", "gmop"]) == 2
    assert "gmpo" in capsys.readouterr().err


def test_survivors_are_listed_by_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["recipes", "--mutate", "maxrl", "--quick", "--json"])
    (row,) = json.loads(capsys.readouterr().out)
    killed = {one["mutant"]: one["killed"] for one in row["mutants"]}
    assert killed["maxrl: credit = GroupRelative"] is not None
    unnoticed = [one for one in row["mutants"] if one["killed"] is None and one["reason"] is None]
    assert code == (1 if unnoticed else 0)
    assert len(unnoticed) < len(row["mutants"])


def test_a_mutant_ends_although_it_takes_every_error_for_a_failed_episode() -> None:
    def endless() -> str | None:
        while True:
            try:
                while True:
                    pass
            except Exception:
                continue

    assert within(0.2, endless) == "it does not end"
    assert within(5.0, lambda: "a claim") == "a claim"
    assert within(5.0, lambda: None) is None
    assert within(5.0, lambda: str(1 / 0)) == "ZeroDivisionError: division by zero"
