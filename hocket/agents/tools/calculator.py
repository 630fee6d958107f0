"""A calculator for integers, as the shipped base model knows the tool."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

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


class Calculator:
    """The value of an expression of integers with +, - and *, as the shipped base model knows the tool."""

    name = "calculator"
    schema: Mapping[str, Any] = CALCULATOR

    async def __call__(self, arguments: Mapping[str, Any]) -> str:
        expression = arguments.get("expression")
        return calculator(expression) if isinstance(expression, str) else "error: calculator needs an expression"
