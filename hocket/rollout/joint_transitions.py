"""Transitions of a team: a row is a moment, with the decisions of all agents and the joint state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hocket.core.batch import Batch, Level, LevelScores, Occurrences
from hocket.core.errors import ConfigurationError
from hocket.core.joint import apart
from hocket.core.keys import Key
from hocket.core.signals import REWARD
from hocket.core.stored_rows import JOINT_THEN, PAID, PRESENT, TEAM_PAID, WORD
from hocket.rollout.store import Columns, cut, length
from hocket.rollout.transitions import Transitions, batch_of_rows, rows_of
from hocket.stages import State

TEAM = "team"
"""The one ring of the store."""

Seating = Sequence[Sequence[str]]
"""Every agent with its policy."""


@dataclass(frozen=True)
class JointTransitions(Transitions):
    """The latest `size` moments of a team whose agents act at the same time.

    In a drawn batch a row is a trajectory, and its agents' decisions are its occurrences. Every agent has a turn with a
    decision for every row; where the agent had ended before, its decision has weight 0. What the team is paid is the
    mean over all agents. Other columns are each agent's own, as `Transitions` has them.

    Attributes:
        draws: of a step; by default as many as gradients, so each has the latest numbers of other policies.
    """

    draws: int = 10**9

    keeps_teams: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.data is not None:
            raise ValueError("rows of a team are sampled, not read from files; leave data unset")

    def gradients(self, state: State, fresh: int) -> int:
        seating: Seating = state.get("agents", ())
        policies = len({policy for _, policy in seating})
        return super().gradients(state, fresh * policies // max(len(seating), 1))

    def add(self, state: State, batch: Batch) -> State:
        """See `Store.add`.

        Raises:
            ConfigurationError: for agents that take turns, and for rows of other agents or shapes than those kept.
        """
        if not len(batch.occurrences):
            return state
        state.setdefault("agents", _seating(batch))
        columns = joint_rows(batch, [agent for agent, _ in state["agents"]], self.steps, self.gamma)
        if length(columns):
            state["rings"][TEAM] = self._extended(state["rings"].get(TEAM), columns, TEAM)
        return state

    def draw(self, state: State, count: int, key: Key) -> Batch:
        """See `Store.draw`.

        Raises:
            ConfigurationError: when no rows are kept.
        """
        if TEAM not in state["rings"]:
            raise ConfigurationError("the store is empty, so nothing can be drawn; let it keep a step first")
        ring = state["rings"][TEAM]
        place, weight = self._places(ring, count, key.derive("rows").numpy(), ())
        return _joint_batch(state["agents"], cut(ring["columns"], place), (place, weight), key)

    def learnt(self, state: State, errors: Mapping[str, tuple[NDArray[Any], NDArray[Any]]]) -> State:
        """See `Store.learnt`; of several errors of a row the largest counts."""
        if not errors or not self.reads_errors:
            return state
        places = np.concatenate([place for place, _ in errors.values()])
        rows, row = np.unique(places, return_inverse=True)
        largest = np.zeros(len(rows), np.float32)
        np.maximum.at(largest, row, np.abs(np.concatenate([error for _, error in errors.values()])))
        return super().learnt(state, {TEAM: (rows, largest)})


def _seating(batch: Batch) -> list[list[str]]:
    """Agents with their policies, in the order of their first turns."""
    agents, policies = batch.names["agent"], batch.names["policy"]
    pairs = dict(zip(batch.agent.tolist(), batch.policy.tolist(), strict=True))
    return [[agents[agent], policies[policy]] for agent, policy in pairs.items()]


def joint_rows(batch: Batch, agents: Sequence[str], steps: int, gamma: float) -> Columns:
    """The moments of a rewarded batch as rows of `agents`; each joins `steps` moments.

    Columns `K/NAME` are those of agent K as `hocket.rollout.transitions.rows_of` gives them, and whether it is
    `present`; `team_paid` is the mean of what all agents are paid. `joint` and `joint_then` are the joint states, if
    there are any.

    Raises:
        ConfigurationError: for agents that take turns or are not among `agents`, and for unknown final observations.
    """
    split, occurrences = apart(batch), batch.occurrences
    agent, place = batch.agent[batch.turn[occurrences.decision]], _steps_of_parts(split)
    _check(batch, agents, place)
    _, row = np.unique(occurrences.trajectory.numpy() * (place.max() + 1) + place, return_inverse=True)
    count, held, joint = int(row.max()) + 1, dict[str, NDArray[Any]](), len(batch.joint) > 0
    then: list[tuple[NDArray[Any], NDArray[Any], Columns]] = []
    for number, name in enumerate(agents):
        chosen = agent == _code(batch, name)
        mine = split.restricted(chosen).credited(weight=torch.ones(int(chosen.sum())))
        columns, places = rows_of(mine, steps, gamma), row[chosen.numpy()]
        if not columns or length(columns) < len(places):
            lack = "has no final observation" if columns else "makes no decision in any of these episodes"
            raise ConfigurationError(f"rows of a team need every agent, and {name} {lack}; use a recipe such as dqn")
        present: NDArray[np.bool_] = np.not_equal(occurrences.weight[chosen].numpy(), 0)
        columns = cut({**columns, "present": present}, present)
        for key, column in columns.items():
            blank = np.full((count, *column.shape[1:]), key.startswith("allowed"), column.dtype)
            blank[places[present]] = column
            held[f"{number}/{key}"] = blank
        if joint:
            states = rows_of(mine.but(observation=split.joint, final_state=split.final_joint, allowed=()), steps, gamma)
            then.append((places[present], columns["goes_on"] > 0, cut(states, present)))
    paid = np.stack([held[f"{number}/paid"] for number in range(len(agents))]).mean(0)
    held["team_paid"] = paid.astype(np.float32)
    if joint:
        held |= _joint_states(count, then)
    some = sum(held[f"{number}/present"].astype(np.int64) for number in range(len(agents)))
    return cut(held, np.flatnonzero(some))


def _joint_states(count: int, then: Sequence[tuple[NDArray[Any], NDArray[Any], Columns]]) -> Columns:
    """The joint states of each row. Agents that ended know of an earlier end than those that go on."""
    size = then[0][2]["observed"].shape[1]
    held = {name: np.zeros((count, size), np.float32) for name in ("joint", "joint_then")}
    for last in (False, True):
        for places, goes_on, states in then:
            chosen = goes_on == last
            held["joint"][places[chosen]] = states["observed"][chosen]
            held["joint_then"][places[chosen]] = states["following"][chosen]
    return held


def _steps_of_parts(split: Batch) -> NDArray[np.int64]:
    """The place of each occurrence in its part, `[E]`."""
    part = split.occurrences.trajectory.numpy()
    return np.arange(len(part)) - np.searchsorted(part, part)


def _check(batch: Batch, agents: Sequence[str], place: NDArray[np.int64]) -> None:
    """Refuses other agents than those, and agents that take turns."""
    others = sorted({batch.names["agent"][code] for code in batch.agent.tolist()} - set(agents))
    if others:
        raise ConfigurationError(
            f"the store keeps rows of a team of {', '.join(agents)}, and {others[0]} is none of them; agents of a team "
            "must all act in the first step"
        )
    if batch.time is not None and (batch.time[batch.occurrences.decision].numpy() != place).any():
        raise ConfigurationError(
            "rows of a team need agents that all act at the same time, and these take turns; use a recipe whose rows "
            "are each agent's own, such as dqn"
        )


def _code(batch: Batch, agent: str) -> int:
    names = batch.names["agent"]
    return names.index(agent) if agent in names else -1


def _joint_batch(seating: Seating, columns: Columns, drawn: tuple[NDArray[Any], NDArray[Any]], key: Key) -> Batch:
    """Drawn rows as a batch: a turn for each agent, a trajectory for each row."""
    (place, weight), size = drawn, len(seating)
    parts = [
        {name.partition("/")[2]: column for name, column in columns.items() if name.startswith(f"{number}/")}
        for number in range(size)
    ]
    weights = [(weight * part["present"]).astype(np.float32) for part in parts]
    batch = batch_of_rows([agent for agent, _ in seating], parts, [place] * size, weights, key)
    count, every = len(place), torch.arange(len(place))
    decision = (torch.arange(size)[None] * count + every[:, None]).flatten()
    policies = list(dict.fromkeys(policy for _, policy in seating))
    annotations = dict(batch.annotations)
    annotations[TEAM_PAID.name] = _of_every_agent(columns["team_paid"], size)
    annotations[PRESENT.name] = torch.from_numpy(np.concatenate([part["present"] for part in parts]))
    annotations[WORD.name] = torch.from_numpy(key.derive("words").numpy().integers(0, 2**63, count * size))
    if "joint" in columns:
        annotations[JOINT_THEN.name] = _of_every_agent(columns["joint_then"], size)
    return batch.but(
        policy=torch.tensor([policies.index(policy) for _, policy in seating]),
        names={**batch.names, "policy": tuple(policies)},
        scenario=torch.zeros_like(every),
        source=torch.zeros_like(every),
        order=every,
        terminated=torch.from_numpy(np.stack([part["goes_on"] == 0 for part in parts]).all(0)),
        truncated=torch.zeros(count, dtype=torch.bool),
        occurrences=Occurrences(
            decision,
            torch.repeat_interleave(every, size),
            torch.zeros(len(decision)),
            batch.occurrences.weight[decision],
        ),
        scores={REWARD[Level.DECISION]: LevelScores(Level.DECISION, annotations[PAID.name][decision].double())},
        annotations=annotations,
        joint=[columns["joint"]] * size if "joint" in columns else (),
    )


def _of_every_agent(column: NDArray[Any], size: int) -> Tensor:
    """What is the same for all agents of a row, at every decision."""
    return torch.from_numpy(np.concatenate([column] * size))
