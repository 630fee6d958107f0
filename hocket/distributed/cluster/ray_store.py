"""What learners on a Ray cluster find each other by: an actor of it, which nobody outside the cluster can ask.

torch's own `TCPStore` listens on every address of its host and has no secret.
"""

from __future__ import annotations

import datetime
import importlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch._C._distributed_c10d import Store

from hocket.distributed.cluster.ranks import PATIENCE

_LOOK = 0.02
"""Seconds between two looks for what another rank is to write."""


class Table:
    """The actor: values by name."""

    def __init__(self) -> None:
        self._held: dict[str, bytes] = {}

    def set(self, key: str, value: bytes) -> None:
        self._held[key] = value

    def get(self, key: str) -> bytes | None:
        """None where nobody has written it."""
        return self._held.get(key)

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all of them are written."""
        return all(key in self._held for key in keys)

    def add(self, key: str, amount: int) -> int:
        """Adds to a number, which is 0 at first; what it is then."""
        total = int(self._held.get(key, b"0")) + amount
        self._held[key] = str(total).encode()
        return total

    def compare_set(self, key: str, expected: bytes, desired: bytes) -> bytes:
        """Writes where the value is the expected one, or nothing is written and nothing expected; what it is then."""
        if self._held.get(key, b"") == expected:
            self._held[key] = desired
        return self._held.get(key, expected)

    def delete_key(self, key: str) -> bool:
        """Whether it was written."""
        return self._held.pop(key, None) is not None

    def num_keys(self) -> int:
        return len(self._held)


class TableStore(Store):
    """torch's view of a `Table`.

    Args:
        ray: the module. actor: the table's handle.
    """

    def __init__(self, ray: Any, actor: Any) -> None:
        super().__init__()
        self._ray, self._actor = ray, actor
        self.set_timeout(PATIENCE)

    def _ask(self, name: str, *arguments: Any) -> Any:
        return self._ray.get(getattr(self._actor, name).remote(*arguments))

    def set(self, key: str, value: bytes | str) -> None:
        self._ask("set", key, value.encode() if isinstance(value, str) else bytes(value))

    def get(self, key: str) -> bytes:
        self.wait([key])
        value: bytes = self._ask("get", key)
        return value

    def wait(self, keys: Sequence[str], timeout: datetime.timedelta | None = None) -> None:
        """Returns once all are written.

        Raises:
            RuntimeError: when that takes too long.
        """
        end = time.monotonic() + (timeout or PATIENCE).total_seconds()
        while not self.check(keys):
            if time.monotonic() > end:
                raise RuntimeError(f"no learner wrote {', '.join(keys)} in time")
            time.sleep(_LOOK)

    def check(self, keys: Sequence[str]) -> bool:
        return bool(self._ask("check", list(keys)))

    def add(self, key: str, amount: int) -> int:
        return int(self._ask("add", key, amount))

    def compare_set(self, key: str, expected: bytes | str, desired: bytes | str) -> bytes:
        values = [text.encode() if isinstance(text, str) else bytes(text) for text in (expected, desired)]
        value: bytes = self._ask("compare_set", key, *values)
        return value

    def delete_key(self, key: str) -> bool:
        return bool(self._ask("delete_key", key))

    def num_keys(self) -> int:
        return int(self._ask("num_keys"))


@dataclass(frozen=True)
class ClusterRendezvous:
    """Ranks of a cluster meet at the actor of this name."""

    name: str
    alone = False

    def store(self) -> Store:
        ray = importlib.import_module("ray")
        return TableStore(ray, ray.get_actor(self.name))
