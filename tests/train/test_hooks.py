"""Hooks: when they act, and what they remember."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import call, resume, rows, train

from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.core.casting import Shared
from hocket.core.errors import ConfigurationError
from hocket.core.outcomes import StepResult
from hocket.lab.talk import TalkBench
from hocket.methods.agents.agentgym_rl import TurnHorizon
from hocket.methods.base.grpo import GRPO
from hocket.stages import Hook, HookContext, Player
from hocket.train.hooks import named
from hocket.types import Assignment, Scenario

COUNTING = """
from dataclasses import dataclass

from hocket.recipes import GRPO
from hocket.stages import Hook


@dataclass(frozen=True)
class Counting(Hook):
    by: int = 1

    async def before(self, run, step, memory):
        return {"count": memory.get("count", 0) + self.by}

    async def after(self, run, step, result, memory):
        result.metrics["count"] = float(memory["count"])
        return memory


MINE = GRPO.but(name="mine", hooks=(Counting(by=2),))
"""


class Once(Workflow):
    roles = ("policy",)
    scores = True

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        reply = await team.policy("go")
        return Outcome(rewards={"reward": float(reply.text == "a")})


EVENTS: list[str] = []


@dataclass(frozen=True)
class Noting(Hook):
    name: str = "one"

    async def before(self, run: HookContext, step: int, memory: Any) -> Any:
        EVENTS.append(f"{self.name}: before {step}")
        return {"steps": step}

    def assign(self, assignment: Assignment, step: int) -> Assignment:
        EVENTS.append(f"{self.name}: assign {assignment.scenario.id}")
        return assignment

    def seat(self, player: Player, run: HookContext, step: int, memory: Any) -> Player:
        EVENTS.append(f"{self.name}: seat, remembering {memory['steps']}")
        return player

    def withheld(self, run: HookContext) -> frozenset[str]:
        return frozenset(run.trained)

    async def after(self, run: HookContext, step: int, result: StepResult, memory: Any) -> Any:
        assert result.experience is not None
        EVENTS.append(f"{self.name}: after {len(result.experience.trajectories)} trajectories")
        return memory


def test_a_step_calls_all_hooks_in_order_and_keeps_what_they_remember() -> None:
    EVENTS.clear()
    bench = TalkBench(Once(), [Scenario("s", "go")], ("a", "b"), GRPO.but(hooks=(Noting(), Noting("two"))))
    before = bench.policies["policy"].probabilities("go").clone()
    bench.step()
    each = ("before 1", "seat, remembering 1", "assign s", "after 8 trajectories")
    assert [f"{name}: {event}" for event in each for name in ("one", "two")] == EVENTS
    assert bench.parts.hooks.state(bench.parts) == {"Noting": {"steps": 1}, "Noting/2": {"steps": 1}}
    assert (bench.policies["policy"].probabilities("go") == before).all(), "withheld from learning"
    assert list(named([Noting(), TurnHorizon(), Noting()])) == ["Noting", "TurnHorizon", "Noting/2"]


def test_what_a_user_s_hook_remembers_comes_back_and_phases_begin_anew(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(COUNTING)
    mine = f"{tmp_path / 'mine.py'}:MINE"
    train(tmp_path, "run", "--recipe", mine, steps=2)
    resume(tmp_path, "run", "--steps", "3")
    assert [row.get("count") for row in rows(tmp_path / "run")] == [None, 2.0, 4.0, 6.0]
    (tmp_path / "plan.yaml").write_text(f"plan: [{{recipe: {mine}, steps: 2}}, {{recipe: {mine}, steps: 1}}]")
    train(tmp_path, "plan", tmp_path / "plan.yaml", steps=3)
    assert [row.get("count") for row in rows(tmp_path / "plan")] == [None, 2.0, 4.0, 2.0]


def test_what_is_no_hook_and_what_cannot_be_honoured_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is not a hook"):
        GRPO.but(hooks=(Shared(),))
    (tmp_path / "mine.py").write_text(COUNTING)
    for flags, why in (
        (["--recipe", f"{tmp_path / 'mine.py'}:MINE", "--overlap", "1"], "Counting"),
        (["--recipe", "past-selves", "--task", "gym:CartPole-v1"], "PastSelves"),
        (["--recipe", "grpo", "--task", "gym:CartPole-v1", "--roles.policy.recipe", "ppo"], "roles.policy"),
    ):
        ended = call("train", *flags, "--runs", tmp_path, "--run", "x", "--steps", "1", "--quiet")
        assert ended.code == 2
        assert why in ended.err
        assert len(ended.err) < 300
        assert not (tmp_path / "x").exists()
