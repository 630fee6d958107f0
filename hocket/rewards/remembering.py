"""Rewards with memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hocket.core.keys import Key
from hocket.stages import Reward, State
from hocket.types import Trajectory


class RememberingReward(Reward):
    """A reward with memory. It belongs to the run, like all rewards, and its memory is part of the run's state.

    All trajectories of a step are scored with the state before the step, in any order and number of calls. After the
    updates, `after` makes the next state, once. Evaluation scores with the current state and does not change it.

    In a plan, a phase continues with the memory of an equal reward in the phase before, else it starts from `init`; so
    does a phase that is a separate run. Steps must be collected in sequence, so a run with `overlap`, `lag` or
    `order = arrival` raises an error, and so does a recipe that puts it inside another reward.
    """

    def init(self) -> State:
        """The state before the first step."""
        raise NotImplementedError

    async def score_with(self, state: State, trajectories: Sequence[Trajectory], *, key: Key) -> Sequence[float | None]:
        """The scores, computed with a state, which is not changed."""
        raise NotImplementedError

    def after(self, state: State, trajectories: Sequence[Trajectory]) -> State:
        """The state after a step.

        Args:
            trajectories: the step's sampled trajectories that this reward has scored, also discarded ones, in the order
                of the experience, without replayed ones.
        """
        raise NotImplementedError

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Sequence[float | None]:
        """The scores of a first step; its state is dropped."""
        return await self.score_with(self.init(), trajectories, key=key)


@dataclass(frozen=True)
class Recalled(Reward):
    """The reward `of` with its current state. `told` is the number of steps in the state."""

    of: RememberingReward
    state: State
    told: int = 0

    @property
    def name(self) -> str:
        return self.of.name

    @property
    def weight(self) -> float:
        return self.of.weight

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Sequence[float | None]:
        return await self.of.score_with(self.state, trajectories, key=key)

    def after(self, trajectories: Sequence[Trajectory]) -> Recalled:
        """The reward after a step."""
        scored = [
            trajectory for trajectory in trajectories if trajectory.failure is None and self.name in trajectory.scores
        ]
        return replace(self, state=self.of.after(self.state, scored), told=self.told + 1)


def recalled(rewards: Sequence[Reward], earlier: Sequence[Reward] = ()) -> Sequence[Reward]:
    """`rewards` with memory: that of an equal reward among `earlier`, else the initial one."""
    known = [reward for reward in earlier if isinstance(reward, Recalled)]

    def begun(reward: RememberingReward) -> Recalled:
        return next((memory for memory in known if memory.of == reward), None) or Recalled(reward, reward.init())

    if not any(isinstance(reward, RememberingReward) for reward in rewards):
        return rewards
    return tuple(begun(reward) if isinstance(reward, RememberingReward) else reward for reward in rewards)


def after(rewards: Sequence[Reward], trajectories: Sequence[Trajectory]) -> Sequence[Reward]:
    """`rewards` with their memory after a step that sampled these trajectories."""
    if not memories(rewards):
        return rewards
    return tuple(reward.after(trajectories) if isinstance(reward, Recalled) else reward for reward in rewards)


def memories(rewards: Sequence[Reward]) -> State:
    """The memory of rewards, by name, for a checkpoint."""
    recalled = [reward for reward in rewards if isinstance(reward, Recalled)]
    return {reward.name: {"told": reward.told, "state": reward.state} for reward in recalled}


def restored(rewards: Sequence[Reward], kept: Mapping[str, State]) -> Sequence[Reward]:
    """`rewards` with the output of `memories` as their memory."""

    def filled(reward: Reward) -> Reward:
        if not isinstance(reward, Recalled) or reward.name not in kept:
            return reward
        return replace(reward, state=kept[reward.name]["state"], told=int(kept[reward.name]["told"]))

    return tuple(filled(reward) for reward in rewards) if kept else rewards
