"""Parts of an answer: rewards for exactly the tokens that words are about, and segments by what divides a text."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import ClassVar

import torch

from hocket.core.batch import Batch
from hocket.core.columns import TOKEN_TEXTS, Column
from hocket.core.signals import token_texts
from hocket.stages import Shaping


def numbered_by(texts: Sequence[str], separator: str) -> list[int]:
    """How many `separator`s end at or before the start of each token: the number of the part it belongs to.

    So a separator, and a token that holds one, still belongs to the part before it.
    """
    text = "".join(texts)
    ends, at = [], text.find(separator)
    while at >= 0:
        ends.append(at + len(separator))
        at = text.find(separator, at + len(separator))
    starts = [0, *accumulate(len(piece) for piece in texts)][: len(texts)]
    return [bisect.bisect_right(ends, start) for start in starts]


@dataclass(frozen=True)
class SegmentsByText(Shaping):
    """Numbers the parts of each response that `separator` divides: `Batch.segment`, from 0 within each turn.

    By lines these are the items of a list; by `</think>` the reasoning, tag included, is part 0 and the rest part 1.
    Texts of tokens are the column `pieces`; without any, segments stay as they were recorded.
    """

    separator: str = "\n"

    reads: ClassVar[frozenset[Column]] = frozenset({TOKEN_TEXTS})

    def __post_init__(self) -> None:
        if not self.separator:
            raise ValueError("separator must not be empty")

    def __call__(self, batch: Batch) -> Batch:
        if not TOKEN_TEXTS.present(batch):
            return batch
        occurrences, segment = batch.occurrences, batch.segment.clone()
        turns = batch.turn[occurrences.decision].tolist()
        at = 0
        for row in token_texts(batch, "SegmentsByText"):
            if any(row):
                numbers: list[int] = []
                for start, end in _same(turns[at : at + len(row)]):
                    numbers += numbered_by(row[start:end], self.separator)
                segment[occurrences.decision[at : at + len(row)]] = torch.tensor(numbers, dtype=segment.dtype)
            at += len(row)
        return batch.but(segment=segment)


def _same(turns: Sequence[int]) -> list[tuple[int, int]]:
    """Stretches of equal numbers, as (start, end)."""
    cuts = [0, *(n for n in range(1, len(turns)) if turns[n] != turns[n - 1]), len(turns)]
    return list(pairwise(cuts))
