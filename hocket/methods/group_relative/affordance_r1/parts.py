"""Parts of things as answers name them: a box, a point inside it, and what the part affords, in JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hocket.rewards.regions import Box, Point

_ANSWER = re.compile(r"<answer>\s*(.*?)\s*</answer>", re.DOTALL)


class Part(NamedTuple):
    """A box and a point in the space of the task, and the name of the affordance, `""` for none."""

    box: Box
    point: Point
    affordance: str = ""


def items_in(text: str) -> list[Mapping[str, Any]] | None:
    """The objects in the first answer of a text; None unless it is a JSON list of objects, one at least."""
    answer = _ANSWER.search(text)
    return None if answer is None else listed_objects(answer[1])


def listed_objects(code: str) -> list[Mapping[str, Any]] | None:
    """A JSON list of objects, one at least; None for anything else."""
    try:
        value = json.loads(code)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, list) and value and all(isinstance(item, dict) for item in value) else None


def parts_of(items: Sequence[Mapping[str, Any]] | None) -> list[Part] | None:
    """The parts that objects describe; None where one lacks a box of four numbers or a point of two."""
    parts = []
    for item in items or ():
        box, point = (_numbers(item.get(field), count) for field, count in (("bbox_2d", 4), ("point_2d", 2)))
        if box is None or point is None:
            return None
        parts.append(Part((box[0], box[1], box[2], box[3]), (point[0], point[1]), str(item.get("affordance", ""))))
    return parts or None


def _numbers(value: Any, count: int) -> list[float] | None:
    fits = isinstance(value, list) and len(value) == count
    # A number beyond float's range is no coordinate either.
    return value if fits and all(type(number) in (int, float) and abs(number) < 1e9 for number in value) else None


def code_of(parts: Sequence[Part]) -> str:
    """Parts in JSON, without spaces."""
    items = [{"bbox_2d": part.box, "point_2d": part.point, "affordance": part.affordance} for part in parts]
    return json.dumps(items, separators=(",", ":"))
