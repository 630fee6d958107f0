"""A single decision that is left as it was learnt before."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import ClassVar

import torch

from hocket.core.columns import TOKEN_TEXTS
from hocket.signals import token_texts
from hocket.stages import Correction
from hocket.types import Batch, Column


@dataclass(frozen=True)
class MaskDecision(Correction):
    """Weight 0 for the one decision right after `tag`: selective loss masking of AdaCoT (arXiv 2505.11896).

    Whether to think is decided there, so a stage of training on one-sided data cannot move that boundary. It is the
    first token that begins at or after the end of the first `tag` of each response; with an empty `tag` the first
    token of each turn, for models whose first token decides. Set as a recipe's correction, it leaves credit as it is.
    Texts of tokens are the column `pieces`.
    """

    tag: str = "<think>"

    reads: ClassVar[frozenset[Column]] = frozenset({TOKEN_TEXTS})

    def __call__(self, batch: Batch) -> Batch:
        seen = batch.occurrences
        turn = batch.turn[seen.decision]
        opens = torch.ones(len(seen), dtype=torch.bool)
        opens[1:] = (turn[1:] != turn[:-1]) | (seen.trajectory[1:] != seen.trajectory[:-1])
        decides = opens if not self.tag else self._after(batch, opens)
        return batch.credited(weight=torch.where(decides, torch.zeros_like(seen.weight), seen.weight))

    def _after(self, batch: Batch, opens: torch.Tensor) -> torch.Tensor:
        """Which occurrence comes right after the tag in its response, `[E]` bool."""
        pieces = [piece for row in token_texts(batch, "MaskDecision") for piece in row]
        found = torch.zeros(len(pieces), dtype=torch.bool)
        starts = [*torch.nonzero(opens).flatten().tolist(), len(pieces)]
        for start, end in pairwise(starts):
            response = pieces[start:end]
            at = "".join(response).find(self.tag)
            if at < 0:
                continue
            places = [0, *accumulate(len(piece) for piece in response)]
            after = next((n for n in range(len(response)) if places[n] >= at + len(self.tag)), None)
            if after is not None:
                found[start + after] = True
        return found
