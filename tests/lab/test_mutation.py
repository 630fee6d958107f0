"""Mutation: wrong versions of a method are made, put in place, and noticed or not."""

from __future__ import annotations

import importlib
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hocket.apps.cli.parser import main
from hocket.apps.report import mutants
from hocket.apps.report.mutants import OPEN, mutants_page
from hocket.core.errors import ConfigurationError
from hocket.core.user_files import load_file
from hocket.lab.claims import digests, record, survey
from hocket.lab.claims.mutants import of_code, of_recipe
from hocket.lab.claims.mutation import asked, mutants_of, mutate, surveyed, within
from hocket.lab.claims.reach import PlacedMutant, boundaries, folder_modules, imported, put_in_functions, reached_by
from hocket.lab.claims.registry import checks_of
from hocket.lab.claims.survey import Survey
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


OWN = """
from hocket.lab.claims.harness import Claims, Finding
from hocket.methods.base.grpo import GRPO

MINE = GRPO.but(name="half-grpo", **{"objective.low": 0.1})

def half(value):
    return value / 2.0

claim = Claims("half-grpo", "nowhere")

@claim("Half of four is two.")
def _() -> Finding:
    return Finding(half(4.0) == 2.0, "")
"""


def test_a_file_of_ones_own_is_tried_and_its_claims_stay_as_they_are(tmp_path: Path, capsys) -> None:
    file = tmp_path / "half.py"
    file.write_text(OWN)
    found = {mutant.name: mutant for mutant in mutants_of(load_file(file))}
    assert "half-grpo: objective.low = 0.0" in found
    assert {mutant.line for mutant in found.values()} == {0, 8}
    outcomes = {one.mutant: one.killed for one in mutate(str(file))}
    assert set(outcomes) == set(found)
    assert outcomes["value / 2.0 -> value"] == "Half of four is two."
    assert outcomes["half-grpo: objective.low = 0.0"] is None
    assert main(["recipes", "--mutate", str(file), "--keep"]) == 2
    assert "--keep saves results of the library's own rows" in capsys.readouterr().err


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


@pytest.fixture
def kept_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the methods' sources whose surveys are read and kept; the file of gmpo's method."""
    methods = tmp_path / "hocket" / "methods"
    shutil.copytree(digests.METHODS, methods, ignore=shutil.ignore_patterns("__pycache__", "*.json", "*.jsonl"))
    for place in (record, digests, mutants):
        monkeypatch.setattr(place, "METHODS", methods)
    digests.read_module.cache_clear()
    yield methods / "group_relative" / "gmpo.py"
    digests.read_module.cache_clear()


def test_a_survey_stands_while_the_method_and_the_claims_that_noticed_something_do(kept_here: Path) -> None:
    first, *others = map(survey.digest_of, checks_of("gmpo"))
    whole = Survey(survey.made_from("gmpo"), frozenset([first]), {first: 16}, {3: "a + b -> a"})
    survey.keep("gmpo", whole)
    assert survey.standing("gmpo") == whole == survey.kept("gmpo")
    new = asked("gmpo", slow=True, known=whole)
    assert {survey.digest_of(check) for check in new} == set(others)  # Only those that are new are run.

    survey.keep("gmpo", replace(whole, noticed={"a claim that is gone": 16}))
    assert survey.standing("gmpo") is None

    survey.keep("gmpo", whole)
    text = kept_here.read_text()
    kept_here.write_text(text.replace("low=0.4", "low=0.5"))
    digests.read_module.cache_clear()
    assert text != kept_here.read_text()
    assert survey.standing("gmpo") is None
    assert survey.kept("gmpo") == whole
    assert "| gmpo (its method has changed since) | 17 | 16 | 0 | 1 |" in mutants_page()


def test_only_what_nothing_noticed_is_tried_again() -> None:
    everything = list(mutate("maxrl"))
    place = next(one.place for one in everything if one.killed is not None and one.line)
    before = Survey(survey.made_from("maxrl"), frozenset(), {"": 3}, {place: everything[place].mutant})
    (again,) = mutate("maxrl", known=before)
    assert again == everything[place]
    after = surveyed("maxrl", [again], slow=False, known=before)
    assert (after.tried, after.unnoticed, after.noticed) == (4, {}, {"": 3, again.by: 1})


def test_the_page_tells_reasons_where_claims_give_them(kept_here: Path) -> None:
    claims = kept_here.parent / "claims" / "gmpo.py"
    claims.write_text(claims.read_text() + '\nclaim.spares("a + b -> a", "b is 0")\n')
    unnoticed = {3: "a + b -> a", 5: "-a -> a", 7: "a + b -> a"}
    survey.keep("gmpo", Survey(survey.made_from("gmpo"), frozenset(), {"": 14}, unnoticed))
    page = mutants_page()
    assert "17 wrong versions of 1 rows; 14 noticed, 2 spared, 1 unexplained." in page
    assert "| gmpo | 17 | 14 | 2 | 1 |" in page
    assert page.count("- `a + b -> a`: b is 0") == 1
    assert f"- `-a -> a`: {OPEN}" in page


def test_comparisons_are_moved_at_their_boundary_alone() -> None:
    assert [(one.line, one.name) for one in boundaries(SOURCE)] == [(10, "a < b -> a <= b")]
    (found,) = boundaries("def least(a, b):\n    return a >= b, a == b\n")
    assert found.code is not None
    names: dict[str, Any] = {}
    exec(compile(found.code(), "changed", "exec"), names)
    assert (names["least"](1, 1), names["least"](2, 1)) == ((False, True), (True, False))


SHARED = """
from functools import lru_cache

