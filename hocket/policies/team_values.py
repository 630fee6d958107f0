"""Action values of a team whose agents share a policy: sums and monotone mixtures of each agent's own.

Rows are those of `hocket.rollout.JointTransitions`. `ACTION_VALUE` and `BACKUP` are the team's, the same at every
decision of a row. Agents that have ended count as value 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.stored_rows import GOES_ON, JOINT_THEN, TEAM_PAID, moments
from hocket.policies.action_values import ChoiceValues
from hocket.policies.control_networks import Perceptron
from hocket.policies.control_parts import EvaluatedRows, PartHost
from hocket.types import Quantity


@dataclass(frozen=True)
class TeamRows:
    """K evaluated decisions as rows of a team of n.

    Attributes:
        row: of each decision, `[K]` in 0..R-1. agent: of each, `[K]` in 0..n-1. live: whether it counts, `[K]`.
        first: a decision of every row, `[R]` in 0..K-1. size: n. moment: the place of each row in the drawn batch.
    """

    row: Tensor
    agent: Tensor
    live: Tensor
    first: Tensor
    size: int
    moment: Tensor

    @classmethod
    def of(cls, rows: EvaluatedRows, policy: str) -> TeamRows:
        """The rows of these decisions.

        Raises:
            ConfigurationError: when decisions of a row are missing, or those of other policies.
        """
        batch, places = rows.batch, rows.places
        if len(batch.names["policy"]) > 1:
            raise ConfigurationError(
                f"policy {policy!r} plays a part of its team, and the values of a whole team are learnt by one policy; "
                "set cast to shared, or use maddpg"
            )
        weight = torch.zeros(batch.decisions)
        weight[batch.occurrences.decision] = batch.occurrences.weight
        live = weight[places] != 0
        if int(live.sum()) < int((weight != 0).sum()):
            raise ConfigurationError("a mini-batch is larger than one pass of the network; lower store.rows")
        moment, row = torch.unique(moments(batch)[places], return_inverse=True)
        first = torch.zeros_like(moment).index_put((row,), torch.arange(len(places)))
        agent = batch.agent[batch.turn[places]]
        return cls(row, agent, live, first, len(batch.names["agent"]), moment)

    def table(self, values: Tensor) -> Tensor:
        """Values `[K]` by row and agent, `[R, n]`; 0 for those that do not count."""
        blank = values.new_zeros(len(self.first), self.size)
        return blank.index_put((self.row, self.agent), torch.where(self.live, values, 0.0))


@dataclass(frozen=True)
class SummedValues(ChoiceValues):
    """The value of what a team does is the sum of its agents' action values: VDN.

    Every agent's best action is then a part of the team's best.
    """

    needed: ClassVar[str] = "a value for each of several choices of every agent"

    def evaluated(self, host: PartHost, wanted: frozenset[Quantity], rows: EvaluatedRows) -> Mapping[Quantity, Tensor]:
        quantities = dict(super().evaluated(host, wanted - {Quantity.BACKUP}, rows))
        team = TeamRows.of(rows, host.name)
        if Quantity.ACTION_VALUE in wanted:
            table = team.table(quantities[Quantity.ACTION_VALUE][:, 0])
            quantities[Quantity.ACTION_VALUE] = self._mixed(host, table, rows, team)[team.row][:, None]
        if Quantity.BACKUP in wanted:
            with torch.no_grad():
                goes_on = team.table(rows.column(GOES_ON))
                table = team.table(self.best(host, rows)) * (goes_on > 0)
                later = self._mixed(host, table, rows, team, slow=True)
                backup = rows.column(TEAM_PAID)[team.first] + goes_on.amax(1) * later
                quantities[Quantity.BACKUP] = backup[team.row]
        return quantities

    def _mixed(
        self, host: PartHost, table: Tensor, rows: EvaluatedRows, team: TeamRows, *, slow: bool = False
    ) -> Tensor:
        """The team's values `[R]` by those of its agents `[R, n]`; `slow` is about what follows."""
        return table.sum(1)


class MonotoneMixer(nn.Module):
    """A network of agents' values `[R, n]` that falls in none of them; the joint state `[R, S]` gives its weights.

    `|W_2(s)| elu(|W_1(s)| q + b_1(s)) + b_2(s)`, where b_2 has a hidden layer (Rashid et al., arXiv:1803.11485).
    """

    def __init__(self, agents: int, joint: int, width: int, key: Key) -> None:
        super().__init__()
        self.agents, self.width = agents, width

        def network(name: str, *sizes: int) -> Perceptron:
            return Perceptron((joint, *sizes), last_gain=1.0, key=key.derive(name), activation="relu")

        self.first, self.shift = network("first", agents * width), network("shift", width)
        self.last, self.value = network("last", width), network("value", width, 1)

    def forward(self, values: Tensor, joint: Tensor) -> Tensor:
        """The team's value, `[R]`."""
        first = self.first(joint).abs().reshape(-1, self.agents, self.width)
        hidden = functional.elu((values[:, None] @ first).squeeze(1) + self.shift(joint))
        mixed: Tensor = (hidden * self.last(joint).abs()).sum(1) + self.value(joint)[:, 0]
        return mixed


@dataclass(frozen=True)
class MixedValues(SummedValues):
    """The value of what a team does rises with each agent's action value, by a mixer of the joint state: QMIX.

    Attributes:
        width: the hidden units of the mixer.
    """

    width: int = 32

    groups: ClassVar[Mapping[str, str]] = {**SummedValues.groups, "mixer": "mixer", "slow_mixer": "slow_mixer"}
    slow: ClassVar[Mapping[str, str]] = {**SummedValues.slow, "slow_mixer": "mixer"}

    def begin(self, host: PartHost) -> None:
        if not host.joint:
            raise ConfigurationError(
                "a mixer reads the joint state of all agents, and this environment offers none; use vdn"
            )
        super().begin(host)
        agents, key = len(host.spaces.world.agents), host.key.derive("mixer")
        host.module.mixer = MonotoneMixer(agents, host.joint, self.width, key)
        host.module.slow_mixer = MonotoneMixer(agents, host.joint, self.width, key).requires_grad_(False)

    def config(self, host: PartHost) -> Mapping[str, Any]:
        return {"mixer": self.width}

    def _mixed(
        self, host: PartHost, table: Tensor, rows: EvaluatedRows, team: TeamRows, *, slow: bool = False
    ) -> Tensor:
        if not slow:
            return cast(
                Tensor, cast(nn.Module, host.module.mixer)(table, torch.from_numpy(rows.batch.joint[0])[team.moment])
            )
        return cast(Tensor, cast(nn.Module, host.module.slow_mixer)(table, rows.column(JOINT_THEN)[team.first]))
