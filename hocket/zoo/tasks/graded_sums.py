"""Sums with answers that somebody graded: in pairs, one by one, in lists, step by step. Data for scorers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.options import checked
from hocket.stages import Split
from hocket.tasks.arithmetic import draw_terms, expression_of, place_values, question_of, verify
from hocket.tasks.form import TaskForm
from hocket.tasks.split import split_of
from hocket.tasks.text import TextTask, check_number
from hocket.types import Scenario

FLAWS = ("slip", "loose", "bare", "hasty")
"""What is wrong with a wrong answer: a total on the way, an answer that is not the last total, no tags, no working."""


class GradedSums(TextTask):
    """The problems of `sums` with answers, right ones and ones with a flaw (`FLAWS`), as if somebody had graded them.

    What a scenario's metadata tell:

        chosen, rejected        a right answer and one with a flaw; with `margins`, `margin` is what sets them apart
        demonstration, label    an answer, and whether it is right
        steps, labels           an answer in its steps, and whether each follows from what stands before it
        responses, scores       four answers, scored 1 where right, 1/2 where the number is, else 0

    Args:
        noise: share of the pairs and labels that are the wrong way round in training.
        margins: whether pairs carry a `margin`, the difference of the members' scores.
        dissent: the share of pairs judged by annotators of the group `brief`, who prefer an answer without a thought to
            a worked one, both right; the metadata's `group` says so, and is `thorough` for the others.
        size: training scenarios, which come again in every pass; None for problems without end.
    """

    def __init__(
        self, noise: float = 0.0, margins: bool = False, dissent: float = 0.0, size: int | None = None
    ) -> None:
        if not 0 <= noise < 0.5:
            raise ConfigurationError(f"task graded-sums: noise must lie in [0, 0.5), not {noise}")
        if not 0 <= dissent <= 1:
            raise ConfigurationError(f"task graded-sums: dissent must lie in [0, 1], not {dissent}")
        if size is not None and size < 1:
            raise ConfigurationError(f"task graded-sums: size must be at least 1, not {size}")
        settings = "&".join(f"{name}={share:g}" for name, share in (("noise", noise), ("dissent", dissent)) if share)
        self.name = "graded-sums" + (f"?{settings}" if settings else "")
        self.noise, self.margins, self.dissent, self.count = noise, margins, dissent, size

    def size(self, split: Split) -> int | None:
        return self.count if split == "train" else None

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number, self.size(split))
        rng = Key.of(0).derive("graded_sums", split, number).numpy()
        terms = draw_terms(rng)
        while split_of(question_of(expression_of(terms))) != split:
            terms = draw_terms(rng)
        flipped = split == "train" and bool(rng.random() < self.noise)
        answer, good = str(sum(terms)), bool(rng.random() < 0.5)
        right, wrong = written(terms, None, rng), written(terms, str(rng.choice(FLAWS)), rng)
        stepped = steps_of(terms, [None, None, "slip", "loose"][int(rng.integers(4))], rng)
        listed = [right, *(written(terms, flaw, rng) for flaw in rng.choice(FLAWS, size=3, replace=False).tolist())]
        brief = bool(rng.random() < self.dissent)
        pair = (f"<answer>{answer}</answer>", right) if brief else (right, wrong)
        metadata: dict[str, Any] = {
            "chosen": pair[flipped],
            "rejected": pair[not flipped],
            "group": "brief" if brief else "thorough",
            "demonstration": right if good else wrong,
            "label": good != flipped,
            "steps": [step for step, _ in stepped],
            "labels": [follows for _, follows in stepped],
            "responses": listed,
            "scores": [graded(response, answer) for response in listed],
        }
        if self.margins:
            metadata["margin"] = 0.0 if brief else graded(right, answer) - graded(wrong, answer)
        question = question_of(expression_of(terms))
        return Scenario(f"graded_sums/{split}/{number}", question, answer, metadata, seed=number)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 96, "rollout.separator": ""}

    def verify(self, text: str, scenario: Scenario) -> float:
        return verify(text, scenario.answer)


Steps = Sequence[tuple[str, bool]]
"""Pieces of an answer, and whether each follows from those before it."""


def steps_of(terms: Sequence[int], flaw: str | None, rng: np.random.Generator) -> Steps:
    """An answer in steps of one decimal place, and its end; with a `slip`, from which the rest goes on, or `loose`."""
    moves = [(-1 if term < 0 else 1) * part for term in terms[1:] for part in place_values(abs(term))]
    wrong = int(rng.integers(len(moves))) if flaw == "slip" else -1
    total, opening = terms[0], f"<think>{terms[0]}"
    steps = list[tuple[str, bool]]()
    for place, move in enumerate(moves):
        total += move + (_off(rng) if place == wrong else 0)
        steps.append((f"{opening}{'-' if move < 0 else '+'}{abs(move)}={total}", place != wrong))
        opening = ""
    answer = total + (_off(rng) if flaw == "loose" else 0)
    return [*steps, (f"</think><answer>{answer}</answer>", flaw != "loose")]


def written(terms: Sequence[int], flaw: str | None, rng: np.random.Generator) -> str:
    """An answer with one of `FLAWS`, or right."""
    if flaw == "hasty":
        return f"<answer>{sum(terms) + _off(rng)}</answer>"
    text = "".join(step for step, _ in steps_of(terms, flaw, rng))
    return text.replace("<answer>", "").replace("</answer>", "") if flaw == "bare" else text


def graded(text: str, answer: str) -> float:
    """1 for a right answer, 1/2 where only the tags are missing, else 0."""
    return 1.0 if verify(text, answer) else 0.5 if text.endswith(f"</think>{answer}") else 0.0


def _off(rng: np.random.Generator) -> int:
    return int(rng.choice([-10, -2, -1, 1, 2, 10]))


def from_settings(name: str, settings: Mapping[str, str]) -> GradedSums:
    """The task with these settings."""
    return GradedSums(
        **checked(name, settings, {"noise": float, "margins": bool, "dissent": float, "size": int | None})
    )


GRADED_SUMS = TaskForm(
    name="graded-sums",
    description="sums with graded answers: in pairs, labelled, in lists, step by step, e.g. graded-sums?noise=0.3",
    family="words",
    make=from_settings,
    drawn_as="graded_sums",
)