LIMIT = 1 < 2

@lru_cache
def far(a):
    return a > 1

class Piece:
    @property
    def size(self):
        return helper(2)

    @staticmethod
    def sign(a):
        return [one < 0 for one in a]

def helper(a):
    return a - 1

def other(a):
    return a - 2
"""


def test_a_shared_piece_is_changed_for_all_who_have_imported_it(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "shared_piece.py").write_text(SHARED)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("shared_piece")
    far, piece = module.far, module.Piece()
    for one in boundaries(SHARED):
        put_in_functions(PlacedMutant(one.name, one.line, one.code, module="shared_piece"))
        assert far(1) is (one.name == "a > 1 -> a >= 1")
        assert module.Piece.sign([0]) == [one.name == "one < 0 -> one <= 0"]
        far.cache_clear()
    changed = next(one for one in of_code(SHARED) if one.name == "a - 1 -> a + 1")
    put_in_functions(PlacedMutant(changed.name, changed.line, changed.code, module="shared_piece"))
    assert (piece.size, module.other(2)) == (3, 0)


def test_a_row_reaches_its_boundaries_its_folder_and_the_pieces_that_it_names() -> None:
    assert imported("from hocket.credit.group import GroupRelative\nfrom hocket.methods.base.grpo import GRPO\n") == {
        "hocket.credit.group": {"GroupRelative"}
    }
    package = "hocket.methods.teams.llm4mac"
    assert folder_modules(f"{package}.method") == [f"{package}.task", f"{package}.world"]
    assert folder_modules("hocket.methods.group_relative.maxrl") == []
    found = reached_by(importlib.import_module(f"{package}.method"))
    names = {one.name for one in found if one.module == f"{package}.world"}
    assert "methods.teams.llm4mac.world: len(senders) == 1 -> len(senders) != 1" in names
    assert {one.module for one in found} >= {"hocket.credit.each_agent", f"{package}.task"}
    own = reached_by(importlib.import_module("hocket.methods.preference.parl"))
    assert "len(members) > 1 -> len(members) >= 1" in {one.name for one in own}


@pytest.mark.slow
def test_claims_are_run_on_a_changed_piece_of_the_rooms() -> None:
    module = importlib.import_module("hocket.methods.group_relative.maxrl")
    places = {one.name: place for place, one in enumerate(reached_by(module))}
    name = next(one for one in places if one.startswith("credit."))
    before = Survey(survey.made_from("maxrl", reach=True), frozenset(), {}, {places[name]: name})
    (outcome,) = mutate("maxrl", known=before, reach=True)
    assert (outcome.mutant, outcome.place) == (name, places[name])
    assert outcome.killed is not None


def test_what_methods_stand_on_has_a_file_and_a_table_of_its_own(kept_here: Path) -> None:
    whole = Survey(survey.made_from("gmpo", reach=True), frozenset(), {"": 9}, {2: "credit.group: a < b -> a <= b"})
    survey.keep("gmpo", whole, reach=True)
    assert survey.kept("gmpo") is None
    assert survey.standing("gmpo", reach=True) == whole
    page = mutants_page()
    assert "10 wrong versions of 1 rows; 9 noticed, 0 spared, 1 unexplained." in page
    assert f"- `credit.group: a < b -> a <= b`: {OPEN}" in page
