"""Who uses each public definition outside the methods: the engine, and which rows of the catalogue."""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hocket.apps.report.definitions import KINDS, REST, Definition, Module, read_package

ENGINE = (
    # What people call: commands, and modules that are imported in programs of their own.
    "hocket.__main__",
    "hocket.apps.cli",
    "hocket.recipe",
    "hocket.recipes",
    "hocket.run",
    "hocket.stages",
    "hocket.testing",
    "hocket.types",
    # Programs that the library starts in processes of their own, by names put together at run time.
    "hocket.apps.studies.remote_workers",
    "hocket.agents.tools.jail",
    "hocket.distributed.cluster.learner_worker",
    "hocket.distributed.cluster.sampler_worker",
)
"""Where the engine begins, by dotted prefix. What these modules reach is of the engine, wherever it stands."""

PUBLIC: Mapping[str, str] = {
    # Adapters.
    "hocket.agents.environments.browser": "any page in a browser",
    "hocket.agents.environments.miniwob": "an outside benchmark",
    "hocket.tasks.miniwob": "an outside benchmark",
    "hocket.tasks.harbor": "outside benchmarks",
    "hocket.agents.tools.container": "what they run in",
    "hocket.tasks.verifiers_task": "an outside library",
    "hocket.tasks.verifiers_harness": "an outside library",
    "hocket.tasks.torch_worlds": "outside worlds of torch tensors",
    "hocket.agents.environments.pogema": "an outside library's worlds",
    "hocket.agents.search.gepa": "an outside library's search",
    # Loops of users.
    "hocket.train.training_engine.Engine": "hocket.Engine",
    # Tasks of users' data, and the first to try.
    "hocket.tasks.data": "data files",
    "hocket.tasks.user_task": "a task in a user's file",
    "hocket.tasks.code": "programs with tests, among the first tasks of the list",
    "hocket.tasks.frames": "films as pictures",
    "hocket.tasks.shapes": "questions about pictures of shapes",
    "hocket.rewards.regions": "boxes, points and intervals, for any task of grounding",
    "hocket.tasks.handwriting": "its digits",
    "hocket.nano.flow": "how nano-flow is made",
    "hocket.nano.mdlm": "how nano-mdlm is made",
    # What recipes are composed of.
    "hocket.policies.dynamics": "learnt worlds",
    "hocket.policies.control_pointer": "a pointer and its parts, for any world of rows",
    "hocket.core.casting": "casts",
    "hocket.core.noise_laws": "noise of samplers' steps, for any recipe that denoises",
    "hocket.core.divergences": "what a loss of distillation compares, for any recipe with a teacher",
    "hocket.core.span_divergences": "the same for a teacher of another tokenizer",
    "hocket.hooks.short_batches": "updates within episodes, for any recipe of one controller",
    "hocket.credit.sequential_agents": "credit of agents one after another, on which HAPPO and its like stand",
    "hocket.credit.pairs": "credit by pairs",
    "hocket.credit.score_positions": "credit of scores on users' own ratings",
    "hocket.credit.reinforce": "the baselines of REINFORCE and REMAX",
    "hocket.credit.scored_answers": "credit where some samples have no score",
    "hocket.credit.vtrace": "credit of stale experience, of IMPALA",
    "hocket.curriculum.level_bandit": "a curriculum for any task with levels",
    "hocket.objectives.action_values": "losses of action values, for any recipe with a store",
    "hocket.policies.action_values": "policies with action values, for any recipe with a store",
    "hocket.policies.team_critics": "critics of whole teams, for any recipe with rows of a team",
    "hocket.policies.team_values": "values of whole teams, for the same",
    "hocket.hooks.meta_solvers": "mixtures over a population, for any game",
    "hocket.hooks.partners": "scripted partners for any joint world",
    "hocket.objectives.balance": "even use of experts, for any recipe that trains a mixture of them",
    "hocket.objectives.listwise": "losses on users' own rankings",
    "hocket.objectives.measures": "what pairwise losses compare",
    "hocket.objectives.scores": "losses of reward models",
    "hocket.rewards.code_tests": "the tests of users' own programs, the reward of hocket.tasks.code",
    "hocket.rewards.judge": "judges fitted to users' own verdicts",
    "hocket.rewards.novelty": "a bonus for any task",
    "hocket.rewards.scaling": "rewards of any size",
    "hocket.rewards.similarity": "measures of likeness for any text",
    "hocket.rollout.allocation": "worths by which samples are shared out",
    "hocket.rollout.labelled_steps": "users' own labels of steps",
    # What is named on the command line.
    "hocket.lab.exact.plan": "solvers by name",
    "hocket.lab.exact.fronts": "worlds of two aims by name",
    "hocket.lab.exact.worlds": "worlds of solvers by name",
    "hocket.lab.exploitability": "how far the players of a game, a user's run among them, are from an equilibrium",
    # What documents an interface, or is for tests and benchmarks of the library.
    "hocket.apps.studies.backtests": "statistics of users' own back-tests",
    "hocket.core.surveys": "what maps of surveys are written with",
    "hocket.lab.claims.registry.all_checks": "tests and benchmarks of all claims",
}
"""What has fewer users on purpose, by dotted prefix of module or definition, and what it is for."""

