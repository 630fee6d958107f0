"""Errors between two transcripts, word by word: those of the word error rate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class Errors(NamedTuple):
    """What makes one sequence of another: the fewest edits, and among those the fewest insertions and deletions.

    `length` is that of the reference.
    """

    substitutions: int
    deletions: int
    insertions: int
    length: int

    @property
    def edits(self) -> int:
        return self.substitutions + self.deletions + self.insertions

    @property
    def rate(self) -> float:
        """Edits a word of the reference, which exceeds 1 where there are more; for an empty one 0 or 1."""
        return self.edits / self.length if self.length else float(self.edits > 0)


def errors(reference: Sequence[T], transcript: Sequence[T]) -> Errors:
    """The errors of a transcript, a sequence of words or of characters."""
    # Of each prefix of the transcript: edits, then insertions and deletions together, then the three apart.
    row = [(n, n, 0, 0, n) for n in range(len(transcript) + 1)]
    for done, word in enumerate(reference, start=1):
        last, row = row, [(done, done, 0, done, 0)]
        for place, candidate in enumerate(transcript, start=1):
            (edits, moved, *apart), wrong = last[place - 1], int(word != candidate)
            row.append(
                min(
                    (edits + wrong, moved, apart[0] + wrong, apart[1], apart[2]),
                    _longer(last[place], deletions=1),
                    _longer(row[-1], insertions=1),
                )
            )
    _, _, substitutions, deletions, insertions = row[-1]
    return Errors(substitutions, deletions, insertions, len(reference))


def _longer(
    state: tuple[int, int, int, int, int], deletions: int = 0, insertions: int = 0
) -> tuple[int, int, int, int, int]:
    edits, moved, substituted, deleted, inserted = state
    return edits + 1, moved + 1, substituted, deleted + deletions, inserted + insertions


def word_errors(reference: str, transcript: str) -> Errors:
    """The errors of a transcript in words that white space parts."""
    return errors(reference.split(), transcript.split())
