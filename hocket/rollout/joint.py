"""The player of multi-agent environments, which plays many episodes in lockstep.

With one agent its results equal those of `VectorPlayer` to the bit. An episode becomes one trajectory with a turn for
every agent: observations `[L, O]`, actions, log-probs, the `time` of each decision, and the agent's `End`. The score
`reward` is at the level of decisions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from hocket.core.batch import Level
from hocket.core.columns import ALLOWED
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key, uniforms
from hocket.core.worlds import JointEnvironment, JointWorld, Moved
from hocket.types import Assignment, End, Score, Trajectory, Turn, before_training


class JointController(Protocol):
    """A policy that decides for many agents at once: `hocket.policies.control.ControlPolicy`."""

    name: str
    version: int

    @property
    def draws(self) -> int:
        """Uniforms per decision."""
        ...

    def sample(
        self,
        observations: NDArray[np.float32],
        uniforms: NDArray[np.float64],
        temperature: NDArray[np.float32],
        allowed: NDArray[np.bool_] | None = None,
        *,
        carried: NDArray[np.float32] = ...,
    ) -> tuple[NDArray[Any], NDArray[np.float32]]: ...


@dataclass(eq=False)
class _Episode:
    """An attempt in progress; `words` seed each agent's draws, `began` is the pool's step at its first decision."""

    place: int
    assignment: Assignment
    sample: int
    words: NDArray[np.uint64]
    began: int = 0
    ends: dict[int, tuple[int, End]] = field(default_factory=dict)
    failure: str | None = None


@dataclass(frozen=True, eq=False)
class _Step:
    """The record of one step of all copies: per agent rows `[B, ...]`, rewards `[B, n]`."""

    observations: Sequence[NDArray[np.float32]]
    allowed: Sequence[NDArray[np.bool_] | None]
    actions: Sequence[NDArray[Any]]
    logps: Sequence[NDArray[np.float32]]
    acted: NDArray[np.bool_]
    state: NDArray[np.float32] | None
    rewards: NDArray[np.float64]


@dataclass
class JointPlayer:
    """A `Player` of joint worlds: `width` copies in lockstep, in which new episodes replace finished ones.

    Sample i of an assignment resets with `scenario.seed`, and each agent draws with counters of its own key, so an
    episode does not depend on the other copies. A policy reads the rows of all its agents at once. If it plays several
    agents, each row ends in the agent's one-hot index among them (`identified`). `assignment.budget` limits the steps
    of an episode. If a copy fails, only its own episode fails.

    Rewards while other agents move count for the agent's last decision before; rewards before its first decision are
    left out. An agent that has ended gets no more rewards.

    Attributes:
        world: the environment. policies: by name. seats: the policy of each agent, in the world's order.
        identified: whether rows contain the agent's one-hot index. width: the number of copies.
        references: the policies before training, by name, if the trainer provides them.
        usual: the seats that the policies were made for, where guests sit in some; empty where nobody does.
    """

    world: JointWorld
    policies: Mapping[str, JointController]
    seats: Mapping[str, str]
    identified: bool = True
    width: int = 64
    references: Mapping[str, JointController] = field(default_factory=dict)
    usual: Mapping[str, str] = field(default_factory=dict)
    _open: list[JointEnvironment] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        if self.width < 1:
            raise ConfigurationError(f"width = {self.width}: a player needs at least one copy of its world")

    async def play(self, assignments: Sequence[Assignment], *, key: Key) -> list[Trajectory]:
        """Every sample of every assignment, in assignment order, then sample order.

        Raises:
            ConfigurationError: when the decoding truncates the distribution (top-k, top-p), which is unsupported here.
            HocketError: when a policy's outputs are not finite.
        """
        waiting = list(_episodes(assignments, key, self.world.agents))
        done: list[Trajectory | None] = [None] * len(waiting)
        for actor in dict.fromkeys(episode.assignment.actor for episode in waiting):
            mine = [episode for episode in waiting if episode.assignment.actor == actor]
            pool = _Pool(self, _Table(self, actor), iter(mine))
            while pool.active:
                for place, trajectory in pool.advance():
                    done[place] = trajectory
            for place, trajectory in pool.stillborn:
                done[place] = trajectory
        return [trajectory for trajectory in done if trajectory is not None]

    def environment(self) -> JointEnvironment:
        """The copies, opened on first use."""
        if not self._open:
            self._open.append(self.world.open(self.width))
        return self._open[0]

    def close(self) -> None:
        """Closes the copies; the next `play` opens them anew."""
        while self._open:
            self._open.pop().close()

    def seated(self, policies: Mapping[str, str]) -> Self:
        """The player with the policies of some seats replaced."""
        return replace(self, seats={**self.seats, **policies})

    def controllers(self, actor: Literal["policy", "reference"]) -> Mapping[str, JointController]:
        """The current policies, or those before training."""
        if actor == "reference" and not self.references:
            raise ConfigurationError(
                "the rollout samples from the policy as it was before training, which this player was not given; its "
                "class must say plays_reference = True"
            )
        return self.policies if actor == "policy" else self.references


class _Table:
    """The seating: for each policy its agents, and the rows of its input."""

    def __init__(self, player: JointPlayer, actor: Literal["policy", "reference"]) -> None:
        world, self.agents = player.world, player.world.agents
        self.before, self.controllers = actor == "reference", player.controllers(actor)
        self.members: dict[str, list[int]] = {}
        for number, agent in enumerate(self.agents):
            self.members.setdefault(player.seats[agent], []).append(number)
        self.policy_of = [player.seats[agent] for agent in self.agents]
        self.rows: dict[str, NDArray[np.float32]] = {}
        self.carried: dict[str, NDArray[np.float32]] = {}
        self.seen: list[NDArray[np.float32]] = [np.zeros((0, 0), np.float32)] * len(self.agents)
        usual = player.usual or player.seats
        for name, members in self.members.items():
            size = world.seats[members[0]].observations
            alike = [agent for agent in self.agents if usual[agent] == usual[self.agents[members[0]]]]
            numbers = len(alike) if player.identified and len(alike) > 1 else 0
            rows = np.zeros((len(members), player.width, size + numbers), np.float32)
            for place, number in enumerate(members):
                column = size + (alike.index(self.agents[number]) if numbers else 0)
                rows[place, :, column : column + 1 if numbers else column] = 1.0
                self.seen[number] = rows[place]
            self.rows[name] = rows
            carries = getattr(self.controllers[name], "carries", 0)
            if getattr(self.controllers[name], "reads_rewards", False):
                raise ConfigurationError(
                    f"policy {name!r} reads what its decisions were paid, which a team's policies do not; use a task "
                    "of one agent, such as gym:Pendulum-v1"
                )
            if carries:
                self.carried[name] = np.zeros((len(members), player.width, carries), np.float32)
        self.sizes = [seat.observations for seat in world.seats]

    def show(self, seen: Sequence[NDArray[np.float32]], live: NDArray[np.bool_]) -> None:
        """Writes the agents' observations into the rows; idle copies get zeros."""
        for number, size in enumerate(self.sizes):
            self.seen[number][:, :size] = np.where(live[:, None], seen[number], np.float32(0))

    def draws(self, name: str) -> int:
        return self.controllers[name].draws

    def recorded(self, number: int) -> tuple[str, int]:
        """The policy name recorded for an agent's decisions, and the version of its weights."""
        name = self.policy_of[number]
        return before_training(name) if self.before else name, self.controllers[name].version


