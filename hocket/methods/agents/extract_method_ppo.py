"""PPO on extracted methods (Palit and Sharma, arXiv:2412.18035).

A function is given, and it is to be written again with some of its statements in a helper that it calls. Imitation of
pairs before and after comes first; then PPO with a KL leash optimises what tools say of a whole answer, each only if
the one before holds (`RefactoringReward`): does it parse, do its unit tests pass as those of the original do, and does
a detector find the extraction. So an unchanged copy, a helper that nobody calls and a body that is gone are each worth
less than an extraction. Two phases of a plan:

    plan:
      - {recipe: sft, steps: 60, task: extract-method}
      - {recipe: extract-method-ppo, steps: 40, task: extract-method}

The abstract names the phases, compilation and the presence of the refactoring, reviews of the paper syntax as a third
part; Python in the place of Java, tests as
the check that it compiles to the same, the order of the checks and their weights are chosen here.
"""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hocket.agents.tools.sandbox import Sandbox
from hocket.agents.tools.unit_tests import examine
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.markup import without_thoughts
from hocket.core.options import checked
from hocket.methods.base.ppo import PPO_RLHF
from hocket.rewards.code_tests import code_of
from hocket.rewards.opinions import Opinions
from hocket.stages import Reward, Split
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lesson, Lessons
from hocket.tasks.split import split_of
from hocket.tasks.text import TextTask, check_number
from hocket.types import Scenario, Trajectory

LONGEST = 2000
"""Characters of a program; a longer one does not parse."""

CHECKS = ("parses", "tests", "extracted")

MOVED = 2
"""Statements that a helper must have taken over."""


# ---------------------------------------------------------------- the detector


def parsed(text: str) -> ast.Module | None:
    """A program, None where Python compiles none; in fences, in tags or as it stands, thoughts aside."""
    source = program_in(text)
    if len(source) > LONGEST:
        return None
    try:
        tree = ast.parse(source)
        compile(tree, "program", "exec")  # Finds what parsing alone does not, such as two arguments of one name.
    except (SyntaxError, ValueError, MemoryError, RecursionError, OverflowError):
        return None
    return tree


def program_in(text: str) -> str:
    """What of an answer is the program."""
    found = code_of(text)
    return without_thoughts(text).strip() if found is None else found.strip()


def functions(program: ast.Module) -> dict[str, ast.FunctionDef]:
    """The functions that a program defines, by name; of equal names the last."""
    return {node.name: node for node in program.body if isinstance(node, ast.FunctionDef)}


def extracted(before: ast.Module, after: ast.Module, name: str) -> bool:
    """Whether a helper was extracted from the function `name`.

    A function that was not there before is called in `name`; at least `MOVED` statements of the old body, returns
    aside, stand in it and no longer in `name`; and at least one other statement of the old body stayed. Statements are
    compared as they are written.
    """
    old, now = functions(before), functions(after)
    if name not in now or name not in old:
        return False
    was, kept = _statements(old[name]), _statements(now[name])
    calls = (node.func for node in ast.walk(now[name]) if isinstance(node, ast.Call))
    called = {one.id for one in calls if isinstance(one, ast.Name)}
    stayed = any(one in kept for one in was)
    helpers = (node for new, node in now.items() if new not in old and new in called)
    return stayed and any(_moved(was, kept, _statements(helper)) >= MOVED for helper in helpers)


def _statements(function: ast.FunctionDef) -> list[str]:
    return [ast.dump(node) for node in function.body]


def _moved(was: Sequence[str], kept: Sequence[str], helper: Sequence[str]) -> int:
    return sum(one in helper and one not in kept and not one.startswith("Return(") for one in was)


# ---------------------------------------------------------------- unit tests


class Unreadable(Exception):
    """A program that is more than arithmetic, or does not come to a value."""


_OPERATIONS: Mapping[type[ast.operator], Any] = {
    ast.Add: lambda left, right: left + right,
    ast.Sub: lambda left, right: left - right,
    ast.Mult: lambda left, right: left * right,
}

DEEPEST, LARGEST = 8, 10**30
"""Calls within calls, and numbers, beyond which a program of arithmetic passes no test."""


