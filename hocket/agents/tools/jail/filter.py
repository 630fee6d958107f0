"""A seccomp filter that lets through a list of system calls and refuses all others.

On the list is what a single-threaded interpreter needs in order to compute, read its own library and write to open
files. Not on it: starting or signalling processes, threads, sockets, pipes, other programs, mounts, tracing, rights
and owners of files, shared memory, io_uring, and everything that will be invented later.
"""

from __future__ import annotations

import ctypes
import errno
import os

from .kernel import PR_SET_SECCOMP, column, libc

# Numbers on x86-64 and arm64; -1 where there is none.
ALLOWED: dict[str, tuple[int, int]] = {
    # files that are open, or may be opened
    "read": (0, 63), "write": (1, 64), "close": (3, 57), "fstat": (5, 80), "lseek": (8, 62), "pread64": (17, 67),
    "pwrite64": (18, 68), "readv": (19, 65), "writev": (20, 66), "dup": (32, 23), "dup2": (33, -1), "dup3": (292, 24),
    "close_range": (436, 436), "fsync": (74, 82), "fdatasync": (75, 83), "ftruncate": (77, 46),
    "stat": (4, -1), "lstat": (6, -1), "newfstatat": (262, 79), "statx": (332, 291), "access": (21, -1),
    "faccessat": (269, 48), "faccessat2": (439, 439), "readlink": (89, -1), "readlinkat": (267, 78),
    "getdents": (78, -1), "getdents64": (217, 61), "getcwd": (79, 17), "chdir": (80, 49), "fchdir": (81, 50),
    # memory
    "mmap": (9, 222), "mprotect": (10, 226), "munmap": (11, 215), "brk": (12, 214), "mremap": (25, 216),
    "madvise": (28, 233), "futex": (202, 98),
    # time and waiting
    "poll": (7, -1), "ppoll": (271, 73), "select": (23, -1), "pselect6": (270, 72), "sched_yield": (24, 124),
    "nanosleep": (35, 101), "clock_nanosleep": (230, 115), "clock_gettime": (228, 113), "clock_getres": (229, 114),
    "gettimeofday": (96, 169), "time": (201, -1), "times": (100, 153), "getitimer": (36, 102),
    "setitimer": (38, 103), "alarm": (37, -1), "pause": (34, -1), "restart_syscall": (219, 128),
    # itself
    "getpid": (39, 172), "getppid": (110, 173), "gettid": (186, 178), "getpgrp": (111, -1), "getuid": (102, 174),
    "getgid": (104, 176), "geteuid": (107, 175), "getegid": (108, 177), "uname": (63, 160), "sysinfo": (99, 179),
    "getrlimit": (97, 163), "getrusage": (98, 165), "sched_getaffinity": (204, 123), "getrandom": (318, 278),
    "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "sigaltstack": (131, 132),
    "exit": (60, 93), "exit_group": (231, 94),
}  # fmt: skip

WRITING: dict[str, tuple[int, int]] = {
    "mkdir": (83, -1), "mkdirat": (258, 34), "rmdir": (84, -1), "unlink": (87, -1), "unlinkat": (263, 35),
    "rename": (82, -1), "renameat": (264, 38), "renameat2": (316, 276),
}  # fmt: skip
"""Further calls where there is a place to write to."""

IOCTL = (16, 29)
OPENAT = (257, 56)
FCNTL = (72, 25)
PRLIMIT = (302, 261)
TGKILL = (234, 131)

# Duplicates and flags of descriptors. Not F_SETFL and F_SETOWN: they have the kernel send signals to anybody.
FCNTL_COMMANDS = (0, 1, 2, 3, 1030)
_ARCHITECTURES = (0xC000003E, 0xC00000B7)
_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _KILL, _REFUSE = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
# Access modes other than reading, O_CREAT, O_TRUNC, O_APPEND, and O_TMPFILE's own bit.
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | 0o20000000

Step = tuple[int, int, int, int]
"""An instruction: operation, how far to jump where it holds and where not, and its constant."""


class _Step(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint16), ("jt", ctypes.c_uint8), ("jf", ctypes.c_uint8), ("k", ctypes.c_uint32))


class _Program(ctypes.Structure):
    _fields_ = (("len", ctypes.c_uint16), ("filter", ctypes.POINTER(_Step)))


def steps(machine: int, process: int, writes: bool) -> list[Step]:
    """The filter for one column of the tables, for the process of number `process`."""
    program: list[Step] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    plain = {**ALLOWED, **WRITING, "openat": OPENAT} if writes else ALLOWED
    for numbers in plain.values():
        if numbers[machine] >= 0:
            program += [(_EQUAL, 0, 1, numbers[machine]), (_RETURN, 0, 0, _ALLOW)]
    program += _only(FCNTL[machine], 1, FCNTL_COMMANDS)
    program += _only(PRLIMIT[machine], 0, (0, process))
    program += _only(TGKILL[machine], 0, (process,))
    if not writes:
        program += _without(OPENAT[machine], 2, _WRITES)
    # A file that is no terminal says ENOTTY to every question about terminals.
    program += [(_EQUAL, 0, 1, IOCTL[machine]), (_RETURN, 0, 0, _REFUSE | errno.ENOTTY)]
    return [*program, (_RETURN, 0, 0, _REFUSE | errno.EPERM)]


def _only(number: int, argument: int, values: tuple[int, ...]) -> list[Step]:
    """Lets a call through where an argument, an int to the kernel, is one of `values`."""
    tests = [step for value in values for step in ((_EQUAL, 0, 1, value), (_RETURN, 0, 0, _ALLOW))]
    body = [(_LOAD, 0, 0, _ARGUMENTS + 8 * argument), *tests, (_RETURN, 0, 0, _REFUSE | errno.EPERM)]
    return [(_EQUAL, 0, len(body), number), *body]


def _without(number: int, argument: int, bits: int) -> list[Step]:
    """Lets a call through where an argument has none of `bits`."""
    body = [
        (_LOAD, 0, 0, _ARGUMENTS + 8 * argument),
        (_ANY_BIT, 0, 1, bits),
        (_RETURN, 0, 0, _REFUSE | errno.EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return [(_EQUAL, 0, len(body), number), *body]


def install(*, writes: bool) -> None:
    """Filters all system calls of this process from now on; it cannot be undone.

    Args:
        writes: whether files may be opened for writing, made and removed where the rest of the jail allows it.
    """
    listed = steps(column(), os.getpid(), writes)
    made = (_Step * len(listed))(*(_Step(*step) for step in listed))
    program = _Program(len(listed), made)
    libc("prctl", PR_SET_SECCOMP, ctypes.c_ulong(2), ctypes.byref(program), ctypes.c_ulong(0), ctypes.c_ulong(0))
