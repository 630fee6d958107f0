"""Critics of what all agents of a team see and do, beside actors that see what is their own: MADDPG and HASAC.

Rows are those of `hocket.rollout.JointTransitions`. What other policies would do is in columns that each fills at its
own decisions, so a policy never reads another one's weights.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from hocket.core.annotators import Annotator
from hocket.core.batch import Batch
from hocket.core.columns import Column
from hocket.core.errors import ConfigurationError
from hocket.core.keys import uniforms
from hocket.core.stored_rows import ALLOWED_THEN, FOLLOWING, GOES_ON, PAID, PRESENT, TEAM_PAID, WORD, moments
from hocket.policies.action_values import Critics, ValuePart, critics_of
from hocket.policies.control_heads import NEVER, Categorical
from hocket.policies.control_parts import EvaluatedRows, PartHost
from hocket.stages import Policy
from hocket.types import Quantity


def gumbel(words: Tensor, count: int, first: int) -> Tensor:
    """Gumbel noise `[K, count]` of random words `[K]`; `first` is the number of the first draw of a word."""
    held = words.numpy().astype(np.uint64)[:, None]
    drawn = uniforms(held, np.arange(first, first + count).astype(np.uint64))
    return torch.from_numpy(-np.log(-np.log(drawn)).astype(np.float32))


def _filled(name: str) -> Any:
    """The computation of a column by the critics of its policy."""

    def compute(batch: Batch, policy: Policy, decisions: Tensor) -> Tensor:
        host = cast(Any, policy)
        if WORD.name not in batch.annotations:
            return torch.zeros(batch.decisions)  # Fresh decisions, from which nothing is learnt before a draw.
        part = next(part for part in host.attached if isinstance(part, TeamCritics))
        values = getattr(part, name)(host, batch, decisions)
        column = values.new_zeros(batch.decisions, *values.shape[1:])
        column[decisions] = values
        return cast(Tensor, column)

    return compute


NEXT_ACTION = Annotator("next_action", "An action in the state that follows, one-hot, [T, A].", _filled("next_action"))
NEXT_LOGP = Annotator("next_logp", "The expected log-prob of actions there, [T].", _filled("next_logp"))
FRESH_ACTION = Annotator(
    "fresh_action", "An action drawn anew by the present policy, one-hot, [T, A].", _filled("fresh_action"), moving=True
)


@dataclass(frozen=True)
class TeamCritics(ValuePart):
    """Critics of what all agents see and do, for actors whose actions are one of several choices: MADDPG.

    The actor acts by its softmax. In its loss an action is drawn anew by Gumbel noise; its gradient is that of the
    softmax with this noise. A policy that plays several agents reads a one-hot number of each.

    Attributes:
        ensemble: how many critics; the smallest counts. central: whether critics read all agents, or only their own.
        calm: how strongly the square of the actor's outputs is held down.
    """

    ensemble: int = 1
    central: bool = True
    calm: float = 1e-3

    needed: ClassVar[str] = "critics of all agents' actions"
    groups: ClassVar[Mapping[str, str]] = {"critics": "critics", "slow": "slow", "slow_actor": "slow_actor"}
    slow: ClassVar[Mapping[str, str]] = {"slow": "critics", "slow_actor": "actor"}
    quantities: ClassVar[frozenset[Quantity]] = frozenset({Quantity.ACTION_VALUE, Quantity.BACKUP, Quantity.PATHWISE})
    reads: ClassVar[frozenset[Column]] = frozenset({NEXT_ACTION})

    def begin(self, host: PartHost) -> None:
        self._check(host, discrete=True)
        seats = _seats(host)
        if any(not seat.discrete or seat.action_form or seat.choices for seat in seats):
            raise ConfigurationError(
                f"policy {host.name!r}: critics of a team read actions that are one of several choices, and other "
                "agents act otherwise; use ippo"
            )
        width = sum(seat.observations for seat in seats) + len(seats) * _most(host)
        inputs = (width if self.central else host.observations + _most(host)) + len(seats)
        key = host.key.derive("critics")
        made = Critics(self.ensemble, (inputs, *host.hidden, 1), activation=host.network.activation, key=key)
        host.module.critics = made
        host.module.slow = _still(host.module, "critics")
        host.module.slow_actor = _still(host.module, "actor")

    def config(self, host: PartHost) -> Mapping[str, Any]:
        return {"team_critics": self.ensemble, "central": self.central}

    # ------------------------------------------------------------ columns that agents fill

    def next_action(self, host: PartHost, batch: Batch, decisions: Tensor) -> Tensor:
        """What the slow actor does in the states that follow, `[K, A]`."""
        head = _later(host, batch, decisions, "slow_actor")
        return _padded(host, _one_hot(head.logits + gumbel(batch.annotations[WORD.name][decisions], host.actions, 0)))

    # ------------------------------------------------------------ quantities

    def evaluated(self, host: PartHost, wanted: frozenset[Quantity], rows: EvaluatedRows) -> Mapping[Quantity, Tensor]:
        quantities: dict[Quantity, Tensor] = {}
        moment = moments(rows.batch)[rows.places]
        if Quantity.ACTION_VALUE in wanted:
            x = self._inputs(host, rows, moment, _recorded(host, rows.batch)[moment])
            quantities[Quantity.ACTION_VALUE] = critics_of(host)(x)
        if Quantity.BACKUP in wanted:
            with torch.no_grad():
                quantities[Quantity.BACKUP] = self._backup(host, rows, moment)
        if Quantity.PATHWISE in wanted:
            quantities[Quantity.PATHWISE] = self._pathwise(host, rows, moment)
        return quantities

    def _backup(self, host: PartHost, rows: EvaluatedRows, moment: Tensor) -> Tensor:
        return rows.column(PAID) + rows.column(GOES_ON) * self._then(host, rows, moment)

    def _then(self, host: PartHost, rows: EvaluatedRows, moment: Tensor) -> Tensor:
        """The smallest slow value of what follows, `[K]`."""
        actions = _by_row(NEXT_ACTION.read(rows.batch, "the policy"), rows.batch) * _going_on(rows.batch)
        values: Tensor = critics_of(host, "slow")(self._inputs(host, rows, moment, actions[moment], later=True))
        return values.amin(1)

    def _pathwise(self, host: PartHost, rows: EvaluatedRows, moment: Tensor) -> Tensor:
        logits = cast(Categorical, rows.head).logits + gumbel(rows.column(WORD), host.actions, host.actions)
        soft = torch.softmax(logits, -1)
        fresh = _one_hot(logits) + soft - soft.detach()
        value = self._of_own(host, rows, moment, _recorded(host, rows.batch), fresh)
        return self.calm * rows.outputs.square().mean(1) - value

    def _of_own(self, host: PartHost, rows: EvaluatedRows, moment: Tensor, actions: Tensor, own: Tensor) -> Tensor:
        """The smallest value `[K]` where each agent's own action `[K, A]` takes the place of that in `[R, n, A]`."""
        agent = rows.batch.agent[rows.batch.turn[rows.places]]
        place = (torch.arange(len(agent)), agent)
        joint = actions[moment].index_put(place, _padded(host, own))
        values: Tensor = critics_of(host)(self._inputs(host, rows, moment, joint), frozen=True)
        return values.amin(1)

    def _inputs(
        self, host: PartHost, rows: EvaluatedRows, moment: Tensor, actions: Tensor, *, later: bool = False
    ) -> Tensor:
        """What critics read, `[K, I]`: what is sight, all actions `[K, n, A]`, and whose value it is."""
        batch = rows.batch
        agent = batch.agent[batch.turn[rows.places]]
        number = functional.one_hot(agent, actions.shape[1]).to(actions.dtype)
        if not self.central:
            sight = rows.column(FOLLOWING)[:, : host.observations] if later else rows.seen
            return torch.cat([sight, actions[torch.arange(len(agent)), agent], number], 1)
        sight = _seen(host, batch, later=later)[moment]
        return torch.cat([sight, actions.flatten(1), number], 1)


