"""Errors a person can act on: each is one or two sentences that name the culprit and the mend."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class HocketError(Exception):
    """A failed run. The command line prints the message without a traceback and exits with 1."""

    exit_code = 1


class ConfigurationError(HocketError):
    """Bad usage or configuration. The command line exits with 2."""

    exit_code = 2


def nearest(word: str, choices: Iterable[str]) -> str:
    """A hint such as ``; did you mean 'x'?`` with the closest of `choices`, or the choices when none is close."""
    names = sorted(choices)
    # Two letters in the wrong order are the commonest slip, and count for difflib as two errors.
    swapped = [name for name in names if sorted(name) == sorted(word)]
    if swapped:
        return f"; did you mean {swapped[0]!r}?"
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; choose from {', '.join(names)}" if names else ""
