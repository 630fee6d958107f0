"""Training-Free GRPO: lessons from groups of samples, written into the prompt (Cai et al., arXiv:2510.08191).

For each question a group is drawn with the library of lessons in the prompt. Where its rewards differ the reflecting
model summarises every sample and says what the better ones did that the others did not: the group's semantic
advantage, in place of a number. A batch of these becomes edits of the library: add, modify, delete, keep. Groups of
equal reward say nothing, as in GRPO. No weight changes.

The paper states no rule for choosing among the libraries on the way; here each is measured on the development cases
after its batch, the search goes on from the newest, and the best is taken. The summaries' and edits' wording is ours.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hocket.agents.search.searcher import CaseResult, SearchBench, Searcher, SearchMethod, check_wording
from hocket.core.errors import ConfigurationError
from hocket.core.texts import Texts

SUMMARISE = """Question: {question}
Answer: {answer}
Reward: {score:g}

Summarise in a sentence what this answer did, step by step."""

CONTRAST = """Several answers to one question, with their rewards.

Question: {question}{expected}
{summaries}

Lessons so far:
{library}

Say what the better answers did that the worse ones did not, as edits of the lessons, one a line:
ADD: a new general lesson
MODIFY 2: a better wording of lesson 2
DELETE 3
KEEP"""

MERGE = """Lessons so far:
{library}

Edits that were proposed after several questions:
{edits}

Merge them into one list of edits without repetitions, one a line, in the same form (ADD: .., MODIFY 2: .., DELETE 3,
KEEP)."""

_EDIT = re.compile(
    r"^[\W_]*(?:(ADD)\s*:|(MODIFY)\s*\[?(\d+)\]?\s*:|(DELETE)\s*\[?(\d+)\]?|KEEP\b)[ \t]*(.*)$", re.M | re.I
)


def edited(library: Sequence[str], edits: str, most: int) -> tuple[str, ...]:
    """The library after edits in words, a line each; numbers count the lessons before any edit, from 1.

    Lines that are no edit, lessons that do not exist and repetitions are passed over; lessons beyond `most` are not
    added.
    """
    kept: dict[int, str] = dict(enumerate(library, 1))
    added: list[str] = []
    for match in _EDIT.finditer(edits):
        text = match[6].strip()
        if match[1] and text and text not in (*kept.values(), *added):
            added.append(text)
        elif match[2] and text and int(match[3]) in kept:
            kept[int(match[3])] = text
        elif match[4]:
            kept.pop(int(match[5]), None)
    return tuple((*kept.values(), *added)[:most])


@dataclass(frozen=True)
class SemanticAdvantage(Searcher):
    """See the module.

    Attributes:
        samples: of a group. batch: groups between two edits of the library. epochs: passes over the practice cases.
        most: lessons.
        summarise, contrast, merge: what the reflecting model is asked, if in other words.
    """

    samples: int = 5
    batch: int = 8
    epochs: int = 3
    most: int = 16
    summarise: str = SUMMARISE
    contrast: str = CONTRAST
    merge: str = MERGE

    def __post_init__(self) -> None:
        for name in ("samples", "batch", "epochs", "most"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"searcher.{name} = {getattr(self, name)}: it must be at least 1")
        for name, usual in (("summarise", SUMMARISE), ("contrast", CONTRAST), ("merge", MERGE)):
            check_wording(name, getattr(self, name), usual)

    def search(self, bench: SearchBench) -> None:
        texts, parent = bench.start, bench.trials[0]
        for epoch in range(self.epochs):
            order = bench.key.derive("order", epoch).numpy().permutation(bench.practice).tolist()
            for first in range(0, len(order), self.batch):
                cases = order[first : first + self.batch]
                played = bench.practise(texts, cases, self.samples, again=epoch)
                library = self._learnt(bench, texts, played)
                if library == texts.library:
                    continue
                texts = replace(texts, library=library)
                trial = bench.measure(texts, f"lessons of epoch {epoch + 1}, batch {first // self.batch + 1}", parent)
                parent = trial or parent
                texts = parent.texts  # Where a library left no room in the context it is the one before.

    def _learnt(self, bench: SearchBench, texts: Texts, played: Sequence[CaseResult]) -> tuple[str, ...]:
        """The library after the groups of a batch."""
        groups = [played[place : place + self.samples] for place in range(0, len(played), self.samples)]
        told = [group for group in groups if len({one.score for one in group}) > 1]
        edits = [said for group in told if (said := self._contrast(bench, texts, group))]
        if not edits:
            return texts.library
        merged = bench.ask(self.merge.format(library=_numbered(texts), edits="\n".join(edits)))
        return edited(texts.library, merged, self.most)

    def _contrast(self, bench: SearchBench, texts: Texts, group: Sequence[CaseResult]) -> str:
        """The semantic advantage of a group."""
        facts = [{"question": one.question, "answer": one.answer, "score": one.score} for one in group]
        said = [bench.ask(self.summarise.format(**told)) for told in facts]
        lines = [f"Reward {one.score:g}: {summary}" for one, summary in zip(group, said, strict=True)]
        right = f"\nRight answer: {group[0].expected}" if group[0].expected else ""
        return bench.ask(
            self.contrast.format(
                question=group[0].question, expected=right, summaries="\n".join(lines), library=_numbered(texts)
            )
        )


def _numbered(texts: Texts) -> str:
    return "\n".join(f"{number}. {lesson}" for number, lesson in enumerate(texts.library, 1)) or "(none)"


TRAINING_FREE_GRPO = SearchMethod(
    name="training-free-grpo",
    description="lessons from what the better samples of a group did, kept in the prompt",
    searcher=SemanticAdvantage(),
    source="arXiv:2510.08191",
)
