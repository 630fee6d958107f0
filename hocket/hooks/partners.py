"""Scripted partners in the seats of a joint world."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.hooks.control_selves import SeatsPolicies, seated, seats_of
from hocket.stages import Hook, HookContext, Player


@dataclass(frozen=True)
class ScriptedRule(ABC):
    """A rule that plays a seat whose actions are one of several choices. A subclass gives the odds of each.

    Attributes:
        choices: how many there are.
    """

    choices: int = 2

    @abstractmethod
    def odds(self, observations: NDArray[np.float32]) -> NDArray[np.float64]:
        """The odds of every choice, `[B, choices]`, where `[B, O]` is seen."""

    @property
    def name(self) -> str:
        """What its turns say."""
        settings = ",".join(str(value) for value in vars(self).values())
        return f"{type(self).__name__}({settings})"

    @property
    def version(self) -> int:
        return 0

    @property
    def draws(self) -> int:
        return 1

    def sample(
        self,
        observations: NDArray[np.float32],
        uniforms: NDArray[np.float64],
        temperature: NDArray[np.float32],
        allowed: NDArray[np.bool_] | None = None,
        **_: Any,
    ) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """Actions `[B]` and their log-probs `[B]`; of forbidden actions none is taken."""
        odds = self.odds(observations)
        if allowed is not None:
            odds = np.where(allowed, odds + 1e-12, 0.0)
        mass = odds.cumsum(1)
        action = (uniforms[:, :1] * mass[:, -1:] >= mass).sum(1).clip(max=odds.shape[1] - 1)
        share = odds[np.arange(len(action)), action] / mass[:, -1]
        return action, np.log(share).astype(np.float32)


@dataclass(frozen=True)
class FixedAction(ScriptedRule):
    """Takes one action, or with the chance `slip` any.

    Attributes:
        action: its number.
    """

    action: int = 0
    slip: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.action < self.choices or not 0 <= self.slip <= 1:
            raise ValueError(f"action must be one of {self.choices} and slip a chance in [0, 1], not {self}")

    def odds(self, observations: NDArray[np.float32]) -> NDArray[np.float64]:
        row = np.full(self.choices, self.slip / self.choices)
        row[self.action] += 1 - self.slip
        return np.tile(row, (len(observations), 1))


@dataclass(frozen=True)
class Copying(ScriptedRule):
    """Takes the action that stands one-hot at place `at` of what it sees, or `first` where none stands there.

    In `dilemma:GAME` with `choices` moves the other player's last one stands at place `choices`: tit for tat.
    """

    at: int = 2
    first: int = 0
    slip: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.first < self.choices or self.at < 0 or not 0 <= self.slip <= 1:
            raise ValueError(f"first must be one of {self.choices}, at >= 0 and slip in [0, 1], not {self}")

    def odds(self, observations: NDArray[np.float32]) -> NDArray[np.float64]:
        shown = np.asarray(observations[:, self.at : self.at + self.choices], np.float64)
        if shown.shape[1] < self.choices:
            raise ConfigurationError(
                f"{self.name} reads {self.choices} numbers from place {self.at}, and its seat sees "
                f"{observations.shape[1]}; set at and choices for this task"
            )
        none = shown.sum(1) == 0
        shown[none, self.first] = 1.0
        return shown * (1 - self.slip) + self.slip / self.choices


@dataclass(frozen=True)
class ScriptedPartners(Hook):
    """In a share of the steps a scripted partner, drawn evenly, takes a seat of every game; the others learn.

    Attributes:
        partners: who is drawn. share: of the steps.
    """

    partners: tuple[ScriptedRule, ...] = field(default=())
    share: float = 0.5

    def __post_init__(self) -> None:
        if not self.partners:
            raise ValueError(
                "partners is empty; name at least one, such as {type: hocket.hooks.FixedAction, action: 0}"
            )
        if not 0 <= self.share <= 1:
            raise ValueError(f"share must be a share in [0, 1], not {self.share}")

    def check(self, run: HookContext) -> None:
        super().check(run)
        if not isinstance(run.player, SeatsPolicies) or len(run.player.seats) < 2:
            raise ConfigurationError(
                f"ScriptedPartners of recipe {run.method} takes a seat beside others, and task {run.task.name} has no "
                "seats for several; choose a joint world such as dilemma:prisoners"
            )

    def seat(self, player: Player, run: HookContext, step: int, memory: Any) -> Player:
        """The player with a partner in one seat, in its share of the steps."""
        rng = run.key.derive("partner", step).numpy()
        if not isinstance(player, SeatsPolicies) or rng.random() >= self.share:
            return player
        agents = [agent for held in seats_of(player, run.trained).values() for agent in held]
        if len(agents) < 2:  # A past self sits there, and somebody has to learn.
            return player
        partner = self.partners[int(rng.integers(len(self.partners)))]
        return seated(player, {partner.name: partner}, {agents[int(rng.integers(len(agents)))]: partner.name})
