"""Continuation of recorded responses from a cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hocket.stages import Tokenizer
from hocket.types import Assignment, Trajectory, Turn

OPENED, CLOSED, ANSWER = "<think>", "</think>", "<answer>"
"""The tags that open and close a thought, and open an answer."""

NUMBERED = 1 << 20
"""The first sample number of continuations, so that their draws differ from those of the samples they continue."""


def only_turn(trajectory: Trajectory) -> Turn | None:
    """The turn of an attempt with a single turn; None for several turns, no decisions, or a failed attempt."""
    single = trajectory.failure is None and len(trajectory.turns) == 1 and len(trajectory.turns[0]) > 0
    return trajectory.turns[0] if single else None


def continued(asking: Assignment, tokens: Sequence[int], *, first: int, samples: int = 1, more: int) -> Assignment:
    """`samples` further attempts, numbered from `first`, that begin with `tokens` and may add `more`."""
    limit = len(tokens) + more
    return replace(
        asking,
        prefix=tuple(int(token) for token in tokens),
        samples=samples,
        first=first,
        budget=limit,
        decoding=replace(asking.decoding, max_tokens=limit),
    )


# ---------------------------------------------------------------- positions in the text


def tokens_covering(tokenizer: Tokenizer, tokens: NDArray[np.int64], characters: int) -> int:
    """The length of the shortest prefix whose text has at least `characters` characters; all tokens if none has."""
    low, high = 0, len(tokens)
    while low < high:
        middle = (low + high) // 2
        if len(tokenizer.decode(tokens[:middle].tolist())) >= characters:
            high = middle
        else:
            low = middle + 1
    return low


def thinking_span(tokenizer: Tokenizer | None, tokens: NDArray[np.int64]) -> tuple[int, int]:
    """The begin and end of a response's thought, in tokens: `tokens[begin:end]`, without its tags.

    Without a closing tag the thought ends before the answer's tag, or at the end of the response. Without an opening
    tag it begins with the response. Without a tokenizer all decisions are thought.
    """
    if tokenizer is None:
        return 0, len(tokens)
    text = tokenizer.decode(tokens.tolist())
    opened = text.find(OPENED)
    begin = opened + len(OPENED) if opened >= 0 else 0
    ends = [place for tag in (CLOSED, ANSWER) if (place := text.find(tag, begin)) >= 0]
    end = min(ends, default=None)
    return (
        tokens_covering(tokenizer, tokens, begin),
        len(tokens) if end is None else max(tokens_covering(tokenizer, tokens, end + 1) - 1, 0),
    )


def ending_tokens(
    tokenizer: Tokenizer | None, tokens: NDArray[np.int64], cut: int, phrase: str, text: str = ""
) -> tuple[int, ...]:
    """The ids of a phrase that ends thinking after `tokens[:cut]`, without its closing tag if no thought is open.

    A response may begin inside a thought, because some templates open it in the prompt. Then it closes a thought that
    it never opened, or its `text` begins with a tag that its tokens lack.
    """
    if tokenizer is None:
        return ()
    response, head = tokenizer.decode(tokens.tolist()), tokenizer.decode(tokens[:cut].tolist())
    before, closed, _ = response.partition(CLOSED)
    begins = text.lstrip().startswith(OPENED) and not response.lstrip().startswith(OPENED)
    inside = begins or (bool(closed) and OPENED not in before)
    is_open = CLOSED not in head if inside else head.rfind(OPENED) > head.rfind(CLOSED)
    return tokenizer.encode(phrase if is_open else phrase.removeprefix(CLOSED), tokens[:cut].tolist())
