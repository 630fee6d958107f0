"""Replies of agents."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hocket.core.markup import ANSWER
from hocket.types import Turn


@dataclass(frozen=True, eq=False)
class Reply:
    """One answer of an agent: its text, its token ids `[L]`, why it ended, and the recorded turn."""

    text: str
    tokens: NDArray[np.int64]
    finish: str
    turn: Turn

    def __str__(self) -> str:
        return self.text


def final(reply: Reply) -> str:
    """The vote of a reply: the text in its answer tags, else the whole reply."""
    tagged = ANSWER.search(str(reply))
    return (str(reply) if tagged is None else tagged[1]).strip()
