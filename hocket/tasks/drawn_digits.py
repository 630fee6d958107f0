"""Pictures of four handwritten digits, asked for in words and read by judges that never saw the generator's digits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from hocket.core.keys import Key
from hocket.core.options import checked
from hocket.stages import Reward, Split
from hocket.tasks.form import TaskForm
from hocket.tasks.handwriting import NOTHING, PLACES, SIDE, Part, judge, quarters
from hocket.tasks.text import check_number
from hocket.types import Scenario, Trajectory

_EVAL_SHARE = 5
"""One in so many of the ten thousand prompts is for evaluation."""


def readings(pictures: NDArray[np.floating[Any]], part: Part) -> NDArray[np.int64]:
    """The digits that a part's judge reads in the quarters of pictures `[B, 256]`, `[B, 4]`; -1 where it reads none."""
    return judge(part).read(quarters(pictures).reshape(-1, SIDE * SIDE)).reshape(-1, len(PLACES))


@dataclass(frozen=True)
class DrawingReward(Reward):
    """The share of quarters in which the judge reads the digit that was asked for.

    What is empty, smeared or not finite is read as nothing, so it earns nothing.
    """

    name: str = "digits"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float]:
        return [float(np.mean(_right(trajectory, "judge"))) for trajectory in trajectories]


class DrawnDigits:
    """Prompts such as `3 top left, 7 top right, 0 bottom left, 9 bottom right`; see `hocket.tasks.handwriting`.

    The reward is the judge's; success is what another judge reads, made from the digits for evaluation, which no reward
    knows. It is strict: all four digits are read as asked. Training and evaluation ask for different fours.
    """

    name = "drawn-digits"
    kind: Any = "pictures"
    rewards: Sequence[Reward] = (DrawingReward(),)
    picture = (2 * SIDE, 2 * SIDE)
    """Rows and columns of what is drawn, for pages."""

    def size(self, split: Split) -> int | None:
        return None

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        rng = Key.of(0).derive(self.name, split, number).numpy()
        while True:
            labels = rng.integers(0, 10, len(PLACES)).tolist()
            if _split_of(labels) == split:
                break
        prompt = ", ".join(f"{label} {place}" for label, place in zip(labels, PLACES, strict=True))
        return Scenario(f"{self.name}/{split}/{number}", prompt, metadata={"digits": labels}, seed=number)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {"model": "nano-flow", "steps": 60, "curriculum.prompts": 16, "rollout.samples": 8}

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """`quarters`: the share of quarters that are right; `unreadable`: of those in which there is no digit."""
        right, read = _right(trajectory, "evaluate"), _read(trajectory, "evaluate")
        return {"quarters": float(np.mean(right)), "unreadable": float(np.mean(read == NOTHING))}

    def success(self, trajectory: Trajectory) -> float:
        return float(np.all(_right(trajectory, "evaluate")))


def _split_of(labels: Sequence[int]) -> Literal["train", "eval"]:
    number = int("".join(map(str, labels)))
    return "eval" if Key.of(number).derive("drawn-digits").word % _EVAL_SHARE == 0 else "train"


def _read(trajectory: Trajectory, part: Part) -> NDArray[np.int64]:
    """What a part's judge reads in a picture, `[4]`."""
    picture = trajectory.final_state
    return np.full(len(PLACES), NOTHING) if picture is None else readings(np.asarray(picture)[None], part)[0]


def _right(trajectory: Trajectory, part: Part) -> NDArray[np.bool_]:
    result: NDArray[np.bool_] = _read(trajectory, part) == np.array(trajectory.scenario.metadata["digits"])
    return result


def from_settings(name: str, settings: Mapping[str, str]) -> DrawnDigits:
    """The task; it has no settings."""
    checked(name, settings, {})
    return DrawnDigits()


DRAWN_DIGITS = TaskForm(
    name="drawn-digits",
    description="pictures of four handwritten digits, e.g. '3 top left, 7 top right, 0 bottom left, 9 bottom right'",
    family="pictures",
    make=from_settings,
)
"""The task of samplers of pictures."""
