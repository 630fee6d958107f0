"""A run of `solve` that has lost what it needs to go on is not begun again unasked."""

from __future__ import annotations

from pathlib import Path

import pytest

from hocket.core.errors import HocketError
from hocket.train.solve import METRICS, STATE, SolveRun, SolveSettings

SETTINGS = SolveSettings("value-iteration", steps=6)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        (STATE, None, "is missing, though 6 steps were made"),
        (STATE, b"", "cannot be read"),
        (STATE, b"PK", "cannot be read"),
        (METRICS, None, "has 0 of the 6 steps"),
        (METRICS, b"{}\n{}\n", "has 2 of the 6 steps"),
    ],
)
def test_what_is_lost_is_named_and_the_rest_stays(
    name: str, content: bytes | None, sentence: str, tmp_path: Path
) -> None:
    SolveRun(SETTINGS, tmp_path, every=2).run()
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(content)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(HocketError, match=f"{name} {sentence}.*put back a copy, or begin anew"):
        SolveRun(SETTINGS, tmp_path, every=2).run()
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
