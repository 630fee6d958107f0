"""Deterministic actors of what each agent remembers, and critics of what all remember and do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from hocket.core.batch import Batch
from hocket.core.errors import ConfigurationError
from hocket.core.stored_rows import FOLLOWING, GOES_ON, PAID, PRESENT, TEAM_PAID, moments
from hocket.methods.applications.mardpg_ads.session import Reader, SessionCritic, SessionLog
from hocket.policies.action_values import DeterministicValues, slow_copy
from hocket.policies.control_parts import EvaluatedRows, PartHost
from hocket.policies.team_critics import TeamCritics
from hocket.types import Quantity


@dataclass(frozen=True)
class SessionValues(TeamCritics):
    """`TeamCritics` for actions that are vectors, of agents that see a `SessionLog`.

    Each agent's actor gives mu(h, o), o what it sees now and h the log as its LSTM sums it up. The critic has an LSTM
    of its own for the logs of all agents, and reads h, o and a of each.

    Attributes:
        central: whether the critic reads all agents, and what the team is paid is the reward; else its own agent alone,
            and that one's pay. messages: whether logs have the other agents' entries.
        noise: the deviation of what is acted, in units of half an action's range. random: the first decisions are
            uniform in the range.
    """

    calm: float = 0.01
    messages: bool = True
    noise: float = 0.3
    random: int = 200

    needed: ClassVar[str] = "critics of all agents' actions and logs"

    def __post_init__(self) -> None:
        if self.ensemble != 1 or not self.noise > 0 or min(self.random, self.calm) < 0:
            raise ValueError(
                f"ensemble must be 1, noise positive, random and calm at least 0, not {self.ensemble}, {self.noise}, "
                f"{self.random} and {self.calm}"
            )

    def begin(self, host: PartHost) -> None:
        log = host.sight.form
        if not isinstance(log, SessionLog):
            raise ConfigurationError(
                f"policy {host.name!r}: this recipe reads logs of sessions, which this task does not show; use a task "
                "such as campaign, or a recipe such as ippo"
            )
        host.sight = replace(host.sight, form=replace(log, messages=self.messages))
        DeterministicValues(ensemble=1, random=self.random, noise=self.noise, smoothing=0.0).begin(host)
        agents = len(host.spaces.world.seats)
        joined = agents if self.central else 1
        more = joined * host.actions + agents + (0 if self.central else host.observations - log.observations)
        reader = Reader(
            host.sight.form,
            joined,
            more,
            (*host.hidden, 1),
            activation=host.network.activation,
            gain=1.0,
            key=host.key.derive("critics"),
        )
        host.module.critics = SessionCritic(reader)
        host.module.slow = slow_copy(cast(nn.Module, host.module.critics))

    def next_action(self, host: PartHost, batch: Batch, decisions: Tensor) -> Tensor:
        """What the slow actor does in the states that follow, `[K, A]`."""
        later = host.as_read(batch.annotations[FOLLOWING.name][decisions][:, : host.observations])
        with torch.no_grad():
            return torch.tanh(cast(nn.Module, host.module.slow_actor)(later))

    def evaluated(self, host: PartHost, wanted: frozenset[Quantity], rows: EvaluatedRows) -> Mapping[Quantity, Tensor]:
        moment, actions = moments(rows.batch)[rows.places], _taken(rows.batch)
        quantities: dict[Quantity, Tensor] = {}
        if Quantity.ACTION_VALUE in wanted:
            critics = cast(SessionCritic, host.module.critics)
            quantities[Quantity.ACTION_VALUE] = critics(self._inputs(host, rows, moment, actions[moment]))
        if Quantity.BACKUP in wanted:
            with torch.no_grad():
                paid = rows.column(TEAM_PAID if self.central else PAID)
                quantities[Quantity.BACKUP] = paid + rows.column(GOES_ON) * self._then(host, rows, moment)
        if Quantity.PATHWISE in wanted:
            value = self._of_own(host, rows, moment, actions, torch.tanh(rows.outputs))
            quantities[Quantity.PATHWISE] = self.calm * rows.outputs.square().mean(1) - value
        return quantities


def _taken(batch: Batch) -> Tensor:
    """What all agents did in each row, cut to the range, `[R, N, A]`; 0 for agents that had ended."""
    present = PRESENT.read(batch, "the policy").float()[:, None]
    agents = len(batch.names["agent"])
    return (batch.action.clamp(-1, 1) * present).reshape(agents, -1, batch.action.shape[-1]).transpose(0, 1)
