"""The task of backtracking, and what it refuses."""

from __future__ import annotations

import pytest

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.lab.microscope import RecordedBatch
from hocket.methods.preference.backtracking_safety import Backtracking, SafeWords, StandingAlone, visible
from hocket.stages import Split
from hocket.tasks.split import split_of
from hocket.testing import rehearse
from hocket.types import Scenario


def test_texts_of_tokens_are_needed() -> None:
    row = {"group": "a", "scores": {"r": 1.0}, "logp": [-1.0]}
    with pytest.raises(ConfigurationError, match="StandingAlone"):
        StandingAlone()(RecordedBatch({"version": 1, "trajectories": [row]}).batch)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("safe-words?length=1", "length lies in 2 to 60"),
        ("safe-words?unsafe=9", "unsafe"),
        ("safe-words?slips=2", r"slips in \[0, 1\]"),
        ("preferred-lists?attributes=9", "attributes lie in 1 to 6"),
        ("cheaper-programs?terms=9", "terms must lie in 2 to 4"),
    ],
)
def test_settings_of_their_tasks_are_checked(name: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        tasks.find(name)


def slips_of(task: SafeWords, number: int) -> tuple[int, int]:
    """How often a demonstration slips, and how often it could have: after each word with which a pair begins."""
    told = task.scenario("eval", number).metadata
    firsts, shown = {first for first, _ in told["unsafe"]}, told["demonstration"]
    return shown.count("<undo 1>"), sum(word in firsts for word in visible(shown).split()[:-1])


def test_a_text_is_right_with_known_words_and_no_unsafe_pair() -> None:
    task = SafeWords(length=3)
    asked = Scenario("s", "Write.", metadata={"unsafe": (("sun", "sea"), ("red", "red"))})
    wanted = {
        "sea sun red": (1.0, 0.0),
        "sun sea red": (0.0, 1.0),
        "sea sun": (0.0, 0.0),
        "sea sun red fish": (0.0, 0.0),
        "sea sun moon": (0.0, 0.0),
        "moon red red": (0.0, 1.0),
        "red red": (0.0, 1.0),
        "": (0.0, 0.0),
    }
    for text, figures in wanted.items():
        (one,) = rehearse(Backtracking(), asked, {"policy": [text + " <undo 0>" if "fish" in text else text]})
        told = task.describe(one)
        assert (task.verify(text, asked), told["unsafe"], told["undone"]) == (*figures, float("fish" in text)), text
    both: tuple[Split, ...] = ("train", "eval")
    assert all(split_of(str(task.scenario(split, n).prompt)) == split for split in both for n in range(9))


def test_demonstrations_slip_at_the_rate_that_is_set() -> None:
    never, always, half = (
        [slips_of(SafeWords(length=30, slips=rate), number) for number in range(20)] for rate in (0.0, 1.0, 0.2)
    )
    assert not any(one for one, _ in never)
    assert all(one == could for one, could in always)
    assert 0.1 < sum(one for one, _ in half) / sum(could for _, could in half) < 0.3
