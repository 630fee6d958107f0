"""What the outside world answered, by key, so that a resumed or replayed run hears the same again."""

from __future__ import annotations

import enum
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from hocket.core.errors import HocketError
from hocket.train.disk import JsonLines, log_problem, read_json_lines


class Missing(enum.Enum):
    """The type of `MISSING`."""

    MISSING = "missing"

    def __bool__(self) -> bool:
        return False


NEEDS = {"key": object, "value": object}


MISSING: Final = Missing.MISSING
"""What `Journal.get` returns for a key without an entry; None is a result like any other."""


class Journal:
    """An append-only file of outside results (tools, judges, timeouts), one JSON object per line: `key`, `value`.

    An entry is with the operating system when `put` returns, so it survives `kill -9`; a line torn by a crash is cut
    off on opening. Values are JSON data; NaN and infinities are kept. Safe between threads.

    Args:
        path: the file; made if there is none.
        on_problem: is given a sentence about lines that cannot be read, whose answers are asked for again.
    """

    def __init__(self, path: Path, on_problem: Callable[[str], None] = log_problem) -> None:
        self._lock = threading.Lock()
        self._lines = JsonLines(path)
        rows = read_json_lines(path, lambda problem: on_problem(f"{problem}; these answers are requested again"), NEEDS)
        self._texts: dict[str, str] = {str(row["key"]): json.dumps(row["value"]) for row in rows}

    @property
    def path(self) -> Path:
        return self._lines.path

    def __len__(self) -> int:
        return len(self._texts)

    def __contains__(self, key: str) -> bool:
        return key in self._texts

    def get(self, key: str) -> Any | Missing:
        """The journalled result, a fresh copy; `MISSING` when there is none."""
        text = self._texts.get(key)
        return MISSING if text is None else json.loads(text)

    def put(self, key: str, value: Any) -> Any:
        """Records a result and returns it as a replay will see it (tuples become lists). A later entry wins.

        Raises:
            HocketError: when the value is not JSON data, or the disk refuses.
        """
        try:
            text = json.dumps(value)
        except (TypeError, ValueError) as error:
            raise HocketError(f"result {key!r} cannot be journalled: {error}; return JSON data") from error
        with self._lock:
            self._lines.append(f'{{"key": {json.dumps(key)}, "value": {text}}}')
            self._texts[key] = text
        return json.loads(text)

    def close(self) -> None:
        """Closes the file; `get` still works."""
        self._lines.close()
