"""What is taken back is not imitated, and tasks of backtracking refuse what they cannot make."""

from __future__ import annotations

import pytest

from hocket import tasks
from hocket.core.columns import TOKEN_TEXTS
from hocket.core.errors import ConfigurationError
from hocket.lab.microscope import RecordedBatch
from hocket.methods.preference.backtracking_safety import StandingAlone


def test_removed_words_have_no_weight_and_their_signal_has() -> None:
    pieces = ["one ", "bad ", "worse ", "<undo 2>", " two"]
    row = {"group": "a", "scores": {"r": 1.0}, "logp": [-1.0] * 5, "info": {TOKEN_TEXTS.name: pieces}}
    seen = StandingAlone()(RecordedBatch({"version": 1, "trajectories": [row]}).batch)
    assert seen.weight.tolist() == [1.0, 0.0, 0.0, 1.0, 1.0]
    assert seen.advantage.tolist() == [1.0, 0.0, 0.0, 1.0, 1.0]


def test_texts_of_tokens_are_needed() -> None:
    row = {"group": "a", "scores": {"r": 1.0}, "logp": [-1.0]}
    with pytest.raises(ConfigurationError, match="StandingAlone"):
        StandingAlone()(RecordedBatch({"version": 1, "trajectories": [row]}).batch)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("safe-words?length=1", "length lies in 2 to 60"),
        ("safe-words?slips=2", r"slips in \[0, 1\]"),
        ("preferred-lists?attributes=9", "attributes lie in 1 to 6"),
        ("cheaper-programs?terms=9", "terms must lie in 2 to 4"),
    ],
)
def test_settings_of_their_tasks_are_checked(name: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        tasks.find(name)
