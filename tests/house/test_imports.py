"""Who may import whom, and how large things may be. Read from the source, `TYPE_CHECKING` imports included."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

from tiers import PACKAGE, modules, texts

METHODS = "hocket.methods."

# ---------------------------------------------------------------- the house

CORE_FILES = {"stages", "types"}
"""Files directly in `hocket/` that belong to `core`."""

FRONT = {"__init__", "__main__", "cli", "run", "testing"}
"""What stands before everything else: files directly in `hocket/` that users call, and the command line."""

WITHIN = {"agents", "apps", "distributed"}
"""Doors that hold rooms and are none."""

ROOMS_OF_ROOMS = {"hocket.lab.exact": "exact", "hocket.policies.kernels": "kernels"}
"""Rooms that stand in another."""

STAGES = {"curriculum", "rollout", "rewards", "credit", "objectives", "update"}
BASE = STAGES | {"exact", "tools", "environments", "kernels", "policies", "engine", "workflows", "tasks"}
BASE |= {"search", "hooks"}

ALLOWED: Mapping[str, set[str]] = {
    # The vocabulary, which every room may import.
    "core": set(),
    # Stages know the vocabulary only; a reward may ask what judges beside it: a sandbox, a database, a casebook.
    **{stage: set() for stage in STAGES},
    "rewards": {"tools", "environments"},
    "recipe": STAGES,
    # What decides, and where.
    "kernels": set(),
    "policies": {"kernels"},
    "engine": {"kernels", "policies"},
    "tools": set(),
    "exact": set(),
    "environments": set(),
    "workflows": {"engine", "environments", "tools"},
    "hooks": {"workflows"},
    # What searches texts, and what sums up episodes in words that a record can refute.
    "search": {"rollout", "environments", "rewards"},
    "tasks": {"environments", "rewards", "tools", "workflows"},
    "nano": {"policies", "tasks", "tools", "workflows"},
    # Papers, and the registry that finds them by name.
    "zoo": BASE - {"engine", "hooks", "search"},
    "methods": {"recipe", "zoo", "folders"} | BASE - {"engine"},
    # What a paper brings besides its method: worlds and tasks, and what a command of its own or its claims run.
    "folders": {"recipe", "zoo", "methods", "train", "engine", "lab", "report", "front"} | BASE,
    "recipes": {"recipe"},
    # What runs them.
    "train": {"recipe", "recipes", "nano", "cluster", "swarm"} | BASE,
    "cluster": {"recipe", "recipes", "train"} | BASE,
    "swarm": {"recipe", "recipes", "train", "cluster"} | BASE,
    "serve": {"train", "front"} | BASE,
    "play": {"train", "serve"} | BASE,
    "live": {"train", "report", "serve", "front"} | BASE,
    "init": set(),
    "launch": set(),
    # What examines them.
    "lab": {"recipe", "recipes", "train", "swarm", "zoo"} | BASE,
    "claims": {
        "folders",
        "recipe",
        "recipes",
        "methods",
        "zoo",
        "train",
        "cluster",
        "swarm",
        "nano",
        "lab",
        "play",
        "report",
        "studies",
        "front",
    }
    | BASE,
    "report": {"recipe", "recipes", "train", "lab", "front"} | BASE,
    "use": {"train", "report", "play"} | BASE,
    "studies": {"recipe", "recipes", "train", "cluster", "lab", "report", "front"} | BASE,
}
"""What each room may import besides itself and the core; the front may import everything."""

ENGINE_OF_WORKFLOWS = {"hocket.engine.requests", "hocket.engine.barrier"}
"""What a workflow may know of the engine: how it is asked, and how it waits."""

EXCEPTIONS = {("hocket.train", "front")}
"""The package `hocket.train` is also the function `hocket.run.train`."""

LINES = 600
FILES_AT_THE_TOP = 8

# ---------------------------------------------------------------- reading


class Arrow(NamedTuple):
    """`source` imports `name` from the module `target`; `lazy` where it stands in a function."""

    source: str
    target: str
    name: str
    lazy: bool


@cache
def arrows() -> tuple[Arrow, ...]:
    """Every import of one module of the package by another."""
    return tuple(
        Arrow(module, target, name, lazy)
        for module, file in modules().items()
        for target, name, lazy in _imports(
            ast.parse(texts()[module]), module if file.stem == "__init__" else _above(module)
        )
        if target != module
    )


def _above(package: str, levels: int = 1) -> str:
    return package.rsplit(".", levels)[0] if levels else package


def _imports(node: ast.AST, package: str, lazy: bool = False) -> Iterator[tuple[str, str, bool]]:
    for child in _statements(node):
        if isinstance(child, ast.ImportFrom):
            # Only the jail is written with relative imports: it runs where there is no hocket.
            parents = [_above(package, child.level - 1)] if child.level else []
            origin = ".".join([*parents, *([child.module] if child.module else [])])
            for alias in child.names if origin.partition(".")[0] == "hocket" else ():
                inside = f"{origin}.{alias.name}"
                yield (inside, "", lazy) if inside in modules() else (origin, alias.name, lazy)
        elif isinstance(child, ast.Import):
            yield from ((one.name, "", lazy) for one in child.names if one.name.partition(".")[0] == "hocket")
        yield from _imports(child, package, lazy or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)))


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """What stands directly in the body or a branch of a statement; expressions hold no imports."""
    for branch in ("body", "orelse", "finalbody", "handlers", "cases"):
        inside = getattr(node, branch, [])
        yield from inside if isinstance(inside, list) else ()


def is_claim(module: str) -> bool:
    """Whether a module holds the claims of a method, in the folder beside it, or what they train: `ROW/bench.py`."""
    return module.startswith(METHODS) and ("claims" in module.split(".") or module.endswith(".bench"))


def room(module: str) -> str:
    """The room in which a module stands."""
    parts = module.split(".")
    if len(parts) == 1:
        return "front"
    nested = (one for place, one in ROOMS_OF_ROOMS.items() if f"{module}.".startswith(f"{place}."))
    name = next(nested, parts[2] if parts[1] in WITHIN and len(parts) > 2 else parts[1])
    if name == "methods" and is_claim(module):
        return "claims"
    if name == "methods" and len(parts) > 4 and parts[4] != "method":
        return "folders"
    if name in FRONT:
        return "front"
    return "core" if name in CORE_FILES | WITHIN else name


def said(broken: set[str]) -> str:
    return "\n".join(sorted(broken))


# ---------------------------------------------------------------- rules


def test_every_room_is_in_the_table() -> None:
    assert {room(module) for module in modules()} <= set(ALLOWED) | {"front"}


def test_rooms_import_what_the_table_allows() -> None:
    """Imports in functions count: laziness saves time, not dependence."""
    broken = {
        f"{arrow.source} -> {arrow.target}"
        for arrow in arrows()
        if (source := room(arrow.source)) != "front"
        and (target := room(arrow.target)) not in {source, "core"} | ALLOWED[source]
        and (arrow.source, target) not in EXCEPTIONS
    }
    assert not broken, said(broken)


def test_workflows_know_how_the_engine_is_asked_and_nothing_else_of_it() -> None:
    broken = {
        f"{arrow.source} -> {arrow.target}"
        for arrow in arrows()
        if room(arrow.source) == "workflows"
        and room(arrow.target) == "engine"
        and arrow.target not in ENGINE_OF_WORKFLOWS
    }
    assert not broken, said(broken)


def test_no_import_circles() -> None:
    """Imports in functions count: laziness saves time, not dependence."""
    graph: dict[str, set[str]] = {module: set() for module in modules()}
    for arrow in arrows():
        if arrow.target != "hocket":  # Python runs the package before all its modules; they take its version alone.
            graph[arrow.source].add(arrow.target)
    broken = {f"circle: {', '.join(sorted(circle))}" for circle in _circles(graph)}
    assert not broken, said(broken)


def _circles(graph: Mapping[str, set[str]]) -> list[set[str]]:
    """What remains, in connected parts, when modules that nothing left imports or that import nothing left are gone."""
    left = set(graph)
    while True:
        ends = {one for one in left if not graph[one] & left}
        starts = left - {target for one in left for target in graph[one]}
        if not ends | starts:
            break
        left -= ends | starts
    circles = []
    while left:
        start = min(left)
        reached = _reached(graph, start, left)
        circle = {one for one in reached if start in _reached(graph, one, left)}
        if circle:
            circles.append(circle)
        left -= circle | {start}
    return circles


def _reached(graph: Mapping[str, set[str]], start: str, within: set[str]) -> set[str]:
    reached: set[str] = set()
    waiting = [start]
    while waiting:
        following = (graph[waiting.pop()] & within) - reached
        reached |= following
        waiting.extend(following)
    return reached


def test_files_are_short() -> None:
    lines = {module: len(text.splitlines()) for module, text in texts().items()}
    broken = {f"{name}: {count}" for name, count in lines.items() if count > LINES}
    assert not broken, said(broken)


def test_few_files_stand_at_the_top() -> None:
    assert len(list(PACKAGE.glob("*.py"))) <= FILES_AT_THE_TOP


# ---------------------------------------------------------------- methods


def paper(module: str) -> str:
    """The file or folder of a paper in which a module stands."""
    return ".".join(module.split(".")[:4])


class TestMethods:
    """A paper is a file, or a folder with the world that it brings."""

    def test_nothing_outside_imports_a_method(self) -> None:
        """The rest asks the registry, `hocket.methods` itself, which imports one file for one name."""
        broken = {
            f"{arrow.source} -> {arrow.target}"
            for arrow in arrows()
            if arrow.target.startswith(METHODS) and not (arrow.source + ".").startswith(METHODS)
        }
        assert not broken, said(broken)

    def test_a_method_takes_of_another_its_recipe_alone(self) -> None:
        """Classes and functions with a second user belong in a room or the zoo; `methods.base` is for all."""
        broken = {
            f"{arrow.source} -> {arrow.target}: {arrow.name}"
            for arrow in arrows()
            if arrow.source.startswith(METHODS)
            and arrow.target.startswith(METHODS)
            and not is_claim(arrow.source)
            and paper(arrow.source) != paper(arrow.target)
            and not arrow.target.startswith(f"{METHODS}base")
            and not arrow.name.isupper()
        }
        assert not broken, said(broken)

    def test_a_method_reaches_nothing_that_runs_it(self) -> None:
        """Through the other files of its folder either: what loads a recipe loads no trainer."""
        folders = {arrow.source for arrow in arrows() if room(arrow.source) == "folders"}
        runs = {
            arrow.source
            for arrow in arrows()
            if not arrow.lazy and room(arrow.target) not in {"core", "folders", *ALLOWED["methods"]}
        }
        broken = {
            f"{arrow.source} -> {arrow.target}"
            for arrow in arrows()
            if room(arrow.source) == "methods" and not arrow.lazy and arrow.target in folders & runs
        }
        assert not broken, said(broken)

    def test_a_method_imports_no_claims(self) -> None:
        broken = {
            f"{arrow.source} -> {arrow.target}"
            for arrow in arrows()
            if is_claim(arrow.target) and arrow.source.startswith(METHODS) and not is_claim(arrow.source)
        }
        assert not broken, said(broken)

    def test_claims_import_no_other_claims(self) -> None:
        broken = {
            f"{arrow.source} -> {arrow.target}"
            for arrow in arrows()
            if is_claim(arrow.source)
            and is_claim(arrow.target)
            and paper(arrow.target) != paper(arrow.source)
            and not arrow.target.endswith(".bench")
            and not arrow.lazy
        }
        assert not broken, said(broken)
