"""Parts that stages need their policy to have."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable


class PolicyPart(ABC):
    """A part that a stage needs its policy to have: a frozen value, which stages list in `policy_parts`.

    Attributes:
        needed: the part, in words. holders: the policies that can have it, in the plural. advice: the alternative.
        All three are texts of the error message for a policy that cannot have it.
    """

    needed: ClassVar[str]
    holders: ClassVar[str] = "control policies"
    advice: ClassVar[str]

    @abstractmethod
    def fits(self, policy: Any) -> bool:
        """Whether a policy of this kind can have it."""

    @abstractmethod
    def install(self, policy: Any) -> None:
        """Adds the part to a policy, unless the policy has it already. The learner calls it before `Policy.require`.

        Raises:
            ConfigurationError: when it is incompatible with this policy.
        """


@runtime_checkable
class Centralises(Protocol):
    """A policy whose critic can read the joint state of all agents."""

    def centralise(self) -> None: ...


@dataclass(frozen=True)
class CentralCritic(PolicyPart):
    """A critic that reads the joint state of all agents beside its agent's observation."""

    needed: ClassVar[str] = "a central critic, which reads the joint state of all agents"
    advice: ClassVar[str] = "use a recipe whose critic reads what its agent sees, such as ppo"

    def fits(self, policy: Any) -> bool:
        return isinstance(policy, Centralises)

    def install(self, policy: Any) -> None:
        policy.centralise()
