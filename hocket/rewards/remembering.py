"""Rewards with memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hocket.core.keys import Key
from hocket.stages import Reward, State
from hocket.types import Trajectory


class RememberingReward(Reward):
    """A reward with memory. It belongs to the run, as all rewards do, and its memory stands in the run's state.

    All of a step is scored from the state before the step, however often and in whatever order a rollout has
    trajectories scored; when everybody has learnt, `after` makes the next state, once. Evaluation scores with the state
    there is and changes nothing.

    In a plan it goes on with what it remembers where the phase before paid the same reward (an equal one), else it
    begins anew; a phase that is a run of its own begins anew. It is refused where steps are collected ahead
    (`overlap`, `lag`, `order = arrival`), and inside another reward.
    """

    def init(self) -> State:
        """The state before the first step."""
        raise NotImplementedError

    async def score_with(self, state: State, trajectories: Sequence[Trajectory], *, key: Key) -> Sequence[float | None]:
        """As a call without memory, from a state, which is left as it was."""
        raise NotImplementedError

    def after(self, state: State, trajectories: Sequence[Trajectory]) -> State:
        """The state after a step.

        Args:
            trajectories: what the policies sampled in it and this reward was shown, kept or discarded, in the order of
                the experience. Replayed ones are not among them.
        """
        raise NotImplementedError

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Sequence[float | None]:
        """The scores of a first step, which is then forgotten."""
        return await self.score_with(self.init(), trajectories, key=key)


@dataclass(frozen=True)
class Recalled(Reward):
    """A reward `of` with memory as it scores now. `told`: of how many steps its state knows."""

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
        """As it scores after a step."""
        seen = [
            trajectory for trajectory in trajectories if trajectory.failure is None and self.name in trajectory.scores
        ]
        return replace(self, state=self.of.after(self.state, seen), told=self.told + 1)


def recalled(rewards: Sequence[Reward], earlier: Sequence[Reward] = ()) -> Sequence[Reward]:
    """`rewards`, those with memory as they score now: from what equal ones among `earlier` remember, else nothing."""
    known = [one for one in earlier if isinstance(one, Recalled)]

    def begun(reward: RememberingReward) -> Recalled:
        return next((one for one in known if one.of == reward), None) or Recalled(reward, reward.init())

    if not any(isinstance(reward, RememberingReward) for reward in rewards):
        return rewards
    return tuple(begun(reward) if isinstance(reward, RememberingReward) else reward for reward in rewards)


def after(rewards: Sequence[Reward], trajectories: Sequence[Trajectory]) -> Sequence[Reward]:
    """`rewards` as they score after a step that sampled these."""
    if not memories(rewards):
        return rewards
    return tuple(reward.after(trajectories) if isinstance(reward, Recalled) else reward for reward in rewards)


def memories(rewards: Sequence[Reward]) -> State:
    """What rewards remember, by name, for a checkpoint."""
    kept = [reward for reward in rewards if isinstance(reward, Recalled)]
    return {one.name: {"told": one.told, "state": one.state} for one in kept}


def restored(rewards: Sequence[Reward], kept: Mapping[str, State]) -> Sequence[Reward]:
    """`rewards` with what `memories` told of them."""

    def filled(one: Reward) -> Reward:
        if not isinstance(one, Recalled) or one.name not in kept:
            return one
        return replace(one, state=kept[one.name]["state"], told=int(kept[one.name]["told"]))

    return tuple(filled(reward) for reward in rewards) if kept else rewards
