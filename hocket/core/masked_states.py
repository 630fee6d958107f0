"""States of text with masks, as turns of masked-diffusion language models record them.

The observation of such a turn is one row of int64: how many tokens the state has, how many of them are the prompt, the
scale of guidance in millionths, the state, and the places of the decisions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_MILLION = 1_000_000


@dataclass(frozen=True)
class MaskedState:
    """A state and where it is looked at.

    Attributes:
        tokens: prompt and answer, `[S]` int64, masks among them. prompt: tokens of the prompt. places: `[K]` in 0..S-1.
        guidance: the scale of guidance; 1 is none.
    """

    tokens: NDArray[np.int64]
    prompt: int
    places: NDArray[np.int64]
    guidance: float = 1.0

    def row(self) -> NDArray[np.int64]:
        """As the observation of a turn."""
        head = [len(self.tokens), self.prompt, round(self.guidance * _MILLION)]
        return np.concatenate([np.array(head, np.int64), self.tokens, self.places])

    @staticmethod
    def read(row: NDArray[np.int64]) -> MaskedState:
        """The inverse of `row`."""
        size = int(row[0])
        return MaskedState(row[3 : 3 + size], int(row[1]), row[3 + size :], float(row[2]) / _MILLION)