METHODS = "hocket.methods"
BASE = "hocket.methods.base"
ZOO = "hocket.zoo"

Key = tuple[str, str]
"""A definition: its module and its name."""


@dataclass(frozen=True)
class DefinitionUsage:
    """Who uses a definition.

    Attributes:
        definition: what is used.
        engine: whether the engine reaches it.
        rows: the rows whose methods reach it, by the names of their files.
        claims: the rows of which only the claims do.
    """

    definition: Definition
    engine: bool
    rows: tuple[str, ...]
    claims: tuple[str, ...]

    @property
    def name(self) -> str:
        """The dotted name of the definition."""
        return f"{self.definition.module}.{self.definition.name}"

    @property
    def enough(self) -> bool:
        """Whether it stands in the right place: the engine or two rows use it."""
        return self.engine or len(self.rows) + len(self.claims) > 1

    @property
    def users(self) -> str:
        """Who uses it, in words."""
        words = ["the engine"] * self.engine + list(self.rows) + [f"claims of {row}" for row in self.claims]
        return ", ".join(words) or "nobody"

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        counts = {"engine": self.engine, "rows": list(self.rows), "claims": list(self.claims)}
        return {"name": self.name, "line": self.definition.line, "lines": self.definition.lines, **counts}


def under(module: str, prefixes: Iterable[str]) -> bool:
    """Whether a module is one of these or inside one."""
    return any(f"{module}.".startswith(f"{prefix}.") for prefix in prefixes)


def row_of(module: str) -> str | None:
    """The row whose method or claims a module is part of: `METHODS.GROUP[.claims].ROW[.anything]`."""
    if not module.startswith(f"{METHODS}."):
        return None
    parts = module.removeprefix(f"{METHODS}.").split(".")[1:]
    return next((part for part in parts if part != "claims"), None)


def is_claim(module: str) -> bool:
    """Whether a module holds claims of a row."""
    return under(module, [METHODS]) and "claims" in module.split(".")


def usages(folder: Path | None = None) -> tuple[DefinitionUsage, ...]:
    """Every public definition outside methods and zoo with its users, of this package or of that in `folder`."""
    return _usages(folder or Path(__file__).parents[2])


@functools.cache
def _usages(folder: Path) -> tuple[DefinitionUsage, ...]:
    graph = Graph(read_package(folder))
    engine = graph.reached(
        [key for key in graph.references if under(key[0], ENGINE)], lambda key: not under(key[0], [METHODS])
    )
    rows, claims = _rows(graph, engine)
    return tuple(
        DefinitionUsage(definition, key in engine, tuple(sorted(rows[key])), tuple(sorted(claims[key] - rows[key])))
        for key, definition in graph.definitions.items()
        if definition.public and not under(definition.module, [METHODS, ZOO])
    )


def unused(folder: Path | None = None) -> list[DefinitionUsage]:
    """What neither the engine nor two rows use and is not there for people to compose."""
    return [usage for usage in usages(folder) if not usage.enough and not under(usage.name, PUBLIC)]


def _rows(graph: Graph, engine: set[Key]) -> tuple[Mapping[Key, set[str]], Mapping[Key, set[str]]]:
    """The rows whose methods reach each definition, and those whose claims do."""
    users: tuple[dict[Key, set[str]], dict[Key, set[str]]] = (defaultdict(set), defaultdict(set))
    parts: dict[tuple[str, bool], list[Key]] = defaultdict(list)
    for key in graph.references:
        if row := row_of(key[0]):
            parts[row, is_claim(key[0])].append(key)
    for (row, claimed), start in parts.items():

        def passes(key: Key, row: str = row) -> bool:
            if under(key[0], [METHODS]):
                return row_of(key[0]) == row or (under(key[0], [BASE]) and not key[1].isupper())
            return key not in engine  # Where that leads is of the engine, too.

        for key in graph.reached(start, passes):
            users[claimed][key].add(row)
    return users


