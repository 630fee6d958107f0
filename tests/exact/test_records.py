"""Records of a cooperative game in a file of a user's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hocket.apps.cli.parser import main

FINE = {
    "state": np.array([0, 1, 1]),
    "action": np.array([[0, 1], [2, 2], [1, 0]]),
    "reward": np.array([0.5, 0.25, 1.0]),
    "after": np.array([1, 1, 0]),
}


def solved(path: Path, capsys: Any, **changed: Any) -> tuple[int, str]:
    np.savez(path / "mine.npz", **{name: one for name, one in {**FINE, **changed}.items() if one is not None})
    given = ["--world", "crew:2x3x2", "--method.data", str(path / "mine.npz"), "--steps", "3", "--quiet", "--json"]
    code = main(["solve", "--method", "multi-agent-ppo-global", *given, "--out", str(path / "run")])
    told = capsys.readouterr()
    return code, told.err if code else told.out


def test_a_file_of_records_is_learnt_from(tmp_path: Path, capsys: Any) -> None:
    code, told = solved(tmp_path, capsys)
    assert code == 0
    assert '"crew:2x3x2"' in told


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"after": None}, "have no after"),
        ({"reward": np.array([0.5, 0.25])}, "reward has the shape (2,)"),
        ({"action": np.array([0, 1, 2])}, "action is [N, 2]"),
        ({"state": np.array([0, 1, 2])}, "no state of crew:2x3x2"),
        ({"action": np.array([[0, 1], [2, 3], [1, 0]])}, "no action of crew:2x3x2"),
        ({"after": np.array([1.0, 1.0, 0.0])}, "no after of crew:2x3x2"),
        ({"reward": np.array([0.5, np.nan, 1.0])}, "not finite"),
        ({name: one[:0] for name, one in FINE.items()}, "at least one record"),
    ],
)
def test_what_does_not_fit_is_one_sentence(changed: Any, words: str, tmp_path: Path, capsys: Any) -> None:
    code, told = solved(tmp_path, capsys, **changed)
    assert code == 2
    assert words in told
    assert told.count("hocket:") == 1
