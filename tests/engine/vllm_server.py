"""A real vLLM server on this machine, for slow tests.

HOCKET_VLLM_PYTHON names the python of its environment; HOCKET_VLLM=1 takes the one that `make slow` makes.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hocket.nano import BASE

if os.environ.get("HOCKET_VLLM") == "1":
    os.environ.setdefault("HOCKET_VLLM_PYTHON", str(Path(__file__).parents[2] / ".venv-vllm/bin/python"))
VLLM_PYTHON = os.environ.get("HOCKET_VLLM_PYTHON")

real = [
    pytest.mark.slow,
    pytest.mark.skipif(not VLLM_PYTHON, reason="neither HOCKET_VLLM=1 nor HOCKET_VLLM_PYTHON is set"),
]
"""Marks of tests that need vLLM."""


@contextmanager
def serving(*more: str) -> Iterator[str]:
    """The address of a server of the nano model in fp32; `more` are flags of its command line."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert VLLM_PYTHON is not None
    command = [VLLM_PYTHON, "-m", "vllm.entrypoints.openai.api_server", "--model", str(BASE), "--served-model-name"]
    command += ["nano", "--host", "127.0.0.1", "--port", str(port), "--dtype", "float32", "--max-model-len", "512"]
    command += ["--max-num-seqs", "16", "--enforce-eager", *more]
    settings = {"VLLM_SERVER_DEV_MODE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1"}
    process = subprocess.Popen(command, env=os.environ | settings, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(f"http://127.0.0.1:{port}/health", process)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(30)


def _wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        assert process.poll() is None, "the server ended"
        try:
            opener.open(url, timeout=5).close()
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    raise AssertionError("the server did not start in time")
