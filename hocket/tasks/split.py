"""Which problems may be used for what, decided by the text of the question alone.

A question belongs to exactly one split whoever generated it, so pretraining, training and evaluation never
share a problem, whatever the seeds and the order of generation.
"""

from __future__ import annotations

import hashlib
from typing import Literal, TypeAlias

Split: TypeAlias = Literal["pretrain", "train", "eval"]

SPLITS: tuple[Split, ...] = ("pretrain", "train", "eval")
SHARES: dict[Split, int] = {"pretrain": 50, "train": 30, "eval": 20}
"""Percent of all questions in each split."""


def normalise(content: str) -> str:
    """`content` with every run of whitespace made one space, and none at the ends."""
    return " ".join(content.split())


def percentile_of(content: str, purpose: bytes) -> int:
    """A fixed pseudo-random number in [0, 100) of the normalised `content`, independent between purposes.

    `purpose` is a label of at most 16 bytes.
    """
    digest = hashlib.blake2b(normalise(content).encode("utf-8"), digest_size=8, person=purpose).digest()
    return int.from_bytes(digest, "big") % 100


def split_of(content: str) -> Split:
    """The split of a question, from the BLAKE2b hash of its normalised text."""
    left = percentile_of(content, b"hocket-split")
    for split in SPLITS:
        if left < SHARES[split]:
            return split
        left -= SHARES[split]
    raise AssertionError("the shares of the splits do not add up to 100")
