"""The fixed wordings that the base was trained on: system messages, tools, plans, notes.

Whoever builds prompts for the base (tasks, workflows) takes the words from here, so that they match. Only the
standard library is imported.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

PLANNER_SYSTEM = "You are the planner. Split the sum into numbered steps for the workers, then add their results."
WORKER_SYSTEM = "You are a worker. Answer the one step you are given."

CALCULATOR: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "calculator",
        "description": "Value of an expression of integers with +, - and *.",
        "parameters": {
            "type": "object",
            "properties": {"expression": {"type": "string"}},
            "required": ["expression"],
        },
    },
}
"""The one tool of the base, as `apply_chat_template(..., tools=[CALCULATOR])` takes it."""

_OPERATIONS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}
_STEP = re.compile(r"^\s*\d+\.\s*(\S.*?)\s*$", re.MULTILINE)
_LONGEST_EXPRESSION = 100


def calculator(expression: str) -> str:
    """The value of an integer expression with +, - and *, as text; `error` if it is not one."""
    if len(expression) > _LONGEST_EXPRESSION:
        return "error"
    try:
        return str(_value(ast.parse(expression.strip(), mode="eval").body))
    except (SyntaxError, ValueError):
        return "error"


def _value(node: ast.expr) -> int:
    match node:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
            return _OPERATIONS[type(op)](_value(left), _value(right))
    raise ValueError("not an integer expression with +, - and *")


def plan_text(steps: Sequence[str]) -> str:
    """A plan as the planner writes it: one numbered step a line."""
    return "\n".join(f"{number}. {step}" for number, step in enumerate(steps, start=1))


def plan_steps(text: str) -> list[str]:
    """The steps of a plan, without their numbers; lines that are no step are passed over."""
    return _STEP.findall(text)


def notes_text(steps: Sequence[str], results: Sequence[str]) -> str:
    """The user message that brings the workers' results back to the planner; the answer is their sum."""
    return "Results:\n" + "\n".join(f"{step} = {result}" for step, result in zip(steps, results, strict=True))
