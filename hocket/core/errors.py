"""Errors a person can act on: each is one or two sentences that name the culprit and the remedy."""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable, Sequence

INTERRUPTED = 130
"""The exit code after Ctrl-C."""


class HocketError(Exception):
    """A failed run. The command line prints the message without a traceback and exits with 1."""

    exit_code = 1


class ConfigurationError(HocketError):
    """Bad usage or configuration. The command line exits with 2."""

    exit_code = 2


_REMEDIES = {
    errno.ENOSPC: "make room on the disk",
    errno.EDQUOT: "make room within the quota",
    errno.EROFS: "the file system is read-only, choose another place",
    errno.EACCES: "check its permissions, or choose another place",
    errno.EPERM: "check its permissions, or choose another place",
    errno.ENOENT: "check the path, its folder must be there",
    errno.ENOTDIR: "check the path, a part of it is no folder",
    errno.EISDIR: "it is a folder, name a file",
    errno.EEXIST: "it is there already, choose another name",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.EADDRINUSE: "choose another port",
}


def refusal(error: OSError) -> str:
    """What the system refused, where, and what to do about it, in a sentence."""
    names = [str(name) for name in (error.filename, error.filename2) if name is not None]
    where = " to ".join(names) or type(error).__name__
    remedy = _REMEDIES.get(error.errno or 0, "run again with --debug for where it happened")
    return f"{where}: {error.strerror or str(error) or 'the system refused'}; {remedy}"


LIST_LIMIT = 40
"""The most names that a message lists."""


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
    if len(names) > LIST_LIMIT:
        return f"; there are {len(names)}, such as {', '.join(names[:3])}"
    return f"; choose from {', '.join(names)}" if names else ""


def near_names(word: str, choices: Iterable[str], most: int = 3) -> list[str]:
    """The closest of many names, best first: alike in their letters, or with the word in them; none if none is."""
    scores = {name: _likeness(word.lower(), name.lower()) for name in choices}
    close = sorted((name for name, score in scores.items() if score >= 0.55), key=lambda name: (-scores[name], name))
    return close[:most]


def _likeness(word: str, name: str) -> float:
    if not word:
        return 0.0
    if sorted(word) == sorted(name):
        return 1.5 + (word == name)
    shared = 0.0
    if min(len(word), len(name)) > 2:  # Two letters are in too many names.
        shared = 0.25 if word in name else 0.1 if name in word else 0.0
    return difflib.SequenceMatcher(None, word, name).ratio() + shared


def suggestion(word: str, choices: Iterable[str], place: str) -> str:
    """The hint of `near_hint` with the nearest of many names."""
    return near_hint(near_names(word, choices), place)


def near_hint(close: Sequence[str], place: str) -> str:
    """A hint such as ``; did you mean 'x', 'y' or 'z'? PLACE``, where `place` is a clause that says where to look."""
    if not close:
        return f"; {place}"
    *first, last = map(repr, close)
    listed = f"{', '.join(first)} or {last}" if first else last
    return f"; did you mean {listed}? {place[0].upper()}{place[1:]}"
