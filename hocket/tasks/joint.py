"""Worlds of several agents as tasks: a scenario is a reset seed, and the world's rewards verify it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from hocket.core.batch import Level
from hocket.core.components import has_path
from hocket.core.errors import ConfigurationError
from hocket.core.worlds import BestValue, JointWorld, Plane, Ranges, Slots
from hocket.stages import Reward, Split
from hocket.tasks.gym import ACTOR_CRITIC, GROUPED, at_critic, critic_credit
from hocket.types import Scenario, Trajectory


@dataclass(frozen=True)
class PolicySpaces:
    """The spaces of one policy of a joint task; see `hocket.policies.spaces.Spaces`."""

    observations: int
    actions: int
    discrete: bool
    joint: int
    shape: tuple[int, ...] = ()
    action_form: Any = None
    sight_form: Any = None
    slots: Slots | None = None
    plane: Plane | None = None
    ranges: Ranges = ()
    joint_ranges: Ranges = ()
    world: JointWorld | None = field(default=None, compare=False)
    choices: tuple[int, ...] = ()


@dataclass(frozen=True)
class JointTask:
    """Episodes of a joint world.

    Scenario n resets with seed 2n in training and 2n + 1 in evaluation, without end. Success is the mean of the agents'
    undiscounted returns, which for one agent is its return.

    Attributes:
        world: the world. identified: whether agents that share a policy are distinguished by a one-hot number.
        suggested: settings for this world, which replace those for control in general.
    """

    world: JointWorld
    identified: bool = True
    suggested: Mapping[str, Any] | None = None

    @property
    def name(self) -> str:
        return self.world.name

    @property
    def kind(self) -> Literal["control"]:
        return "control"

    @property
    def remarks(self) -> Sequence[str]:
        """What a person should know before a run."""
        return tuple(getattr(self.world, "remarks", ()))

    # ------------------------------------------------------------ scenarios

    @property
    def leads(self) -> str:
        """The world's way of playing whose figures are reported; both are measured."""
        return getattr(self.world, "leads", "greedy")

    def size(self, split: Split) -> int | None:
        return None

    def scenario(self, split: Split, number: int) -> Scenario:
        seed = 2 * (number % 2**30) + (split == "eval")
        environment = self.name.partition(":")[2] or self.name
        return Scenario(id=f"{environment}/{seed}", seed=seed, metadata={"environment": environment})

    @property
    def rewards(self) -> Sequence[Reward]:
        return ()

    def success(self, trajectory: Trajectory) -> float:
        """The mean over agents of the undiscounted return."""
        score = trajectory.scores.get("reward")
        earned = 0.0 if score is None else float(np.sum(np.asarray(score.value, dtype=np.float64)))
        return earned / len(self.world.agents)

    def oracle(self, scenario: Scenario) -> BestValue | None:
        """The best success of a scenario, or a bound; None where the world does not know."""
        known: Callable[[int], BestValue] | None = getattr(self.world, "oracle", None)
        return None if known is None or scenario.seed is None else known(scenario.seed)

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """`truncated`: whether a limit of time ended the part of some agent."""
        return {"truncated": float(trajectory.truncated)}

    # ------------------------------------------------------------ who plays

    def spaces(self, members: Sequence[str]) -> PolicySpaces:
        """The observations and actions of a policy that plays these agents.

        Raises:
            ConfigurationError: for agents with different observations or actions.
        """
        of = dict(zip(self.world.agents, self.world.seats, strict=True))
        first = of[members[0]]
        other = next((agent for agent in members if of[agent] != first), None)
        if other is not None:
            raise ConfigurationError(
                f"task {self.name}: agents {members[0]} and {other} cannot share a policy, for one sees "
                f"{first.observations} numbers and has {first.actions} actions, the other {of[other].observations} and "
                f"{of[other].actions}; give each its own with --cast separate"
            )
        identities = len(members) if self.identified and len(members) > 1 else 0
        return PolicySpaces(
            first.observations + identities,
            first.actions,
            first.discrete,
            self.world.joint,
            first.shape,
            first.action_form,
            first.sight_form,
            first.slots,
            first.plane,
            first.ranges,
            getattr(self.world, "joint_ranges", ()),
            self.world,
            first.choices,
        )

    # ------------------------------------------------------------ settings

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        """Settings with which a recipe learns small worlds within a minute or two."""
        place = critic_credit(recipe)
        stated = {**(GROUPED if place is None else ACTOR_CRITIC), **(self.suggested or {})}
        chosen = stated if place is None else at_critic(place, stated)
        settings = {key: value for key, value in chosen.items() if "." not in key or _known(recipe, key)}
        if recipe.store is not None:  # Each decision is learnt from many times, by mini-batches of the store's.
            mine = {key: value for key, value in settings.items() if not key.startswith("update.")}
            return {**mine, "curriculum.prompts": 4, "rollout.samples": 1}
        return {**settings, "update.minibatches": 1} if recipe.couples is Level.BATCH else settings


def _known(recipe: Any, key: str) -> bool:
    slots = ("curriculum", "rollout", "credit", "objective", "update")
    return key.split(".")[0] not in slots or has_path(recipe, key)
