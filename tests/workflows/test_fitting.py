"""Recorded examples that are longer than the context."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hocket.agents.workflows.fitting import Fit
from hocket.core.errors import ConfigurationError
from hocket.types import Turn


def conversation(*lengths: tuple[int, int]) -> list[Turn]:
    """A chain of turns whose observations and actions have these lengths; tokens are numbered through."""
    turns: list[Turn] = []
    count = 0
    for seen, said in lengths:
        ids = np.arange(count, count + seen + said)
        turns.append(Turn("a", "p", ids[:seen], ids[seen:], parent=turns[-1] if turns else None))
        count += seen + said
    return turns


def tokens(turns: list[Turn]) -> list[int]:
    return [int(token) for turn in turns for token in [*turn.observation, *turn.action]]


def test_what_fits_stays() -> None:
    for fit in (Fit(), Fit("start", 10), Fit("end", 10)):
        turns = conversation((4, 3), (1, 2))
        assert fit(turns, None, "x") == turns
        assert tokens(turns) == list(range(10))


def test_refusal_names_what_and_the_mend() -> None:
    with pytest.raises(
        ConfigurationError, match=r"^x has 11 tokens, more than the 8 that fit; shorten it, or set trunc"
    ):
        Fit()(conversation((4, 7)), 8, "x")
    with pytest.raises(ConfigurationError, match="more than the 6 that fit"):
        Fit(max_length=6)(conversation((4, 7)), 8, "x")
    with pytest.raises(ConfigurationError, match="and without its prompt too; set truncate=end"):
        Fit("start")(conversation((4, 9)), 8, "x")
    with pytest.raises(ConfigurationError, match="its prompt alone fills them; set truncate=start"):
        Fit("end")(conversation((8, 1)), 8, "x")


LENGTHS = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=4)


@given(LENGTHS, st.integers(2, 30), st.sampled_from(["start", "end"]))
def test_what_is_left_is_the_end_or_the_beginning(lengths: Any, limit: int, truncate: Any) -> None:
    turns = conversation(*lengths)
    whole = tokens(turns)
    try:
        left = Fit(truncate)(turns, limit, "x")
    except ConfigurationError:
        prompt = lengths[0][0]
        assert limit <= (len(whole) - prompt if truncate == "start" else prompt)
        return
    kept = tokens(left)
    assert len(kept) <= limit
    if truncate == "start":
        assert kept == whole[len(whole) - min(limit, len(whole)) :]
        assert all(turn.finish == "stop" for turn in left)
    else:
        assert kept == whole[: len(kept)]
        assert all(len(turn.action) for turn in left)
        cut = len(kept) < sum(map(sum, lengths[: len(left)]))
        assert (left[-1].finish == "length") is cut


@pytest.mark.parametrize(("settings", "sentence"), [(("middle",), "end, refuse, start"), (("end", 1), "at least 2")])
def test_wrong_settings(settings: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Fit(*settings)
