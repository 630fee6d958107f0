"""Wrong versions of a method: what its claims must not hold for.

Two kinds. One has a recipe's setting changed: a stage, term, cast or schedule set back to its parent's, a constant
moved far off, a switch turned. The other has an expression of the method's file changed: a sign, a comparison, a term
or a factor left out, a constant moved. `hocket.lab.claims.mutation` runs a row's claims on each.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from hocket.core.components import differences, is_component
from hocket.core.errors import HocketError
from hocket.core.names import RECIPES
from hocket.recipe import ROOMS, Recipe
from hocket.recipes import parent_of

FAR = 40.0
"""What constants are multiplied with; none that matters survives it, and none does by rounding."""


@dataclass(frozen=True)
class Mutant:
    """A method changed in one place.

    Attributes:
        name: the change, in a line; what claims that spare it say. line: where, in the method's file; 0 for a setting.
        code: makes the module's changed code, where that is changed. recipe: the changed recipe and its constant, where
            that is.
    """

    name: str
    line: int = 0
    code: Callable[[], ast.Module] | None = None
    recipe: tuple[str, Recipe] | None = None


# ---------------------------------------------------------------- settings


def of_recipe(attribute: str, recipe: Recipe) -> Iterator[Mutant]:
    """The mutants of a recipe's own settings; those that cannot be built are left out, as nobody can run them."""
    for path, changed in {repr(pair): pair for pair in _settings(recipe)}.values():  # not all values are hashable
        try:
            mutated = recipe.but({path: changed})
        except (HocketError, ValueError, TypeError):
            continue
        if mutated != recipe:
            yield Mutant(f"{recipe.name}: {path} = {_brief(changed)}", recipe=(attribute, mutated))


def of_method(module: ModuleType) -> list[Mutant]:
    """All mutants of a method's file: of its code, then of its recipes."""
    recipes = [(name, value) for name, value in vars(module).items() if _is_own(module, value)]
    settings = [mutant for name, recipe in recipes for mutant in of_recipe(name, recipe)]
    return [*of_code(inspect.getsource(module)), *settings]


def _is_own(module: ModuleType, value: object) -> bool:
    """Whether it is a recipe that the module declares."""
    if not isinstance(value, Recipe) or value.name not in RECIPES.declared:
        return False
    return RECIPES.declared[value.name].module == module.__name__


def _settings(recipe: Recipe) -> Iterator[tuple[str, Any]]:
    """Dotted paths of what a recipe has of its own, and other values for them."""
    parent = parent_of(recipe)
    if parent is not None:
        slots = [(slot, getattr(parent, slot), getattr(recipe, slot)) for slot in ("workflow", *ROOMS)]
        yield from ((slot, before) for slot, before, value in slots if before != value)
    for slot in ROOMS:
        value, before = getattr(recipe, slot), getattr(parent, slot) if parent else None
        if value != before:
            yield from _terms(slot, value)
            yield from _constants(slot, value, before)


