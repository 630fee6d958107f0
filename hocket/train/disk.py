"""Writes files so that a crash or a full disk never leaves a partial one."""

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
    """The operations of durable writing; tests replace them to inject faults."""

    def write(self, path: Path, chunks: Iterable[Chunk]) -> None:
        """Creates `path` from the chunks, and waits until the disk has them."""
        ...

    def sync(self, path: Path) -> None:
        """Waits until the disk has a file, or the names in a folder."""
        ...

    def rename(self, source: Path, target: Path) -> None:
        """Moves atomically; a file at `target` is replaced."""
        ...


@dataclass(frozen=True)
class DiskWriter:
    """Writes to the file system."""

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
    """Writes a complete file, or leaves the earlier one unchanged.

    Raises:
        OSError: when the disk refuses; no partial file is left.
    """
    writer = writer or DiskWriter()
    raw = data.encode() if isinstance(data, str) else data
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{next(_temporary)}.tmp")
    try:
        writer.write(temporary, [raw])
        if temporary.read_bytes() != raw:
            raise OSError("the file on disk is incomplete")
        writer.rename(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = str(path)  # The error names the file itself, not the temporary one.
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
    """An append-only file of JSON objects, one per line. Opening it removes a line that a crash left incomplete.

    Appending is safe between threads. A line is passed to the operating system at once, so it survives `kill -9`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self._repair()

    def _repair(self) -> None:
        """Adds a missing newline to a complete last line, and removes an incomplete one."""
        raw = self.path.read_bytes()
        end = raw.rfind(b"\n") + 1
        if end == len(raw):
            return
        if _parsed(raw[end:]) is None:
            os.ftruncate(self._handle, end)
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

    Lines without an object, or with an object that lacks a key of `needs` or has another type there, are skipped, and
    `on_problem` gets one sentence that names them. A last line without a newline is being written, which is no problem.
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
