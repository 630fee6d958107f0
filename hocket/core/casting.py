"""Casts: which policy plays each role at a step, and which policies learn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

__all__ = ["Alternating", "Leading", "Separate", "Shared", "Swapping"]


class Cast(Protocol):
    """Which policy plays each role at a step, and which policies learn from it. A function of the step alone."""

    def policy(self, role: str) -> str | None:
        """The policy that plays `role` if no setting names one; None is the policy that such roles share."""
        ...

    def seats(self, usual: Mapping[str, str], step: int) -> Mapping[str, str]:
        """The policy of each role at `step` (counted from 1), from its usual policy; evaluation uses the usual ones."""
        ...

    def learning(self, policies: Sequence[str], step: int) -> frozenset[str]:
        """Which of the trained policies learn at `step`."""
        ...


@dataclass(frozen=True)
class Shared:
    """One policy plays all roles, with a different prompt for each; all policies learn at every step."""

    def policy(self, role: str) -> str | None:
        return None

    def seats(self, usual: Mapping[str, str], step: int) -> Mapping[str, str]:
        return usual

    def learning(self, policies: Sequence[str], step: int) -> frozenset[str]:
        return frozenset(policies)


@dataclass(frozen=True)
class Separate(Shared):
    """Every role has its own policy, named after the role."""

    def policy(self, role: str) -> str | None:
        return role


@dataclass(frozen=True)
class Swapping(Separate):
    """Rotates policies over roles: every `every` steps each role takes the next role's policy. CORY (arXiv 2410.06101).

    Attributes:
        roles: the roles that take part, in order; empty for all.
    """

    every: int = 5
    roles: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ValueError(f"cast.every must be at least 1, not {self.every}")

    def seats(self, usual: Mapping[str, str], step: int) -> Mapping[str, str]:
        roles = [role for role in usual if not self.roles or role in self.roles]
        shift = (step - 1) // self.every
        return {**usual, **{role: usual[roles[(n + shift) % len(roles)]] for n, role in enumerate(roles)}}


@dataclass(frozen=True)
class Alternating(Separate):
    """Policies learn in turn, each for `every` steps while the others only act: ReMA (arXiv 2503.09501).

    Attributes:
        first: steps at the beginning in which only the first policy of `order` learns.
        order: the order of the policies; empty takes the order of their roles.
        together: after `first` all learn at every step, as in the two stages of WaltzRL (arXiv 2510.08240).
    """

    every: int = 10
    first: int = 0
    order: tuple[str, ...] = ()
    together: bool = False

    def __post_init__(self) -> None:
        if self.every < 1 or self.first < 0:
            raise ValueError(f"cast.every must be at least 1 and cast.first at least 0, not {self.every}, {self.first}")

    def learning(self, policies: Sequence[str], step: int) -> frozenset[str]:
        order = [name for name in self.order if name in policies] or list(policies)
        if step <= self.first:
            return frozenset(order[:1])
        if self.together:
            return frozenset(policies)
        return frozenset({order[(step - 1 - self.first) // self.every % len(order)]})


@dataclass(frozen=True)
class Leading(Shared):
    """Only the leader learns; the policy `others`, a copy of the initial model, plays all other roles.

    MLPO (arXiv 2507.08960).
    """

    leader: str = "leader"
    others: str = "others"

    def policy(self, role: str) -> str | None:
        return self.leader if role == self.leader else self.others

    def learning(self, policies: Sequence[str], step: int) -> frozenset[str]:
        return frozenset(policies) & {self.leader} or frozenset(policies)
