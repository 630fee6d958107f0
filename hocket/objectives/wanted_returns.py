"""Losses of policies that are conditioned on a wanted return."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from hocket.core.policy_parts import PolicyPart
from hocket.objectives.aggregate import Aggregate
from hocket.objectives.likelihood import NegativeLogLikelihood


@dataclass(frozen=True)
class ConditionedLikelihood(NegativeLogLikelihood):
    """`NegativeLogLikelihood` of a policy that reads the return that is still wanted.

    Attributes:
        policy: the part of the policy that does.
    """

    aggregate: Aggregate = "token-mean"
    policy: PolicyPart = field(kw_only=True)

    learns_from_rows: ClassVar[bool] = True

    @property
    def policy_parts(self) -> tuple[PolicyPart, ...]:
        return (self.policy,)
