"""Writing files so that a crash or a full disk never leaves half of one behind."""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from hocket.core.errors import HocketError

Chunk = bytes | memoryview


class Writer(Protocol):
    """What durable writing needs from the file system; tests replace it to inject faults."""

    def write(self, path: Path, chunks: Iterable[Chunk]) -> None:
        """Creates `path` with the chunks one after another, and waits until the disk has them."""
        ...

    def sync(self, path: Path) -> None:
        """Waits until the disk has a file, or a folder's list of names."""
        ...

    def rename(self, source: Path, target: Path) -> None:
        """Moves atomically; a file at `target` is replaced."""
        ...


@dataclass(frozen=True)
class DiskWriter:
    """The real thing."""

    def write(self, path: Path, chunks: Iterable[Chunk]) -> None:
        with path.open("wb") as file:
            for chunk in chunks:
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())

    def sync(self, path: Path) -> None:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def rename(self, source: Path, target: Path) -> None:
        os.replace(source, target)


_temporary = itertools.count()


def write_atomic(path: Path, data: str | bytes, writer: Writer | None = None) -> None:
    """Writes a whole file, or leaves the earlier one as it was.

    Raises:
        OSError: when the disk refuses; nothing is left behind.
    """
    writer = writer or DiskWriter()
    raw = data.encode() if isinstance(data, str) else data
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{next(_temporary)}.tmp")
    try:
        writer.write(temporary, [raw])
        if temporary.read_bytes() != raw:
            raise OSError("what was written did not reach the disk whole")
        writer.rename(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = str(path)  # The temporary file is nobody's concern.
        raise
    writer.sync(path.parent)


def json_ready(value: Any) -> Any:
    """`value` as strict JSON data: non-finite numbers become None, tensors and arrays numbers or lists."""
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): json_ready(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_ready(item) for item in value]
    if hasattr(value, "tolist"):
        return json_ready(value.tolist())
    return str(value)


class JsonLines:
    """An append-only file of JSON objects, one per line. A line torn by a crash is cut off when the file is opened.

    Appending is safe between threads. A line goes to the operating system at once, so it survives `kill -9`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self._mend()

    def _mend(self) -> None:
        """Ends a complete last line that lacks its newline, and cuts off a torn one."""
        raw = self.path.read_bytes()
        whole = raw.rfind(b"\n") + 1
        if whole == len(raw):
            return
        if _parsed(raw[whole:]) is None:
            os.ftruncate(self._handle, whole)
        else:
            self._write(b"\n")

    def append(self, line: str) -> None:
        """Adds one line (without its newline).

        Raises:
            HocketError: when the disk refuses; the lines before it stay readable.
        """
        with self._lock:
            end = os.fstat(self._handle).st_size
            try:
                self._write(line.encode() + b"\n")
            except OSError as error:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._handle, end)
                reason = error.strerror or str(error)
                raise HocketError(f"{self.path} cannot be written: {reason}; free some disk space.") from error

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._handle, data) :]

    def close(self) -> None:
        """Closes the file; closing twice does nothing."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def log_problem(message: str) -> None:
    """Warns in the library's log, which Python shows on stderr unless it is configured otherwise."""
    logging.getLogger("hocket").warning(message)


def read_json_lines(
    path: Path,
    on_problem: Callable[[str], None] = lambda sentence: None,
    needs: Mapping[str, type] = MappingProxyType({}),
) -> Iterator[dict[str, Any]]:
    """The objects of a JSON-lines file; a missing file has none.

    Lines that hold no object, or one without a key of `needs` or with another type there, are left out, and
    `on_problem` is given one sentence that names them. A last line without its newline was being written when it was
    read, and is no problem.
    """
    damaged = []
    if not path.is_file():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            row = _parsed(line)
            if row is not None and all(key in row and isinstance(row[key], kind) for key, kind in needs.items()):
                yield row
            elif line.endswith(b"\n"):
                damaged.append(number)
    if damaged:
        which = ", ".join(map(str, damaged[:3])) + (f" and {len(damaged) - 3} more" if len(damaged) > 3 else "")
        lines = "line" if len(damaged) == 1 else "lines"
        on_problem(f"{path}: {lines} {which} cannot be read and {'is' if len(damaged) == 1 else 'are'} left out")


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None
