"""The definitions of a package and what each refers to, read from the source texts; nothing is imported."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

KINDS: Mapping[str, str] = {
    "task": "TaskForm",
    "workflow": "class",
    "searcher": "SearchMethod",
    "summariser": "SummaryMethod",
    "solver": "SolverMethod",
    "world": "WorldFamily",
}
"""What is declared under a name: each kind with what makes it, a class whose body sets `name` or a call."""

FINDERS = frozenset({"find", "load", "train"})
"""Functions whose first argument may be a declared name."""

REST = "<rest>"
"""What a module runs besides its definitions."""


@dataclass
class References:
    """What a statement refers to.

    Attributes:
        chains: names with the attributes that follow them, `module.Class.member`.
        imports: imports inside the statement, by the name that they bind: module and name there, or module and "".
        dotted: names in texts that begin with that of the package.
        declared: texts where a declared name may stand: the value of `task=...`, an argument of `find`, ...
    """

    chains: set[str] = field(default_factory=set)
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)
    dotted: set[str] = field(default_factory=set)
    declared: set[str] = field(default_factory=set)

    def add(self, other: References) -> None:
        """Takes in what another statement refers to."""
        self.chains |= other.chains
        self.imports |= other.imports
        self.dotted |= other.dotted
        self.declared |= other.declared


@dataclass(frozen=True)
class Definition:
    """What a top-level statement defines.

    Attributes:
        module: where it stands.
        name: of the class, function or constant.
        line: its number, 1 the first.
        lines: how many there are from the end of the statement before to its own.
        declared: kind and name under which others find it; None where it is not declared.
        references: what it refers to; shared by the names of one assignment.
    """

    module: str
    name: str
    line: int
    lines: int
    declared: tuple[str, str] | None
    references: References

    @property
    def public(self) -> bool:
        """Whether others may use it: neither private nor what Python or a program prescribes."""
        return not self.name.startswith("_") and self.name != REST


@dataclass(frozen=True)
class Module:
    """A module: its definitions by name, what it imports at its top, and whether it is a package."""

    name: str
    is_package: bool
    definitions: Mapping[str, Definition]
    imports: Mapping[str, tuple[str, str]]


def read_package(folder: Path) -> dict[str, Module]:
    """The modules of the package in `folder` by name; folders of templates are no part of it.

    Raises:
        SyntaxError: when a file is no Python.
    """
    files = sorted(file for file in folder.rglob("*.py") if "templates" not in file.relative_to(folder).parts[:-1])
    return {module.name: module for module in (_read(file, folder) for file in files)}


def _read(file: Path, folder: Path) -> Module:
    parts = file.relative_to(folder.parent).with_suffix("").parts
    name, is_package = ".".join(parts).removesuffix(".__init__"), file.stem == "__init__"
    package = name if is_package else name.rpartition(".")[0]
    reader = _Reader(folder.name, package)
    definitions: dict[str, Definition] = {}
    imports: dict[str, tuple[str, str]] = {}
    rest, end = References(), 0
    for node in _statements(ast.parse(file.read_text(encoding="utf-8")).body):
        names = _names(node)
        references = reader.references(node)
        imports |= references.imports if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) else {}
        first = end + 1
        end = node.end_lineno or first
        if not names or names[0].startswith("__"):  # What Python asks of a module is no definition of its own.
            rest.add(references)
        for number, defined in enumerate(names):
            if (known := definitions.get(defined)) is not None:  # Such as an overload, or one of many `_`.
                references.add(known.references)
            lines = 0 if number else end - first + 1
            definitions[defined] = Definition(name, defined, node.lineno, lines, _declared(node), references)
    definitions[REST] = Definition(name, REST, 1, 0, None, rest)
    return Module(name, is_package, definitions, imports)


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, those under a condition or an attempt too."""
    for node in body:
        if isinstance(node, ast.If):
            yield ast.copy_location(ast.Expr(node.test), node.test)
            yield from _statements(node.body + node.orelse)
        elif isinstance(node, ast.Try):
            yield from _statements(node.body + [inner for handler in node.handlers for inner in handler.body])
            yield from _statements(node.orelse + node.finalbody)
        else:
            yield node


