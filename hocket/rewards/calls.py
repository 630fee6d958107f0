"""Function calls, compared as syntax trees."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from hocket.keys import Key
from hocket.stages import Reward
from hocket.types import Trajectory

_BLOCK = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_LONGEST = 10_000

Call = tuple[str, tuple[Any, ...], tuple[tuple[str, Any], ...]]
"""A name, positional arguments, and keyword arguments by name; every argument with its type."""


def calls_of(source: str) -> tuple[Call, ...] | None:
    """The calls that `source` spells, in order: `f(x=1)` or several, one per line or in a list. None if it is no calls.

    Arguments are literals. The order of keywords, whitespace and quotes do not matter; a value's type does.
    """
    if len(source) > _LONGEST:
        return None
    try:
        body = ast.parse(source.strip()).body
        statements = [statement.value for statement in body if isinstance(statement, ast.Expr)]
        if len(statements) != len(body) or not body:
            return None
        if len(statements) == 1 and isinstance(statements[0], (ast.List, ast.Tuple)):
            statements = list(statements[0].elts)
        return tuple(_call(node) for node in statements)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return None


def _call(node: ast.expr) -> Call:
    if not isinstance(node, ast.Call) or any(keyword.arg is None for keyword in node.keywords):
        raise ValueError("not a call")
    name = ast.unparse(node.func)
    positional = tuple(_typed(ast.literal_eval(argument)) for argument in node.args)
    keywords = sorted((str(keyword.arg), _typed(ast.literal_eval(keyword.value))) for keyword in node.keywords)
    return name, positional, tuple(keywords)


def _typed(value: Any) -> Any:
    """A literal with its type, so that 1, 1.0, True and "1" differ; as text, which can be sorted."""
    if isinstance(value, dict):
        return "dict", str(sorted((_typed(key), _typed(item)) for key, item in value.items()))
    if isinstance(value, (list, tuple)):
        return type(value).__name__, str([_typed(item) for item in value])
    return type(value).__name__, repr(value)


@dataclass(frozen=True)
class CallMatch(Reward):
    """1 if the completion calls exactly what the scenario's answer calls, else 0: right format and equal syntax trees.

    The calls are the content of the `<tool_call>` blocks, or the whole completion after the last `</think>` where there
    is no block. With `ordered` their order matters. None where the scenario's answer spells no calls.
    """

    name: str = "calls"
    weight: float = 1.0
    ordered: bool = True
    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        return [self.verify(trajectory.text, trajectory.scenario.answer) for trajectory in trajectories]

    def verify(self, text: str, answer: Any) -> float | None:
        """The verdict on one completion."""
        wanted = calls_of(answer) if isinstance(answer, str) else None
        if wanted is None:
            return None
        blocks = _BLOCK.findall(text)
        given = calls_of("\n".join(block.strip() for block in blocks) if blocks else text.rpartition("</think>")[2])
        if given is None:
            return 0.0
        return float(given == wanted if self.ordered else sorted(given) == sorted(wanted))
