"""Errors a person can act on: each is one or two sentences that name the culprit and the mend."""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable

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
