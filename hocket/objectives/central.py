"""Values of the joint state of all agents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hocket.core.policy_parts import CentralCritic, PolicyPart
from hocket.objectives.value import ValueLoss


@dataclass(frozen=True)
class CentralValueLoss(ValueLoss):
    """`ValueLoss` of a critic that reads the joint state of all agents beside what its agent sees.

    The critic is needed in training alone; who acts sees its own observation (centralised training with decentralised
    execution: Lowe et al., arXiv 1706.02275; the agent-specific global state of Yu et al., arXiv 2103.01955).
    """

    policy_parts: ClassVar[tuple[PolicyPart, ...]] = (CentralCritic(),)
