"""Search-R1: which answers are equal."""

from __future__ import annotations

from hocket.methods.agents.search_r1 import SEARCH_R1
from hocket.rewards.normalised_match import NormalisedMatch
from hocket.types import Scenario


def test_answers_that_are_equal() -> None:
    pairs = {
        ("The Beatles!", "beatles"): 1.0,
        ("a  U.S. city", "us city"): 1.0,
        ("red", "dark red"): 0.0,
        ("", "x"): 0.0,
    }
    pairs |= {("another", "other"): 0.0, ("42", "42."): 1.0, ("4 2", "42"): 0.0}
    judged = NormalisedMatch()
    found = [judged.verify(f"<answer>{said}</answer>", Scenario("s", "?", known)) for said, known in pairs]
    several = judged.verify("<answer>the b</answer>", Scenario("s", "?", ["A", "B"]))
    others = [judged.verify("b", Scenario("s", "?", "b")), judged.verify("<answer>b</answer>", Scenario("s", "?"))]
    paid = {type(one).__name__ for one in SEARCH_R1.rewards}
    holds = found == list(pairs.values()) and several == 1.0 and others == [0.0, None] and paid == {"NormalisedMatch"}
    assert holds
