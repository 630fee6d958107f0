"""Recorded responses, shortened to the length that a model can read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from hocket.core.errors import ConfigurationError, nearest
from hocket.core.media import FIRST
from hocket.types import Turn

Truncate = Literal["refuse", "start", "end"]


@dataclass(frozen=True)
class Fit:
    """The treatment of examples that are longer than the model's context.

    Attributes:
        truncate: `refuse` it; or leave out tokens at the `start` of the prompt; or at the `end` of the response, which
            then has no end of turn.
        max_length: the most tokens of prompt and response together; None is the model's context.

    Raises:
        ValueError: for a length below 2, or something else to do.
    """

    truncate: Truncate = "refuse"
    max_length: int | None = None

    def __post_init__(self) -> None:
        if self.truncate not in get_args(Truncate):
            raise ValueError(f"truncate = {self.truncate!r}{nearest(str(self.truncate), get_args(Truncate))}")
        if self.max_length is not None and self.max_length < 2:
            raise ValueError(f"max_length must be at least 2 tokens, not {self.max_length}")

    def limit(self, context: int | None) -> int | None:
        """The most tokens of an example for a model with this context; None is no limit."""
        known = [length for length in (self.max_length, context) if length is not None]
        return min(known, default=None)

    def __call__(self, turns: Sequence[Turn], context: int | None, name: str) -> list[Turn]:
        """The turns of one example, in order, shortened in place where they are too long.

        Raises:
            ConfigurationError: when they are too long and may not be shortened, or nothing would remain.
        """
        limit = self.limit(context)
        if limit is None:
            return list(turns)
        length = max(map(_length, turns))
        if length <= limit:
            return list(turns)
        problem = f"{name} has {length} tokens, more than the {limit} that fit"
        if self.truncate == "refuse":
            raise ConfigurationError(
                f"{problem}; shorten it, or set truncate=end or truncate=start behind the task's name"
            )
        cut = self._from_start if self.truncate == "start" else self._to_end
        return cut(turns, limit, problem)

    def _from_start(self, turns: Sequence[Turn], limit: int, problem: str) -> list[Turn]:
        # Turns that open a separate context are shortened separately.
        excess: dict[int, int] = {}
        roots = [turn.context()[0] for turn in turns]
        for root, turn in zip(roots, turns, strict=True):
            excess[id(root)] = max(excess.get(id(root), 0), _length(turn) - limit)
        for root in {id(root): root for root in roots}.values():
            if excess[id(root)] >= len(root.observation):
                raise ConfigurationError(f"{problem}, and without its prompt too; set truncate=end")
            if excess[id(root)] > 0 and (root.observation >= FIRST).any():
                raise ConfigurationError(f"{problem}, and a prompt with pictures is never cut; set truncate=end")
            root.observation = root.observation[max(0, excess[id(root)]) :]
        return list(turns)

    def _to_end(self, turns: Sequence[Turn], limit: int, problem: str) -> list[Turn]:
        fitting: list[Turn] = []
        for turn in turns:
            room = limit - (_length(turn) - len(turn.action))
            if room < len(turn.action):
                if room > 0:
                    turn.action, turn.finish = turn.action[:room], "length"
                    fitting.append(turn)
                break
            fitting.append(turn)
        if not fitting:
            raise ConfigurationError(f"{problem}, and its prompt alone fills them; set truncate=start")
        return fitting


def _length(turn: Turn) -> int:
    """The number of tokens up to the end of a turn, context included."""
    return sum(len(part.observation) + len(part.action) for part in turn.context())
