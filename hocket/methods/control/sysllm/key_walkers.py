"""Scripted agents of the room of two keys, each with known tastes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hocket.methods.control.sysllm.captions import Episode, captioned
from hocket.methods.control.sysllm.keys import MOVES, KeyRoom, burns, places

Wants = Literal["red", "blue", "both", "any"]
Cell = tuple[int, int]


@dataclass(frozen=True)
class Walker:
    """Takes the keys that it wants, the nearer one first, and leaves by the door, always on a shortest way.

    On the way it goes around keys that it does not want, and around lava if it is `careful`, unless nothing else leads
    there. It decides from what is seen alone.

    Attributes:
        wants: which keys; `any` takes the nearest and no other. leaves: whether it goes to the door then, or walks
            against the wall. slip: how likely it goes anywhere instead.
    """

    wants: Wants = "red"
    careful: bool = True
    slip: float = 0.0
    leaves: bool = True
    size: int = 5
    name: str = "walker"
    version: int = 0

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
        """As a `hocket.rollout.joint.JointController`; its log-probs are not told, 0."""
        moves = [self.move(seen, float(draw)) for seen, draw in zip(observations, uniforms[:, 0], strict=True)]
        return np.array(moves), np.zeros(len(moves), np.float32)

    def move(self, seen: NDArray[np.float32], uniform: float) -> int:
        """The move of one decision; `uniform` says whether it slips, and where to."""
        if uniform < self.slip:
            return min(int(uniform / self.slip * len(MOVES)), len(MOVES) - 1)
        cells, has = places(seen, self.size)
        at, keys, door = cells["agent"], {"red": cells["red key"], "blue": cells["blue key"]}, cells["door"]
        left = {key: cell for (key, cell), held in zip(keys.items(), has, strict=True) if not held}
        wanted = {key: cell for key, cell in left.items() if self.wants in (key, "both")}
        if self.wants == "any" and not any(has):
            wanted = left
        targets = list(wanted.values()) or ([door] if self.leaves else [])
        others = {cell for key, cell in left.items() if key not in wanted}
        lava = {cell for cell in _all(self.size) if self.careful and burns(cell, self.size, cells["gap"][0])}
        for closed in (others | lava, others, lava, set[Cell]()):
            reached = [way for target in targets if at in (way := _ways(target, closed, self.size))]
            if reached:
                return _nearer(at, min(reached, key=lambda way: way[at]), closed)
        return 0


def _nearer(at: Cell, way: Mapping[Cell, int], closed: set[Cell]) -> int:
    """The first move to a cell that is nearer to where the way leads, and open, or there."""
    there = [(move, _moved(at, move)) for move in range(len(MOVES))]
    good = (move for move, to in there if way.get(to, way[at]) < way[at] and (to not in closed or way[to] == 0))
    return next(good, 0)


def _all(size: int) -> list[Cell]:
    return [(column, row) for row in range(size) for column in range(size)]


def _moved(cell: Cell, move: int) -> Cell:
    column, row = MOVES[move].tolist()
    return cell[0] + column, cell[1] + row


def _ways(target: Cell, closed: set[Cell], size: int) -> dict[Cell, int]:
    """Moves to a target from wherever it can be reached; cells that are closed may be left, and are not entered."""
    room, found, edge = set(_all(size)), {target: 0}, [target]
    while edge:
        new = []
        for cell in edge:
            near = [_moved(cell, move) for move in range(len(MOVES))] if cell == target or cell not in closed else []
            for there in near:
                if there in room and there not in found:
                    found[there] = found[cell] + 1
                    new.append(there)
        edge = new
    return found


def walked(world: KeyRoom, walker: Walker, seeds: Sequence[int], rng: np.random.Generator) -> list[Episode]:
    """Episodes of the room from these seeds, in words."""
    room, captions, found = world.open(1), world.captions, list[Episode]()
    for seed in seeds:
        room.reset([0], [seed])
        seen, actions, rewards = [room.seen()[0][0]], list[int](), list[float]()
        over = late = False
        while not over and not late:
            actions.append(walker.move(seen[-1], float(rng.random())))
            moved = room.step([np.array(actions[-1:])], np.ones(1, np.bool_))
            seen.append(room.seen()[0][0])
            rewards.append(float(moved.rewards[0, 0]))
            over, late = bool(moved.terminated[0, 0]), bool(moved.truncated[0, 0])
        ending: Any = "terminated" if over else "truncated"
        found.append(captioned(captions, np.stack(seen), np.array(actions), rewards, ending))
    return found
