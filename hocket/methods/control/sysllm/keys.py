"""A room with two keys, a band of lava and a door: agents that do equally well in it may differ in what they prefer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.worlds import JointEnvironment, Moved, Seat
from hocket.methods.control.sysllm.captions import Captions, Ending, Seen

MOVES = np.array([(0, -1), (1, 0), (0, 1), (-1, 0)])
"""North, east, south and west, as columns and rows."""

HEADINGS = ("north", "east", "south", "west")
THINGS = ("red key", "blue key", "door")
KEYS = ("red", "blue")


class KeyRoomCaptions(Captions):
    """What is seen of the room in words: which way keys and door are (`red key ne`), lava beside, and keys held."""

    about = (
        "A room with a red key, a blue key, a band of lava with one gap and, behind it, a door that opens with any key."
    )
    actions = tuple(f"goes {one}" for one in HEADINGS)

    def __init__(self, size: int) -> None:
        self.size = size

    @property
    def events(self) -> tuple[str, ...]:
        keys = tuple(f"takes the {key} key" for key in KEYS)
        return (*keys, "steps into lava", "leaves by the door", "runs into a wall", "runs out of time")

    def sees(self, seen: Seen) -> tuple[str, ...]:
        cells, has = places(seen, self.size)
        gone = {f"{key} key" for key, held in zip(KEYS, has, strict=True) if held}
        at = cells["agent"]
        told = [f"{thing} {_way(at, cells[thing])}" for thing in THINGS if thing not in gone]
        beside = [(heading[0], move.tolist()) for heading, move in zip(HEADINGS, MOVES, strict=True)]
        lava = [
            f"lava {way}"
            for way, (column, row) in beside
            if burns((at[0] + column, at[1] + row), self.size, cells["gap"][0])
        ]
        return (*told, *lava)

    def happens(self, seen: Seen, action: Any, after: Seen | None, ending: Ending) -> tuple[str, ...]:
        last = {"terminated": ("leaves by the door",), "truncated": ("runs out of time",), "": ()}[ending]
        if after is None:
            return last
        (before, had), (now, has) = places(seen, self.size), places(after, self.size)
        told = [f"takes the {key} key" for key, old, new in zip(KEYS, had, has, strict=True) if new and not old]
        if before["agent"] == now["agent"]:
            told.append("runs into a wall")
        elif burns(now["agent"], self.size, now["gap"][0]):
            told.append("steps into lava")
        return (*told, *last)


def places(seen: Seen, size: int) -> tuple[dict[str, tuple[int, int]], tuple[bool, ...]]:
    """Where everything is that is seen `[11]`, as column and row (of the gap, the band's), and which keys are held."""
    cells = np.rint(np.asarray(seen[:9], float) * (size - 1)).astype(int).tolist()
    pairs = zip(cells[0:8:2], cells[1:8:2], strict=True)
    found = dict(zip(("agent", *THINGS), pairs, strict=True))
    return {**found, "gap": (cells[8], size // 2)}, tuple(bool(held > 0.5) for held in seen[9:11])


def burns(cell: tuple[int, int], size: int, gap: int) -> bool:
    """Whether a cell is of lava: it is in the band, within the room, and not the gap."""
    return cell[1] == size // 2 and 0 <= cell[0] < size and cell[0] != gap


def _way(at: tuple[int, int], to: tuple[int, int]) -> str:
    """`n`, `ne`, ... and `here`."""
    column, row = to[0] - at[0], to[1] - at[1]
    return ("n" if row < 0 else "s" if row > 0 else "") + ("w" if column < 0 else "e" if column > 0 else "") or "here"


@dataclass(frozen=True)
class KeyRoom:
    """An agent in a room of `size` x `size` cells takes a key, or two, and leaves by the door.

    It begins in the half that has the keys; the door is in the other, behind a row of lava with one gap, all at places
    drawn from the seed. The door opens for whoever has a key and ends the episode; after `length` moves it is cut
    short. The first key of a colour pays `red` or `blue`, the door 1, a step into lava minus `lava`, every move minus
    0.01. What is seen, from 0 to 1: where the agent, the keys and the door are, column and row, the column of the gap,
    and which keys it has.
    """

    size: int = 5
    length: int = 24
    red: float = 0.5
    blue: float = 0.5
    lava: float = 0.5

    def __post_init__(self) -> None:
        if self.size < 4 or self.length < 1:
            raise ConfigurationError(
                f"task {self.name}: size must be at least 4 and length at least 1, not {self.size} and {self.length}"
            )

    @property
    def name(self) -> str:
        return "keys:room"

    @property
    def agents(self) -> tuple[str, ...]:
        return ("agent",)

    @property
    def seats(self) -> tuple[Seat, ...]:
        return (Seat(11, len(MOVES)),)

    @property
    def joint(self) -> int:
        return 0

    @property
    def captions(self) -> Captions:
        """The room in words."""
        return KeyRoomCaptions(self.size)

    def open(self, width: int) -> JointEnvironment:
        return _Room(self, width)


class _Room(JointEnvironment):
    def __init__(self, world: KeyRoom, width: int) -> None:
        self.world = world
        self.place, self.red, self.blue, self.door = (np.zeros((width, 2), np.int64) for _ in range(4))
        self.gap, self.time = np.zeros(width, np.int64), np.zeros(width, np.int64)
        self.has = np.zeros((width, 2), np.bool_)

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> dict[int, str]:
        size, band = self.world.size, self.world.size // 2
        near = [(column, row) for row in range(band) for column in range(size)]
        far = [(column, row) for row in range(band + 1, size) for column in range(size)]
        for slot, seed in zip(slots, seeds, strict=True):
            draws = Key.of(seed).derive("keys").numpy()
            chosen = draws.choice(len(near), 3, replace=False).tolist()
            self.place[slot], self.red[slot], self.blue[slot] = (near[one] for one in chosen)
            self.door[slot], self.gap[slot] = far[int(draws.integers(len(far)))], draws.integers(size)
            self.has[slot], self.time[slot] = False, 0
        return {}

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        world = self.world
        moved = np.clip(self.place + MOVES[actions[0]], 0, world.size - 1)
        moved = np.where(live[:, None], moved, self.place)
        walked = (moved != self.place).any(1)
        self.place, self.time = moved, self.time + live
        at = [(moved == place).all(1) for place in (self.red, self.blue)]
        new = np.stack(at, 1) & ~self.has & live[:, None]
        self.has = self.has | new
        burnt = walked & (moved[:, 1] == world.size // 2) & (moved[:, 0] != self.gap)
        out = (moved == self.door).all(1) & self.has.any(1) & live
        pay = new @ np.array([world.red, world.blue]) + out - world.lava * burnt - 0.01
        late = (self.time >= world.length) & ~out
        return Moved(pay[:, None], out[:, None], late[:, None])

    def seen(self) -> list[NDArray[np.float32]]:
        cells = np.concatenate([self.place, self.red, self.blue, self.door, self.gap[:, None]], 1)
        return [np.concatenate([cells / (self.world.size - 1), self.has], 1).astype(np.float32)]