def plain(program: ast.Module) -> bool:
    """Whether a program is functions of arithmetic alone: assignments to names, `+`, `-`, `*`, calls and returns.

    No name may stand for a number here and for a function there.
    """
    if not all(isinstance(node, ast.FunctionDef) and _plain(node) for node in program.body):
        return False
    nodes = list(ast.walk(program))
    called = {node.func for node in nodes if isinstance(node, ast.Call)}
    numbers = {node.id for node in nodes if isinstance(node, ast.Name) and node not in called}
    numbers |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    return not numbers & {*functions(program), *(node.id for node in called if isinstance(node, ast.Name))}


def _plain(function: ast.FunctionDef) -> bool:
    asked = function.args
    odd = asked.posonlyargs or asked.kwonlyargs or asked.vararg or asked.kwarg or asked.defaults or function.returns
    if odd or function.decorator_list or any(one.annotation for one in asked.args):
        return False
    steps = all(isinstance(node, (ast.Assign, ast.Return, ast.Pass)) for node in function.body)
    return steps and all(_allowed(node) for statement in function.body for node in ast.walk(statement))


def _allowed(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return type(node.value) is int
    if isinstance(node, ast.Assign):
        return len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and not node.keywords
    if isinstance(node, ast.Return):
        return node.value is not None
    return isinstance(node, (ast.Pass, ast.Name, ast.Load, ast.Store, ast.BinOp, *_OPERATIONS))


def value(known: Mapping[str, ast.FunctionDef], name: str, given: Sequence[int], depth: int = 0) -> int:
    """What a function of arithmetic returns.

    Raises:
        Unreadable: when a name is not known, arguments are too few or many, nothing is returned, or it goes too far.
    """
    function = known.get(name)
    if function is None or depth > DEEPEST or len(function.args.args) != len(given):
        raise Unreadable
    held = dict(zip((one.arg for one in function.args.args), given, strict=True))
    for statement in function.body:
        if isinstance(statement, ast.Return):
            assert statement.value is not None
            return _worth(known, statement.value, held, depth)
        if isinstance(statement, ast.Assign):
            assert isinstance(statement.targets[0], ast.Name)
            held[statement.targets[0].id] = _worth(known, statement.value, held, depth)
    raise Unreadable


def _worth(known: Mapping[str, ast.FunctionDef], node: ast.expr, held: Mapping[str, int], depth: int) -> int:
    if isinstance(node, ast.Constant):
        return int(node.value)  # type: ignore[arg-type]
    if isinstance(node, ast.Name):
        if node.id not in held:
            raise Unreadable
        return held[node.id]
    if isinstance(node, ast.Call):
        assert isinstance(node.func, ast.Name)
        return value(known, node.func.id, [_worth(known, one, held, depth) for one in node.args], depth + 1)
    assert isinstance(node, ast.BinOp)
    found: int = _OPERATIONS[type(node.op)](*(_worth(known, one, held, depth) for one in (node.left, node.right)))
    if abs(found) > LARGEST:
        raise Unreadable
    return found


def passes(program: ast.Module, source: str, tests: Sequence[str], sandbox: Sandbox) -> bool:
    """Whether all tests, `assert f(1, 2) == 3` each, pass: arithmetic is computed here, anything else is run apart."""
    if not plain(program):
        return all(examine(source, tests, "", sandbox).passed)
    known = functions(program)
    try:
        return all(value(known, *_case(test)[:2]) == _case(test)[2] for test in tests)
    except Unreadable:
        return False


def _case(test: str) -> tuple[str, list[int], int]:
    """The function, arguments and result of a test."""
    (statement,) = ast.parse(test).body
    assert isinstance(statement, ast.Assert)
    assert isinstance(statement.test, ast.Compare)
    call, wanted = statement.test.left, statement.test.comparators[0]
    assert isinstance(call, ast.Call)
    assert isinstance(call.func, ast.Name)
    return call.func.id, [ast.literal_eval(one) for one in call.args], ast.literal_eval(wanted)


# ---------------------------------------------------------------- the reward


@dataclass(frozen=True)
class RefactoringReward(Reward):
    """The weights of the checks that hold, in their order, up to the first that does not; see `CHECKS`.

    None where the scenario has no `function` and `tests`.

    Attributes:
        parses, tests, extracted: weights, which add up to 1 as they are.
        sandbox: where programs are run that are more than arithmetic.
    """

    parses: float = 0.2
    tests: float = 0.3
    extracted: float = 0.5
    sandbox: Sandbox = Sandbox()
    name: str = "refactoring"
    weight: float = 1.0

    def __post_init__(self) -> None:
        if min(self.parses, self.tests, self.extracted) < 0 or self.extracted == 0:
            raise ConfigurationError("weights must not be negative, and that of the extraction must be above 0")

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Opinions:
        asked = (self.sandbox.apart(self.verify, one.answer, one.scenario) for one in trajectories)
        return Opinions(await asyncio.gather(*asked))

    def verify(self, text: str, scenario: Scenario) -> float | None:
        """What one answer is worth."""
        found = examined(text, scenario, self.sandbox)
        return None if found is None else self.grade(found)

    def grade(self, found: Mapping[str, bool]) -> float:
        """What these verdicts are worth."""
        total = 0.0
        for name in CHECKS:
            if not found[name]:
                break
            total += getattr(self, name)
        return total


def examined(text: str, scenario: Scenario, sandbox: Sandbox) -> dict[str, bool] | None:
    """What holds of an answer; what does not parse is not tested. None where the scenario asks for no refactoring."""
    source, tests = scenario.metadata.get("function"), scenario.metadata.get("tests")
    if not source or not tests:
        return None
    after = parsed(text)
    if after is None:
        return dict.fromkeys(CHECKS, False)
    before = ast.parse(source)
    (name,) = functions(before)
    whole = name in functions(after) and passes(after, program_in(text), tests, sandbox)
    return {"parses": True, "tests": whole, "extracted": extracted(before, after, name)}


# ---------------------------------------------------------------- what is asked

FLAWS: Mapping[str, float] = {"copied": 0.2, "uncalled": 0.15, "lost": 0.2, "unparsed": 0.1}
"""How often a demonstration is no refactoring, and why; pairs that were mined from histories have such."""

POINTS = ((0, 0), (1, 2), (3, -1), (-2, 5))
"""What functions are tested with."""


class ExtractMethod(TextTask):
    """Functions of two numbers with two statements that make one value, which a helper `g` could make.

    A scenario's metadata hold `function`, the source; `tests`, what it returns at `POINTS`; and `demonstration`, the
    function after the extraction, or with a flaw (`FLAWS`): the function as it was, a helper that nobody calls, a
    helper without its first statement, or a text that does not parse.

    Args:
        flaws: how often demonstrations have flaws, as a multiple of `FLAWS`; 0 for none.
    """

    def __init__(self, flaws: float = 1.0) -> None:
        if not 0 <= flaws <= 1:
            raise ConfigurationError(f"task extract-method: flaws lies in 0 to 1, not {flaws:g}")
        self.name = "extract-method" + (f"?flaws={flaws:g}" if flaws != 1 else "")
        self.flaws = flaws
        self._reward = RefactoringReward()

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        rng = Key.of(0).derive("extract-method", split, number).numpy()
        while split_of(source := written(lines := drawn(rng))) != split:
            pass
        known = functions(ast.parse(source))
        flaw = next((name for name, rate in FLAWS.items() if rng.random() < self.flaws * rate), None)
        told = {
            "function": source,
            "tests": tuple(f"assert f({a}, {b}) == {value(known, 'f', (a, b))}" for a, b in POINTS),
            "demonstration": refactored(lines, flaw),
        }
        return Scenario(f"extract-method/{split}/{number}", f"Extract g:\n{source}", metadata=told, seed=number)

    @property
    def rewards(self) -> Sequence[Reward]:
        return (self._reward,)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 96}

    @property
    def lessons(self) -> Lessons:
        """The imitation that comes first: the demonstrations, flaws and all."""
        taught = "how functions look after an extraction, half of them with a flaw"
        return Lessons(taught, LESSONS, self._lesson, then=lambda recipe: THEN, needed=True)

    def _lesson(self, scenario: Scenario, rng: np.random.Generator) -> list[Lesson]:
        demonstration = scenario.metadata["demonstration"]
        return [Lesson(scenario.messages, ({"role": "assistant", "content": demonstration},))]

    def verify(self, text: str, scenario: Scenario) -> float | None:
        return self._reward.verify(text, scenario)

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """`parses`, `tests` and `extracted`, each by itself."""
        found = examined(trajectory.answer, trajectory.scenario, self._reward.sandbox) or {}
        return {name: float(holds) for name, holds in found.items()}

    def label(self, trajectory: Trajectory) -> str | None:
        """Programs have no word by which they agree."""
        return None

    def success(self, trajectory: Trajectory) -> float:
        """1 for a function that does the same with an extracted helper."""
        found = examined(trajectory.answer, trajectory.scenario, self._reward.sandbox)
        return float(found is not None and all(found.values()))


