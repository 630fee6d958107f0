"""Compiles the kernels once per machine and head size, and keeps the result on disk."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from hocket.core import cache

SOURCE = Path(__file__).with_name("kernels.cpp")
OFF = "HOCKET_KERNELS"
"""Environment variable; `off` or `torch` computes with torch alone, `triton` with Triton where that can be had."""

_FLAGS = ("-std=c++17", "-O3", "-march=native", "-fno-math-errno", "-fPIC")
_PATIENCE = 300.0
"""Seconds after which a compiler is given up."""


def compiler() -> str | None:
    """The C++ compiler: `CXX`, else g++, clang++ or c++ where there is one."""
    named = os.environ.get("CXX")
    return next((path for name in (named, "g++", "clang++", "c++") if name and (path := shutil.which(name))), None)


def cache_folder() -> Path:
    """Where compiled kernels are kept."""
    return cache.cache_folder("kernels")


@functools.cache
def library(head: int) -> ctypes.CDLL | None:
    """The kernels for heads of `head` numbers, compiled at first need (about ten seconds); None where that fails."""
    return _attempt(head)[0]


def reason(head: int) -> str | None:
    """Why there are no kernels; None when there are."""
    return _attempt(head)[1]


@functools.cache
def _attempt(head: int) -> tuple[ctypes.CDLL | None, str | None]:
    if os.environ.get(OFF, "").lower() in ("off", "0", "no", "torch", "triton"):
        return None, f"switched off by {OFF}"
    if head % 16 or not 0 < head <= 512:
        return None, f"heads of {head} numbers are not a multiple of 16 up to 512"
    tool = compiler()
    if tool is None:
        return None, "no C++ compiler found; install g++"
    try:
        cache_folder().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=cache_folder()):
            pass
    except OSError as error:
        return None, f"the kernels cannot be kept in {cache_folder()}: {error.strerror or error}"
    try:
        return _load(_compiled(tool, head)), None
    except (OSError, subprocess.SubprocessError) as error:
        lines = str(getattr(error, "stderr", None) or getattr(error, "strerror", None) or "").strip().splitlines()
        return None, f"{Path(tool).name} failed: {lines[0] if lines else 'no library that can be loaded'}"


def _compiled(tool: str, head: int) -> Path:
    """The library's file, made unless it is there."""
    flags = [*_FLAGS, f"-DHEAD_SIZE={head}"]
    openmp = _openmp() is not None
    if openmp:
        flags.append("-fopenmp")
    version = subprocess.run([tool, "--version"], capture_output=True, timeout=_PATIENCE).stdout
    identity = "\0".join([SOURCE.read_text(), *flags, version.decode(errors="replace"), _processor()])
    target = cache_folder() / f"{hashlib.sha256(identity.encode()).hexdigest()[:24]}.so"
    if target.exists():
        return target
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        part, linked = Path(folder) / "kernels.o", Path(folder) / "kernels.so"
        # Linked apart and without an OpenMP library: it shall be torch's, whose threads are waiting already.
        for order in ([*flags, "-c", str(SOURCE), "-o", str(part)], ["-shared", str(part), "-o", str(linked)]):
            subprocess.run(
                [tool, *order], check=True, capture_output=True, text=True, errors="replace", timeout=_PATIENCE
            )
        linked.replace(target)
    return target


def _load(file: Path) -> ctypes.CDLL:
    openmp = _openmp()
    if openmp is not None:
        ctypes.CDLL(str(openmp), mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(str(file))


@functools.cache
def _openmp() -> Path | None:
    """The OpenMP library that torch brings; None where it brings none that g++ could share."""
    import torch

    folders = [Path(torch.__file__).parent / "lib", Path(torch.__file__).parent.parent / "torch.libs"]
    return next((file for folder in folders for file in sorted(folder.glob("libgomp*.so*"))), None)


def _processor() -> str:
    """What `-march=native` depends on."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    known = [line for line in lines if line.startswith(("flags", "Features", "model name"))]
    return "\n".join([platform.machine(), platform.platform(), *known[:2]])
