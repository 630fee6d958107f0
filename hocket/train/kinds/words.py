"""What metrics on held-out recorded responses are called where people read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

STEMS = ("pairs", "labels", "lists", "scores")
"""What metrics of losses on recorded responses are about: `STEM/what`."""

WORDS = {
    "pairs/accuracy": "pairs told right",
    "pairs/margin": "margin of pairs",
    "pairs/chosen": "reward of chosen",
    "pairs/rejected": "reward of rejected",
    "pairs/length_chosen": "length of chosen",
    "pairs/length_rejected": "length of rejected",
    "labels/accuracy": "labels told right",
    "labels/reward_desirable": "reward of desirable",
    "labels/reward_undesirable": "reward of undesirable",
    "labels/score_good": "score of good",
    "labels/score_bad": "score of bad",
    "lists/accuracy": "lists told right",
    "lists/alignment": "shares told right",
    "scores/error": "root mean square error",
    "scores/explained": "variance explained",
    "loss": "unseen loss",
}
"""The metrics that tables show, in their order."""


def is_recorded(name: str) -> bool:
    """Whether a metric (without `eval/`) is of recorded responses and not of answers."""
    return name == "loss" or name.partition("/")[0] in STEMS


def recorded_rows(before: Mapping[str, Any], after: Mapping[str, Any], apart: str = "") -> list[tuple[str, str, bool]]:
    """Metric, words and whether it is a share, for what two evaluations both tell; the metric `apart` is left out."""
    known = [name for name in WORDS if name in before and name in after and name != apart]
    return [(name, WORDS[name], name.endswith("/accuracy")) for name in known]


def interval_of(evaluation: Mapping[str, Any], name: str) -> tuple[float, float] | None:
    """The 95 % interval of a metric, `STEM/low` to `STEM/high` of an accuracy; None for all others."""
    stem, _, what = name.partition("/")
    if what != "accuracy":
        return None
    low, high = evaluation.get(f"{stem}/low"), evaluation.get(f"{stem}/high")
    return (float(low), float(high)) if low is not None and high is not None else None
