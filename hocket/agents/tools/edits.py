"""What an edit may bring into a function: no name and no attribute that the function did not have.

A function that may name what it likes can pass its tests without being repaired: it imports the installed module in
place of the broken one, or reads that module's file. Both lie in the interpreter's library, which the sandbox shows to
programs. So the text is looked at before it is run, and what leads out of the function is refused.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

BUILTINS = frozenset(
    [
        "abs",
        "all",
        "any",
        "bool",
        "bytes",
        "dict",
        "divmod",
        "enumerate",
        "filter",
        "float",
        "int",
        "isinstance",
        "len",
        "list",
        "map",
        "max",
        "min",
        "ord",
        "range",
        "reversed",
        "round",
        "set",
        "sorted",
        "str",
        "sum",
        "tuple",
        "zip",
        "IndexError",
        "KeyError",
        "TypeError",
        "ValueError",
    ]
)
"""Built-in functions that a function may always call: none that imports, opens, runs text or takes an attribute."""

_OUTSIDE = (ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal, ast.ClassDef, ast.MatchClass)


def refusal(lines: Sequence[str], old: Sequence[str], first: int, last: int) -> str | None:
    """Why an edited module is refused; None where it is not, or does not parse and so passes no test anyway.

    Args:
        lines: of the module as edited. old: as it was; the two differ between `first` and `last` only (from 1), where
            one function is defined.
    """
    before, after = _defined(old, first, last), _defined(lines, first, last)
    assert before is not None
    if isinstance(after, str) or after is None:
        return after
    if isinstance(before, str) or after.name != before.name or len(after.decorator_list) != len(before.decorator_list):
        return "leave the function where it is"
    names_before, names_after = _used(before), _used(after)
    bound = {node.id for node in ast.walk(after) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    bound |= {node.arg for node in ast.walk(after) if isinstance(node, ast.arg)}
    brought = sorted(names_after[0] - names_before[0] - bound - BUILTINS) + sorted(names_after[1] - names_before[1])
    if any(isinstance(node, _OUTSIDE) for node in ast.walk(after)):
        return "an edit may not import, nor define a class, nor match one"
    return f"an edit may not bring in {brought[0][:40]}" if brought else None


def _defined(lines: Sequence[str], first: int, last: int) -> ast.FunctionDef | str | None:
    """The function that is all there is between two lines; what is wrong, or None where it does not parse."""
    try:
        tree = ast.parse("\n".join(lines))
    except (SyntaxError, ValueError):
        return None
    except (RecursionError, MemoryError):
        return "this is nested too deeply"
    nodes = [node for node in tree.body if node.lineno <= last and (node.end_lineno or node.lineno) >= first]
    is_alone = len(nodes) == 1 and nodes[0].lineno == first and (nodes[0].end_lineno or first) <= last
    return nodes[0] if is_alone and isinstance(nodes[0], ast.FunctionDef) else "leave the function where it is"


def _used(node: ast.FunctionDef) -> tuple[set[str], set[str]]:
    """The names that a function reads, its own among them, and the attributes."""
    names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)}
    return names | {node.name}, {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}
