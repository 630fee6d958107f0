"""Two simple searchers of prompts: random mutation, which is the baseline, and reflection on failures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hocket.agents.search.searcher import CaseResult, SearchBench, Searcher, SearchMethod, Trial
from hocket.core.errors import ConfigurationError
from hocket.core.texts import Texts

VARY = """Write another version of this instruction to an assistant. Reply with the instruction alone.

Instruction:
{prompt}

Version number {number}:"""

IMPROVE = """An assistant works by this instruction:
{prompt}

These of its answers were wrong:
{failures}

Write a better instruction that prevents such mistakes. Reply with the instruction alone."""


def prompt_of(texts: Texts, role: str) -> str:
    """The prompt of a role as reflecting models read it."""
    return texts.prompts.get(role) or "(none)"


def with_prompt(texts: Texts, role: str, prompt: str) -> Texts:
    """The texts with another prompt for a role."""
    return replace(texts, prompts={**texts.prompts, role: prompt})


def shown(played: Sequence[CaseResult], most: int = 400) -> str:
    """Episodes as reflecting models read them, each text cut after `most` characters."""
    lines = []
    for result in played:
        right = f"\nRight answer: {result.expected[:most]}" if result.expected else ""
        lines.append(f"Question: {result.question[:most]}\nAnswer: {result.answer[:most]}{right}")
    return "\n\n".join(lines)


def reflected(bench: SearchBench, of: Trial, role: str, number: int, batch: int) -> Trial | None:
    """A trial with the prompt of a role rewritten in view of wrong answers among `batch` practice cases, number-th.

    None if no answer was wrong, the model returned nothing, or the prompt cannot be played.
    """
    first = number * batch
    played = bench.practise(of.texts, range(first, first + min(batch, bench.practice)), greedy=True)
    wrong = [result for result in played if result.score < 1]
    text = wrong and bench.ask(IMPROVE.format(prompt=prompt_of(of.texts, role), failures=shown(wrong)))
    if not text:
        return None
    return bench.measure(with_prompt(of.texts, role, text), f"{role} after {len(wrong)} failures", of)


@dataclass(frozen=True)
class RandomMutation(Searcher):
    """Rewrites the best prompt so far without reading failures; keeps the result if it is better on development.

    Attributes:
        proposals: their largest number. patience: this many consecutive proposals without news end the search.
    """

    proposals: int = 1000
    patience: int = 10

    def search(self, bench: SearchBench) -> None:
        idle = 0
        for number in range(self.proposals):
            best, role, known = bench.best, bench.roles[number % len(bench.roles)], len(bench.trials)
            text = bench.ask(VARY.format(prompt=prompt_of(best.texts, role), number=number + 1))
            if text:
                bench.measure(with_prompt(best.texts, role, text), f"{role} mutated", best)
            idle = 0 if len(bench.trials) > known else idle + 1
            if idle == self.patience:
                return


@dataclass(frozen=True)
class Reflective(Searcher):
    """Rewrites the best prompt so far after reading wrong answers to some practice cases.

    Attributes:
        batch: practice cases per proposal; if all are right there is none.
        proposals: their largest number. patience: this many consecutive proposals without news end the search.
    """

    batch: int = 4
    proposals: int = 1000
    patience: int = 10

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise ConfigurationError(f"searcher.batch = {self.batch}: look at 1 case or more")

    def search(self, bench: SearchBench) -> None:
        idle = 0
        for number in range(self.proposals):
            role, known = bench.roles[number % len(bench.roles)], len(bench.trials)
            reflected(bench, bench.best, role, number, self.batch)
            idle = 0 if len(bench.trials) > known else idle + 1
            if idle == self.patience:
                return


RANDOM_MUTATION = SearchMethod(
    name="random-mutation",
    description="prompts rewritten blindly, the better one kept: the baseline",
    searcher=RandomMutation(),
)

REFLECTIVE = SearchMethod(
    name="reflective",
    description="prompts rewritten in view of wrong answers, the better one kept",
    searcher=Reflective(),
)
