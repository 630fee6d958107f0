"""The pictures of a run's page: the best, the worst and the most changed of its evaluations."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hocket.apps.report.reading import RunRecord
from hocket.train.disk import log_problem, read_json_lines
from hocket.train.pictures import FOLDER

SHOWN = 6
"""Pictures of each choice."""


def pictures_of(run: RunRecord) -> list[dict[str, Any]]:
    """Choices of the last evaluation's pictures, each beside the first evaluation's of the same scenario.

    A choice has a `title` and `pairs` of `prompt`, `before`, `after` (pictures as data) and `right`. Nothing for runs
    without pictures.
    """
    files = sorted((run.path / FOLDER).glob("step-*.jsonl"))
    if not files:
        return []
    first, last = (
        {str(row["scenario"]): row for row in read_json_lines(file, log_problem)} for file in (files[0], files[-1])
    )
    both = [(first[name], row) for name, row in last.items() if name in first]
    choices: list[tuple[str, Callable[[tuple[Any, Any]], float]]] = [
        ("Best", lambda pair: -float(pair[1]["reward"])),
        ("Worst", lambda pair: float(pair[1]["reward"])),
    ]
    if files[0] != files[-1]:
        choices.append(("Most changed", lambda pair: -_distance(*pair)))
    return [
        {"title": title, "pairs": [_pair(*pair) for pair in sorted(both, key=rank)[:SHOWN]]} for title, rank in choices
    ]


def _pair(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    pictures = {"before": data_of(before), "after": data_of(after)}
    return {"prompt": after["prompt"], "right": float(after["success"]) >= 1.0, **pictures}


def data_of(row: Mapping[str, Any]) -> str:
    """A picture as a PNG in a `data:` address."""
    height, width = row["sides"]
    content, (channels, form) = _bytes(row), (3, 2) if "colour" in row else (1, 0)
    line = width * channels
    lines = b"".join(b"\0" + content[start : start + line] for start in range(0, height * line, line))
    head = struct.pack(">IIBBBBB", width, height, 8, form, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(lines)), (b"IEND", b""))
    body = b"".join(
        struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
        for name, content in parts
    )
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + body).decode()


def _distance(before: Mapping[str, Any], after: Mapping[str, Any]) -> float:
    pixels = [np.frombuffer(_bytes(row), np.uint8).astype(np.float64) for row in (before, after)]
    return float(np.linalg.norm(pixels[0] - pixels[1]))


def _bytes(row: Mapping[str, Any]) -> bytes:
    return base64.b64decode(row["colour"] if "colour" in row else row["grey"])