class _Pool:
    """The episodes in progress, one per copy."""

    def __init__(self, player: JointPlayer, table: _Table, waiting: Iterator[_Episode]) -> None:
        self.player, self.table, self.waiting = player, table, waiting
        self.world = player.environment()
        self.slots: list[_Episode | None] = [None] * player.width
        self.live = np.zeros(player.width, bool)
        self.alive = np.zeros((player.width, len(table.agents)), bool)
        self.words = np.zeros((len(table.agents), player.width, 1), np.uint64)
        self.temperature = np.ones(player.width, np.float32)
        self.history: list[_Step] = []
        self.first = self.now = 0
        self.stillborn: list[tuple[int, Trajectory]] = []
        self._refill(list(range(player.width)))

    @property
    def active(self) -> bool:
        return bool(self.live.any())

    def _refill(self, slots: Sequence[int]) -> None:
        """Starts the next episodes in these copies, skipping those that fail to begin."""
        for slot in slots:
            self.slots[slot], self.live[slot], self.alive[slot] = None, False, False
        open_slots = list(slots)
        while open_slots:
            entering = [(slot, episode) for slot, episode in zip(open_slots, self.waiting, strict=False)]
            if not entering:
                break
            failed = self.world.reset(
                [slot for slot, _ in entering], [episode.assignment.scenario.seed for _, episode in entering]
            )
            for slot, episode in entering:
                if slot in failed:
                    episode.failure = failed[slot]
                    self.stillborn.append((episode.place, _recorded(episode, self.table, [], 0)))
                else:
                    self._enter(slot, episode)
            open_slots = [slot for slot, _ in entering if slot in failed]
        self.table.show(self.world.seen(), self.live)

    def _enter(self, slot: int, episode: _Episode) -> None:
        self.slots[slot], self.live[slot], self.alive[slot] = episode, True, True
        self.words[:, slot, 0] = episode.words
        self.temperature[slot] = episode.assignment.decoding.temperature
        episode.began = self.now
        for carried in self.table.carried.values():
            carried[:, slot] = 0.0

    def advance(self) -> list[tuple[int, Trajectory]]:
        """Makes one step in every copy; returns the episodes that ended, whose copies are refilled."""
        turn = self.world.acting()
        acted = self.alive if turn is None else self.alive & turn
        acted, state = acted.copy(), self.world.state()
        masks = [None if mask is None else np.array(mask, bool) for mask in self.world.allowed()]
        masks = masks or [None] * len(self.table.agents)
        shown = [rows.copy() for rows in self.table.seen]
        actions, logps = self._decide(masks, acted)
        state = None if state is None else np.array(state, np.float32)
        # A world may write into its arguments, and into arrays that it returned before.
        moved = self.world.step([action.copy() for action in actions], self.live.copy())
        self.history.append(_Step(shown, masks, actions, logps, acted, state, moved.rewards.copy()))
        self.now += 1
        for slot, reason in moved.failures.items():
            if (broken := self.slots[slot]) is not None:
                broken.failure = reason
        self._blame(shown, logps, acted)
        ended = self._ended(moved)
        done = [(episode.place, self._record(slot, episode)) for slot, episode in ended]
        if ended:
            self._refill([slot for slot, _ in ended])
            self._forget()
        return done

    def _decide(
        self, masks: Sequence[NDArray[np.bool_] | None], acted: NDArray[np.bool_]
    ) -> tuple[list[Any], list[Any]]:
        """Actions and log-probs of each agent, `[B]` each; agents that have not `acted` `[B, n]` keep their memory."""
        width, count = self.player.width, len(self.table.agents)
        actions: list[Any] = [None] * count
        logps: list[Any] = [None] * count
        times = np.array([0 if episode is None else self.now - episode.began for episode in self.slots], np.int64)
        for name, members in self.table.members.items():
            draws = self.table.draws(name)
            counters = (times[:, None] * draws + np.arange(draws)).astype(np.uint64)
            drawn = np.concatenate([uniforms(self.words[number], counters) for number in members])
            rows = self.table.rows[name].reshape(len(members) * width, -1)
            allowed = self._allowed(members, masks)
            inputs: dict[str, Any] = {} if allowed is None else {"allowed": allowed}
            held = self.table.carried.get(name)
            if held is not None:
                inputs["carried"] = held.reshape(len(rows), -1).copy()
            chosen, logp = self.table.controllers[name].sample(
                rows, drawn, np.tile(self.temperature, len(members)), **inputs
            )
            if held is not None:
                moved = acted[:, members].T[..., None]
                held[...] = np.where(moved, inputs["carried"].reshape(held.shape), held)
            for place, number in enumerate(members):
                part = slice(place * width, (place + 1) * width)
                actions[number], logps[number] = chosen[part], logp[part]
        return actions, logps

    def _allowed(self, members: Sequence[int], masks: Sequence[NDArray[np.bool_] | None]) -> NDArray[np.bool_] | None:
        """The allowed actions of a policy's agents, `[K * B, A]`; all are allowed for agents whose turn it is not."""
        if all(masks[number] is None for number in members):
            return None
        size = (self.player.width, self.player.world.seats[members[0]].actions)
        parts = [np.ones(size, bool) if (mask := masks[number]) is None else mask for number in members]
        joined: NDArray[np.bool_] = np.concatenate(parts)
        none = joined.sum(1) == 0
        if none.any():
            stuck = np.flatnonzero(none & (self.live[:, None] & self.alive)[:, members].T.ravel())
            if len(stuck):
                agent = self.table.agents[members[int(stuck[0]) // self.player.width]]
                raise HocketError(
                    f"{self.player.world.name} leaves agent {agent} no legal move; its "
                    "mask must allow one, or the agent must have ended"
                )
            joined = joined | none[:, None]
        return joined

    def _blame(self, shown: Sequence[NDArray[Any]], logps: Sequence[NDArray[Any]], acted: NDArray[np.bool_]) -> None:
        """A log-prob that is not finite is the environment's fault or the policy's."""
        for number, logp in enumerate(logps):
            for slot in np.flatnonzero(acted[:, number] & ~np.isfinite(logp)).tolist():
                if np.isfinite(shown[number][slot]).all():
                    name = self.table.policy_of[number]
                    raise HocketError(f"policy {name!r} gives log-probs that are not finite; lower update.lr")
                episode = self.slots[slot]
                assert episode is not None
                episode.failure = episode.failure or "environment: ValueError: an observation is not finite"

    def _ended(self, moved: Moved) -> list[tuple[int, _Episode]]:
        """Records which agents ended; returns the episodes in which all have ended, and failed ones, by copy."""
        self.table.show(self.world.seen(), self.live)
        state = self.world.state()
        cut = np.zeros(self.player.width, bool)
        for slot, episode in enumerate(self.slots):
            if episode is not None:
                budget = episode.assignment.budget
                cut[slot] = episode.failure is not None or (budget is not None and self.now - episode.began >= budget)
        over = self.alive & (moved.terminated | moved.truncated | cut[:, None])
        for slot, number in np.argwhere(over).tolist():
            episode = self.slots[slot]
            assert episode is not None
            terminated = bool(moved.terminated[slot, number]) and episode.failure is None
            joint = None if state is None else np.array(state[slot], np.float32)
            end = End(terminated, not terminated, self.table.seen[number][slot].copy(), joint)
            episode.ends[number] = (self.now - episode.began, end)
        self.alive &= ~over
        finished = np.flatnonzero(self.live & ~self.alive.any(1)).tolist()
        return [(slot, occupant) for slot in finished if (occupant := self.slots[slot]) is not None]

    def _record(self, slot: int, episode: _Episode) -> Trajectory:
        steps = self.history[episode.began - self.first : self.now - self.first]
        return _recorded(episode, self.table, steps, slot)

    def _forget(self) -> None:
        """Drops the steps that no episode in progress needs."""
        needed = min((slot.began for slot in self.slots if slot is not None), default=self.now)
        del self.history[: needed - self.first]
        self.first = needed


def _recorded(episode: _Episode, table: _Table, steps: Sequence[_Step], slot: int) -> Trajectory:
    """The trajectory of a finished episode."""
    turns: list[Turn] = []
    rewards: list[NDArray[np.float64]] = []
    for number, (length, end) in sorted(episode.ends.items()):
        prefix = steps[:length]
        times = np.flatnonzero([step.acted[slot, number] for step in prefix])
        if episode.failure is not None and len(times) and times[-1] == length - 1:
            times = times[:-1]  # The decision at which the copy failed has no outcome.
        if not len(times):
            continue
        turns.append(_turn(episode, table, number, prefix, times, slot, end))
        rewards.append(_earned(prefix, times, slot, number))
    ends = [turn.end for turn in turns if turn.end is not None]
    if episode.failure is None and not _finite(rewards, ends):
        episode.failure = "environment: a reward or the last observation is not finite"
    terminated = bool(ends) and all(end.terminated for end in ends) and episode.failure is None
    alone = ends[0].state if len(table.agents) == 1 and ends else None
    return Trajectory(
        scenario=episode.assignment.scenario,
        turns=turns,
        sample=episode.sample,
        scores={"reward": Score(np.concatenate(rewards) if rewards else np.zeros(0), Level.DECISION)},
        terminated=terminated,
        truncated=not terminated,
        final_state=alone,
        source=episode.assignment.source,
        failure=episode.failure,
    )


def _finite(rewards: Sequence[NDArray[np.float64]], ends: Sequence[End]) -> bool:
    states = [state for end in ends for state in (end.state, end.joint) if state is not None]
    return all(bool(np.isfinite(array).all()) for array in (*rewards, *states))


def _turn(
    episode: _Episode,
    table: _Table,
    number: int,
    steps: Sequence[_Step],
    times: NDArray[np.int64],
    slot: int,
    end: End,
) -> Turn:
    """The turn of one agent, with its decisions at `times` of the episode."""
    policy, version = table.recorded(number)
    mine = [steps[time] for time in times.tolist()]
    state = [step.state[slot] for step in mine if step.state is not None]
    turn = Turn(
        agent=table.agents[number],
        policy=policy,
        observation=np.stack([step.observations[number][slot] for step in mine]),
        action=np.array([step.actions[number][slot] for step in mine]),
        logp=np.array([step.logps[number][slot] for step in mine], np.float32),
        version=np.full(len(mine), version, np.int64),
        finish="terminated" if end.terminated else "truncated",
        decoding=episode.assignment.decoding,
        time=times,
        joint=np.stack(state) if state else None,
        end=end,
    )
    masks = [None if (mask := step.allowed[number]) is None else mask[slot] for step in mine]
    some = next((mask for mask in masks if mask is not None), None)
    if some is not None:  # Without a mask all actions are allowed.
        ALLOWED.write(turn, np.stack([np.ones_like(some) if mask is None else mask for mask in masks]))
    return turn


def _earned(steps: Sequence[_Step], times: NDArray[np.int64], slot: int, number: int) -> NDArray[np.float64]:
    """The reward of each decision: the sum of the agent's rewards until its next decision."""
    rewards = np.array([step.rewards[slot, number] for step in steps], np.float64)
    if len(times) == len(rewards):
        return rewards
    owner = np.searchsorted(times, np.arange(len(rewards)), side="right") - 1
    sums = np.zeros(len(times), np.float64)
    np.add.at(sums, owner[owner >= 0], rewards[owner >= 0])
    return sums


def _episodes(assignments: Sequence[Assignment], key: Key, agents: Sequence[str]) -> Iterator[_Episode]:
    place = 0
    for assignment in assignments:
        if assignment.decoding.truncates or assignment.decoding.mask is not None:
            raise ConfigurationError(
                "a controller samples from its whole distribution; leave top_k, top_p, min_p, mask unset, and use "
                "no rollout that sets them"
            )
        for sample in range(assignment.first, assignment.first + assignment.samples):
            root = key.derive(assignment.scenario.id, assignment.source, sample)
            # The first agent draws as the only agent of a `VectorPlayer`.
            words = [root.word, *(root.derive("agent", agent).word for agent in agents[1:])]
            yield _Episode(place, assignment, sample, np.array(words, np.uint64))
            place += 1
