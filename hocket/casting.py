"""Who plays which role, and who learns, as a run goes on: a cast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from hocket.keys import Key

__all__ = ["Alternating", "Leading", "PastSelves", "Separate", "Shared", "Swapping"]


class Cast(Protocol):
    """Which policy plays each role at a step, and which policies learn from it. A function of the step alone."""

    def policy(self, role: str) -> str | None:
        """The policy that plays `role` when no setting names one; None is the one that such roles share."""
        ...

    def seats(self, usual: Mapping[str, str], step: int) -> Mapping[str, str]:
        """The policy of each role at `step` (from 1), given who plays it usually; evaluation seats as usual."""
        ...

    def learning(self, policies: Sequence[str], step: int) -> frozenset[str]:
        """Which of the trained policies learn at `step`."""
        ...


@dataclass(frozen=True)
class Shared:
    """One policy plays all roles and is told them apart by its prompts; everybody learns at every step."""

    def policy(self, role: str) -> str | None:
        return None

    def seats(self, usual: Mapping[str, str], step: int) -> Mapping[str, str]:
        return usual

    def learning(self, policies: Sequence[str], step: int) -> frozenset[str]:
        return frozenset(policies)


@dataclass(frozen=True)
class Separate(Shared):
    """Every role has a policy of its own, called as the role."""

    def policy(self, role: str) -> str | None:
        return role


@dataclass(frozen=True)
class Swapping(Separate):
    """Every `every` steps each role goes to the policy that played the next one: CORY (arXiv 2410.06101).

    Attributes:
        roles: those that take part, in order; empty for all.
    """

    every: int = 5
    roles: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ValueError(f"cast.every must be at least 1, not {self.every}")

    def seats(self, usual: Mapping[str, str], step: int) -> Mapping[str, str]:
        roles = [role for role in usual if not self.roles or role in self.roles]
        turned = (step - 1) // self.every
        return {**usual, **{role: usual[roles[(n + turned) % len(roles)]] for n, role in enumerate(roles)}}


@dataclass(frozen=True)
class Alternating(Separate):
    """One policy learns for `every` steps while the others only act, then the next: ReMA (arXiv 2503.09501).

    Attributes:
        first: steps at the beginning in which only the first policy of `order` learns.
        order: the policies in turn; empty for all in the order of their roles.
        together: after `first` all learn at once, as in the two stages of WaltzRL (arXiv 2510.08240).
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
    """One role learns; a copy of the model as it was, called `others`, plays the rest: MLPO (arXiv 2507.08960)."""

    leader: str = "leader"
    others: str = "others"

    def policy(self, role: str) -> str | None:
        return self.leader if role == self.leader else self.others

    def learning(self, policies: Sequence[str], step: int) -> frozenset[str]:
        return frozenset(policies) & {self.leader} or frozenset(policies)


@dataclass(frozen=True)
class PastSelves:
    """In a share of the episodes a frozen past self of the policy sits in one seat, and only the others learn.

    Every `every` steps, and before the first one, a snapshot of each trained policy enters its pool. Guests drawn
    uniformly from a pool that is uniform over the past make the opponent of fictitious self-play (Heinrich et al. 2015;
    for learnt policies Bansal et al., arXiv 1710.03748). With `hardness` h it is prioritised (Vinyals et al. 2019):
    a snapshot against which the policy wins a share p of its games is drawn with weight (1 - p)^h.

    A game is won where the learning seats earned more per seat in their turns than the guests, a draw counts half, and
    a snapshot not met yet counts as drawn with. Games count less by the factor `decay` with every later one.

    Attributes:
        every: steps between snapshots. keep: the most snapshots of a policy, in memory and in checkpoints.
        share: of the episodes that have guests, each by a draw of its own.
        pool: who leaves a full pool: `latest`, the oldest; `reservoir`, as reservoir sampling draws it, so that the
            pool is a uniform sample of all snapshots so far.
        hardness: h above; 0 draws uniformly.
        guests: seats that past selves take, never all that learn; where only one role learns there are none.
        alike: whether the samples of a scenario meet the same guests, so that they are compared under equal terms.
        usual: who plays and learns apart from guests.
    """

    every: int = 10
    keep: int = 8
    share: float = 0.5
    pool: Literal["latest", "reservoir"] = "reservoir"
    hardness: float = 0.0
    guests: int = 1
    alike: bool = False
    decay: float = 0.99
    usual: Cast = Shared()

    def __post_init__(self) -> None:
        for name in ("every", "keep", "guests"):
            if getattr(self, name) < 1:
                raise ValueError(f"cast.{name} must be at least 1, not {getattr(self, name)}")
        for name in ("share", "decay"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"cast.{name} must be a share in [0, 1], not {getattr(self, name)}")
        if self.pool not in ("latest", "reservoir"):
            raise ValueError(f"cast.pool must be 'latest' or 'reservoir', not {self.pool!r}")
        if self.hardness < 0:
            raise ValueError(f"cast.hardness must be at least 0, not {self.hardness}")

    def policy(self, role: str) -> str | None:
        return self.usual.policy(role)

    def seats(self, usual: Mapping[str, str], step: int) -> Mapping[str, str]:
        return self.usual.seats(usual, step)

    def learning(self, policies: Sequence[str], step: int) -> frozenset[str]:
        return self.usual.learning(policies, step)

    def due(self, step: int) -> bool:
        """Whether snapshots enter before `step` (from 1)."""
        return (step - 1) % self.every == 0

    def place(self, entered: int, key: Key) -> int | None:
        """Which place of the pool the next snapshot takes after `entered` others; None where it does not enter."""
        if entered < self.keep:
            return entered
        if self.pool == "latest":
            return entered % self.keep
        drawn = int(key.numpy().integers(entered + 1))
        return drawn if drawn < self.keep else None

    def odds(self, won: Sequence[float]) -> list[float]:
        """How likely each snapshot is drawn, given the shares of games won against them."""
        weights = [(1.0 - share) ** self.hardness for share in won]
        whole = sum(weights)
        return [weight / whole for weight in weights] if whole > 0 else [1.0 / len(won)] * len(won)

    def visited(self, roles: Sequence[str], key: Key) -> list[str]:
        """The roles that guests take in an episode; none in the others."""
        rng = key.numpy()
        if rng.random() >= self.share:
            return []
        return [roles[place] for place in rng.permutation(len(roles))[: min(self.guests, len(roles) - 1)]]
