"""Sums with recorded answers of which it is known which are better."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.options import checked
from hocket.stages import Split
from hocket.tasks.arithmetic import draw_terms, expression_of, question_of, verify, working
from hocket.tasks.form import TaskForm
from hocket.tasks.split import split_of
from hocket.tasks.text import TextTask, check_number
from hocket.types import Scenario


def said(thought: str, answer: int) -> str:
    """An answer in its tags after a thought; without one where that is empty."""
    return (f"<think>{thought}</think>" if thought else "") + f"<answer>{answer}</answer>"


class PreferredSums(TextTask):
    """The problems of `sums` with recorded answers, for learning from preferences.

    A scenario's metadata have four `responses` with `scores` (3 right after a thought, 2 right at once, 1 wrong after a
    thought that misreads a term, 0 wrong at once), two of them as `chosen` and `rejected`, and one as `demonstration`
    with a `label`, whether it is right. In evaluation answers are judged as those of `sums`.

    Args:
        flip: the chance that `chosen` and `rejected` are the wrong way round, and that the label is wrong.
        dissent: the share of scenarios whose annotator, of the group `brief`, prefers answers without a thought; the
            metadata's `group` says so, and is `thorough` for the others.
        size: training scenarios, which come again in every pass; None for problems without end.
    """

    def __init__(self, flip: float = 0.0, dissent: float = 0.0, size: int | None = None) -> None:
        for name, share in (("flip", flip), ("dissent", dissent)):
            if not 0 <= share <= 1:
                raise ConfigurationError(f"task preferred_sums: {name} must lie in [0, 1], not {share}")
        if size is not None and size < 1:
            raise ConfigurationError(f"task preferred_sums: size must be at least 1, not {size}")
        told = "&".join(f"{name}={share:g}" for name, share in (("flip", flip), ("dissent", dissent)) if share)
        self.name = "preferred_sums" + (f"?{told}" if told else "")
        self.flip, self.dissent, self.count = flip, dissent, size

    def size(self, split: Split) -> int | None:
        return self.count if split == "train" else None

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number, self.size(split))
        rng = Key.of(0).derive("preferred sums", split, number).numpy()
        terms = draw_terms(rng)
        while split_of(question_of(expression_of(terms))) != split:
            terms = draw_terms(rng)
        responses, scores = self._answers(rng, terms)
        better, worse = sorted(rng.choice(len(scores), 2, replace=False).tolist())
        if rng.random() < self.flip:
            better, worse = worse, better
        group = "brief" if rng.random() < self.dissent else "thorough"
        if group == "brief":
            better, worse = int(rng.integers(1, 3) * 2 - 1), int(rng.integers(0, 2) * 2)
        shown = int(rng.integers(len(scores)))
        told = {
            "responses": tuple(responses),
            "scores": tuple(scores),
            "chosen": responses[better],
            "rejected": responses[worse],
            "demonstration": responses[shown],
            "group": group,
            "label": bool((scores[shown] >= 2) != (rng.random() < self.flip)),
        }
        question, answer = question_of(expression_of(terms)), str(sum(terms))
        return Scenario(f"preferred_sums/{split}/{number}", question, answer, told, seed=number)

    def _answers(self, rng: np.random.Generator, terms: list[int]) -> tuple[list[str], list[float]]:
        """Four answers, best first, and their scores."""
        right, slip = sum(terms), int(rng.choice([-10, 10]))
        near = right + int(rng.choice([-2, -1, 1, 2]))
        # One term is read wrongly, so that the thought is in itself consistent and the answer is not.
        place = int(rng.integers(len(terms)))
        wrong = [term + (slip if number == place else 0) for number, term in enumerate(terms)]
        thoughts = [(working(terms), right), ("", right), (working(wrong), sum(wrong)), ("", near)]
        return [said(thought, answer) for thought, answer in thoughts], [3.0, 2.0, 1.0, 0.0]

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 96}

    def verify(self, text: str, scenario: Scenario) -> float:
        return verify(text, str(scenario.answer))


def from_settings(name: str, settings: Mapping[str, str]) -> PreferredSums:
    """The task with these settings."""
    return PreferredSums(**checked(name, settings, {"flip": float, "dissent": float, "size": int | None}))


PREFERRED_SUMS = TaskForm(
    name="preferred_sums",
    description="sums with recorded answers, chosen and rejected, labelled and ranked, e.g. preferred_sums?flip=0.2",
    make=from_settings,
)
