"""Rewards that are known only later: settled once the others have learnt, and learnt from then.

A training step with such a reward is collect, measure, learn (all but whom it pays), measure, settle, learn (whom it
pays). `train_step` does so by itself; the pieces serve own plans in async Python too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from hocket.stages import State
from hocket.train.evaluate import evaluate
from hocket.types import Level, Score, Trajectory

if TYPE_CHECKING:
    from hocket.train.loop import Parts, StepResult


@runtime_checkable
class Later(Protocol):
    """A `hocket.stages.Reward` that is known only when the others have learnt.

    Attributes:
        policy: whom it pays. problems: how many of the task's `eval` split the others are measured on.
    """

    @property
    def name(self) -> str: ...

    @property
    def policy(self) -> str: ...

    @property
    def problems(self) -> int: ...

    def settled(self, before: float, after: float, state: State) -> tuple[float | None, State]:
        """The reward of a step from the accuracies before and after it (None for none), and what it remembers."""
        ...


def awaited(parts: Parts) -> list[Later]:
    """The rewards of a run that are known later, for policies that are trained."""
    trained = {name for name, learner in parts.learners.items() if not learner.frozen}
    return [reward for reward in parts.rewards if isinstance(reward, Later) and reward.policy in trained]


async def accuracy(parts: Parts, problems: int) -> float:
    """The share of the first `problems` of the task's `eval` split that the policies get right, greedily."""
    key = parts.key.derive("progress")
    found = await evaluate(parts.task, parts.player, (), n=problems, decoding=parts.decoding, key=key)
    return found.success


def settle(trajectories: Sequence[Trajectory], name: str, policy: str, value: float) -> None:
    """Writes a reward into the last turn of `policy` in each trajectory, as the score `name`."""
    for one in trajectories:
        own = [place for place, turn in enumerate(one.turns) if turn.policy == policy]
        values = [value if own and place == own[-1] else None for place in range(len(one.turns))]
        one.scores[name] = Score(values, Level.TURN)


async def measured(parts: Parts) -> None:
    """Measures the accuracy before the first step, where nothing is remembered."""
    for reward in awaited(parts):
        memory = parts.learners[reward.policy].memory
        if _slot(reward) not in memory:
            memory[_slot(reward)] = {"accuracy": await accuracy(parts, reward.problems)}


async def settled(parts: Parts, result: StepResult, step: int) -> None:
    """Settles every awaited reward of a step in which the others have learnt, and lets whom it pays learn.

    It is paid for the trajectories that were learnt from or, where there were none, for those that were discarded.
    """
    from hocket.train.loop import joined, learn, usable

    for reward in awaited(parts):
        learner = parts.learners[reward.policy]
        state = learner.memory[_slot(reward)]
        after = await accuracy(parts, reward.problems)
        value, kept = reward.settled(state["accuracy"], after, state)
        learner.memory = {**learner.memory, _slot(reward): {**kept, "accuracy": after}}
        result.metrics |= {f"{reward.name}/accuracy": after, f"{reward.name}/reward": value or 0.0}
        paid = result.trajectories or [one for one in result.discarded if usable(one)]
        if value is None or not paid:
            continue
        settle(paid, reward.name, reward.policy, value)
        alone = replace(parts, learners={reward.policy: learner})
        batch, learnt = learn(alone, paid, parts.key.derive("step", step, "settled"), step, everyone=True)
        prefix = f"{reward.policy}/" if len(parts.learners) > 1 else ""
        result.metrics |= {prefix + name: found for name, found in learnt.items()}
        if result.batch is not None and batch is not None:
            result.batch = joined(result.batch, batch, reward.policy)


def _slot(reward: Later) -> str:
    return f"later/{reward.name}"
