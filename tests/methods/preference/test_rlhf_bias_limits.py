"""Matched-guise probing: what is refused."""

from __future__ import annotations

import pytest

from hocket.core.errors import ConfigurationError
from hocket.methods.preference.rlhf_bias_limits import MatchedGuise
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
    with pytest.raises(ConfigurationError, match="bias must lie in"):
        find("guises?bias=1")
