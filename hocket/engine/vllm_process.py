"""The process that holds vLLM: its Python, its environment, the connection to it, and its end."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hocket.core.errors import ConfigurationError
from hocket.core.waits import waiting_for
from hocket.engine import vllm_transfer
from hocket.engine.vllm_child import SocketWire

PYTHON_VARIABLE = "HOCKET_VLLM_PYTHON"
"""The environment variable with the path to a Python that has vLLM."""

_PATIENCE = 10.0
"""Seconds that a child has to end by itself."""
_OWN_ENVIRONMENT = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")
_LOG_HEAD = re.compile(r"^(\(.*?\) )?((ERROR|WARNING|INFO) [\d-]+ [\d:.]+ )?(\[[^\]]*\] )?")


class EngineLost(ConfigurationError):
    """The process of an engine ended. This stops the run, which can be resumed."""

    exit_code = 1


class ChildLost(Exception):
    """A child ended during a request; the text says how."""


class EngineProcess:
    """The process that holds the engine, and the connection to it.

    Args:
        python: the interpreter of the other environment.
        script: the script that it runs, with the file descriptor of the connection as its argument.
        log: the file of its output.
        variables: of its environment, beside those of this process.
    """

    def __init__(self, python: str, script: Path, log: Path, variables: Mapping[str, str]) -> None:
        near, there = socket.socketpair()
        self.log = log
        self._read = log.stat().st_size if log.is_file() else 0
        with there, log.open("ab") as out:
            self._process = subprocess.Popen(
                [python, str(script), str(there.fileno())],
                pass_fds=(there.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=environment() | dict(variables),
                start_new_session=True,  # Ctrl-C reaches only the run, which then ends its child.
            )
        self._wire = SocketWire(near, alive=lambda: self._process.poll() is None)

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        """The answer to a question.

        Raises:
            ChildLost: when the child ended.
            ConfigurationError: when it reports an error.
        """
        if message["do"] != "open":
            self._read = self.log.stat().st_size  # The end of the log belongs to this question.
        try:
            with waiting_for("the vLLM process"):
                self._wire.send(message)
                answer = self._wire.receive()
        except (OSError, EOFError):
            raise ChildLost(self._epitaph()) from None
        except BaseException:
            self.close(patience=0)  # An interrupt between question and answer makes the connection unusable.
            raise
        if "error" in answer:
            raise ConfigurationError(f"vLLM refused ({answer['error']}); its log is {self.log}")
        return answer

    def close(self, patience: float = _PATIENCE) -> None:
        """Ends the child by closing the connection; kills it if it does not end within `patience` seconds."""
        self._wire.close()
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)  # With the processes that it started.
            self._process.wait()

    def _epitaph(self) -> str:
        """How it ended, and the last line of its log."""
        self.close()
        code = self._process.returncode
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        words = last_words(self.log, self._read)
        return f"{how}; the last line of its log: {words}" if words else how


def find_python(named: str | None) -> str:
    """The Python of an environment with vLLM: the named one, else that of `HOCKET_VLLM_PYTHON`, else this one.

    Raises:
        ConfigurationError: when it cannot be run or has no vLLM.
    """
    python = named or os.environ.get(PYTHON_VARIABLE) or sys.executable
    source = "engine.python" if named else PYTHON_VARIABLE if os.environ.get(PYTHON_VARIABLE) else ""
    look = "import importlib.util, sys; sys.exit(importlib.util.find_spec('vllm') is None)"
    try:
        process = subprocess.run([python, "-c", look], env=environment(), capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigurationError(f"{source or 'engine.python'} = {python!r} cannot be run: {error}") from None
    if process.returncode == 0:
        return python
    if not source:
        raise ConfigurationError(
            "engine.kind = vllm: this Python environment has no vLLM; name the Python of one that has it with "
            f"engine.python or {PYTHON_VARIABLE}, or use engine.kind = local"
        )
    raise ConfigurationError(f"{source} = {python!r}: this Python has no vLLM; install it there, or name another one")


def last_words(log: Path, start: int = 0) -> str:
    """The last error in a log from byte `start` on, else its last line with content; "" without one."""
    lines = log.read_bytes()[start:].decode(errors="replace").splitlines()
    words = [text for line in lines[-200:] if (text := _LOG_HEAD.sub("", line).strip(" ^~|-"))]
    errors = [text for text in words if re.match(r"[\w.]*(Error|Exception)\b", text)]
    return " ".join((errors or words or [""])[-1].split())[:300]


def environment() -> dict[str, str]:
    """The child's environment variables: those of this process, without those that point to its packages."""
    variables = {name: value for name, value in os.environ.items() if name not in _OWN_ENVIRONMENT}
    defaults = {"VLLM_LOGGING_LEVEL": "WARNING", "VLLM_NO_USAGE_STATS": "1", "TOKENIZERS_PARALLELISM": "false"}
    if "OMP_NUM_THREADS" in variables:
        defaults["VLLM_CPU_OMP_THREADS_BIND"] = "nobind"  # Otherwise vLLM uses all cores, whatever this says.
    # In the child's process: one process less, and the same batches every time.
    return {**defaults, **variables, "PYTHONSAFEPATH": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}


def plugged(folder: Path) -> dict[str, str]:
    """Variables by which every process of vLLM loads `hocket.engine.vllm_transfer`, of which `folder` gets a copy.

    vLLM reads the entry points of what is on its path, so a file and the description of a package are enough.
    """
    described = folder / "hocket_transfer-1.dist-info"
    described.mkdir(parents=True, exist_ok=True)
    shutil.copy(vllm_transfer.__file__, folder / "hocket_transfer.py")
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: hocket-transfer\nVersion: 1\n")
    (described / "entry_points.txt").write_text("[vllm.general_plugins]\nhocket = hocket_transfer:register\n")
    return {"PYTHONPATH": str(folder)}
