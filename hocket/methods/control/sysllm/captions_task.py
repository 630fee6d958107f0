"""Played episodes of control tasks in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hocket.core.errors import ConfigurationError, HocketError, nearest
from hocket.methods.control.sysllm.captions import Captions, Ending, Log, Numbers, captioned, captions_of
from hocket.tasks.gym import GymTask
from hocket.tasks.joint import JointTask
from hocket.types import Trajectory


def in_words(task: GymTask | JointTask, played: Sequence[Trajectory], agent: str | None = None) -> Log:
    """What one agent of a control task saw and did; episodes that failed are left out.

    Raises:
        ConfigurationError: for an agent that is not there. HocketError: when every episode failed.
    """
    whole = [one for one in played if one.failure is None and one.turns]
    if not whole:
        raise HocketError(f"every episode failed: {played[0].failure}" if played else "no episode was played")
    agents = task.world.agents if isinstance(task, JointTask) else (whole[0].turns[0].agent,)
    if agent is not None and agent not in agents:
        raise ConfigurationError(f"agent = {agent}: there is no such agent{nearest(agent, agents)}")
    parts = [found for one in whole if (found := _part(one, agent or agents[0])) is not None]
    width = own_width(task, agent or agents[0])
    seen = [part[0][:, :width] for part in parts]
    captions = captions_for(task).fitted(np.concatenate(seen))
    episodes = tuple(
        captioned(captions, rows, actions, rewards, ending)
        for rows, (_, actions, rewards, ending) in zip(seen, parts, strict=True)
    )
    return Log(captions.about, episodes, captions.actions, captions.events)


def captions_for(task: GymTask | JointTask) -> Captions:
    """What puts a task into words: its world's own captions, what is known of Gymnasium's, or the numbers."""
    if isinstance(task, GymTask):
        return captions_of(task.environment, task.observations)
    own: Captions | None = getattr(task.world, "captions", None)
    return Numbers(f"The world {task.name}.") if own is None else own


def own_width(task: GymTask | JointTask, agent: str) -> int:
    """How many numbers an agent sees, without the one that tells it from others of its policy."""
    if isinstance(task, GymTask):
        return task.observations
    return task.world.seats[task.world.agents.index(agent)].observations


def _part(one: Trajectory, agent: str) -> tuple[Any, Any, list[float], Ending] | None:
    """What an agent saw `[L or L + 1, O]`, did and earned, and how its part ended; None where it decided nothing."""
    rewards = np.asarray(one.scores["reward"].value, np.float64).tolist()
    for turn in one.turns:
        mine, rewards = rewards[: len(turn)], rewards[len(turn) :]
        if turn.agent == agent and len(turn):
            last = one.final_state if turn.end is None else turn.end.state
            seen = turn.observation if last is None else np.concatenate([turn.observation, np.reshape(last, (1, -1))])
            over = one.terminated if turn.end is None else turn.end.terminated
            return seen, turn.action, mine, "terminated" if over else "truncated"
    return None
