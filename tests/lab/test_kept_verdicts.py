"""Kept verdicts: they belong to the code they were made from."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from hocket.apps.cli.parser import main
from hocket.lab.claims import digests, record
from hocket.lab.claims.claim import Check, Finding, Verdict
from hocket.lab.claims.registry import checks_of, files

MINE = """
from hocket.lab.claims.harness import Claims, Finding

claim = Claims("mine", "here")


@claim("one is one")
def _() -> Finding:
    return Finding(True, "1")


@claim("two is one")
def _() -> Finding:
    return Finding(False, "2")
"""


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the library's sources whose verdicts are read and kept, those of a few rows of the code as it is."""
    package = tmp_path / "hocket"
    shutil.copytree(digests.METHODS.parent, package, ignore=shutil.ignore_patterns("__pycache__", "*.so", "base.bin"))
    for place in (record, digests):
        monkeypatch.setattr(place, "METHODS", package / "methods")
    for cached in (record.recorded, digests.read_module):
        cached.cache_clear()
    for row in ("mrt", "gigpo", "mashost", "gmpo"):
        asked = checks_of(row)
        verdicts = [Verdict(one.row, one.claim, True, "seen", 0.1, one.shipped) for one in asked]
        record.keep(verdicts, {row: asked})
    yield package
    for cached in (record.recorded, digests.read_module):
        cached.cache_clear()


