"""Mutation: whether a row's claims notice when the method is wrong.

Every mutant is run in a process of its own, which imports the changed method before anything else reads it. A mutant is
killed by the first claim that does not hold; those that survive are what the claims do not say.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import multiprocessing
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

import torch

from hocket.core.errors import ConfigurationError, nearest
from hocket.core.names import RECIPES
from hocket.core.user_files import load_file
from hocket.lab.claims.claim import Check
from hocket.lab.claims.mutants import Mutant, of_code, of_method, of_recipe
from hocket.lab.claims.reach import PlacedMutant, put_in_functions, reached_by
from hocket.lab.claims.record import method_of, verdicts_of
from hocket.lab.claims.registry import checks_of, files
from hocket.lab.claims.survey import UNSAID, Survey, digest_of, made_from, reasons
from hocket.recipe import Recipe

PATIENCE = 20.0
"""Seconds until a mutant counts as killed, beside five times those that the claims take of the method as it is."""


@dataclass(frozen=True)
class MutantOutcome:
    """What became of a mutant.

    Attributes:
        mutant: its change. line: where in the method's file, 0 for a setting. killed: the claim that does not hold, or
            what went wrong; None for a survivor. reason: why the claims spare it, as they say themselves. place: in the
            order of `of_method`. by: the digest of the claim that does not hold.
    """

    mutant: str
    line: int
    killed: str | None
    reason: str | None = None
    place: int = 0
    by: str = UNSAID


@dataclass(frozen=True)
class _Task:
    """One mutant by its place, for a process of its own, and the claims to run on it, by their sentences, in order.

    A place of -1 is the method as it is. With `reach` the places are those of `reached_by`.
    """

    row: str
    place: int
    claims: tuple[str, ...]
    limit: float
    reach: bool = False


def mutate(
    row: str, *, slow: bool = False, workers: int = 1, known: Survey | None = None, reach: bool = False
) -> Iterator[MutantOutcome]:
    """What becomes of each mutant of a row's method, or of a user's `FILE.py`, under its quick claims; with `slow` all.

    With `known`, of those that it says nothing noticed, under the claims that it was not made with. With `reach`, of
    the wrong versions of what else the method stands on (`hocket.lab.claims.reach`).

    Raises:
        ConfigurationError: for a row without claims, or whose claims do not hold for the method as it is.
    """
    if row not in files() and not (row.endswith(".py") and checks_of(row)):
        raise ConfigurationError(f"no check is known for {row!r}{nearest(row, files())}")
    checks = asked(row, slow=slow, known=known)
    claims = tuple(check.claim for check in checks)
    digests = {check.claim: digest_of(check) for check in checks}
    context = multiprocessing.get_context("forkserver")  # Whose children have imported no method yet.
    context.set_forkserver_preload([__name__, "hocket.lab.claims.harness", "hocket.lab.claims.shipped_check"])
    with context.Pool(workers, maxtasksperchild=1) as pool:
        started = time.perf_counter()
        _, count, killed = pool.apply(_tried, (_Task(row, -1, claims, 0.0, reach),))
        if killed is not None:
            raise ConfigurationError(f"the claims of {row} do not hold as it is: {killed}")
        limit = PATIENCE + 5 * (time.perf_counter() - started)
        places = range(count) if known is None else sorted(known.unnoticed)
        tasks = [_Task(row, place, claims, limit, reach) for place in places]
        for outcome, _, _ in pool.imap(_tried, tasks):
            assert outcome is not None
            yield replace(outcome, by=digests.get(outcome.killed or "", UNSAID))


def asked(row: str, *, slow: bool, known: Survey | None = None) -> list[Check]:
    """The claims of a row to run on wrong versions, those that took least first."""
    seconds = {verdict.claim: verdict.seconds for verdict in verdicts_of(row)}
    checks = [check for check in checks_of(row) if slow or not check.slow]
    new = [check for check in checks if known is None or digest_of(check) not in known.claims]
    return sorted(new, key=lambda check: (_cost(check), seconds.get(check.claim, 0.0)))


def surveyed(
    row: str, outcomes: Sequence[MutantOutcome], *, slow: bool, known: Survey | None = None, reach: bool = False
) -> Survey:
    """What is known of a row after these outcomes of `mutate`."""
    before = Survey(made_from(row, reach=reach)) if known is None else known
    noticed = Counter(outcome.by for outcome in outcomes if outcome.killed is not None) + Counter(before.noticed)
    unnoticed = {outcome.place: outcome.mutant for outcome in outcomes if outcome.killed is None}
    claims = before.claims.union(digest_of(check) for check in asked(row, slow=slow, known=known))
    return Survey(before.made_from, claims, noticed, unnoticed)


def _tried(task: _Task) -> tuple[MutantOutcome | None, int, str | None]:
    """The outcome of one mutant, how many there are, and what killed it."""
    torch.set_num_threads(1)
    module = _module_of(task.row)
    name = module.__name__
    mutants: Sequence[Mutant] = reached_by(module, _stated_lines(module)) if task.reach else mutants_of(module)
    if task.place < 0:
        return None, len(mutants), _killed(task)
    mutant = mutants[task.place]

    def run() -> str | None:
        _put_in_place(name, mutant)
        return _killed(task)

    killed = within(task.limit, run)
    reason = None if killed is not None else reasons(task.row).get(mutant.name)
    return MutantOutcome(mutant.name, mutant.line, killed, reason, task.place), len(mutants), killed


def _module_of(row: str) -> ModuleType:
    """The module of a row's method, or of a user's file."""
    if row.endswith(".py"):
        return load_file(Path(row), "--mutate")
    return importlib.import_module(method_of(files()[row]))


def mutants_of(module: ModuleType) -> list[Mutant]:
    """Those of a method. A user's file holds its recipes and its claims, and the claims stay as they are."""
    if not hasattr(module, "__hocket_file__"):
        return of_method(module)
    lines = _stated_lines(module)
    recipes = [
        (name, value)
        for name, value in vars(module).items()
        if isinstance(value, Recipe) and value.name not in RECIPES.declared
    ]
    code = [mutant for mutant in of_code(inspect.getsource(module)) if mutant.line not in lines]
    return [*code, *(mutant for name, recipe in recipes for mutant in of_recipe(name, recipe))]


