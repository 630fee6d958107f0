"""A calculator for integers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hocket.nano.formats import CALCULATOR, calculator


class Calculator:
    """The value of an expression of integers with +, - and *, as the shipped base model knows the tool."""

    name = "calculator"
    schema: Mapping[str, Any] = CALCULATOR

    async def __call__(self, arguments: Mapping[str, Any]) -> str:
        expression = arguments.get("expression")
        return calculator(expression) if isinstance(expression, str) else "error: calculator needs an expression"
