"""Rewards that are known only later: paid once the others have learnt, and learnt from then.

A training step with such a reward is collect, measure, learn (all but whom it pays), measure, pay, learn (whom it
pays).
"""

from __future__ import annotations

from collections.abc import Sequence

from hocket.core.batch import Level
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.outcomes import StepResult, usable
from hocket.stages import Hook, HookContext, Reward, Split, State
from hocket.types import Score, Trajectory


class DeferredReward(Reward, Hook):
    """A reward that is known only when the others have learnt: the base of such rewards, in the slot `rewards`.

    It is paid for the trajectories that were learnt from or, where there were none, for those that were discarded.

    Attributes:
        policy: whom it pays. problems: how many problems the others are measured on, greedily; split: of the task's
            split of that name.
    """

    policy: str
    problems: int
    split: Split

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Sequence[float | None]:
        """No opinion yet."""
        return [None] * len(trajectories)

    def settled(self, before: float, after: float, state: State) -> tuple[float | None, State]:
        """The reward of a step from the accuracies before and after it (None for none), and what it remembers."""
        raise NotImplementedError

    def check(self, run: HookContext) -> None:
        if run.overlap and self.withheld(run):
            raise ConfigurationError(
                f"overlap = {run.overlap} learns while it samples, and recipe {run.method} has a reward that is known "
                "only when others have learnt; drop it"
            )

    def withheld(self, run: HookContext) -> frozenset[str]:
        return frozenset({self.policy} & run.trained.keys())

    async def before(self, run: HookContext, step: int, memory: State) -> State:
        """Measures the accuracy before the first step, where nothing is remembered."""
        if memory or not self.withheld(run):
            return memory
        return {"accuracy": await self._accuracy(run)}

    async def after(self, run: HookContext, step: int, result: StepResult, memory: State) -> State:
        """Pays for a step in which the others have learnt, and lets whom it pays learn."""
        if not self.withheld(run):
            return memory
        accuracy = await self._accuracy(run)
        value, kept = self.settled(memory["accuracy"], accuracy, memory)
        result.metrics |= {f"{self.name}/accuracy": accuracy, f"{self.name}/reward": value or 0.0}
        paid = result.trajectories or [one for one in result.discarded if usable(one)]
        if value is not None and paid:
            pay(paid, self.name, self.policy, value)
            run.learn(result, paid, self.policy, step=step, key=run.key.derive("step", step, "settled"))
        return {**kept, "accuracy": accuracy}

    async def _accuracy(self, run: HookContext) -> float:
        return await run.evaluate(self.problems, key=run.key.derive("progress"), split=self.split)


def pay(trajectories: Sequence[Trajectory], name: str, policy: str, value: float) -> None:
    """Writes a reward into the last turn of `policy` in each trajectory, as the score `name`."""
    for one in trajectories:
        own = [place for place, turn in enumerate(one.turns) if turn.policy == policy]
        values = [value if own and place == own[-1] else None for place in range(len(one.turns))]
        one.scores[name] = Score(values, Level.TURN)