def _names(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    parts = [part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return [part.id for part in parts if isinstance(part, ast.Name)]


def _declared(node: ast.stmt) -> tuple[str, str] | None:
    """Kind and name under which a registry finds what a statement defines."""
    if isinstance(node, ast.ClassDef):
        values = [inner.value for inner in node.body if isinstance(inner, ast.Assign) and _names(inner) == ["name"]]
        maker, value = "class", values[0] if values else None
    elif isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.Call):
        values = [keyword.value for keyword in node.value.keywords if keyword.arg == "name"]
        maker, value = _chain(node.value.func).rpartition(".")[2], values[0] if values else None
    else:
        return None
    kind = next((kind for kind, made_by in KINDS.items() if made_by == maker), None)
    if kind is None or not isinstance(value, ast.Constant) or not isinstance(value.value, str):
        return None
    return kind, value.value


def _chain(node: ast.AST) -> str:
    """`a.b.c` of such an expression, "" of any other."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def _text(node: ast.AST | None) -> str:
    """A text, or the beginning of one that is put together; else ""."""
    if isinstance(node, ast.JoinedStr) and node.values:
        node = node.values[0]
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


class _Reader:
    """Collects references; `top` is the name of the package, `package` what relative imports begin from."""

    def __init__(self, top: str, package: str) -> None:
        self.top, self.package = top, package
        self._begins = f"{top}."
        self._dotted = re.compile(rf"\b{top}(?:\.\w+)+(?:(?: import |:)\w+)?")

    def references(self, statement: ast.stmt) -> References:
        """What a statement refers to."""
        references, waiting = References(), list[Any]([statement])
        while waiting:
            node = waiting.pop()
            kind = type(node)
            if kind is ast.Name:
                if type(node.ctx) is ast.Load:
                    references.chains.add(node.id)
            elif kind is ast.Constant:
                self._note_text(node.value, references)
            elif kind is ast.Attribute and (chain := _chain(node)):
                references.chains.add(chain)
            elif kind is ast.Import or kind is ast.ImportFrom:
                references.imports.update(self._imports(node))
            elif kind is not ast.Expr or type(node.value) is not ast.Constant:  # A docstring refers to nothing.
                if kind in _HOLDERS:
                    references.declared.update(filter(None, map(_text, _values(node))))
                for value in node.__dict__.values():  # As `ast.iter_child_nodes`, in half the time.
                    if isinstance(value, list):
                        waiting += [inner for inner in value if isinstance(inner, ast.AST)]
                    elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                        waiting.append(value)
        return references

    def _note_text(self, text: Any, references: References) -> None:
        if isinstance(text, str) and len(text) < _LONGEST:
            if self._begins in text:
                references.dotted.update(re.sub(" import |:", ".", name) for name in self._dotted.findall(text))
            if _SPEAKING.fullmatch(text):
                references.declared.add(text)

    def _imports(self, node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, tuple[str, str]]]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == self.top:
                    yield (alias.asname, (alias.name, "")) if alias.asname else (self.top, (self.top, ""))
            return
        parents = [self.package.rsplit(".", node.level - 1)[0]] if node.level else []
        origin = ".".join([*parents, *([node.module] if node.module else [])])
        if origin.partition(".")[0] == self.top:
            yield from ((alias.asname or alias.name, (origin, alias.name)) for alias in node.names)


_LONGEST = 300
"""Longer texts are prompts or programs."""

_SPEAKING = re.compile(r"[\w-]+[:?-]\S*")
"""A text that can hardly be other than a declared name: `maze?width=3`, `tool-use`, `verified:crossing`."""


_WORD = re.compile(r"[\w-]+(?:[:?][^\s,;]+)?")


_HOLDERS = (ast.keyword, ast.Call, ast.Dict, ast.Tuple, ast.Assign, ast.AnnAssign, ast.arguments)


def _values(node: ast.AST) -> Iterator[ast.AST | None]:
    """Where the name of a task, a workflow, ... may stand."""
    if isinstance(node, ast.keyword) and node.arg in KINDS:
        yield node.value
    elif isinstance(node, ast.Call) and node.args and _chain(node.func).rpartition(".")[2] in FINDERS:
        yield node.args[0]
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            # A convention says in a sentence what a method is for.
            if key is not None and _text(key) in KINDS:
                yield from [value, *map(ast.Constant, _WORD.findall(_text(value)))]
    elif isinstance(node, ast.Tuple) and len(node.elts) == 2 and _text(node.elts[0]) in KINDS:
        yield node.elts[1]
    elif isinstance(node, (ast.Assign, ast.AnnAssign)) and any(name.lower() in KINDS for name in _names(node)):
        yield node.value
    elif isinstance(node, ast.arguments):
        for argument, default in zip(node.args[::-1], node.defaults[::-1], strict=False):
            if argument.arg in KINDS:
                yield default
        yield from (value for name, value in zip(node.kwonlyargs, node.kw_defaults, strict=True) if name.arg in KINDS)
