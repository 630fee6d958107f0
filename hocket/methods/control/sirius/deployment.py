"""Deployments of `gates:point` beside a scripted person who takes over: the data of `sirius`, round by round.

python -m hocket.methods.control.sirius.deployment --out round0.npz
hocket train --recipe sirius --store.data round0.npz --run first
python -m hocket.methods.control.sirius.deployment --run first --data round0.npz --out round1.npz
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.keys import Key
from hocket.methods.control.sirius.method import BEFORE, DEMONSTRATION, INTERVENTION, ROBOT
from hocket.methods.control.sirius.world import Gates, shown, to_go

Columns = dict[str, NDArray[Any]]
Acts = Callable[[NDArray[np.float32]], NDArray[Any]]
"""Actions `[B, 2]` for observations `[B, 5]`."""


@dataclass(frozen=True)
class Person:
    """Takes over where the last `patience` steps brought the goal less than `least` nearer, for `holds` steps.

    Attributes:
        window: how many decisions before that count as the robot's mistake.
    """

    patience: int = 6
    least: float = 0.1
    holds: int = 8
    window: int = 6


@dataclass(frozen=True)
class Deployment:
    """What happened: the rows, takeovers per episode, and the share of episodes that reached the goal alone."""

    rows: Columns
    takeovers: float
    alone: float


def demonstrations(episodes: int, key: Key, *, highest: float = 0.0) -> Columns:
    """A person shows the task with shaky hands, only where the gate is below `highest`."""
    rng = key.derive("hands").numpy()
    seeds = [seed for seed in range(100 * episodes) if _gate(seed) < highest][:episodes]
    return deployed(lambda seen: shown(seen) + 0.3 * rng.normal(size=(len(seen), 2)), seeds, kind=DEMONSTRATION).rows


def _gate(seed: int) -> float:
    course = Gates().open(1)
    course.reset([0], [seed])
    return float(course.gate[0])


def deployed(acts: Acts, seeds: list[int], *, person: Person | None = None, kind: int = ROBOT) -> Deployment:
    """Plays an episode for each seed, with a person beside it who may take over."""
    world, count = Gates(), len(seeds)
    course = world.open(count)
    course.reset(range(count), seeds)
    live, holds, takeovers = np.ones(count, bool), np.zeros(count, int), np.zeros(count)
    kept: list[dict[str, NDArray[Any]]] = []
    ways = np.full((world.length + 1, count), np.inf)
    since = np.zeros(count, int)
    for time in range(world.length):
        seen = course.seen()[0].copy()
        ways[time] = to_go(seen)
        kinds = np.full(count, kind)
        if person is not None:
            slow = time - since >= person.patience
            slow &= ways[max(time - person.patience, 0)] - ways[time] < person.least
            begins = live & (holds == 0) & slow
            takeovers += begins
            holds = np.where(begins, person.holds, holds)
            for back in range(1, min(person.window, time) + 1):
                kept[-back]["kinds"][begins & (kept[-back]["kinds"] == ROBOT)] = BEFORE
            kinds[holds > 0] = INTERVENTION
            since = np.where(holds > 0, time + 1, since)
        actions = np.where((kinds == INTERVENTION)[:, None], shown(seen), acts(seen)).astype(np.float32)
        holds = np.maximum(holds - 1, 0)
        moved = course.step([actions], live)
        row: Columns = {"observations": seen, "actions": actions, "rewards": moved.rewards[:, 0], "kinds": kinds}
        row |= {"next_observations": course.seen()[0].copy(), "live": live.copy()}
        kept.append({**row, "terminations": moved.terminated[:, 0] & live, "truncations": moved.truncated[:, 0] & live})
        live = live & ~moved.terminated[:, 0] & ~moved.truncated[:, 0]
    stacked = {name: np.stack([step[name] for step in kept], 1) for name in kept[0]}  # [B, T, ..]
    alone = float(np.mean(stacked["terminations"].any(1) & (takeovers == 0)))
    mask = stacked.pop("live")
    return Deployment({name: column[mask] for name, column in stacked.items()}, float(takeovers.mean()), alone)


def joined(older: Columns, newer: Columns, *, room: int = 20_000) -> Columns:
    """Both; where more than `room` are kept, whole episodes of robots alone are dropped first, the oldest first."""
    rows = {name: np.concatenate([older[name], newer[name]]) for name in older}
    ends = np.flatnonzero(rows["terminations"] | rows["truncations"])
    starts = np.concatenate([[0], ends[:-1] + 1])
    keep, over = np.ones(len(rows["rewards"]), bool), len(rows["rewards"]) - room
    for start, end in zip(starts, ends + 1, strict=True):
        if over > 0 and (rows["kinds"][start:end] == ROBOT).all():
            keep[start:end] = False
            over -= end - start
    return {name: column[keep] for name, column in rows.items()}


def main() -> None:
    """Writes the rows of a round."""
    parser = argparse.ArgumentParser(description="deploy a run of gates:point beside a scripted person")
    parser.add_argument("--run", help="a trained run; without it a person demonstrates")
    parser.add_argument("--data", help="the rows so far, an .npz file")
    parser.add_argument("--out", required=True, help="the .npz file to write")
    parser.add_argument("--episodes", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.run is None:
        rows, summary = demonstrations(options.episodes, Key.of(options.seed)), "demonstrated"
    else:
        import hocket

        policy: Any = hocket.load(options.run)
        seeds = [1_000_000 + options.episodes * options.seed + number for number in range(options.episodes)]
        played = deployed(lambda seen: policy.act(seen)[0], seeds, person=Person())
        rows, summary = played.rows, f"{played.takeovers:.2f} takeovers an episode, {played.alone:.0%} without any"
    if options.data is not None:
        with np.load(options.data) as held:
            rows = joined({name: held[name] for name in rows}, rows)
    np.savez_compressed(Path(options.out), **rows)  # type: ignore[arg-type]
    print(f"{len(rows['rewards'])} decisions, {summary} -> {options.out}")


if __name__ == "__main__":
    main()