class Graph:
    """Which definition refers to which."""

    def __init__(self, modules: Mapping[str, Module]) -> None:
        self.modules = modules
        self.definitions: dict[Key, Definition] = {
            (module.name, name): definition
            for module in modules.values()
            for name, definition in module.definitions.items()
        }
        self._names = _declared_names(self.definitions.values())
        self._rooms: dict[str, dict[str, str]] = {}
        self._keys: dict[tuple[str, str], Key | str | None] = {}
        self._texts: dict[str, set[Key]] = {}
        self.references: dict[Key, set[Key]] = {key: self._references(key) for key in self.definitions}

    def reached(self, start: Iterable[Key], passes: Callable[[Key], bool]) -> set[Key]:
        """What `start` leads to; what does not pass is reached and leads no further."""
        reached = set(start)
        waiting = list(reached)
        while waiting:
            key = waiting.pop()
            if passes(key):
                following = self.references[key] - reached
                reached |= following
                waiting.extend(following)
        return reached

    def _references(self, key: Key) -> set[Key]:
        """The definitions that one refers to, by their names or those under which they are declared."""
        definition = self.definitions[key]
        references = definition.references
        above = definition.module.rpartition(".")[0] if definition.name == REST else definition.module
        keys = {(above, REST)} if above in self.modules else set()
        for chain in references.chains:
            head, *members = chain.split(".")
            place = self._global(definition, head)
            if isinstance(place, str) and not members:
                keys |= self._all(place)  # A module that is handed on: who takes it may use anything of it.
            keys |= self._member(place, members)
        for name in references.dotted if definition.module != __name__ else ():  # The tables above use nothing.
            keys |= self._member(*self._longest(name))
        for text in references.declared:
            keys |= self._called(text)
        return keys - {key}

    def _global(self, definition: Definition, name: str) -> Key | str | None:
        """What a name that stands alone means: an import, there or at the top, or a definition of the module."""
        module = self.modules[definition.module]
        if name in module.definitions and name not in definition.references.imports:
            return module.name, name
        origin = definition.references.imports.get(name) or module.imports.get(name)
        return self._find(*origin) if origin else None

    def _member(self, place: Key | str | None, members: Sequence[str]) -> set[Key]:
        for member in members:
            if not isinstance(place, str):
                break
            if member == "__file__":  # `FILE.py:NAME` may follow, of any name in it.
                return self._all(place)
            place = self._find(place, member)
        if isinstance(place, str):
            return {(place, REST)}
        return set() if place is None else {place}

    def _all(self, module: str) -> set[Key]:
        return {(module, name) for name in self.modules[module].definitions}

    def _longest(self, name: str) -> tuple[str | None, list[str]]:
        """The module that a dotted name begins with, and the rest of the name."""
        parts = name.split(".")
        for end in range(len(parts), 0, -1):
            if (module := ".".join(parts[:end])) in self.modules:
                return module, parts[end:]
        return None, []

    def _find(self, module: str, name: str) -> Key | str | None:
        """What a name means in a module: a definition, a module by its name, or nothing of the package."""
        if (module, name) not in self._keys:
            self._keys[module, name] = None  # Modules may import each other.
            self._keys[module, name] = self._meaning(module, name)
        return self._keys[module, name]

    def _meaning(self, module: str, name: str) -> Key | str | None:
        if not name:
            return module if module in self.modules else None
        inside = f"{module}.{name}"
        if inside in self.modules:
            return inside
        home = self.modules.get(module)
        if home is None:
            return None
        if name in home.definitions:
            return module, name
        if name in home.imports:
            return self._find(*home.imports[name])
        if home.is_package and (inner := self._room(module).get(name)):
            return inner, name
        return None

    def _room(self, package: str) -> dict[str, str]:
        """The modules of the public names of a package, as `hocket.core.rooms` finds them."""
        if package not in self._rooms:
            self._rooms[package] = {
                definition.name: module.name
                for module in reversed(list(self.modules.values()))
                if under(module.name, [package]) and module.name != package and ".claims" not in module.name
                for definition in module.definitions.values()
                if definition.public
            }
        return self._rooms[package]

    def _called(self, text: str) -> set[Key]:
        """What is declared under such a name, settings left out: `verified:maze?width=3` is two tasks."""
        base = text.partition("?")[0]
        if base not in self._texts:
            self._texts[base] = set()
            for names in self._names.values():
                fitting = [name for name in names if _pattern(name).fullmatch(base)]
                fitting = fitting or [name for name in names if name == base.partition(":")[0]]  # A world and its size.
                if fitting:
                    name = max(fitting, key=lambda name: len(_GAP.split(name)[0]))
                    self._texts[base].add(names[name])
                    begun = _GAP.split(name)[0]
                    if begun and begun != base:
                        self._texts[base] |= self._called(base.removeprefix(begun))
        return self._texts[base]


_GAP = re.compile(r"\b[A-Z]+\b")
"""A word of a declared name that stands for any text."""


@functools.cache
def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, _GAP.split(name))), re.DOTALL)


def _declared_names(definitions: Iterable[Definition]) -> dict[str, dict[str, Key]]:
    """The definitions of each kind by the names under which they are declared."""
    names: dict[str, dict[str, Key]] = {kind: {} for kind in KINDS}
    for definition in definitions:
        if definition.declared:
            kind, name = definition.declared
            names[kind].setdefault(name, (definition.module, definition.name))
    return names
