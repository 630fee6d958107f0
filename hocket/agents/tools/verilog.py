"""Verilog that nobody vouches for, compiled and simulated by Icarus Verilog.

The language reaches files and the machine by system tasks (`$..`) and compiler directives (`` `.. ``) alone; a design
that has any but a few harmless functions is refused before it is compiled. What is left runs in an empty folder and an
empty environment under limits of time, memory and the size of files, and is ended with its whole session.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from hocket.core.errors import ConfigurationError

PROGRAMS = ("iverilog", "vvp")
HARMLESS = ("$signed", "$unsigned", "$clog2")
"""System functions that a design may use."""

LONGEST = 20_000
"""Characters of a design; a longer one is refused."""

_SYSTEM = re.compile(r"\$\w*")
_SECONDS = 10.0
"""Wall-clock time of both programs; what ends an endless design is its processor time."""
_LIMITS = "ulimit -t 1 && ulimit -v 524288 && ulimit -f 4096"
"""Seconds of processor time of each program, KiB of memory, blocks of 512 bytes of a file: what it prints included."""
_COMPILE = f"{_LIMITS} || exit 1; iverilog -g2005 -s bench -o bench.vvp bench.v design.v >messages 2>&1"
_SIMULATE = f"{_LIMITS} || exit 1; vvp -n bench.vvp >printed 2>messages"
_ALONE = f"{_LIMITS} || exit 1; iverilog -g2005 -t null design.v >messages 2>&1"


@dataclass(frozen=True)
class DesignSimulation:
    """What came of a design.

    Attributes:
        compiles: whether the compiler accepts it by itself.
        printed: the lines that the testbench printed; none where the two do not fit together or did not end in time.
    """

    compiles: bool
    printed: tuple[str, ...] = ()


def installed() -> bool:
    """Whether the simulator is there."""
    return all(shutil.which(program) is not None for program in PROGRAMS)


def required() -> None:
    """Raises `ConfigurationError` unless the simulator is there."""
    if not installed():
        raise ConfigurationError("Verilog is simulated by Icarus Verilog, which is not here: apt install iverilog")


def refused(design: str) -> bool:
    """Whether a design asks for more than the language: system tasks, compiler directives; or is too long."""
    tasks = (name not in HARMLESS for name in _SYSTEM.findall(design))
    return "`" in design or "\0" in design or len(design) > LONGEST or any(tasks)


@lru_cache(maxsize=1 << 15)
def simulate(design: str, bench: str) -> DesignSimulation:
    """Compiles a design with a testbench, the module `bench`, and runs it. Each pair of texts is run once.

    A design that is refused does not compile. What the testbench is called inside the run no design can know: its
    module gets a name drawn anew, so that a design cannot read or set what stands in it.

    Raises:
        ConfigurationError: without a simulator.
    """
    required()
    if refused(design) or not design.strip():
        return DesignSimulation(False)
    name = f"bench_{os.urandom(8).hex()}"
    with tempfile.TemporaryDirectory(prefix="hocket-") as folder:
        place = Path(folder)
        (place / "design.v").write_text(design, "utf-8", errors="replace")
        (place / "bench.v").write_text(re.sub(r"\bbench\b", name, bench), "utf-8")
        if not _ran(_COMPILE.replace("-s bench", f"-s {name}"), place):
            return DesignSimulation(_ran(_ALONE, place))
        if not _ran(_SIMULATE, place):
            return DesignSimulation(True)
        return DesignSimulation(True, tuple((place / "printed").read_text("utf-8", errors="replace").split("\n")[:-1]))


def _ran(command: str, folder: Path) -> bool:
    """Whether a command line ended well and in time."""
    process = subprocess.Popen(
        ["/bin/sh", "-c", command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env={"PATH": os.defpath + os.pathsep + str(Path(shutil.which("iverilog") or "").parent), "TMPDIR": str(folder)},
        start_new_session=True,
    )
    try:
        return process.wait(_SECONDS) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a process that is still there, with its whole session."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
