"""Namespaces: a world with no other process, no network, and no files but those it is shown."""

from __future__ import annotations

import ctypes
import os

from .kernel import libc, syscall

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_NEW = {
    "user": 0x10000000,
    "mount": 0x00020000,
    "process": 0x20000000,
    "network": 0x40000000,
    "ipc": 0x08000000,
    "host name": 0x04000000,
    "cgroup": 0x02000000,
}
_READ_ONLY, _NO_SUID, _NO_DEVICES, _NO_EXECUTION, _REMOUNT, _BIND, _DEEP, _PRIVATE = (
    *(1, 2, 4, 8, 32, 4096),
    *(16384, 1 << 18),
)
_DETACH = 2
WORK = "/work"
"""The folder a program starts in, and the only one it may write to."""
_PIVOT_ROOT, _MOUNT_SETATTR = (155, 41), (442, 442)
_AT_RECURSIVE = 0x8000


class _Attributes(ctypes.Structure):
    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("user", ctypes.c_uint64),
    )


def leave() -> None:
    """Moves this process into namespaces of its own; the next child is the first process of the new world."""
    user, group = os.geteuid(), os.getegid()
    libc("unshare", ctypes.c_int(sum(_NEW.values())))
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def enclose(readable: Sequence[str], scratch: int) -> None:
    """Makes the current folder the root: an empty file system in memory of `scratch` bytes, and `readable` in it.

    What is readable stands where it stood, read-only. The current folder is then `WORK`.
    """
    libc("sethostname", b"sandbox", ctypes.c_size_t(7))
    _mount("none", "/", None, _DEEP | _PRIVATE)
    folder = os.getcwd()
    options = f"size={scratch},nr_inodes=1024,mode=0700"
    _mount("tmpfs", folder, "tmpfs", _NO_SUID | _NO_DEVICES | _NO_EXECUTION, options)
    os.chdir(folder)
    os.mkdir(folder + WORK)
    for path in sorted(readable):
        _show(path, folder + path)
    syscall("pivot_root", _PIVOT_ROOT, b".", b".")
    libc("umount2", b".", ctypes.c_int(_DETACH))
    os.chdir(WORK)


def _show(path: str, place: str) -> None:
    """Shows a folder or file at `place`, read-only; a link stays a link."""
    os.makedirs(os.path.dirname(place), exist_ok=True)
    if os.path.lexists(place):
        return
    if os.path.islink(path):
        os.symlink(os.readlink(path), place)
        return
    if os.path.isdir(path):
        os.mkdir(place)
    else:
        os.close(os.open(place, os.O_CREAT | os.O_WRONLY))
    _mount(path, place, None, _BIND | _DEEP)
    _protect(place)


def _protect(place: str) -> None:
    """Makes a mount and all beneath it read-only."""
    wanted = _Attributes(_READ_ONLY | _NO_SUID | _NO_DEVICES, 0, 0, 0)
    try:
        syscall(
            "mount_setattr",
            _MOUNT_SETATTR,
            ctypes.c_int(-100),
            place.encode(),
            ctypes.c_uint(_AT_RECURSIVE),
            ctypes.byref(wanted),
            ctypes.c_size_t(ctypes.sizeof(wanted)),
        )
    except OSError:  # before Linux 5.12: the mount itself, with the flags that are locked on it
        flags = os.statvfs(place).f_flag & ~os.ST_RDONLY
        _mount("none", place, None, _REMOUNT | _BIND | _READ_ONLY | _NO_SUID | _NO_DEVICES | flags)


def _mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    texts = [None if text is None else text.encode() for text in (source, target, kind, options)]
    try:
        libc("mount", texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3])
    except OSError as error:
        raise OSError(error.errno, f"mount {source} on {target}: {os.strerror(error.errno or 0)}") from None
