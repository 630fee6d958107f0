"""RLSQM: unit tests learnt from static quality metrics (Steenhoek et al., arXiv:2310.02368).

A generated test is analysed without being run: does it parse, has it an assertion, does it call the function that it is
about, is it free of two smells, an assertion written twice and conditional logic (`examined`). For one metric, or for
all together, a reward model learns to foretell the verdict from the text (`rlsqm-reward`, logistic), and PPO with a KL
leash optimises what it says (`rlsqm`). Without a reward model the checkers themselves pay (`StaticQuality`): the
baseline. Separate, sequential and joint training are plans:

    plan:
      - {recipe: sft, steps: 60, task: unit-tests}
      - {name: quality, recipe: rlsqm-reward, steps: 100, task: "unit-tests?metric=all"}
      - {recipe: rlsqm, steps: 40, task: unit-tests, reward: ["model:phase:quality"]}

The abstract names metrics and stages; metrics in Python's terms, weights and losses are chosen here.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.markup import without_thoughts
from hocket.core.options import checked
from hocket.methods.base.ppo import PPO_RLHF
from hocket.methods.base.reward_model import REWARD_BINARY
from hocket.stages import Reward, Split
from hocket.tasks.form import TaskForm
from hocket.tasks.split import split_of
from hocket.tasks.text import TextTask, check_number
from hocket.types import Scenario, Trajectory

METRICS = ("parses", "asserts", "calls", "distinct", "straight")

LONGEST = 4000
"""Characters of a test; a longer one does not parse."""

_CONDITIONS = (ast.If, ast.IfExp, ast.For, ast.While, ast.Try, ast.Match, ast.comprehension)


def examined(text: str, focal: str) -> dict[str, bool]:
    """What holds of a test of the function `focal`; of a text that does not parse, or is no function, nothing does.

    `parses`: one function whose name begins with `test`, and no more; `asserts`: it has an assertion; `calls`: it calls
    the function by its name; `distinct`: no assertion stands in it twice; `straight`: no condition, loop or handler.
    """
    test = _parsed(text)
    if test is None:
        return dict.fromkeys(METRICS, False)
    nodes = list(ast.walk(test))
    claims = [ast.dump(node.test) for node in nodes if isinstance(node, ast.Assert)]
    called = (node.func for node in nodes if isinstance(node, ast.Call))
    return {
        "parses": True,
        "asserts": bool(claims),
        "calls": any(isinstance(one, ast.Name) and one.id == focal for one in called),
        "distinct": len(set(claims)) == len(claims),
        "straight": not any(isinstance(node, _CONDITIONS) for node in nodes),
    }


def _parsed(text: str) -> ast.FunctionDef | None:
    if len(text) > LONGEST:
        return None
    try:
        body = ast.parse(without_thoughts(text).strip()).body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    only = body[0] if len(body) == 1 else None
    return only if isinstance(only, ast.FunctionDef) and only.name.startswith("test") else None


def quality(text: str, focal: str, metric: str) -> float:
    """1 where a metric holds, else 0; of `all` the share of those that hold."""
    found = examined(text, focal)
    return sum(found.values()) / len(found) if metric == "all" else float(found[metric])


def check_metric(metric: str) -> None:
    """Raises `ConfigurationError` unless there is such a metric."""
    if metric not in (*METRICS, "all"):
        raise ConfigurationError(f"metric must be one of {', '.join(METRICS)} or all, not {metric!r}")


@dataclass(frozen=True)
class StaticQuality(Reward):
    """What the checkers say of a test, in [0, 1]; see `quality`. None where the scenario names no focal function.

    Attributes:
        metric: the one that pays, or `all`, their share.
    """

    metric: str = "all"
    name: str = "quality"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_metric(self.metric)

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        return [self.verify(one.answer, one.scenario) for one in trajectories]

    def verify(self, text: str, scenario: Scenario) -> float | None:
        """The grade of one test."""
        focal = scenario.metadata.get("focal")
        return None if focal is None else quality(text, str(focal), self.metric)


# ---------------------------------------------------------------- what is asked

FLAWS: Mapping[str, float] = {"parses": 0.2, "asserts": 0.2, "calls": 0.2, "distinct": 0.3, "straight": 0.3}
"""How often a demonstration lacks what a metric asks for."""

_CONSONANTS, _VOWELS = "bcdfghjklmnpqrstvwxz", "aeiou"


class UnitTests(TextTask):
    """Tests to be written for functions of which name and arguments are told; judged by static analysis alone.

    A scenario's metadata hold `focal`, the function's name; `demonstration`, a test with the flaws that models' tests
    have, each at its own rate (`FLAWS`); and `label`, whether that one is free of the flaw that `metric` is about. A
    test is a success that every metric holds of.

    Args:
        metric: what pays and what labels are of: one of `METRICS`, or `all`, whose label is that every metric holds.
    """

    def __init__(self, metric: str = "all") -> None:
        try:
            check_metric(metric)
        except ConfigurationError as error:
            raise ConfigurationError(f"task unit-tests: {error}") from error
        self.name = "unit-tests" + (f"?metric={metric}" if metric != "all" else "")
        self.metric = metric

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        rng = Key.of(0).derive("unit-tests", split, number).numpy()
        while split_of(asked := _asked(focal := _name(rng), arity := int(rng.integers(1, 3)))) != split:
            pass
        shown = written(focal, arity, rng, [flaw for flaw, rate in FLAWS.items() if rng.random() < rate])
        told = {"focal": focal, "demonstration": shown, "label": quality(shown, focal, self.metric) == 1.0}
        return Scenario(f"unit-tests/{split}/{number}", asked, metadata=told, seed=number)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 96}

    def verify(self, text: str, scenario: Scenario) -> float:
        return quality(text, scenario.metadata["focal"], self.metric)

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """Each of `METRICS`."""
        found = examined(trajectory.answer, trajectory.scenario.metadata["focal"])
        return {name: float(holds) for name, holds in found.items()}

    def label(self, trajectory: Trajectory) -> str | None:
        """Tests have no word by which they agree."""
        return None

    def success(self, trajectory: Trajectory) -> float:
        """1 if every metric holds."""
        return float(quality(trajectory.answer, trajectory.scenario.metadata["focal"], "all") == 1.0)


def _name(rng: np.random.Generator) -> str:
    """A word of three letters."""
    first, second, last = (letters[int(rng.integers(len(letters)))] for letters in (_CONSONANTS, _VOWELS, _CONSONANTS))
    return first + second + last


def _asked(focal: str, arity: int) -> str:
    return f"Test {focal}({', '.join('ab'[:arity])})"


def written(focal: str, arity: int, rng: np.random.Generator, flaws: Sequence[str]) -> str:
    """A test of two lines with the flaws named; `distinct` shows only where something is asserted."""

    def number() -> str:
        return str(rng.integers(10))

    lines = list[str]()
    for _ in range(2):
        call = f"{focal}({','.join(number() for _ in range(arity))})"
        value = number() if "calls" in flaws else call
        lines.append(value if "asserts" in flaws else f"assert {value}=={number()}")
    if "distinct" in flaws:
        lines[1] = lines[0]
    elif lines[1] == lines[0]:
        lines[1] += "0"
    before, indent = (" if a:\n", "  ") if "straight" in flaws else ("", " ")
    text = f"def test_{focal}():\n{before}" + "\n".join(indent + line for line in lines)
    if "parses" in flaws:
        text = text.replace("():", "()", 1) if rng.random() < 0.5 else text[:-1] + "("
    return text


def from_settings(name: str, settings: Mapping[str, str]) -> UnitTests:
    """The task with these settings."""
    return UnitTests(**checked(name, settings, {"metric": str}))


UNIT_TESTS = TaskForm(
    name="unit-tests",
    description="unit tests to be written, judged by static analysis, e.g. unit-tests?metric=calls",
    make=from_settings,
)


# ---------------------------------------------------------------- how it is learnt

RLSQM_REWARD = REWARD_BINARY.but(
    name="rlsqm-reward",
    title="RLSQM's reward model: the verdict of a static metric, foretold from the text",
    source="Steenhoek et al., arXiv:2310.02368 (abstract); the loss is chosen here",
    family="reward-model",
    conventions={
        **REWARD_BINARY.conventions,
        "labels": "the verdict of the task's metric; of all metrics together whether every one holds",
    },
    task="unit-tests",
)


RLSQM = PPO_RLHF.but(
    name="rlsqm",
    title="PPO on static quality metrics of unit tests",
    source="Steenhoek et al., arXiv:2310.02368 (abstract); metrics in Python's terms, weights and losses chosen here",
    family="agents",
    catalogue_ids=("rlsqm",),
    axes=("reward", "objective", "environment"),
    formula=PPO_RLHF.formula + ",  score = what a reward model says, or the share of {parses, asserts, calls, "
    "distinct, straight} that hold",
    conventions={
        **PPO_RLHF.conventions,
        "stages": "a plan: sft on demonstrations with flaws, rlsqm-reward, then rlsqm with reward: [model:phase:NAME]",
        "reward": "a reward model's log-odds; without one what the checkers say, which is the baseline",
        "metrics": "by Python's ast; of a text that does not parse none holds",
        "joint": "the checkers' share with equal weights; the reward model learns whether all hold",
        "one metric": "rewards.0.metric = calls and the like, or a reward model of task unit-tests?metric=calls",
    },
    task="unit-tests",
    rewards=(StaticQuality(),),
)
