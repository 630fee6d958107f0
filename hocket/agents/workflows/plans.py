"""How a planner and its workers write: system messages, plans, notes.

The shipped base was trained on these wordings, and whoever builds prompts for it takes them from here, so that they
match.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

PLANNER_SYSTEM = "You are the planner. Split the sum into numbered steps for the workers, then add their results."
WORKER_SYSTEM = "You are a worker. Answer the one step you are given."

_STEP = re.compile(r"^\s*\d+\.\s*(\S.*?)\s*$", re.MULTILINE)


def plan_text(steps: Sequence[str]) -> str:
    """A plan as the planner writes it: one numbered step a line."""
    return "\n".join(f"{number}. {step}" for number, step in enumerate(steps, start=1))


def plan_steps(text: str) -> list[str]:
    """The steps of a plan, without their numbers; lines that are no step are passed over."""
    return _STEP.findall(text)


def notes_text(steps: Sequence[str], results: Sequence[str]) -> str:
    """The user message that brings the workers' results back to the planner; the answer is their sum."""
    return "Results:\n" + "\n".join(f"{step} = {result}" for step, result in zip(steps, results, strict=True))
