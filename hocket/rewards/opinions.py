"""Opinions: the checked result of a reward, one number or no opinion per trajectory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from hocket.core.errors import HocketError


class RewardError(HocketError):
    """A reward that cannot be used: it has never worked, or it does not return a list of numbers."""


class Opinions(list[float | None]):
    """One number per trajectory, None where there is no opinion.

    Attributes:
        feedback: one sentence or None per trajectory, such as why there is no opinion.
        problems: sentences for the person who runs the training; empty when all went well.
    """

    def __init__(
        self,
        values: Iterable[float | None],
        feedback: Sequence[str | None] | None = None,
        problems: Sequence[str] = (),
    ) -> None:
        super().__init__(values)
        self.feedback: list[str | None] = list(feedback) if feedback is not None else [None] * len(self)
        self.problems: tuple[str, ...] = tuple(problems)

    @classmethod
    def none(cls, count: int, problem: str) -> Opinions:
        """No opinion on any of `count` trajectories, and why."""
        return cls([None] * count, [problem] * count, [problem])


def opinions_of(returned: Any, count: int, label: str) -> Opinions:
    """Checks what the reward called `label` returned for `count` trajectories.

    Lists, tuples and one-dimensional arrays or tensors of numbers (booleans included) and None are accepted. NaN and
    infinities become None, with a problem.

    Raises:
        RewardError: for any other type, the wrong number of values, or a value that is no number.
    """
    if isinstance(returned, Opinions) and len(returned) == count:
        return returned
    values = _listed(returned, count, label)
    if len(values) != count:
        raise RewardError(f"reward {label} returned {len(values)} values for {count} completions; return one for each")
    numbers = [_number(value, place, label) for place, value in enumerate(values)]
    wrong = [place for place, number in enumerate(numbers) if number is not None and not math.isfinite(number)]
    if not wrong:
        return Opinions(numbers)
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    sentence = f"reward {label} returned {numbers[wrong[0]]} for completion {wrong[0]}{more}; this counts as no opinion"
    feedback = [sentence if place in wrong else None for place in range(count)]
    return Opinions([None if place in wrong else n for place, n in enumerate(numbers)], feedback, [sentence])


def _listed(returned: Any, count: int, label: str) -> list[Any]:
    """The values as a list, if they are one."""
    if hasattr(returned, "tolist") and getattr(returned, "ndim", 0) == 1:
        returned = returned.tolist()
    if isinstance(returned, (list, tuple)):
        return list(returned)
    kind = "None" if returned is None else f"a {type(returned).__name__}"
    raise RewardError(f"reward {label} returned {kind}; return a list with one number per completion ({count} here)")


def _number(value: Any, place: int, label: str) -> float | None:
    if value is None:
        return None
    if not isinstance(value, (str, bytes, complex)):
        try:
            return float(value)
        except OverflowError:
            return math.inf
        except (TypeError, ValueError):
            pass
    shown = repr(value)
    shown = shown if len(shown) <= 40 else f"{shown[:37]}..."
    raise RewardError(
        f"reward {label} returned the {type(value).__name__} {shown} for completion {place}; return numbers or None"
    )
