"""Rewards for programs that pass their tests."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hocket.agents.tools.sandbox import Sandbox
from hocket.agents.tools.unit_tests import UnitTestVerdict, examine
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.markup import ANSWER, without_thoughts
from hocket.rewards.opinions import Opinions
from hocket.stages import Reward
from hocket.types import Scenario, Trajectory

_FENCED = re.compile(r"^[ \t]*```(?:python|py)?[ \t]*\r?\n(.*?)^[ \t]*```", re.DOTALL | re.MULTILINE | re.IGNORECASE)
_CODE = re.compile(r"<code>(.*?)</code>", re.DOTALL)
_LONGEST = 100_000


def code_of(text: str) -> str | None:
    """The program in an answer: the last block between fences or `<code>` tags, thoughts aside.

    Where there is none it is what stands between answer tags; None without these too.
    """
    body = without_thoughts(text)
    tagged = ANSWER.findall(body)
    blocks = _FENCED.findall(tagged[-1] if tagged else body) or _CODE.findall(body) or _FENCED.findall(body) or tagged
    return str(blocks[-1]) if blocks else None


@dataclass(frozen=True)
class CodeTests(Reward):
    """Runs the program in an answer against `scenario.metadata["tests"]`; None where the scenario has no tests.

    Tests are statements with an `assert` on the solution's functions, or `{"input": .., "output": ..}` for programs
    that read and print; `metadata["setup"]` holds imports and helpers that both may use. Solution and verdict are in
    separate sandboxed processes (see `hocket.agents.tools.unit_tests`). An answer without a program passes nothing; a
    program that several answers to a scenario share is tried once.

    Attributes:
        grading: `share` of passed tests, or `all` or nothing.
        sandbox: what the program may use, all its tests together where they assert.
    """

    grading: Literal["share", "all"] = "all"
    sandbox: Sandbox = Sandbox(output=256 << 10)
    name: str = "tests"
    weight: float = 1.0

    def __post_init__(self) -> None:
        if self.grading not in ("share", "all"):
            raise ConfigurationError(f"grading must be share or all, not {self.grading!r}")

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Opinions:
        programs = [(id(trajectory.scenario), code_of(trajectory.answer)) for trajectory in trajectories]
        apart = dict(zip(programs, trajectories, strict=True))
        runs = [self.sandbox.apart(self.judge, trajectory.answer, trajectory.scenario) for trajectory in apart.values()]
        known = dict(zip(apart, await asyncio.gather(*runs), strict=True))
        verdicts = [known[program] for program in programs]
        return Opinions(
            [None if verdict is None else self.grade(verdict) for verdict in verdicts],
            [None if verdict is None else verdict.reason for verdict in verdicts],
        )

    def judge(self, text: str, scenario: Scenario) -> UnitTestVerdict | None:
        """Runs the tests and returns their verdict."""
        tests = scenario.metadata.get("tests")
        if not tests:
            return None
        source = code_of(text)
        if source is None or len(source) > _LONGEST:
            reason = "the answer holds no program" if source is None else "the program is too long"
            return UnitTestVerdict((False,) * len(tests), reason)
        return examine(source, tests, str(scenario.metadata.get("setup", "")), self.sandbox)

    def grade(self, verdict: UnitTestVerdict) -> float:
        """The reward for a verdict."""
        return verdict.share if self.grading == "share" else float(all(verdict.passed))
