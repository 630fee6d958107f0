"""The value loss of a central critic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hocket.core.policy_parts import CentralCritic, PolicyPart
from hocket.objectives.value import ValueLoss


@dataclass(frozen=True)
class CentralValueLoss(ValueLoss):
    """`ValueLoss` of a critic that reads the joint state of all agents beside its agent's observation.

    The critic is used in training only; actors read their own observations (centralised training with decentralised
    execution: Lowe et al., arXiv 1706.02275; the agent-specific global state of Yu et al., arXiv 2103.01955).
    """

    policy_parts: ClassVar[tuple[PolicyPart, ...]] = (CentralCritic(),)
