"""Plays episodes of environments side by side, one batched decision at a time.

An episode becomes one turn: observations `[L, O]`, actions `[L]` or `[L, A]`, log-probs `[L]`, and the score `reward`
at the level of decisions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from hocket.core.batch import Level
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key, uniforms
from hocket.core.worlds import reward_of
from hocket.types import Assignment, Score, Trajectory, Turn, before_training


class VectorEnvironment(Protocol):
    """One world. Observations are float32 vectors `[O]`; actions are as the controller gives them."""

    def reset(self, seed: int) -> NDArray[np.float32]:
        """Starts an episode that depends on `seed` alone."""
        ...

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool]:
        """Next observation, reward, terminated (the task itself ended), truncated (a limit cut it short)."""
        ...

    def close(self) -> None: ...


class VectorWorld(Protocol):
    """Where environments come from: `hocket.tasks.gym.GymTask`."""

    def make(self) -> VectorEnvironment:
        """Opens one environment."""
        ...


class VectorController(Protocol):
    """Who decides for many environments at once: `hocket.policies.control.ControlPolicy`."""

    name: str
    version: int

    @property
    def observations(self) -> int: ...

    @property
    def draws(self) -> int:
        """Uniforms per decision."""
        ...

    def sample(
        self,
        observations: NDArray[np.float32],
        uniforms: NDArray[np.float64],
        temperature: NDArray[np.float32],
        *,
        carried: NDArray[np.float32] = ...,
    ) -> tuple[NDArray[Any], NDArray[np.float32]]: ...


@dataclass(eq=False)
class VectorEpisode:
    """One attempt being played."""

    place: int
    assignment: Assignment
    sample: int
    word: int
    observations: list[NDArray[np.float32]] = field(default_factory=list)
    actions: list[Any] = field(default_factory=list)
    logps: list[float] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    terminated: bool = False
    truncated: bool = False
    final_state: NDArray[np.float32] | None = None
    failure: str | None = None

    @property
    def over(self) -> bool:
        return self.terminated or self.truncated or self.failure is not None

    @property
    def finite(self) -> bool:
        last = () if self.final_state is None else self.final_state
        return bool(np.isfinite(self.rewards).all() and np.isfinite(last).all())


class VectorPlayer:
    """A `Player` for environments: `width` of them in lockstep, finished episodes leave and new ones enter.

    Sample i of an assignment resets its environment with `scenario.seed`, so that a group shares its initial state,
    and draws decision t with counter t of its own key. The controller always sees `width` rows, idle ones blank, so
    that its arithmetic, and hence an episode, does not depend on what is played beside it. `assignment.budget` limits
    the decisions of an episode; `decoding.temperature` 0 takes the most likely action; `decoding.max_tokens` does not
    apply. An environment that raises ends its episode with a `failure` and is replaced. What an environment hands over
    is copied, and so is the action that it is given: either side may write into its own.
    """

    def __init__(self, world: VectorWorld, policy: VectorController, *, agent: str = "agent", width: int = 64) -> None:
        if width < 1:
            raise ConfigurationError(f"width = {width}: a player needs at least one environment")
        self.policy, self.agent, self.width = policy, agent, width
        self.reference: VectorController | None = None
        self._world = world
        self._open: list[VectorEnvironment | None] = [None] * width

    @property
    def name(self) -> str:
        """Of what is played, for errors."""
        return f"task {named}" if (named := getattr(self._world, "name", None)) else "the environment"

    async def play(self, assignments: Sequence[Assignment], *, key: Key) -> list[Trajectory]:
        """Every sample of every assignment, in assignment order, then sample order.

        Raises:
            ConfigurationError: when the decoding cuts the distribution (top-k, top-p), which control does not know.
            HocketError: when the controller's outputs are not finite.
        """
        waiting = list(episodes(assignments, key))
        done: list[Trajectory | None] = [None] * len(waiting)
        for actor in dict.fromkeys(episode.assignment.actor for episode in waiting):
            pool = EpisodePool(self, self._controller(actor), iter([e for e in waiting if e.assignment.actor == actor]))
            while pool.active:
                for episode in pool.advance():
                    done[episode.place] = self._recorded(episode)
        for episode in waiting:
            if done[episode.place] is None:
                done[episode.place] = self._recorded(episode)
        return [trajectory for trajectory in done if trajectory is not None]

    def close(self) -> None:
        """Closes the environments; the next `play` opens them anew."""
        for slot in range(self.width):
            self.discard(slot)

    def environment(self, slot: int) -> VectorEnvironment:
        """The environment of a slot, opened when first used."""
        environment = self._open[slot]
        if environment is None:
            environment = self._open[slot] = self._world.make()
        return environment

    def discard(self, slot: int) -> None:
        """Closes the environment of a slot."""
        found, self._open[slot] = self._open[slot], None
        if found is not None:
            try:
                found.close()
            except Exception:  # a broken environment may fail to close as well; it is forgotten either way
                return

    def _controller(self, actor: Literal["policy", "reference"]) -> VectorController:
        """Who decides: the policy, or what it was before training, where the trainer has set `reference`."""
        if actor == "policy":
            return self.policy
        if self.reference is None:
            raise ConfigurationError(
                "the rollout samples from the policy as it was before training, which this player was not given; its "
                "class must say plays_reference = True"
            )
        return self.reference

    def _recorded(self, episode: VectorEpisode) -> Trajectory:
        if episode.failure is None and not episode.finite:
            episode.failure = "environment: a reward or the last observation is not finite"
        played = episode.assignment.actor
        turn = Turn(
            agent=self.agent,
            policy=self.policy.name if played == "policy" else before_training(self.policy.name),
            observation=np.stack(episode.observations) if episode.observations else self._nothing(),
            action=np.array(episode.actions),
            logp=np.array(episode.logps, np.float32),
            version=np.full(len(episode.actions), self.policy.version, np.int64),
            finish="terminated" if episode.terminated else "truncated",
            decoding=episode.assignment.decoding,
        )
        return Trajectory(
            scenario=episode.assignment.scenario,
            turns=[turn] if episode.actions else [],
            sample=episode.sample,
            scores={"reward": Score(np.array(episode.rewards, np.float64), Level.DECISION)},
            terminated=episode.terminated,
            truncated=not episode.terminated,
            final_state=episode.final_state,
            source=episode.assignment.source,
            failure=episode.failure,
        )

    def _nothing(self) -> NDArray[np.float32]:
        return np.zeros((0, self.policy.observations), np.float32)


class EpisodePool:
    """The episodes being played now, one per slot."""

    def __init__(self, player: VectorPlayer, policy: VectorController, waiting: Iterator[VectorEpisode]) -> None:
        self.player, self.policy, self.waiting = player, policy, waiting
        width, draws = player.width, policy.draws
        self.slots: list[VectorEpisode | None] = [None] * width
        self.observations = np.zeros((width, policy.observations), np.float32)
        self.words = np.zeros((width, 1), np.uint64)
        self.counters = np.zeros((width, draws), np.uint64)
        self.temperature = np.ones(width, np.float32)
        carries = getattr(policy, "carries", 0)
        self.carried = {"carried": np.zeros((width, carries), np.float32)} if carries else {}
        self.reads_rewards = bool(getattr(policy, "reads_rewards", False))
        for slot in range(width):
            self._refill(slot)

    @property
    def active(self) -> bool:
        return any(episode is not None for episode in self.slots)

    def _refill(self, slot: int) -> None:
        """Puts the next episode that starts at all into a slot."""
        self.slots[slot] = None
        self.observations[slot] = 0.0
        for state in self.carried.values():
            state[slot] = 0.0
        for episode in self.waiting:
            try:
                first = self.player.environment(slot).reset(episode.assignment.scenario.seed)
            except HocketError:
                raise
            except Exception as error:
                self._fail(slot, episode, error)
                continue
            self.slots[slot] = episode
            self.observations[slot] = first
            self.words[slot] = episode.word
            self.counters[slot] = np.arange(self.counters.shape[1])
            self.temperature[slot] = episode.assignment.decoding.temperature
            return

    def _fail(self, slot: int, episode: VectorEpisode, error: Exception) -> None:
        episode.failure = f"environment: {type(error).__name__}: {error}"
        self.player.discard(slot)

    def _blame(self, slot: int, episode: VectorEpisode) -> None:
        """A log-prob that is not finite is the environment's fault or the policy's."""
        if np.isfinite(self.observations[slot]).all():
            raise HocketError(
                f"policy {self.player.policy.name!r} gives log-probs that are not finite; lower update.lr"
            )
        self._fail(slot, episode, ValueError("an observation is not finite"))

    def advance(self) -> list[VectorEpisode]:
        """One decision in every slot; returns the episodes that ended, whose slots are filled anew."""
        draws = uniforms(self.words, self.counters)
        actions, logps = self.policy.sample(self.observations, draws, self.temperature, **self.carried)
        self.counters += np.uint64(self.counters.shape[1])
        chosen = actions.tolist() if actions.ndim == 1 else actions  # plain integers: environments check them faster
        values = logps.tolist()
        rewards = np.zeros(len(self.slots))
        ended, over = [], []
        for slot, episode in enumerate(self.slots):
            if episode is None:
                continue
            if math.isfinite(values[slot]):
                self._step(slot, episode, chosen[slot], values[slot])
            else:
                self._blame(slot, episode)
            if episode.over:
                episode.final_state = self.observations[slot].copy()
                ended.append(episode)
                over.append(slot)
            elif self.reads_rewards:
                rewards[slot] = episode.rewards[-1]
        if self.reads_rewards:
            cast(Any, self.policy).paid(rewards, self.carried["carried"])
        for slot in over:
            self._refill(slot)
        return ended

    def _step(self, slot: int, episode: VectorEpisode, action: Any, logp: float) -> None:
        command = action.copy() if isinstance(action, np.ndarray) else action
        try:
            observation, reward, terminated, truncated = self.player.environment(slot).step(command)
            reward = reward_of(reward, self.player.name)
        except ConfigurationError:
            raise
        except Exception as error:
            self._fail(slot, episode, error)
            return
        episode.observations.append(self.observations[slot].copy())
        episode.actions.append(action)
        episode.logps.append(logp)
        episode.rewards.append(reward)
        self.observations[slot] = observation
        budget = episode.assignment.budget
        episode.terminated = bool(terminated)
        episode.truncated = not terminated and (
            bool(truncated) or (budget is not None and len(episode.actions) >= budget)
        )


def episodes(assignments: Sequence[Assignment], key: Key) -> Iterator[VectorEpisode]:
    """Every attempt, in assignment order, then sample order.

    Raises:
        ConfigurationError: when a decoding cuts the distribution.
    """
    place = 0
    for assignment in assignments:
        if assignment.decoding.truncates or assignment.decoding.mask is not None:
            raise ConfigurationError(
                "a controller samples from its whole distribution; leave top_k, top_p, min_p, mask unset, and use "
                "no rollout that sets them"
            )
        for sample in range(assignment.first, assignment.first + assignment.samples):
            word = key.derive(assignment.scenario.id, assignment.source, sample).word
            yield VectorEpisode(place, assignment, sample, word)
            place += 1
