"""The tasks of `data.yaml`: sums beyond reach, a mixture of which most has no answer, and sums of one difficulty.

Named as `benchmarks/studies/data_tasks.py:graded?terms=4&digits=2`. Every task is a finite set of training problems, so
that what is kept or known of one is of use when it comes again, and evaluation problems that are none of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.stages import Split
from hocket.tasks.arithmetic import expression_of, question_of, verify, working
from hocket.tasks.split import split_of
from hocket.tasks.text import TextTask, check_number
from hocket.types import Scenario

UNSAID = "99999999"
"""The answer of a dead problem, which no sum here has."""


class GradedSums(TextTask):
    """`size` training sums of `terms` terms of `digits` digits each, of which a share `dead` has a wrong answer.

    The metadata of a live one tell `demonstration`, a right answer after a thought; nothing shows what a dead one is
    asked for. Unseen problems are all alive: what is measured is what can be learnt.
    """

    def __init__(self, terms: int, digits: int, dead: float, size: int, most: int) -> None:
        if terms < 2 or digits < 1 or size < 1 or not 0 <= dead < 1:
            raise ConfigurationError(
                f"graded sums have 2 terms of 1 digit or more, a size of at least 1 and dead in [0, 1), not {terms}, "
                f"{digits}, {size} and {dead}"
            )
        self.name = f"graded?terms={terms}&digits={digits}&dead={dead}&size={size}"
        self.terms, self.digits, self.dead, self.count, self.most = terms, digits, dead, size, most

    def size(self, split: Split) -> int | None:
        return self.count if split == "train" else None

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number, self.size(split))
        terms, dead = self._terms(split, number), split == "train" and number < round(self.dead * self.count)
        answer = UNSAID if dead else str(sum(terms))
        told = {} if dead else {"demonstration": f"<think>{working(terms)}</think><answer>{answer}</answer>"}
        identity = f"graded/{split}/{'dead' if dead else 'alive'}/{number}"
        return Scenario(identity, question_of(expression_of(terms)), answer, told, seed=number)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": self.most}

    def verify(self, text: str, scenario: Scenario) -> float:
        return verify(text, scenario.answer)

    def _terms(self, split: Split, number: int) -> list[int]:
        rng = Key.of(0).derive("graded", split, number).numpy()
        while True:
            sizes = rng.integers(10 ** (self.digits - 1), 10**self.digits, size=self.terms).tolist()
            signs = [1, *(2 * rng.integers(0, 2, size=self.terms - 1) - 1).tolist()]
            terms = [sign * size for sign, size in zip(signs, sizes, strict=True)]
            if split_of(question_of(expression_of(terms))) == split:
                return terms


def graded(terms: int = 2, digits: int = 2, dead: float = 0.0, size: int = 64, most: int = 96) -> GradedSums:
    """The task with these settings."""
    return GradedSums(terms, digits, dead, size, most)
