"""Plays worlds whose copies are torch tensors on a device: what is seen, drawn and earned stays there until the end.

A `TorchVectorEnv` runs many copies of a world at once, such as Isaac Lab's. `rolled` plays it; `TorchVectorPlayer`
makes trajectories of the first episode of every copy, in one transfer a wave.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key, uniforms_on
from hocket.core.tensor_worlds import TorchVectorEnv
from hocket.rollout.vector import VectorEpisode, VectorPlayer, episodes
from hocket.types import Assignment, Trajectory

LOOKED = 32
"""Steps after which it is looked whether any first episode still goes on, for which the device is waited for."""


class TorchWorld(Protocol):
    """Where such worlds come from: `hocket.tasks.torch_worlds.TorchTask`."""

    def vector(self) -> TorchVectorEnv:
        """Opens one."""
        ...


class TorchController(Protocol):
    """Who decides for many copies at once: `hocket.policies.control.ControlPolicy`."""

    @property
    def draws(self) -> int: ...

    def act(
        self,
        observations: Tensor,
        uniforms: Tensor,
        *,
        temperature: Tensor | None = ...,
        greedy: Tensor | None = ...,
    ) -> tuple[Tensor, Tensor]: ...


@dataclass(frozen=True)
class TorchRecord:
    """L steps of N copies, on the device.

    Attributes:
        seen: `[L, N, O]` before every step. action: `[L, N]` or `[L, N, A]`. logp, reward: `[L, N]`.
        length: of each copy's first episode as far as it was played, `[N]`. terminated: whether the task ended it.
        over: whether it ended. last: what was seen last in it, `[N, O]`.
    """

    seen: Tensor
    action: Tensor
    logp: Tensor
    reward: Tensor
    length: Tensor
    terminated: Tensor
    over: Tensor
    last: Tensor


def rolled(
    world: TorchVectorEnv,
    controller: TorchController,
    seeds: Tensor,
    words: Tensor,
    steps: int,
    *,
    temperature: Tensor | None = None,
    greedy: Tensor | None = None,
    most: Tensor | None = None,
    first: bool = False,
) -> TorchRecord:
    """Plays `steps` steps of every copy from a reset; nothing is copied to the processor.

    Args:
        seeds: of the copies, int64. words: of their draws, int64; decision t has counters from t on.
        temperature: `[N]`; None for 1. greedy: `[N]` bool, which take the mode; None for none.
        most: the steps after which a copy's first episode is cut, `[N]`; None for no such limit.
        first: whether play ends with the last of all first episodes.
    """
    observation = world.reset(seeds)
    place = torch.arange(controller.draws, device=world.device)
    alive = torch.ones(world.copies, dtype=torch.bool, device=world.device)
    terminated, length = ~alive, torch.zeros(world.copies, dtype=torch.int64, device=world.device)
    last, steps_taken = observation, []
    for step in range(steps):
        draws = uniforms_on(words[:, None], place + step * controller.draws)
        action, logp = controller.act(observation, draws, temperature=temperature, greedy=greedy)
        after, reward, ended, cut, final = world.step(action)
        steps_taken.append((observation, action, logp, reward))
        length = length + alive
        last = torch.where(alive[:, None], final, last)
        terminated = terminated | (alive & ended)
        over = ended | cut
        alive = alive & ~(over if most is None else over | (length >= most))
        observation = after
        if first and step % LOOKED == LOOKED - 1 and not bool(alive.any()):
            break
    columns = (torch.stack(column) for column in zip(*steps_taken, strict=True))
    observation, action, logp, reward = columns
    return TorchRecord(observation, action, logp, reward, length, terminated, ~alive, last)


class TorchVectorPlayer(VectorPlayer):
    """A `Player` for worlds on a device: as many attempts as the world has copies in a wave, each from a reset.

    As in `VectorPlayer`, sample i of an assignment begins by `scenario.seed` and draws decision t with counter t of its
    own key. Copies that end early go on unrecorded until all first episodes of the wave have ended. A world that raises
    ends the attempts of the wave with a `failure` and is opened anew.

    Raises:
        ConfigurationError: when the policy carries a state along an episode.
    """

    def __init__(self, world: TorchWorld, policy: TorchController, *, agent: str = "agent") -> None:
        if getattr(policy, "carries", 0):
            raise ConfigurationError(
                "worlds of torch tensors are played by policies without memory; leave network.body at perceptron"
            )
        super().__init__(world, policy, agent=agent, width=1)  # type: ignore[arg-type]
        self._tensors = world
        self._vector: TorchVectorEnv | None = None

    async def play(self, assignments: Sequence[Assignment], *, key: Key) -> list[Trajectory]:
        """See `VectorPlayer.play`."""
        waiting = list(episodes(assignments, key))
        for actor in dict.fromkeys(episode.assignment.actor for episode in waiting):
            controller, mine = (
                self._controller(actor),
                [episode for episode in waiting if episode.assignment.actor == actor],
            )
            while mine:
                world = self._world_now()
                wave, mine = mine[: world.copies], mine[world.copies :]
                try:
                    with torch.inference_mode():
                        record = self._wave(world, controller, wave)  # type: ignore[arg-type]
                except (ConfigurationError, HocketError):
                    raise
                except Exception as error:
                    self.close()
                    for episode in wave:
                        episode.failure = f"environment: {type(error).__name__}: {error}"
                    continue
                self._keep(record, wave)
        return [self._recorded(episode) for episode in waiting]

    def close(self) -> None:
        """Closes the world; the next `play` opens it anew."""
        world, self._vector = self._vector, None
        if world is not None:
            world.close()

    def _world_now(self) -> TorchVectorEnv:
        if self._vector is None:
            self._vector = self._tensors.vector()
            device = getattr(self.policy, "device", self._vector.device)
            if device.type != self._vector.device.type:
                raise ConfigurationError(
                    f"{self.name} has its copies on {self._vector.device}, and policy {self.policy.name!r} is on "
                    f"{device}; use --device {self._vector.device.type}"
                )
        return self._vector

    def _wave(self, world: TorchVectorEnv, controller: TorchController, wave: Sequence[VectorEpisode]) -> TorchRecord:
        idle, ways = world.copies - len(wave), [episode.assignment.decoding.temperature for episode in wave]
        budgets = [episode.assignment.budget or world.limit for episode in wave]

        def column(values: Sequence[float | int], filling: float, dtype: torch.dtype) -> Tensor:
            return torch.tensor([*values, *[filling] * idle], dtype=dtype, device=world.device)

        warm = any(way not in (0, 1) for way in ways)
        words = np.array([*(episode.word for episode in wave), *[0] * idle], np.uint64).view(np.int64)
        return rolled(
            world,
            controller,
            column([episode.assignment.scenario.seed for episode in wave], 0, torch.int64),
            torch.from_numpy(words).to(world.device),
            min(world.limit, max(budgets)),
            temperature=column([way or 1.0 for way in ways], 1.0, torch.float32) if warm else None,
            greedy=column([way == 0 for way in ways], 1, torch.bool) if 0 in ways else None,
            most=column(budgets, 1, torch.int64),
            first=True,
        )

    def _keep(self, record: TorchRecord, wave: Sequence[VectorEpisode]) -> None:
        """Copies a wave to the processor, and gives each attempt its own."""
        columns = (record.seen, record.action, record.logp, record.reward)
        arrays = [column.transpose(0, 1).contiguous().cpu().numpy() for column in columns]
        observation, action, logp, reward = arrays
        ends = (record.last, record.length, record.terminated)
        last, length, terminated = (end.cpu().numpy() for end in ends)
        for row, episode in enumerate(wave):
            steps = int(length[row])
            if not np.isfinite(logp[row, :steps]).all():
                if np.isfinite(observation[row, :steps]).all():
                    raise HocketError(
                        f"policy {self.policy.name!r} gives log-probs that are not finite; lower update.lr"
                    )
                episode.failure = "environment: ValueError: an observation is not finite"
                continue
            episode.observations = [*observation[row, :steps].copy()]
            episode.actions, episode.logps = [*action[row, :steps].copy()], logp[row, :steps].tolist()
            episode.rewards = reward[row, :steps].tolist()
            episode.terminated, episode.final_state = bool(terminated[row]), last[row].copy()
            episode.truncated = not episode.terminated