def _terms(slot: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Each of several stages left out."""
    if isinstance(value, tuple):
        yield from ((slot, value[:place] + value[place + 1 :]) for place in range(len(value)))


def _constants(where: str, value: Any, before: Any) -> Iterator[tuple[str, Any]]:
    """Settings at and below a path that differ from those before, moved."""
    changed = [(path, setting) for path, _, setting in differences(before, value, where)]
    for path, setting in changed:
        for inner, leaf in _leaves(path, setting):
            yield from ((inner, other) for other in _moved(leaf))


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, tuple) and any(is_component(item) for item in value):
        for place, item in enumerate(value):
            yield from _leaves(f"{path}.{place}", item)
    elif is_component(value):
        for field in dataclasses.fields(value):
            if field.init:
                yield from _leaves(f"{path}.{field.name}", getattr(value, field.name))
    else:
        yield path, value


def _moved(value: Any) -> list[Any]:
    """Values far from a number, and the other one of a switch."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value * int(FAR)] if value else [int(FAR)]
    if isinstance(value, float):
        return [value * FAR, 0.0] if value else [1.0]
    return []


def _brief(value: Any) -> str:
    """A value in few words."""
    if is_component(value):
        return type(value).__name__
    return f"({', '.join(map(_brief, value))})" if isinstance(value, tuple) else f"{value}"


# ---------------------------------------------------------------- code


def of_code(source: str) -> Iterator[Mutant]:
    """The mutants of a module's expressions; checks of settings, messages and annotations stay."""
    tree = ast.parse(source)
    sites = _Sites()
    sites.visit(tree)
    for place, (node, others) in enumerate(sites.found):
        for number, other in enumerate(others):
            name = f"{ast.unparse(node)} -> {ast.unparse(other)}"
            yield Mutant(name, node.lineno, code=functools.partial(_changed, source, place, number))


def _changed(source: str, place: int, number: int) -> ast.Module:
    """The code with the expression at one place of the order changed to one of its others."""
    tree = ast.parse(source)
    _Change(place, number).visit(tree)
    return ast.fix_missing_locations(tree)


class _Sites(ast.NodeTransformer):
    """Visits expressions in order; `found` are those that can be changed, with what they are changed to."""

    def __init__(self) -> None:
        self.found: list[tuple[ast.expr, list[ast.expr]]] = []

    def visit(self, node: ast.AST) -> Any:
        others = list(_others(node))
        if others and isinstance(node, ast.expr):
            self.found.append((node, others))
        return self.generic_visit(node)

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, (ast.Raise, ast.Assert, ast.JoinedStr, ast.AnnAssign)):
            return node  # Annotated names are the settings' usual values, which recipes state.
        if isinstance(node, ast.FunctionDef) and node.name == "__post_init__":
            return node
        if isinstance(node, ast.Assign) and _makes_recipe(node.value):
            return node
        return super().generic_visit(node)


class _Change(_Sites):
    """Changes the expression at one place of the order to one of its others."""

    def __init__(self, place: int, number: int) -> None:
        super().__init__()
        self.place, self.number = place, number

    def visit(self, node: ast.AST) -> Any:
        count = len(self.found)
        visited = super().visit(node)
        if len(self.found) > count and count == self.place and self.found[count][0] is node:
            return self.found[count][1][self.number]
        return visited


def _makes_recipe(value: ast.expr) -> bool:
    """Whether it is `Recipe(...)` or `X.but(...)`, whose settings are mutated as such."""
    made = value.func if isinstance(value, ast.Call) else None
    return (isinstance(made, ast.Name) and made.id == "Recipe") or (
        isinstance(made, ast.Attribute) and made.attr == "but"
    )


_OPPOSITE: Mapping[type[Any], type[Any]] = {
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
_SWAPPED = {"minimum": "maximum", "maximum": "minimum", "min": "max", "max": "min", "amin": "amax", "amax": "amin"}


def _others(node: ast.AST) -> Iterator[ast.expr]:
    """What an expression is changed to."""
    match node:
        case ast.BinOp(left, ast.Add() | ast.Sub() as op, right):
            yield ast.BinOp(left, ast.Sub() if isinstance(op, ast.Add) else ast.Add(), right)
            yield left
        case ast.BinOp(left, ast.Mult() | ast.Div() | ast.Pow(), _):
            yield left
        case ast.UnaryOp(ast.USub() | ast.Not(), operand):
            yield operand
        case ast.Compare(left, [op], [right]) if type(op) in _OPPOSITE:
            yield ast.Compare(left, [_OPPOSITE[type(op)]()], [right])
        case ast.BoolOp(op, values):
            yield ast.BoolOp(_OPPOSITE[type(op)](), values)
        case ast.Call(ast.Name(name), _, _) if name in _SWAPPED:
            yield ast.Call(ast.Name(_SWAPPED[name], ast.Load()), node.args, node.keywords)
        case ast.Call(ast.Attribute(value, name), _, _) if name in _SWAPPED:
            yield ast.Call(ast.Attribute(value, _SWAPPED[name], ast.Load()), node.args, node.keywords)
        case ast.Constant(float(value)) if value:
            yield ast.Constant(value * FAR)
