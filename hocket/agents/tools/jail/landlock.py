"""Landlock: which files may be opened at all, a rule of the kernel that needs no rights (Linux 5.13)."""

from __future__ import annotations

import ctypes
import os

from .kernel import syscall

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_CREATE, _ADD, _RESTRICT = (444, 444), (445, 445), (446, 446)
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
# How many rights on files, and on ports, each version of Landlock knows; the sixth also confines signals.
_FILE_RIGHTS = (13, 14, 15, 15, 16)
_PORT_RIGHTS = 2
_SCOPES = 2


class _Rules(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("ports", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("rights", ctypes.c_uint64), ("parent", ctypes.c_int32))


def version() -> int:
    """The version of Landlock that the kernel speaks.

    Raises:
        OSError: when it has none.
    """
    return syscall("landlock", _CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(1))


def confine(readable: Sequence[str], writable: Sequence[str]) -> None:
    """Lets this process open files beneath `readable` for reading and beneath `writable` for anything, no others."""
    spoken = version()
    known = (1 << _FILE_RIGHTS[min(spoken, len(_FILE_RIGHTS)) - 1]) - 1
    rules = _Rules(known, (1 << _PORT_RIGHTS) - 1, (1 << _SCOPES) - 1)
    size = 8 if spoken < 4 else 16 if spoken < 6 else 24
    ruleset = syscall("landlock", _CREATE, ctypes.byref(rules), ctypes.c_size_t(size), ctypes.c_uint32(0))
    for path in readable:
        _allow(ruleset, path, _READ_FILE | _READ_DIR if os.path.isdir(path) else _READ_FILE)
    for path in writable:
        _allow(ruleset, path, known)
    syscall("landlock", _RESTRICT, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = _Beneath(rights, folder)
        syscall("landlock", _ADD, ctypes.c_int(ruleset), ctypes.c_int(1), ctypes.byref(rule), ctypes.c_uint32(0))
    finally:
        os.close(folder)
