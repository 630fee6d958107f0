"""Matched-guise probing: what is refused."""

from __future__ import annotations

import math

import pytest

from hocket.core.errors import ConfigurationError
from hocket.methods.preference.rlhf_bias_limits import ATTRIBUTES, UNSEEN, Guises, MatchedGuise, in_guises, planted
from hocket.tasks import find


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"contents": ()}, "needs contents"),
        ({"attributes": ()}, "needs contents"),
        ({"every": 0}, "every of at least 1"),
        ({"groups": ("one",)}, "groups are two or none, not 1"),
        ({"question": "What are they like?"}, "a place for {}"),
    ],
)
def test_settings_are_checked(settings: dict[str, object], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        MatchedGuise(**settings)  # type: ignore[arg-type]


def test_what_writes_nothing_is_not_asked() -> None:
    with pytest.raises(ConfigurationError, match="asks a language model"):
        MatchedGuise().covert(object())


def test_the_corpus_by_name() -> None:
    assert find("guises?bias=0.2").name == "guises?bias=0.2"
    for bias in (1, -1):
        with pytest.raises(ConfigurationError, match="bias must lie in"):
            find(f"guises?bias={bias}")


def test_a_corpus_holds_the_association_that_is_planted() -> None:
    contents = {text for pair in UNSEEN for text in pair}
    assert in_guises("sea", "wet") in UNSEEN
    for bias in (0.6, 0.0, -0.4):
        count = {(guise, like): 0 for guise in (0, 1) for like in ATTRIBUTES}
        for number in (n for n in range(5000) if n % 4 != 3):
            one = Guises(bias).scenario("train", number)
            count[one.metadata["guise"], one.metadata["demonstration"]] += 1
            assert not any(f'"{text}"' in str(one.prompt) for text in contents)
        held = {like: math.log(count[0, like] / count[1, like]) for like in ATTRIBUTES}
        assert max(abs(held[like] - planted(bias)[like]) for like in ATTRIBUTES) < 0.2
    sums = [Guises().scenario("train", number) for number in (3, 7, 11)]
    assert all(Guises().verify(one.metadata["demonstration"], one) == 1.0 for one in sums)