LESSONS = 80
"""Supervised steps after which the shipped model writes such pairs; before, it writes no program at all."""

THEN = {"steps": 40, "update.lr": 2.5e-4, "evaluation.n": 100}
"""Settings for training after the lessons."""


def drawn(rng: np.random.Generator) -> tuple[str, str, str]:
    """The two statements that make a value `c`, and what is returned."""

    def one(*words: str) -> str:
        return words[int(rng.integers(len(words)))]

    first = f"c={one('a', 'b')}{one('+', '-', '*')}{one(*'23456789')}"
    second = f"c=c{one('+', '-', '*')}{one('a', 'b')}"
    return first, second, f"return c{one('+', '-', '*')}{one('a', 'b', *'23456789')}"


def written(lines: Sequence[str]) -> str:
    """The function of these statements."""
    return "def f(a,b):\n " + "\n ".join(lines)


def refactored(lines: Sequence[str], flaw: str | None = None) -> str:
    """The function with a helper, or with a flaw of `FLAWS`."""
    first, second, last = lines
    if flaw == "copied":
        return written(lines)
    made = [second] if flaw == "lost" else [first, second]
    helper = "def g(a,b):\n " + "\n ".join([*made, "return c"])
    if flaw == "uncalled":
        return f"{helper}\n{written(lines)}"
    whole = f"{helper}\n{written(['c=g(a,b)', last])}"
    return whole.replace("):", ")", 1) if flaw == "unparsed" else whole


