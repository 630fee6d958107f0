"""What ends a command, and what does not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hocket.core.ending import stopping

ENDING = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


def ran(program: str, **streams: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], text=True, check=False, timeout=60, **streams)  # type: ignore[call-overload, no-any-return]


@pytest.mark.parametrize("asked", ENDING)
def test_a_command_that_is_asked_to_end_leaves_things_in_order(asked: signal.Signals, tmp_path: Path) -> None:
    """Also where it does not look for signals itself, as at the start of a run, in `solve` or in `optimise`."""
    program = f"""
import os, sys
from hocket.apps.cli import parser
def command(arguments):
    try:
        os.kill(os.getpid(), {int(asked)})
        return 0
    finally:
        open({str(tmp_path / "order")!r}, "w").close()
parser._dispatch = command
sys.exit(parser.main())
"""
    assert ran(program).returncode == 130
    assert (tmp_path / "order").exists()


@pytest.mark.parametrize("first", ENDING)
@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGHUP])
def test_only_ctrl_c_stops_a_run_that_is_about_to_stop_with_a_checkpoint(first: int, second: int) -> None:
    """Whoever closes a terminal has SIGHUP sent by it and by its shell."""
    with stopping() as stop:
        os.kill(os.getpid(), first)
        os.kill(os.getpid(), second)
        assert stop == [True]
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("log", ["a full disk", "a reader that has left"])
def test_a_log_that_takes_no_more_ends_nothing(log: str) -> None:
    if log == "a full disk":
        stream = os.open("/dev/full", os.O_WRONLY)
    else:
        reader, stream = os.pipe()
        os.close(reader)
    program = """
import sys
from rich.console import Console
from hocket.core.ending import progress_may_be_lost
progress_may_be_lost()
for _ in range(3):
    print("step", file=sys.stderr)
    Console(stderr=True).print("step")
print("done")
"""
    found = ran(program, stdout=subprocess.PIPE, stderr=stream)
    os.close(stream)
    assert (found.returncode, found.stdout) == (0, "done\n")
