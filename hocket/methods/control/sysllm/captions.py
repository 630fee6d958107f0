"""Recorded episodes in words: a line for every decision, of what was seen, what was done, what came of it and its pay.

    door e, lava s, red key ne; goes north; takes the red key; +0.49

A line is read back as it was written (`Step.read`), so whoever has the text has the record. What puts an environment
into words is its `Captions`: a world's own (`captions`, see `hocket.methods.control.sysllm.keys`), those that this
module knows of Gymnasium's, or the numbers themselves, each in thirds of its range in the record.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hocket.agents.environments.gymnasium import KNOWN as IN_WORDS

Seen = NDArray[Any]
Ending = Literal["", "terminated", "truncated"]
"""Whether a decision was an episode's last: it went on, the task ended, or a limit cut it short."""

NOTHING = "nothing"
"""What stands where nothing is seen that has a name."""


@dataclass(frozen=True)
class Step:
    """A decision.

    Attributes:
        sees: what was there, each in a few words. does: what was done, as after "it". happens: what came of it,
            likewise. earns: its reward.
    """

    sees: tuple[str, ...]
    does: str
    happens: tuple[str, ...]
    earns: float

    @property
    def line(self) -> str:
        """In one line."""
        happens = f"; {', '.join(self.happens)}" if self.happens else ""
        return f"{', '.join(self.sees) or NOTHING}; {self.does}{happens}; {self.earns:+.4g}"

    @staticmethod
    def read(line: str) -> Step | None:
        """What `line` wrote; None for any other text."""
        parts = line.strip().split("; ")
        try:
            earns = float(parts[-1])
        except ValueError:
            return None
        if len(parts) not in (3, 4) or parts[-1][0] not in "+-":
            return None
        sees = () if parts[0] == NOTHING else tuple(parts[0].split(", "))
        return Step(sees, parts[1], tuple(parts[2].split(", ")) if len(parts) == 4 else (), earns)


Episode = tuple[Step, ...]


@dataclass(frozen=True)
class Log:
    """Recorded episodes of one agent.

    Attributes:
        about: the environment, in a sentence or two. does, happens: what may be done and come of it at all, as far as
            known, so that what never was can be spoken of.
    """

    about: str
    episodes: tuple[Episode, ...]
    does: tuple[str, ...] = ()
    happens: tuple[str, ...] = ()

    def part(self, episodes: Sequence[Episode]) -> Log:
        """Some of the episodes."""
        return Log(self.about, tuple(episodes), self.does, self.happens)


def transcript(episodes: Sequence[Episode]) -> str:
    """A line for every decision, and one before each episode that says its number."""
    return "\n".join(
        line
        for number, episode in enumerate(episodes, 1)
        for line in (f"Episode {number}:", *(step.line for step in episode))
    )


def episodes_in(text: str) -> list[Episode]:
    """What `transcript` wrote, wherever it stands in a text."""
    found: list[list[Step]] = []
    for line in text.splitlines():
        step = Step.read(line)
        if line.startswith("Episode ") and line.rstrip().endswith(":"):
            found.append([])
        elif step is not None and found:
            found[-1].append(step)
    return [tuple(one) for one in found if one]


# ---------------------------------------------------------------- what puts an environment into words


class Captions(ABC):
    """Words for the transitions of one kind of environment.

    Attributes:
        about: the environment. actions: what may be done, as after "it".
    """

    about: str
    actions: tuple[str, ...]

    @property
    def events(self) -> tuple[str, ...]:
        """What may come of it, likewise."""
        return ()

    @abstractmethod
    def sees(self, seen: Seen) -> tuple[str, ...]:
        """What is there, of what an agent sees `[O]`."""

    def does(self, action: Any) -> str:
        """What is done."""
        number = int(action)
        return self.actions[number] if number < len(self.actions) else f"takes action {number}"

    def happens(self, seen: Seen, action: Any, after: Seen | None, ending: Ending) -> tuple[str, ...]:
        """What came of it; `after` is None where nobody saw."""
        return ()

    def fitted(self, seen: NDArray[Any]) -> Captions:
        """The same for a record `[N, O]`, where words depend on what there is in it."""
        return self


@dataclass(frozen=True)
class Numbers(Captions):
    """Each number by the third of its range in the record that it lies in: `number 2 low`, `middle` or `high`.

    A one-hot vector is the place of its 1. Actions that are vectors are told number by number, in thirds of [-1, 1].

    Attributes:
        actions: their names, where they have any. low, high: of the middle third of each number.
    """

    about: str
    actions: tuple[str, ...] = ()
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()

    def fitted(self, seen: NDArray[Any]) -> Numbers:
        least, most = seen.min(0).astype(float), seen.max(0).astype(float)
        low, high = least + (most - least) / 3, most - (most - least) / 3
        return Numbers(self.about, self.actions, tuple(low.tolist()), tuple(high.tolist()))

    def sees(self, seen: Seen) -> tuple[str, ...]:
        if len(seen) > 2 and np.count_nonzero(seen) == 1 and seen.max() == 1:
            return (f"state {int(seen.argmax())}",)
        told = []
        for number, value in enumerate(seen.tolist()):
            if self.low[number] < self.high[number]:
                third = "low" if value < self.low[number] else "high" if value > self.high[number] else "middle"
                told.append(f"number {number + 1} {third}")
        return tuple(told)

    def does(self, action: Any) -> str:
        if np.ndim(action) == 0:
            return super().does(action)
        thirds = ("lowers" if one < -1 / 3 else "raises" if one > 1 / 3 else "holds" for one in np.ravel(action))
        return " and ".join(f"{third} number {number}" for number, third in enumerate(thirds, 1))


