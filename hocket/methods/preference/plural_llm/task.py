"""Opinion polls: questions with options, groups of people who like them to different shares. Data for scorers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.options import checked
from hocket.stages import Split
from hocket.tasks.form import TaskForm
from hocket.tasks.text import TextTask, check_number
from hocket.types import Scenario

LETTERS = "abcdefgh"
SHARPNESS = 0.6
"""How much a point of an option's merit moves the log of its share."""

SPREAD = 0.75 * np.pi
"""The angle between the weights of the first and the last group."""


class Opinions(TextTask):
    """Options with two merits from 0 to 9, and the shares of a group that choose each.

    A group weighs the two merits in its own way: the angles of the groups' weights lie evenly over `SPREAD` around
    equal weights, so that neighbours nearly agree, and the outermost dislike one of the merits. Shares are a softmax of
    the weighted merits. The prompt names the group, and tells what it chose in `shown` other polls.

    A scenario's metadata tell `responses`, the options' letters, `scores`, their shares, and `group`.

    Args:
        groups: how many there are. group: whose answers they are, from 0; None takes all in turn.
        options: of a poll. shown: polls in the prompt. size: training polls of a group; None for no end.
    """

    def __init__(
        self, groups: int = 6, group: int | None = None, options: int = 3, shown: int = 1, size: int | None = 200
    ) -> None:
        if not 1 <= groups <= len(LETTERS) or (group is not None and not 0 <= group < groups):
            raise ConfigurationError(
                f"task opinions: groups must lie in [1, {len(LETTERS)}] and group be one of them from 0, not {groups} "
                f"and {group}"
            )
        if not 2 <= options <= len(LETTERS) or shown < 0 or (size is not None and size < 1):
            raise ConfigurationError(
                f"task opinions: options must lie in [2, {len(LETTERS)}], shown be at least 0 and size at least 1, not "
                f"{options}, {shown} and {size}"
            )
        self.name = "opinions" if group is None else f"opinions?group={group}"
        self.groups, self.group, self.options, self.shown, self.count = groups, group, options, shown, size

    def size(self, split: Split) -> int | None:
        if self.count is None or split != "train":
            return None
        return self.count * (self.groups if self.group is None else 1)

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number, self.size(split))
        whose, place = (self.group, number) if self.group is not None else (number % self.groups, number // self.groups)
        rng = Key.of(0).derive("opinions", split, whose, place).numpy()
        lines = []
        for _ in range(self.shown):
            merits, shares = self._poll(whose, rng)
            lines.append(f"{_asked(merits)}={LETTERS[int(shares.argmax())]}")
        merits, shares = self._poll(whose, rng)
        told: dict[str, Any] = {
            "responses": list(LETTERS[: self.options]),
            "scores": shares.tolist(),
            "group": str(whose),
        }
        prompt = " ".join([f"group {LETTERS[whose] * 3}:", *lines, f"{_asked(merits)}="])
        return Scenario(f"opinions/{split}/{whose}/{place}", prompt, LETTERS[int(shares.argmax())], told, seed=number)

    def _poll(self, group: int, rng: np.random.Generator) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Merits `[options, 2]` and the group's shares `[options]`."""
        merits = rng.integers(0, 10, size=(self.options, 2))
        angle = SPREAD * (group / max(1, self.groups - 1) - 0.5) + np.pi / 4
        liked = SHARPNESS * (merits @ np.array([np.cos(angle), np.sin(angle)]))
        shares = np.exp(liked - liked.max())
        return merits, shares / shares.sum()

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 4, "rollout.separator": ""}

    def verify(self, text: str, scenario: Scenario) -> float:
        return float(text.strip() == scenario.answer)


def _asked(merits: np.ndarray[Any, Any]) -> str:
    return ",".join(f"{first}{second}" for first, second in merits.tolist())


def from_settings(name: str, settings: Mapping[str, str]) -> Opinions:
    """The task with these settings."""
    types = {"groups": int, "group": int | None, "options": int, "shown": int, "size": int | None}
    return Opinions(**checked(name, settings, types))


OPINIONS = TaskForm(
    name="opinions",
    description="polls with the shares of groups that differ: data for scorers, e.g. opinions?group=2",
    make=from_settings,
)