def _stated_lines(module: ModuleType) -> set[int]:
    """The lines of a file that make claims."""
    stated = [node for node in ast.parse(inspect.getsource(module)).body if _states(node)]
    return {line for node in stated for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}


def _states(node: ast.stmt) -> bool:
    """Whether a statement of a file makes claims, or is one."""
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else ()
    calls = [*decorators, *([node.value] if isinstance(node, ast.Expr | ast.Assign) else ())]
    named = [ast.unparse(call.func) for call in calls if isinstance(call, ast.Call)]
    return any(name.split(".")[0] in ("claim", "Claims") for name in named)


class _Expired(BaseException):
    """Time is up; no `Exception`, which those who play episodes would take for a failed one and go on."""


def within(seconds: float, run: Callable[[], str | None]) -> str | None:
    """What `run` returns, its error in words, or that it did not end in time. Uses the process's alarm."""
    signal.signal(signal.SIGALRM, _expired)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return run()
    except _Expired:
        return "it does not end"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _expired(*_: object) -> None:
    raise _Expired


def _put_in_place(name: str, mutant: Mutant) -> None:
    """Makes the changed method what everybody imports from now on."""
    if isinstance(mutant, PlacedMutant):
        put_in_functions(mutant)
        return
    if mutant.recipe is not None:
        setattr(sys.modules[name], *mutant.recipe)
        return
    assert mutant.code is not None
    original = sys.modules[name]
    changed = ModuleType(name)
    changed.__file__ = original.__file__
    if hasattr(original, "__hocket_file__"):
        changed.__hocket_file__ = original.__hocket_file__  # type: ignore[attr-defined]
    sys.modules[name] = changed
    exec(compile(mutant.code(), str(original.__file__), "exec"), vars(changed))
    package, _, last = name.rpartition(".")
    if package:
        setattr(sys.modules[package], last, changed)


def _killed(task: _Task) -> str | None:
    """The first of the claims that does not hold."""
    stated = {check.claim: check for check in checks_of(task.row)}
    for claim in task.claims:
        verdict = stated[claim]()
        if not verdict.holds:
            return verdict.claim
    return None


def _cost(check: Check) -> int:
    return 1 if check.shipped else 2 if check.slow else 0