@dataclass(frozen=True)
class Signs(Captions):
    """Each number by its sign: two names for every number, of values below and above 0.

    Attributes:
        sides: those names. actions: of the actions. lost, kept: what comes of an episode that ends, or is cut short.
    """

    about: str
    sides: tuple[tuple[str, str], ...]
    actions: tuple[str, ...]
    lost: str = ""
    kept: str = ""

    @property
    def events(self) -> tuple[str, ...]:
        return tuple(one for one in (self.lost, self.kept) if one)

    def sees(self, seen: Seen) -> tuple[str, ...]:
        pairs = zip(self.sides, seen.tolist(), strict=False)
        return tuple(sides[value > 0] for sides, value in pairs)

    def happens(self, seen: Seen, action: Any, after: Seen | None, ending: Ending) -> tuple[str, ...]:
        told = {"terminated": self.lost, "truncated": self.kept}.get(ending, "")
        return (told,) if told else ()


@dataclass(frozen=True)
class Cells(Captions):
    """A grid whose cells are numbered row by row and seen one-hot, in a map of letters.

    Attributes:
        map: its rows. actions: of the actions. ends: what comes of arriving at a letter.
    """

    about: str
    map: tuple[str, ...]
    actions: tuple[str, ...]
    ends: Mapping[str, str] = field(default_factory=dict)

    @property
    def events(self) -> tuple[str, ...]:
        return (*self.ends.values(), "stays where it is")

    def sees(self, seen: Seen) -> tuple[str, ...]:
        row, column = divmod(int(seen.argmax()), len(self.map[0]))
        return (f"row {row}", f"column {column}")

    def happens(self, seen: Seen, action: Any, after: Seen | None, ending: Ending) -> tuple[str, ...]:
        if after is None:
            return ()
        if (after == seen).all():
            return ("stays where it is",)
        row, column = divmod(int(after.argmax()), len(self.map[0]))
        told = self.ends.get(self.map[row][column])
        return (told,) if told else ()


_LAKE = ("SFFF", "FHFH", "FFFH", "HFFG")
"""The smaller map, on which the lake is unless it is told another."""


def _cart_pole() -> Captions:
    things = ("cart", "cart going", "pole leaning", "pole falling")
    sides = tuple((f"{thing} left", f"{thing} right") for thing in things)
    about = "A pole stands on a cart, which is pushed to the left or right so that the pole does not fall."
    return Signs(about, sides, ("pushes left", "pushes right"), "lets the pole fall", "holds the pole to the end")


def _mountain_car() -> Captions:
    about = "A car in a valley, too weak to drive straight up, is to reach the top on the right."
    sides = (("left of the middle", "right of the middle"), ("rolling left", "rolling right"))
    return Signs(about, sides, ("drives left", "does not drive", "drives right"), "reaches the top", "runs out of time")


def _frozen_lake() -> Captions:
    moves = tuple(f"goes {one}" for one in IN_WORDS["FrozenLake"].actions or ())
    ends = {"H": "falls into a hole", "G": "reaches the goal"}
    return Cells("A walk on a frozen lake from row 0, column 0 to row 3, column 3.", _LAKE, moves, ends)


def _cliff() -> Captions:
    moves = tuple(f"goes {one}" for one in IN_WORDS["CliffWalking"].actions or ())
    rows = ("." * 12, "." * 12, "." * 12, "S" + "C" * 10 + "G")
    about = "A walk along a cliff in row 3, from column 0 to column 11; who falls is put back to the start."
    return Cells(about, rows, moves, {"S": "is at the start again", "G": "reaches the goal"})


GYMNASIUM: Mapping[str, Callable[[], Captions]] = {
    "CartPole": _cart_pole,
    "MountainCar": _mountain_car,
    "FrozenLake": _frozen_lake,
    "CliffWalking": _cliff,
}
"""What this module puts into words, by the environment's name up to its version."""


def captions_of(environment: str, cells: int) -> Captions:
    """Of a Gymnasium environment that sees so many numbers; `Numbers` of those that are not known."""
    name = environment.rpartition(":")[2].partition("-v")[0]
    if name in GYMNASIUM and not (name == "FrozenLake" and cells != 16):
        return GYMNASIUM[name]()
    known = IN_WORDS.get(name)
    actions = tuple(f"does {one}" for one in (known.actions or ())) if known is not None else ()
    return Numbers(known.rules if known is not None else f"The environment {environment}.", actions=actions)


def captioned(captions: Captions, seen: Seen, actions: Seen, rewards: Sequence[float], ending: Ending) -> Episode:
    """An episode in words.

    Args:
        captions: fitted to the record. seen: `[L, O]`, or `[L + 1, O]` with what was seen at last. actions: `[L, ...]`.
        rewards: of the L decisions. ending: of the last.
    """
    steps = []
    for time, (action, reward) in enumerate(zip(actions, rewards, strict=True)):
        after = seen[time + 1] if time + 1 < len(seen) else None
        last: Ending = ending if time + 1 == len(actions) else ""
        happens = captions.happens(seen[time], action, after, last)
        steps.append(Step(captions.sees(seen[time]), captions.does(action), happens, float(reward)))
    return tuple(steps)
