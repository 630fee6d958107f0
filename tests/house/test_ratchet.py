"""Lists of what breaks a rule only become shorter."""

from __future__ import annotations

from pathlib import Path

import pytest
import ratchet


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(ratchet, "FOLDER", tmp_path)
    ratchet.write("rule", {"a": 1, "b b": 3, "c": 2}, anew=True)
    return tmp_path


def test_what_is_new_and_what_is_right_by_now_are_complained_of() -> None:
    assert ratchet.complaints("rule", {"a": 1, "b b": 3, "c": 2}) == ""
    assert ratchet.complaints("rule", {"a": 2, "b b": 3, "c": 2, "d": 1}).splitlines()[1:] == ["a  2", "d"]
    assert ratchet.complaints("rule", {"a": 1, "b b": 2}).splitlines()[1:] == ["b b  3", "c  2"]
    assert ratchet.complaints("rule", {"a": 1, "b b": 2}, exact=False) == ""


def test_lists_do_not_grow(folder: Path) -> None:
    ratchet.write("rule", {"a": 5, "b b": 2, "d": 1}, anew=False)
    assert (folder / "rule.txt").read_text() == "a\nb b  2\n"
    assert ratchet.recorded("rule") == {"a": 1, "b b": 2}
    assert ratchet.recorded("other") == {}
