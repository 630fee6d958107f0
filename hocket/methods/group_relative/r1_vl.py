"""R1-VL (StepGRPO): GRPO that also rewards key steps and their order in the reasoning (arXiv:2503.12937).

`KeySteps` adds up to a tenth of a point for the known steps that a text contains, right or wrong; `OrderedStages` of
`hocket.rewards.key_steps` pays a well-ordered form.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hocket.core.batch import Batch
from hocket.core.columns import LABEL, TEXT, InfoColumn
from hocket.core.signals import returns
from hocket.methods.base.grpo import GRPO
from hocket.rewards.key_steps import OrderedStages, reasoning_of
from hocket.rewards.members import with_return
from hocket.rewards.similarity import words_of
from hocket.stages import Shaping

KEY_STEPS = InfoColumn("key_steps", "The steps that a solution must contain; also in a scenario's metadata.")


KeyStep = str | Sequence[str]
"""A phrase that a solution must contain, or several that mean the same."""


def _synonyms(step: KeyStep) -> tuple[str, ...]:
    return (step,) if isinstance(step, str) else tuple(step)


def _phrase(synonym: str) -> str:
    """A pattern for a phrase that begins and ends where words do, white space levelled."""
    return rf"(?<!\w){re.escape(' '.join(synonym.lower().split()))}(?!\w)"


def match_ratio(text: str, steps: Sequence[KeyStep]) -> float:
    """The share k of key steps of which some synonym stands in the reasoning; 0 without any steps.

    Steps count in any order and once each.
    """
    levelled = " ".join(reasoning_of(text).lower().split())
    found = [any(re.search(_phrase(synonym), levelled) for synonym in _synonyms(step)) for step in steps]
    return sum(found) / len(steps) if steps else 0.0


def keyword_density(text: str, steps: Sequence[KeyStep]) -> float:
    """The share of the reasoning's words that belong to phrases of key steps: near 1 for a text stuffed with them."""
    levelled = " ".join(reasoning_of(text).lower().split())
    phrases = sorted({synonym for step in steps for synonym in _synonyms(step)}, key=len, reverse=True)
    if not phrases or not words_of(levelled):
        return 0.0
    rest = re.sub("|".join(map(_phrase, phrases)), " ", levelled)
    return 1 - len(words_of(rest)) / len(words_of(levelled))


@dataclass(frozen=True)
class KeySteps(Shaping):
    """`R + alpha k` of a text with an answer, 0 of one without: the step-wise accuracy reward of R1-VL (2503.12937).

    k is the share of the question's key steps that the reasoning contains (`match_ratio`). Reads the columns `text`,
    `label` (None without an answer), and `key_steps` (a list of phrases or of lists of synonyms; a column or in the
    scenario's metadata); where no steps are named the reward stays. A text of nothing but key words has k = 1 too:
    `most_density` withholds the term from texts whose `keyword_density` is above it.

    Attributes:
        alpha: 0.1 in the released code. most_density: 1 withholds nothing, as in the paper.
    """

    alpha: float = 0.1
    most_density: float = 1.0

    def __call__(self, batch: Batch) -> Batch:
        if self.alpha == 0:
            return batch
        texts = TEXT.read(batch, "KeySteps")
        labels = LABEL.read(batch, "KeySteps")
        value = returns(batch).clone()
        for row, steps in enumerate(KEY_STEPS.or_metadata(batch)):
            if steps:
                answered = labels[row] is not None
                value[row] = value[row] + self.alpha * self.ratio(texts[row] or "", steps) if answered else 0.0
        return with_return(batch, value)

    def ratio(self, text: str, steps: Sequence[KeyStep]) -> float:
        """k, or 0 for a stuffed text."""
        return 0.0 if keyword_density(text, steps) > self.most_density else match_ratio(text, steps)


R1_VL = GRPO.but(
    name="r1-vl",
    title="Step-wise GRPO: key steps and valid order",
    source="R1-VL, arXiv:2503.12937",
    catalogue_ids=("r1-vl",),
    axes=("reward", "policy"),
    formula="r_i = [answered](R_i + 0.1 k_i) + [stages in order],  k_i the share of key steps in the reasoning",
    conventions={
        **GRPO.conventions,
        "alpha": "shaping.0.alpha = 0.1, as released",
        "key steps": "in the scenario's metadata, each with synonyms; whole words before the last <answer>, any order",
        "no key steps": "the reward stays, answered or not",
        "stages": "<think>, </think>, <answer>, </answer> instead of the release's headings; shaping.1.stages",
        "stuffing": "not punished, as in the paper; shaping.0.most_density withholds k from texts of key words alone",
        "KL": "coefficient 0",
    },
    note="shown on text; images come with their modality",
    task="worked-sums",
    shaping=(KeySteps(), OrderedStages()),
)
