"""Pictures of two handwritten digits, asked for with their strokes, and read by judges that the generator never saw."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.options import checked
from hocket.methods.generative.ar_grpo.codes import ORDERS, SIDE, Order
from hocket.stages import Reward, Split
from hocket.tasks.form import TaskForm
from hocket.tasks.handwriting import Part, digits, judge
from hocket.tasks.text import check_number
from hocket.types import Scenario, Trajectory

_EVAL_SHARE = 5
"""One in so many of the 400 prompts is for evaluation."""
STROKES = ("thin", "bold")


def halves(pictures: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """The digits `[B, 2, 64]` of pictures `[B, 128]` in [-1, 1], in [0, 16]."""
    grid = ((pictures.astype(np.float64) + 1.0) * 8.0).clip(0.0, 16.0).reshape(-1, SIDE, 2, SIDE)
    return grid.transpose(0, 2, 1, 3).reshape(-1, 2, SIDE * SIDE)


@functools.cache
def usual_ink(part: Part) -> NDArray[np.float64]:
    """The median ink of each digit in a part, `[10]`."""
    data = digits(part)
    return np.array([np.median(data.pixels[data.label == label].sum(1)) for label in range(10)])


@dataclass(frozen=True)
class RightDigits(Reward):
    """The share of digits that the judge reads as asked."""

    name: str = "digits"
    weight: float = 1.0
    outside: ClassVar[bool] = False
    reads_metadata: ClassVar[frozenset[str]] = frozenset({"digits"})

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float]:
        return [float(right(trajectory, "judge").mean()) for trajectory in trajectories]


@dataclass(frozen=True)
class RightStrokes(Reward):
    """The share of digits with more ink than usual where bold ones were asked for, and with less where thin ones."""

    name: str = "strokes"
    weight: float = 0.5
    outside: ClassVar[bool] = False
    reads_metadata: ClassVar[frozenset[str]] = frozenset({"digits", "bold"})

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float]:
        return [float(stroked(trajectory, "judge").mean()) for trajectory in trajectories]


@dataclass(frozen=True)
class Realism(Reward):
    """How near the judge's handwriting is to the drawn digits: the mean of 1 - d / d_0, at least 0.

    d is the squared distance to the nearest digit, and d_0 beyond which the judge reads nothing.
    """

    name: str = "realism"
    weight: float = 0.5
    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float]:
        reader = judge("judge")
        shown = np.concatenate([_halves_of(trajectory) for trajectory in trajectories])
        squares = np.square(shown).sum(1)[:, None] + np.square(reader.pixels).sum(1) - 2.0 * shown @ reader.pixels.T
        near = (1.0 - squares.min(1) / reader.farthest).clip(0.0, 1.0)
        return [float(pair.mean()) for pair in near.reshape(-1, 2)]


class DigitTokens:
    """Prompts such as `thin 3 left, bold 7 right`. Success, by a judge that no reward knows, is both digits as asked.

    Attributes:
        order: of tokens, see `hocket.methods.generative.ar_grpo.codes`.
    """

    kind: Any = "hocket.methods.generative.ar_grpo.kind:TOKEN_PAINTING"
    rewards: Sequence[Reward] = (RightDigits(), RightStrokes())
    picture = (SIDE, 2 * SIDE)
    """Rows and columns of what is drawn, for pages."""

    def __init__(self, order: Order = "raster") -> None:
        if order not in ORDERS:
            raise ConfigurationError(f"task digit-tokens: order = {order!r}; choose from {', '.join(ORDERS)}")
        self.order = order
        self.name = "digit-tokens" + (f"?order={order}" if order != "raster" else "")

    def size(self, split: Split) -> int | None:
        return None

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        rng = Key.of(0).derive("digit-tokens", split, number).numpy()
        while True:
            digit, bold = rng.integers(0, 10, 2).tolist(), rng.integers(0, 2, 2).tolist()
            labels = [1 + 2 * value + stroke for value, stroke in zip(digit, bold, strict=True)]
            if (Key.of(labels[0] * 100 + labels[1]).derive("digit-tokens").word % _EVAL_SHARE == 0) == (
                split == "eval"
            ):
                break
        phrases = zip(bold, digit, ("left", "right"), strict=True)
        prompt = ", ".join(f"{STROKES[stroke]} {value} {side}" for stroke, value, side in phrases)
        metadata = {"digits": digit, "bold": bold, "labels": labels}
        return Scenario(f"digit-tokens/{split}/{number}", prompt, metadata=metadata, seed=number)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        if self.order == "raster":
            return {"steps": 40, "curriculum.prompts": 16, "rollout.samples": 8, "decoding.guidance": 1.5}
        return {"steps": 40, "curriculum.prompts": 32, "rollout.samples": 8}

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """Shares of digits and of strokes as asked."""
        return {
            "digits": float(right(trajectory, "evaluate").mean()),
            "strokes": float(stroked(trajectory, "evaluate").mean()),
        }

    def success(self, trajectory: Trajectory) -> float:
        return float(right(trajectory, "evaluate").all())


def right(trajectory: Trajectory, part: Part) -> NDArray[np.bool_]:
    """Which digits a part's judge reads as asked, `[2]`."""
    result: NDArray[np.bool_] = judge(part).read(_halves_of(trajectory)) == trajectory.scenario.metadata["digits"]
    return result


def stroked(trajectory: Trajectory, part: Part) -> NDArray[np.bool_]:
    """Which digits have ink as asked, by what is usual in a part, `[2]`; a digit that is not read has not."""
    metadata = trajectory.scenario.metadata
    more = _halves_of(trajectory).sum(1) > usual_ink(part)[metadata["digits"]]
    result: NDArray[np.bool_] = (more == np.array(metadata["bold"], bool)) & (
        judge(part).read(_halves_of(trajectory)) >= 0
    )
    return result


def _halves_of(trajectory: Trajectory) -> NDArray[np.float64]:
    if trajectory.final_state is None:
        return np.zeros((2, SIDE * SIDE))
    result: NDArray[np.float64] = halves(np.asarray(trajectory.final_state)[None])[0]
    return result


def from_settings(name: str, settings: Mapping[str, str]) -> DigitTokens:
    """The task with these settings."""
    return DigitTokens(**checked(name, settings, {"order": str}))


DIGIT_TOKENS = TaskForm(
    name="digit-tokens",
    description="pictures of two handwritten digits as tokens, e.g. digit-tokens?order=scales",
    make=from_settings,
)
"""The task of generators of picture tokens."""