def changed(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    record.recorded.cache_clear()
    digests.read_module.cache_clear()


def test_a_flipped_sign_in_a_method_makes_its_verdicts_stale(copied: Path) -> None:
    assert record.status_of(("mrt",), "", ships=False) == "works"
    before = set(record.stale_rows())
    changed(copied / "methods/group_relative/mrt.py", "class ProgressBonus", "# flipped\n\n\nclass ProgressBonus")
    assert record.status_of(("mrt",), "", ships=False) == "works"  # A remark changes nothing.
    changed(copied / "methods/group_relative/mrt.py", '    source="', '    note="less",\n    source="')
    assert record.status_of(("mrt",), "", ships=False) == "works"  # Nor does what a recipe says of itself.
    changed(copied / "methods/group_relative/mrt.py", '"""', '"""More words: ')
    assert record.status_of(("mrt",), "", ships=False) == "works"  # Nor a docstring.
    changed(copied / "methods/group_relative/mrt.py", "self.alpha", "-self.alpha")
    assert record.status_of(("mrt",), "", ships=False) == "stale"
    assert set(record.stale_rows()) - before == {"mrt"}


def test_a_changed_piece_of_a_room_makes_all_stale_that_use_it(copied: Path) -> None:
    changed(copied / "credit/turn_level.py", "class EpisodeAndTurn", "CHANGED = 1\n\n\nclass EpisodeAndTurn")
    assert {"gigpo", "mashost"} <= set(record.stale_rows())
    assert record.status_of(("gmpo",), "", ships=False) == "works"


def test_the_engine_is_no_piece_of_a_method_and_an_update_is(copied: Path) -> None:
    method = copied / "methods/group_relative/trpo.py"
    assert "from hocket.update.problem import" in method.read_text()
    before = digests.digest("hocket.methods.group_relative.trpo")
    changed(copied / "update/problem.py", "class Problem:", "CHANGED = 1\n\n\nclass Problem:")
    assert digests.digest("hocket.methods.group_relative.trpo") == before
    changed(copied / "update/gradient.py", "class GradientStep", "CHANGED = 1\n\n\nclass GradientStep")
    assert digests.digest("hocket.methods.group_relative.trpo") != before


def test_verdicts_of_changed_code_are_kept_whole_or_not_at_all(copied: Path) -> None:
    claims = {"gmpo": checks_of("gmpo")}
    changed(copied / "methods/group_relative/gmpo.py", "class GeometricMean", "CHANGED = 1\n\n\nclass GeometricMean")
    verdicts = [Verdict("gmpo", one.claim, True, "seen", 0.1, one.shipped) for one in claims["gmpo"]]
    record.keep(verdicts[:1], claims)
    assert record.status_of(("gmpo",), "", ships=False) == "stale"
    record.keep(verdicts, claims)
    assert record.status_of(("gmpo",), "", ships=False) == "works"
    assert [one.claim for one in record.verdicts_of("gmpo")] == [one.claim for one in claims["gmpo"]]


def test_a_claim_on_the_recipe_as_shipped_leaves_the_other_verdicts(copied: Path) -> None:
    file, checks = copied / "methods/group_relative/claims/gmpo.py", checks_of("gmpo")
    others = [one for one in checks if not one.shipped]
    text = digests.SHIPPED.sub("", file.read_text())
    file.write_text(text + '\n\nclaim.shipped(\n    GMPO,\n    "objective",\n    steps=2,\n)\n')
    changed(file, "steps=2", "steps=1")
    assert record.recorded("gmpo").stale
    assert record.fresh(others) == others
    mine = Check("gmpo", "as shipped", lambda: Finding(True, ""), slow=True, shipped=True)
    record.keep([Verdict("gmpo", "as shipped", True, "seen", 0.1, shipped=True)], {"gmpo": [*others, mine]})
    assert record.status_of(("gmpo",), "") == "works"
    changed(file, "steps=1", "steps=3")
    assert record.status_of(("gmpo",), "") == "stale"
    assert record.status_of(("gmpo",), "the judge is a rule") == "partial"


def test_what_a_recipe_requires_leaves_the_verdicts(copied: Path) -> None:
    method, (first, *_) = copied / "methods/group_relative/gmpo.py", checks_of("gmpo")
    changed(method, "\nfrom hocket.methods", "\nfrom hocket.core.requirements import Requirement\nfrom hocket.methods")
    changed(method, "    source=", "    requires=(Requirement.TURNS,),\n    source=")
    assert record.fresh([first])
    changed(method, "\nfrom hocket.methods", "\nfrom hocket.core.keys import Key\nfrom hocket.methods")
    assert not record.fresh([first])


def test_without_a_claim_on_the_recipe_as_shipped_a_row_is_partial(copied: Path) -> None:
    file, others = (
        copied / "methods/group_relative/claims/gmpo.py",
        [one for one in checks_of("gmpo") if not one.shipped],
    )
    changed(file, file.read_text(), digests.SHIPPED.sub("", file.read_text()))
    record.keep([Verdict("gmpo", others[0].claim, True, "seen", 0.1)], {"gmpo": others})
    assert record.status_of(("gmpo",), "") == "partial"
    assert record.status_of(("gmpo",), "", ships=False) == "works"


def test_a_changed_claim_leaves_the_verdicts_of_the_others(copied: Path) -> None:
    file = copied / "methods/group_relative/claims/gmpo.py"
    first, second, *_ = checks_of("gmpo")
    changed(file, f'"{second.claim}"', f'"{second.claim}, too"')
    assert record.recorded("gmpo").stale
    assert record.fresh([first])
    changed(file, "import math\n", "import math\nimport time\n")
    assert record.fresh([first])  # What another claim imports is nothing to this one.
    changed(file, 'claim = Claims("gmpo"', 'UNUSED = 3\nclaim = Claims("gmpo"')
    assert record.fresh([first])  # Nor is a constant of another claim.
    changed(file, 'claim = Claims("gmpo"', 'claim = Claims("gmpo" + ""')
    assert not record.fresh([first])


def test_a_verdict_covers_the_helpers_that_its_claim_uses_in_turn() -> None:
    text = """
import torch
from hocket.credit.gae import GAE
from hocket.lab.claims.harness import Claims

claim = Claims("mine", "here")
LIMIT = 3


def inner() -> int:
    return LIMIT


def helper() -> int:
    return inner() + 1


@claim("uses the helper")
def _() -> object:
    return helper()


@claim("uses GAE")
def _() -> object:
    return GAE()
"""
    source = record.ClaimsSource.of(text)
    first, second = source.claims.values()

    def digests(changed: str) -> tuple[str, str]:
        other = record.ClaimsSource.of(changed)
        assert other.claims == source.claims
        return other.digest("none", first), other.digest("none", second)

    before = digests(text)
    assert digests(text.replace("LIMIT = 3", "LIMIT = 4"))[0] != before[0]
    assert digests(text.replace("LIMIT = 3", "LIMIT = 4"))[1] == before[1]
    moved = digests(text.replace("hocket.credit.gae", "hocket.credit.leave_one_out"))  # Another piece of that name.
    assert moved[0] == before[0]
    assert moved[1] != before[1]
    assert digests(text.replace("    return inner", "    # A remark.\n    return inner")) == before


def test_every_row_has_a_kept_verdict_for_each_of_its_claims() -> None:
    for row in files():
        assert [one.claim for one in record.verdicts_of(row)] == [check.claim for check in checks_of(row)]


def test_claims_of_a_file_are_run_by_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    assert main(["recipes", "--check", str(file), "--json"]) == 1
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["id"], row["verdict"], [one["holds"] for one in row["checks"]]) == ("mine", "fails", [True, False])
