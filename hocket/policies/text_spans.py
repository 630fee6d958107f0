"""Spans of text that two tokenizers share: where both have a token's end, a span ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Span = tuple[list[int], list[int]]
"""Places of the tokens of one text, by either tokenizer."""

BROKEN = "\ufffd"
"""What a decoder shows for bytes that are no whole character yet."""


def ends_of(decode: Callable[[Sequence[int]], str], tokens: Sequence[int], inside: float) -> list[float]:
    """After each token, how many bytes of the text are spelt, `[K]`.

    Args:
        decode: the text of tokens that follow each other.
        inside: in (0, 1), the fraction added at a token that ends inside a character, so that nothing aligns there.
    """
    ends: list[float] = []
    total, before, begun = 0, 0, 0
    for place in range(len(tokens)):
        # From the token before the last whole one on: some decoders drop a space at the beginning.
        known, text = decode(tokens[before:begun]), decode(tokens[before : place + 1])
        if text.endswith(BROKEN) and place + 1 < len(tokens):
            ends.append(total + inside)
            continue
        total += len(text[len(known) :].encode("utf-8", "replace"))
        before, begun = begun, place + 1
        ends.append(float(total))
    return ends


def spans_of(first: Sequence[float], second: Sequence[float]) -> list[Span]:
    """The spans of one text whose tokens end at `first` `[K]` and `second` `[L]`; what is left is a last span."""
    spans: list[Span] = []
    begun, other_begun, place, other = 0, 0, 0, 0
    while place < len(first) and other < len(second):
        ahead = first[place] - second[other]
        place, other = place + (ahead <= 0), other + (ahead >= 0)
        if ahead == 0:
            spans.append((list(range(begun, place)), list(range(other_begun, other))))
            begun, other_begun = place, other
    if begun < len(first) and other_begun < len(second):
        spans.append((list(range(begun, len(first))), list(range(other_begun, len(second)))))
    return spans