def from_settings(name: str, settings: Mapping[str, str]) -> ExtractMethod:
    """The task with these settings."""
    return ExtractMethod(**checked(name, settings, {"flaws": float}))


EXTRACT_METHOD = TaskForm(
    name="extract-method",
    description="functions of which a helper is to be extracted, judged by tests and a detector",
    make=from_settings,
)


# ---------------------------------------------------------------- how it is learnt

EXTRACT_METHOD_PPO = PPO_RLHF.but(
    name="extract-method-ppo",
    title="PPO on refactorings that tools find sound and present",
    source="Palit and Sharma, arXiv:2412.18035 (abstract); checks in Python's terms, order and weights chosen here",
    family="agents",
    catalogue_ids=("extract-method-ppo",),
    axes=("reward", "environment", "objective"),
    formula=PPO_RLHF.formula + ",  score = 0.2 [parses] + 0.3 [parses, tests pass] + 0.5 [parses, tests pass, "
    "a helper was extracted]",
    conventions={
        **PPO_RLHF.conventions,
        "stages": "a plan: sft on demonstrations, then extract-method-ppo; the leash is to the imitating policy",
        "reward": "of the whole answer, at its end; a check counts only where those before hold",
        "compiles": "Python compiles it, and every unit test comes out as before; the paper compiles Java",
        "refactoring": "a helper that is new, is called, and took over two statements as they were written, while "
        "another stayed; the paper asks a detector of refactorings in Java",
        "tests": "arithmetic is computed in this process, any other program runs in the sandbox",
        "demonstrations": "pairs with flaws, as mined ones have them; extract-method?flaws=0 for none",
    },
    task="extract-method",
    rewards=(RefactoringReward(),),
)
