"""Action values whose policy is their softmax: soft double Q-learning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn

from hocket.core.stored_rows import ALLOWED_THEN
from hocket.policies.action_values import ValuePart, backed_up, following, slow_copy
from hocket.policies.control_heads import NEVER, Categorical
from hocket.policies.control_parts import EvaluatedRows, Links, PartHost
from hocket.types import Quantity


class Twins(nn.Module):
    """Two networks that read the same; `[B, 2, A]`."""

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first, self.second = first, second

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([self.first(x), self.second(x)], 1)


@dataclass(frozen=True)
class SoftChoosing:
    """An `ActionForm` of one of several choices, by the softmax of the mean of two values over a temperature."""

    choices: int
    temperature: float

    draws: ClassVar[int] = 1

    def actor(self, link: Links) -> nn.Module:
        return Twins(link(self.choices, "actor", 0), link(self.choices, "twin", 0))

    def head(self, outputs: Tensor, actor: nn.Module, allowed: Tensor | None, taken: Tensor | None) -> Categorical:
        logits = outputs.mean(1) / self.temperature
        return Categorical(logits if allowed is None else logits.masked_fill(~allowed, NEVER))

    def config(self) -> Mapping[str, Any]:
        return {"soft_values": self.temperature}


@dataclass(frozen=True)
class SoftChoiceValues(ValuePart):
    """The actor is two networks of action values, acted on by the softmax of their mean; both have a slow copy.

    The backup is the mean over the policy of the smaller slow value less the temperature times the log-prob.

    Attributes:
        temperature: of the softmax and of the entropy, which makes the one the best policy for the other.
    """

    temperature: float = 0.1

    needed: ClassVar[str] = "a value for each of several choices"
    groups: ClassVar[Mapping[str, str]] = {"slow": "slow"}
    slow: ClassVar[Mapping[str, str]] = {"slow": "actor"}
    quantities: ClassVar[frozenset[Quantity]] = frozenset({Quantity.ACTION_VALUE, Quantity.BACKUP})

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise ValueError(f"temperature must be positive, not {self.temperature}")

    def begin(self, host: PartHost) -> None:
        self._check(host, discrete=True)
        host.action_form = SoftChoosing(host.actions, self.temperature)
        host.remake_actor()
        host.module.slow = slow_copy(host.module.actor)

    def evaluated(self, host: PartHost, wanted: frozenset[Quantity], rows: EvaluatedRows) -> Mapping[Quantity, Tensor]:
        quantities: dict[Quantity, Tensor] = {}
        if Quantity.ACTION_VALUE in wanted:
            place = rows.action.long()[:, None, None].expand(-1, 2, 1)
            quantities[Quantity.ACTION_VALUE] = rows.outputs.gather(2, place).squeeze(2)
        if Quantity.BACKUP in wanted:
            with torch.no_grad():
                quantities[Quantity.BACKUP] = backed_up(rows, self.soft_value(host, rows))
        return quantities

    def soft_value(self, host: PartHost, rows: EvaluatedRows) -> Tensor:
        """Of the state that follows, `[K]`."""
        later, form = following(host, rows), cast(SoftChoosing, host.action_form)
        allowed = rows.column(ALLOWED_THEN) if ALLOWED_THEN.name in rows.batch.annotations else None
        head = form.head(host.module.actor(later), host.module.actor, allowed, None)
        value: Tensor = cast(nn.Module, host.module.slow)(later).amin(1)
        logp = torch.log_softmax(head.logits, -1)
        return (logp.exp() * (value - self.temperature * logp)).sum(1)