@dataclass(frozen=True)
class SoftTeamCritics(TeamCritics):
    """Critics whose value counts the entropy of all agents, for actors that learn in turn: HASAC.

    In an actor's loss the other agents' actions are drawn by their present policies; of those that learnt before in the
    same draw, after their update. The mean over an agent's own actions is exact.

    Attributes:
        temperature: of the entropy.
    """

    ensemble: int = 2
    calm: float = 0.0
    temperature: float = 0.05

    reads: ClassVar[frozenset[Column]] = frozenset({NEXT_ACTION, NEXT_LOGP, FRESH_ACTION})

    def next_action(self, host: PartHost, batch: Batch, decisions: Tensor) -> Tensor:
        """What the present actor does in the states that follow, `[K, A]`."""
        head = _later(host, batch, decisions, "actor")
        return _padded(host, _one_hot(head.logits + gumbel(batch.annotations[WORD.name][decisions], host.actions, 0)))

    def next_logp(self, host: PartHost, batch: Batch, decisions: Tensor) -> Tensor:
        """Minus the entropy in the states that follow, `[K]`."""
        return -_later(host, batch, decisions, "actor").entropy()

    def fresh_action(self, host: PartHost, batch: Batch, decisions: Tensor) -> Tensor:
        """What the present actor does, `[K, A]`."""
        logits = host.module.actor(host.as_read(host.observed(batch)[decisions])).detach()
        if batch.allowed:
            turns = [
                turn for turn, code in enumerate(batch.policy.tolist()) if batch.names["policy"][code] == host.name
            ]
            allowed = [torch.from_numpy(np.asarray(batch.allowed[turn])) for turn in turns]
            logits = logits.masked_fill(~torch.cat(allowed), NEVER)
        drawn = gumbel(batch.annotations[WORD.name][decisions], host.actions, host.actions)
        return _padded(host, _one_hot(logits + drawn))

    def _backup(self, host: PartHost, rows: EvaluatedRows, moment: Tensor) -> Tensor:
        batch = rows.batch
        logp = (_by_row(NEXT_LOGP.read(batch, "the policy"), batch) * _going_on(batch)[..., 0]).sum(1)[moment]
        soft = self._then(host, rows, moment) - self.temperature * logp
        return rows.column(TEAM_PAID) + rows.column(GOES_ON) * soft

    def _pathwise(self, host: PartHost, rows: EvaluatedRows, moment: Tensor) -> Tensor:
        logp = torch.log_softmax(cast(Categorical, rows.head).logits, -1)
        actions = _by_row(FRESH_ACTION.read(rows.batch, "the policy"), rows.batch) * _present(rows.batch)
        choices = torch.eye(host.actions)
        with torch.no_grad():
            values = [self._of_own(host, rows, moment, actions, choice.expand(len(moment), -1)) for choice in choices]
        return (logp.exp() * (self.temperature * logp - torch.stack(values, 1))).sum(1)


