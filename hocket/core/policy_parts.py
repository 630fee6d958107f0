"""Parts that stages need their policy to have."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable


class PolicyPart(ABC):
    """Something that a policy must have for a stage to be itself: a frozen value, which stages list in `policy_parts`.

    Attributes:
        needed: what it is, in words. holders: which policies can have it, in the plural. advice: what to do instead.
    """

    needed: ClassVar[str]
    holders: ClassVar[str] = "control policies"
    advice: ClassVar[str]

    @abstractmethod
    def fits(self, policy: Any) -> bool:
        """Whether a policy of this kind can have it."""

    @abstractmethod
    def install(self, policy: Any) -> None:
        """Gives it to a policy; nothing where the policy has it. The learner calls it before `Policy.require`.

        Raises:
            ConfigurationError: where it does not go with what this policy reads, does or has.
        """


@runtime_checkable
class Centralises(Protocol):
    """A policy whose critic can read the joint state of all agents."""

    def centralise(self) -> None: ...


@dataclass(frozen=True)
class CentralCritic(PolicyPart):
    """The critic reads the joint state of all agents beside what its agent sees."""

    needed: ClassVar[str] = "a central critic, which reads the joint state of all agents"
    advice: ClassVar[str] = "use a recipe whose critic reads what its agent sees, such as ppo"

    def fits(self, policy: Any) -> bool:
        return isinstance(policy, Centralises)

    def install(self, policy: Any) -> None:
        policy.centralise()
