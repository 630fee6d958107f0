"""Waits until a Ray cluster has all its nodes: `python -m hocket.distributed.cluster.nodes ADDRESS COUNT [SECONDS]`."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from typing import Any

SECONDS = 600.0
"""How long nodes may take to join."""


def wait_for_nodes(ray: Any, address: str, count: int, seconds: float, sleep: Callable[[float], None]) -> bool:
    """Whether the cluster at `address` has `count` nodes within `seconds`; until then its head may not answer."""
    end = time.monotonic() + seconds
    while True:
        try:
            if not ray.is_initialized():
                ray.init(address=address, log_to_driver=False, logging_level="ERROR", configure_logging=False)
            if sum(bool(node["Alive"]) for node in ray.nodes()) >= count:
                return True
        except (ConnectionError, RuntimeError, ValueError, TimeoutError):
            pass  # The head is still starting.
        if time.monotonic() >= end:
            return False
        sleep(2.0)


def main(arguments: list[str]) -> int:
    """The exit code: 0 once all nodes are there, 1 when they are not in time."""
    address, count, *rest = arguments
    seconds = float(rest[0]) if rest else SECONDS
    if wait_for_nodes(importlib.import_module("ray"), address, int(count), seconds, time.sleep):
        return 0
    print(f"the Ray cluster at {address} has not got {count} nodes within {seconds:g} s; see its logs", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
