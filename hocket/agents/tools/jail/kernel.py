"""System calls that the standard library does not offer."""

from __future__ import annotations

import ctypes
import os

_LIBC = ctypes.CDLL(None, use_errno=True)

PR_SET_PDEATHSIG = 1
PR_SET_SECCOMP = 22
PR_SET_NO_NEW_PRIVS = 38

MACHINES = ("x86_64", "aarch64")
"""Architectures whose system calls are known here; columns of the tables of numbers."""


def column() -> int:
    """Which column of the tables is this machine's.

    Raises:
        OSError: on another architecture.
    """
    machine = os.uname().machine
    if machine not in MACHINES or ctypes.sizeof(ctypes.c_void_p) != 8:
        raise OSError(f"system calls of {machine} are not known")
    return MACHINES.index(machine)


def checked(result: int, what: str) -> int:
    """The result of a C function that says -1 when it fails.

    Raises:
        OSError: naming `what` failed.
    """
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def libc(name: str, *arguments: object) -> int:
    """Calls a function of the C library by name."""
    return checked(int(getattr(_LIBC, name)(*arguments)), name)


def syscall(what: str, numbers: tuple[int, int], *arguments: object) -> int:
    """Makes a system call by its number on each of `MACHINES`."""
    _LIBC.syscall.restype = ctypes.c_long
    return checked(int(_LIBC.syscall(ctypes.c_long(numbers[column()]), *arguments)), what)


def prctl(option: int, value: object) -> None:
    """Sets an attribute of this process."""
    libc("prctl", option, value, ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))


def die_with_parent(signal: int) -> None:
    """Asks the kernel to end this process when its parent ends."""
    prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal))


def drop_capabilities() -> None:
    """Gives up every capability, so that a process of root is root in name only."""
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    nothing = (ctypes.c_uint32 * 6)()
    libc("capset", ctypes.byref(header), ctypes.byref(nothing))
    prctl(PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1))
