"""The verbs by which claims are stated hold where they should, and fail where they should."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hocket.core.errors import ConfigurationError
from hocket.lab.claims.claim import Claims
from hocket.lab.claims.harness import cases
from hocket.lab.hand_formulas import CountedAnswer, clipped
from hocket.methods.base.grpo import GRPO
from hocket.objectives.surrogate import ClippedSurrogate


def wrong(answers: Sequence[CountedAnswer]) -> tuple[Any, dict[str, float]]:
    loss, metrics = clipped(answers)
    return loss * 1.001, metrics


def test_a_formula_by_hand_holds_and_a_wrong_one_does_not() -> None:
    claim = Claims("grpo", "here")
    claim.by_hand("the formula", GRPO, clipped)
    claim.by_hand("another formula", GRPO, wrong, source="eq. 2")
    right, other = (check() for check in claim)
    assert right.holds
    assert not other.holds
    assert [check.source for check in claim] == ["here", "eq. 2"]


def test_a_reduction_compares_gradients() -> None:
    claim = Claims("grpo", "here")
    claim.reduces("itself", GRPO, GRPO.but({"objective.low": 0.2}), count=3, gap=0.5)
    claim.reduces("another clip", GRPO, GRPO.but({"objective.low": 0.01}), count=3, gap=0.5)
    assert [check().holds for check in claim] == [True, False]


def test_constants_name_what_differs() -> None:
    claim = Claims("grpo", "here")
    claim.constants("as printed", GRPO, {"objective.low": 0.2, "objective": ClippedSurrogate})
    claim.constants("not as printed", GRPO, {"objective.low": 0.3})
    right, other = (check() for check in claim)
    assert right.holds
    assert not other.holds
    assert "objective.low = 0.2" in other.saw


def test_a_refusal_needs_the_error_and_its_words() -> None:
    def refused() -> None:
        raise ConfigurationError("samples = 0: at least 1")

    claim = Claims("grpo", "here")
    claim.refuses("refused", refused, "at least 1")
    claim.refuses("other words", refused, "at most 1")
    claim.refuses("not refused", lambda: 3, "at least 1")
    assert [check().holds for check in claim] == [True, False, False]


def test_cases_name_the_first_that_fails() -> None:
    assert cases(range(3), lambda one: one < 3).holds
    finding = cases([(1, 2), (3, 2), (4, 2)], lambda left, right: left < right)
    assert not finding.holds
    assert "2 of 3 cases fail, the first is (3, 2)" in finding.saw
    assert not cases([], lambda one: True).holds
