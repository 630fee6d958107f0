"""The wording of a planner and its workers: system messages, plans, notes.

The shipped base was trained on these wordings. Code that builds prompts for it uses them from here.
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
    """The steps of a plan, without their numbers; other lines are skipped."""
    return _STEP.findall(text)


def notes_text(steps: Sequence[str], results: Sequence[str]) -> str:
    """The user message that brings the workers' results back to the planner; the answer is their sum."""
    return "Results:\n" + "\n".join(f"{step} = {result}" for step, result in zip(steps, results, strict=True))
