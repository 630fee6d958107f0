"""What metrics, samples and decisions are called where people read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

STEMS = ("pairs", "labels", "lists", "scores")
"""What metrics of losses on recorded responses are about: `STEM/what`."""

WORDS = {
    "pairs/accuracy": "preference accuracy",
    "pairs/margin": "margin of pairs",
    "pairs/chosen": "reward of chosen",
    "pairs/rejected": "reward of rejected",
    "pairs/length_chosen": "length of chosen",
    "pairs/length_rejected": "length of rejected",
    "labels/accuracy": "label accuracy",
    "labels/reward_desirable": "reward of desirable",
    "labels/reward_undesirable": "reward of undesirable",
    "labels/score_good": "score of good",
    "labels/score_bad": "score of bad",
    "lists/accuracy": "ranking accuracy",
    "lists/alignment": "alignment score",
    "scores/error": "root mean square error",
    "scores/explained": "variance explained",
    "loss": "unseen loss",
}
"""The metrics that tables show, in their order."""


@dataclass(frozen=True)
class UnitNames:
    """What a run's samples and decisions are called.

    Attributes:
        sample, samples: a sample of the policy, and several. reward: what a sample earns in total.
        decisions: what samples consist of. total: decisions of a whole run, which are apart from its training steps.
        scenario: where a sample begins. cut: a title for samples that a limit ended.
    """

    sample: str
    samples: str
    reward: str
    decision: str
    decisions: str
    total: str
    scenario: str
    cut: str

    def fill(self, text: str) -> str:
        """The text with its names in braces, such as `{samples}`, replaced."""
        return text.format(**vars(self))


RESPONSES = UnitNames(
    "response", "responses", "reward", "token", "tokens", "tokens", "scenario", "Cut off at the limit"
)
EPISODES = UnitNames(
    "episode", "episodes", "return", "step", "steps", "environment steps", "start", "Truncated episodes"
)


def units_of(measure: str) -> UnitNames:
    """The words for a run by what its evaluation averages: episodes and steps where that is a return."""
    return EPISODES if measure == "return" else RESPONSES


def is_recorded(name: str) -> bool:
    """Whether a metric (without `eval/`) is of recorded responses and not of answers."""
    return name == "loss" or name.partition("/")[0] in STEMS


def recorded_rows(before: Mapping[str, Any], after: Mapping[str, Any], apart: str = "") -> list[tuple[str, str, bool]]:
    """Metric, words and whether it is a share, for what two evaluations both have; the metric `apart` is left out."""
    known = [name for name in WORDS if name in before and name in after and name != apart]
    return [(name, WORDS[name], name.endswith("/accuracy")) for name in known]


def interval_of(evaluation: Mapping[str, Any], name: str) -> tuple[float, float] | None:
    """The 95 % interval of a metric, `STEM/low` to `STEM/high` of an accuracy; None for all others."""
    stem, _, what = name.partition("/")
    if what != "accuracy":
        return None
    low, high = evaluation.get(f"{stem}/low"), evaluation.get(f"{stem}/high")
    return (float(low), float(high)) if low is not None and high is not None else None
