"""Toys of several claims: tool reasoning."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np

from hocket.core.keys import Key
from hocket.rewards.tool_answer import ToolAnswer
from hocket.types import Scenario, Trajectory, Turn


def earned(reward: ToolAnswer, turns: Sequence[str], answer: str = "7", **info: Any) -> float | None:
    """What an attempt that said this earns."""
    zeros = np.zeros(1, np.int64)
    said = [Turn(agent="policy", policy="policy", observation=zeros, action=zeros, text=text) for text in turns]
    (found,) = asyncio.run(reward([Trajectory(Scenario("s", "?", answer), said, info=info)], key=Key.of(0)))
    return found


def shown(numbers: Any) -> str:
    """Numbers as text."""
    return " ".join(f"{number:.2f}" for number in numbers)