# ---------------------------------------------------------------- a team's columns, row by row


def _seats(host: PartHost) -> tuple[Any, ...]:
    """The seats of all agents.

    Raises:
        ConfigurationError: for a task of one agent that has no seats.
    """
    world = getattr(host.spaces, "world", None)
    if world is None:
        raise ConfigurationError(
            f"policy {host.name!r}: critics of a team need a task of several agents, such as mpe:spread; use sac or dqn"
        )
    return tuple(world.seats)


def _most(host: PartHost) -> int:
    """The largest number of choices of an agent."""
    return max(int(seat.actions) for seat in _seats(host))


def _padded(host: PartHost, action: Tensor) -> Tensor:
    """One-hot actions `[K, A]`, as wide as those of the agent with the most choices."""
    return functional.pad(action, (0, _most(host) - action.shape[1]))


def _one_hot(scores: Tensor) -> Tensor:
    """The largest of each row."""
    return functional.one_hot(scores.argmax(1), scores.shape[1]).to(scores.dtype)


def _still(module: nn.Module, name: str) -> nn.Module:
    return copy.deepcopy(cast(nn.Module, getattr(module, name))).requires_grad_(False)


def _by_row(column: Tensor, batch: Batch) -> Tensor:
    """A column `[T, ..]` by row and agent, `[R, n, ..]`."""
    size = len(batch.names["agent"])
    return column.reshape(size, -1, *column.shape[1:]).transpose(0, 1)


def _present(batch: Batch) -> Tensor:
    """1 for agents that act, `[R, n, 1]`."""
    return _by_row(PRESENT.read(batch, "the policy"), batch).float()[..., None]


def _going_on(batch: Batch) -> Tensor:
    """1 for agents that go on, `[R, n, 1]`."""
    return (_by_row(GOES_ON.read(batch, "the policy"), batch) > 0).float()[..., None]


def _recorded(host: PartHost, batch: Batch) -> Tensor:
    """The recorded actions, one-hot, `[R, n, A]`; 0 for agents that had ended."""

    def make() -> Tensor:
        return _by_row(functional.one_hot(batch.action.long(), _most(host)).float(), batch) * _present(batch)

    return host.cached("team actions", batch.action, make)


def _seen(host: PartHost, batch: Batch, *, later: bool) -> Tensor:
    """What all agents see at each moment or after it, `[R, sum of O]`; 0 for those that have ended."""
    sizes = [seat.observations for seat in _seats(host)]

    def make() -> Tensor:
        if later:
            column, alive = _by_row(FOLLOWING.read(batch, "the policy"), batch), _going_on(batch)
            return torch.cat([column[:, number, :size] * alive[:, number] for number, size in enumerate(sizes)], 1)
        sight = [
            torch.from_numpy(np.asarray(rows)[:, :size]) for rows, size in zip(batch.observation, sizes, strict=True)
        ]
        return torch.cat(sight, 1)

    source = batch.annotations[FOLLOWING.name] if later else batch.observation
    return host.cached("team later" if later else "team sight", source, make)


def _later(host: PartHost, batch: Batch, decisions: Tensor, name: str) -> Categorical:
    """The choice of a network of the policy in the states that follow."""
    later = host.as_read(batch.annotations[FOLLOWING.name][decisions][:, : host.observations])
    with torch.no_grad():
        logits = cast(nn.Module, getattr(host.module, name))(later)
    if ALLOWED_THEN.name in batch.annotations:
        logits = logits.masked_fill(~batch.annotations[ALLOWED_THEN.name][decisions][:, : host.actions], NEVER)
    return Categorical(logits)
