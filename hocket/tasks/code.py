"""Small functions to write: a chain of steps described in words, and tests computed by running the steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.options import checked
from hocket.rewards.code_tests import CodeTests, code_of
from hocket.stages import Reward, Split
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lesson, Lessons
from hocket.tasks.split import split_of
from hocket.tasks.text import TextTask, check_number
from hocket.types import Scenario, Trajectory

Kind = Literal["numbers", "text", "number"]
Grading = Literal["all", "share"]


@dataclass(frozen=True)
class Step:
    """An operation on a value: in words, in brief, and as an expression of `x`. `{k}` is a number from 2 to `most`."""

    words: str
    few: str
    code: str
    most: int = 9


@dataclass(frozen=True)
class Chain:
    """The operations on one kind of value.

    Attributes:
        takes: the description of the argument. steps: operations that keep the kind. ends: operations to the result.
        draw: draws an argument.
    """

    takes: str
    steps: tuple[Step, ...]
    ends: tuple[Step, ...]
    draw: Callable[[np.random.Generator], Any]


_LETTERS = "abcdeioxyzABER 157 "


def _numbers(rng: np.random.Generator) -> list[int]:
    return [int(number) for number in rng.integers(-20, 21, size=int(rng.integers(0, 9)))]


def _text(rng: np.random.Generator) -> str:
    return "".join(_LETTERS[place] for place in rng.integers(len(_LETTERS), size=int(rng.integers(0, 13)))).strip()


CHAINS: Mapping[Kind, Chain] = {
    "numbers": Chain(
        "a list of integers",
        (
            Step("keeps the even ones", "even", "[n for n in x if n % 2 == 0]"),
            Step("keeps the odd ones", "odd", "[n for n in x if n % 2 == 1]"),
            Step("keeps those greater than {k}", "over {k}", "[n for n in x if n > {k}]"),
            Step("keeps those smaller than {k}", "under {k}", "[n for n in x if n < {k}]"),
            Step("multiplies each by {k}", "times {k}", "[n * {k} for n in x]"),
            Step("adds {k} to each", "plus {k}", "[n + {k} for n in x]"),
            Step("squares each", "square", "[n * n for n in x]"),
            Step("replaces each by its absolute value", "abs", "[abs(n) for n in x]"),
            Step("reverses their order", "reverse", "x[::-1]"),
            Step("sorts them in ascending order", "sort", "sorted(x)"),
            Step("drops repeated ones, keeping the first of each", "unique", "list(dict.fromkeys(x))"),
            Step("drops the first {k}", "drop {k}", "x[{k}:]", 4),
            Step("keeps the first {k}", "keep {k}", "x[:{k}]", 5),
        ),
        (
            Step("returns the list", "all", "x"),
            Step("returns their sum", "sum", "sum(x)"),
            Step("returns how many there are", "count", "len(x)"),
            Step("returns the largest, or 0 if there is none", "max", "max(x, default=0)"),
            Step("returns the smallest, or 0 if there is none", "min", "min(x, default=0)"),
        ),
        _numbers,
    ),
    "text": Chain(
        "a string",
        (
            Step("reverses it", "reverse", "x[::-1]"),
            Step("writes it in capitals", "upper", "x.upper()"),
            Step("writes it in small letters", "lower", "x.lower()"),
            Step(
                "removes the vowels (a, e, i, o, u, in either case)",
                "no vowels",
                "''.join(c for c in x if c not in 'aeiouAEIOU')",
            ),
            Step("removes everything but letters", "letters", "''.join(c for c in x if c.isalpha())"),
            Step("replaces every space by a hyphen", "hyphens", "x.replace(' ', '-')"),
            Step("writes every character twice", "twice", "''.join(c + c for c in x)"),
            Step("drops the first {k} characters", "drop {k}", "x[{k}:]", 4),
            Step("keeps the first {k} characters", "keep {k}", "x[:{k}]", 8),
        ),
        (
            Step("returns the result", "all", "x"),
            Step("returns its length", "length", "len(x)"),
            Step("returns how many digits it has", "digits", "sum(c.isdigit() for c in x)"),
            Step("returns how many different characters it has", "distinct", "len(set(x))"),
            Step("returns the list of its words", "words", "x.split()"),
        ),
        _text,
    ),
    "number": Chain(
        "an integer",
        (
            Step("adds {k}", "plus {k}", "x + {k}"),
            Step("subtracts {k}", "minus {k}", "x - {k}"),
            Step("multiplies by {k}", "times {k}", "x * {k}"),
            Step("squares it", "square", "x * x"),
            Step("takes the absolute value", "abs", "abs(x)"),
            Step("changes the sign", "negate", "-x"),
            Step("replaces a negative number by 0", "floor 0", "max(x, 0)"),
        ),
        (
            Step("returns the result", "all", "x"),
            Step(
                "returns the sum of its decimal digits, without the sign",
                "digit sum",
                "sum(int(c) for c in str(abs(x)))",
            ),
            Step("returns how many decimal digits it has, without the sign", "digits", "len(str(abs(x)))"),
            Step("returns the remainder of division by {k} (never negative)", "mod {k}", "x % {k}"),
            Step("returns it as a string", "text", "str(x)"),
        ),
        lambda rng: int(rng.integers(-300, 301)),
    ),
}

_LEAST_RESULTS = 4
"""The least number of different results among the tests of a problem, so that no constant passes."""


@dataclass(frozen=True)
class CodeProblem:
    """A function to write: its description, also in brief; its source; argument and result of each test as text."""

    kind: Kind
    words: str
    few: str
    source: str
    cases: tuple[tuple[str, str], ...]

    def question(self, brief: bool) -> str:
        """The question; in words it has the first case as an example."""
        if brief:
            return f"f({self.kind}): {self.few}"
        argument, result = self.cases[0]
        return f"{self.words} For example, f({argument}) returns {result}. Write it between ```python and ```."


def draw_problem(rng: np.random.Generator, steps: int, tests: int) -> CodeProblem:
    """A problem of `steps` steps and an end, with `tests` different cases and at least four different results."""
    kinds = tuple(CHAINS)
    while True:
        kind = kinds[int(rng.integers(len(kinds)))]
        chain = CHAINS[kind]
        places = rng.permutation(len(chain.steps))[:steps].tolist()
        end = chain.ends[int(rng.integers(len(chain.ends)))]
        filled = [_filled(step, rng) for step in (*(chain.steps[place] for place in places), end)]
        words = f"Write a Python function f that takes {chain.takes}, {', then '.join(step.words for step in filled)}."
        lines = [f"    x = {step.code}\n" for step in filled[:-1]]
        few = ", ".join(step.few for step in filled)
        source = f"def f(x):\n{''.join(lines)}    return {filled[-1].code}\n"
        cases = _cases(source, chain, tests, rng)
        if len({result for _, result in cases}) >= min(_LEAST_RESULTS, tests):
            return CodeProblem(kind, words, few, source, cases)


def _filled(step: Step, rng: np.random.Generator) -> Step:
    k = str(int(rng.integers(2, step.most + 1)))
    words, few, code = (text.replace("{k}", k) for text in (step.words, step.few, step.code))
    return Step(words, few, code)


def _cases(source: str, chain: Chain, tests: int, rng: np.random.Generator) -> tuple[tuple[str, str], ...]:
    space: dict[str, Any] = {}
    exec(source, space)  # written here, a few lines above
    cases: dict[str, str] = {}
    while len(cases) < tests:
        argument = chain.draw(rng)
        cases.setdefault(repr(argument), repr(space["f"](argument)))
    return tuple(cases.items())


class Code(TextTask):
    """Functions over integers, strings and lists of integers, judged by unit tests in the sandbox.

    A scenario's metadata hold `tests`, the first of which is the example in the question, and `demonstration`, a right
    answer. Train and eval differ in what the functions do, not only in their tests.

    Args:
        steps: the number of steps before the end; None is one if `brief`, else two. tests: the number per problem.
        grading: the reward, for `all` tests or their `share`.
        brief: describes a step in a word or two, which lessons teach (`f(numbers): odd, times 3, sum`).
    """

    def __init__(self, steps: int | None = None, tests: int = 8, grading: Grading = "all", brief: bool = True) -> None:
        steps = (1 if brief else 2) if steps is None else steps
        if not 1 <= steps <= 5 or not 2 <= tests <= 50:
            raise ConfigurationError(f"task code: steps lie in 1 to 5 and tests in 2 to 50, not {steps} and {tests}")
        self.name = f"code?steps={steps}&tests={tests}&grading={grading}" + "&brief=false" * (not brief)
        self.steps, self.tests, self.brief = steps, tests, brief
        self._reward = CodeTests(grading)

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        rng = Key.of(0).derive("code", self.steps, self.tests, split, number).numpy()
        while split_of((problem := draw_problem(rng, self.steps, self.tests)).words) != split:
            pass
        metadata = {
            "tests": tuple(f"assert f({argument}) == {result}" for argument, result in problem.cases),
            "demonstration": f"```python\n{problem.source}```",
            "kind": problem.kind,
        }
        return Scenario(f"code/{split}/{number}", problem.question(self.brief), metadata=metadata, seed=number)

    @property
    def rewards(self) -> Sequence[Reward]:
        return (self._reward,)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 128 if self.brief else 256}

    @property
    def lessons(self) -> Lessons:
        """Functions of the right form, in which each line may be a wrong step."""
        return Lessons(
            "the form of a function and of its steps, with wrong steps among them",
            200 if self.brief else 0,
            self._lesson,
            schedule="cosine",
            then=lambda recipe: THEN,
        )

    def _lesson(self, scenario: Scenario, rng: np.random.Generator) -> list[Lesson]:
        code, chain = str(scenario.metadata["demonstration"]), CHAINS[scenario.metadata["kind"]]
        *steps, end = code.splitlines()[2:-1]

        def written(line: str, head: str, known: Sequence[Step]) -> str:
            if rng.random() < SKILL:
                return line
            return f"    {head} {_filled(known[int(rng.integers(len(known)))], rng).code}"

        lines = [written(line, "x =", chain.steps) for line in steps] + [written(end, "return", chain.ends)]
        answer = "\n".join([*code.splitlines()[:2], *lines, "```"])
        return [Lesson(scenario.messages, ({"role": "assistant", "content": answer},))]

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """`format`: whether the answer contains a program."""
        return {"format": float(code_of(trajectory.answer) is not None)}

    def label(self, trajectory: Trajectory) -> str | None:
        """None: programs have no label by which they agree."""
        return None

    def verify(self, text: str, scenario: Scenario) -> float | None:
        verdict = self._reward.judge(text, scenario)
        return None if verdict is None else self._reward.grade(verdict)

    def success(self, trajectory: Trajectory) -> float:
        """1 if all tests passed; from the score if the trajectory was graded."""
        score = trajectory.scores.get(self._reward.name)
        return super().success(trajectory) if score is None else float(score.value == 1.0)


SKILL = 0.8
"""The probability that a beginner's line is right."""

THEN = {"steps": 30, "curriculum.prompts": 16, "rollout.samples": 16, "update.lr": 1e-4, "evaluation.n": 200}
"""Settings for training after the lessons."""


def from_settings(name: str, settings: Mapping[str, str]) -> Code:
    """The task with these settings."""
    options = checked(name, settings, {"steps": int, "tests": int, "grading": str, "brief": bool})
    return Code(**options)


CODE = TaskForm(
    name="code",
    description="small Python functions judged by unit tests in a sandbox, e.g. code?steps=2&grading=share",
    family="words",
    make=from_settings,
)
