"""Wrong versions beyond the expressions of a method's file (`hocket.lab.claims.mutants`): what else a row stands on.

Three kinds: comparisons of the method that take the boundary for the other side; every change of the other files of the
row's folder; and every change of the shared pieces that the method's file imports by name, with what these use of their
own modules. A change is put into the functions as they are, so that whoever has imported them has it too.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from hocket.core.rooms import folder_of_row
from hocket.lab.claims.digests import ROOMS
from hocket.lab.claims.mutants import Mutant, of_code

BESIDE = frozenset({"method", "__init__", "bench"})
"""Files of a row's folder that are no piece of their own: the method, and what its claims train."""

_BOUNDARY: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}


@dataclass(frozen=True)
class PlacedMutant(Mutant):
    """A wrong version of one module.

    Attributes:
        module: its name.
    """

    module: str = ""


def reached_by(method: ModuleType, spared_lines: Collection[int] = ()) -> list[PlacedMutant]:
    """The wrong versions beyond those of `of_method`, the method's own first.

    Args:
        spared_lines: of the method's file, that are no part of the method.
    """
    source = inspect.getsource(method)
    lines = _lines(ast.parse(source)) - set(spared_lines)
    mutants = [PlacedMutant(each.name, each.line, each.code, module=method.__name__) for each in boundaries(source)]
    mutants = [each for each in mutants if each.line in lines]
    for name in folder_modules(method.__name__):
        mutants += _every(name, None)
    for name, definitions in imported(source).items():
        mutants += _every(name, definitions)
    return mutants


def folder_modules(method: str) -> list[str]:
    """The other modules of the folder of a row whose method is `hocket.methods.GROUP.ROW.method`."""
    package = folder_of_row(method)
    folder = Path(str(importlib.import_module(package).__file__)).parent if package else None
    return (
        [f"{package}.{file.stem}" for file in sorted(folder.glob("*.py")) if file.stem not in BESIDE] if folder else []
    )


def imported(source: str) -> Mapping[str, Collection[str]]:
    """The names that a module imports from other modules of the rooms of pieces, papers aside."""
    rooms = tuple(f"hocket.{room}." for room in ROOMS if room != "methods")
    names: dict[str, set[str]] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith(rooms):
            names.setdefault(str(node.module), set()).update(alias.name for alias in node.names)
    return names


def _every(name: str, definitions: Collection[str] | None) -> list[PlacedMutant]:
    """All wrong versions of a module, or of some of its definitions and what they use of it."""
    source = inspect.getsource(importlib.import_module(name))
    tree = ast.parse(source)
    lines = _lines(tree if definitions is None else ast.Module(_used(tree, definitions), []))
    where = name.removeprefix("hocket.")
    return [
        PlacedMutant(f"{where}: {mutant.name}", mutant.line, mutant.code, module=name)
        for mutant in (*of_code(source), *boundaries(source))
        if mutant.line in lines
    ]


def _used(tree: ast.Module, wanted: Collection[str]) -> list[ast.stmt]:
    """Functions and classes of a module by name, and those that they mention, in turn."""
    known = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    reached, waiting = set[str](), [name for name in wanted if name in known]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += [node.id for node in ast.walk(known[name]) if isinstance(node, ast.Name) and node.id in known]
    return [node for name, node in known.items() if name in reached]


def _lines(tree: ast.Module) -> set[int]:
    """The lines of the bodies of functions; what stands elsewhere is run once, when a module is imported."""
    bodies = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {line for node in bodies for line in range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1)}


# ---------------------------------------------------------------- comparisons at the boundary


def boundaries(source: str) -> Iterator[Mutant]:
    """A module with one of its comparisons by size changed at equality alone: `a < b` to `a <= b`."""
    sites = _Comparisons()
    sites.visit(ast.parse(source))
    for place, (before, after) in enumerate(sites.names):
        code = functools.partial(_moved, source, place)
        yield Mutant(f"{before} -> {after}", sites.lines[place], code=code)


def _moved(source: str, place: int) -> ast.Module:
    tree = ast.parse(source)
    _Comparisons(place).visit(tree)
    return ast.fix_missing_locations(tree)


class _Comparisons(ast.NodeTransformer):
    """Lists comparisons by size in order, and changes the one at `place`. Checks of settings and messages stay."""

    def __init__(self, place: int = -1) -> None:
        self.place, self.names, self.lines = place, list[tuple[str, str]](), list[int]()

    def visit(self, node: ast.AST) -> Any:
        stays = isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | ast.AnnAssign)
        if stays or (isinstance(node, ast.FunctionDef) and node.name == "__post_init__"):
            return node
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _BOUNDARY:
            changed = ast.Compare(node.left, [_BOUNDARY[type(node.ops[0])]()], node.comparators)
            self.names.append((ast.unparse(node), ast.unparse(changed)))
            self.lines.append(node.lineno)
            if len(self.names) - 1 == self.place:
                return changed
        return self.generic_visit(node)


# ---------------------------------------------------------------- putting in place


def put_in_functions(mutant: PlacedMutant) -> None:
    """Gives the functions of the mutant's module the changed code, wherever they have been imported."""
    module = sys.modules.get(mutant.module) or importlib.import_module(mutant.module)
    assert mutant.code is not None
    changed = compile(mutant.code(), str(module.__file__), "exec")
    codes = {(code.co_qualname, code.co_firstlineno): code for code in _codes(changed)}
    for function in _functions(module):
        before = function.__code__
        function.__code__ = codes.get((before.co_qualname, before.co_firstlineno), before)


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def _functions(module: ModuleType) -> Iterator[FunctionType]:
    """Those that a module defines, those of its classes too."""
    defined = [value for value in vars(module).values() if getattr(value, "__module__", None) == module.__name__]
    inside = [value for owner in defined if inspect.isclass(owner) for value in vars(owner).values()]
    for value in (*defined, *inside):
        parts = [getattr(value, name, None) for name in ("__func__", "fget", "fset", "func")]
        for part in (value, *parts):
            bare = inspect.unwrap(part) if callable(part) else None
            if isinstance(bare, FunctionType) and bare.__module__ == module.__name__:
                yield bare
