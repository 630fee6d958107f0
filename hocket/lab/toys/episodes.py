"""Recorded episodes of several turns, random ones too; what recipes make of them; and walks through mazes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.agents.workflows.environment import PlayEnvironment
from hocket.agents.workflows.episode import Limits
from hocket.core.keys import Key
from hocket.lab.claims.harness import Finding, gap, inspect_rows, say
from hocket.lab.talk import TalkBench
from hocket.recipe import Recipe
from hocket.types import Message, Scenario
from hocket.zoo.maze import DIRECTIONS, Layout, Mazes, values


def episode(group: str, reward: float, turns: Sequence[Mapping[str, Any]], **more: Any) -> dict[str, Any]:
    """A recorded trajectory. A turn has `tokens` (decisions) and may have `state`, `reward` and `agent`."""
    tokens = [token for turn in turns for token in turn["tokens"]]
    return {
        "group": group,
        "scores": {"reward": reward},
        "tokens": tokens,
        "logp": [-0.2 - 0.1 * (token % 5) for token in tokens],
        "turn": [place for place, turn in enumerate(turns) for _ in turn["tokens"]],
        "state": [str(turn.get("state", f"only {id(turn)}")) for turn in turns],
        "agent": [str(turn.get("agent", "agent")) for turn in turns],
        "turn_scores": [{"reward": float(turn.get("reward", 0.0))} for turn in turns],
        **more,
    }


def random_episodes(key: Key, *, groups: int = 2, samples: int = 4, states: int = 3, turns: int = 4) -> list[Any]:
    """Episodes of 1 to `turns` turns of 1 to 3 decisions: few states, few tokens, rewards per turn too."""
    rng = key.numpy()
    return [
        episode(
            f"group {group}",
            float(rng.integers(0, 2)),
            [
                {
                    "tokens": [int(token) for token in rng.integers(0, 2, int(rng.integers(1, 4)))],
                    "state": f"s{rng.integers(states)}",
                    "reward": float(rng.integers(0, 3)) / 4,
                }
                for _ in range(int(rng.integers(1, turns + 1)))
            ],
        )
        for group in range(groups)
        for _ in range(samples)
    ]


def random_batches(**settings: int) -> list[list[Any]]:
    """Twenty batches of random episodes."""
    return [random_episodes(Key.of(number), **settings) for number in range(20)]


def without(rows: Iterable[Mapping[str, Any]], *columns: str) -> list[dict[str, Any]]:
    """Trajectories that lack these columns."""
    return [{name: value for name, value in row.items() if name not in columns} for row in rows]


def by_turn(row: Mapping[str, Any], values: Sequence[float]) -> list[list[float]]:
    """One list of a trajectory's numbers per turn."""
    turns: list[list[float]] = [[] for _ in range(row["turn"][-1] + 1)]
    for turn, value in zip(row["turn"], values, strict=True):
        turns[turn].append(value)
    return turns


def to_go(rewards: Sequence[float], gamma: float) -> list[float]:
    """The discounted sum of rewards from each turn on."""
    return [sum(gamma ** (k - t) * rewards[k] for k in range(t, len(rewards))) for t in range(len(rewards))]


def difference(left: Recipe, right: Recipe, batches: Iterable[Sequence[Mapping[str, Any]]], *hidden: str) -> float:
    """The largest difference of two recipes' advantages and gradients; the right one is not shown columns `hidden`."""
    both = [(inspect_rows(left, rows), inspect_rows(right, without(rows, *hidden))) for rows in batches]
    return max(gap(first[field], second[field]) for first, second in both for field in ("advantages", "gradient"))


def identical(left: Recipe, right: Recipe, batches: Iterable[Sequence[Mapping[str, Any]]], *hidden: str) -> Finding:
    """Whether that difference is 0 to the last bit."""
    off = difference(left, right, batches, *hidden)
    return Finding(off == 0.0, say(largest_difference_on_20_batches=off))


def maze_bench(recipe: Recipe, mazes: Mapping[str, int], world: Mazes, seed: int, **more: Any) -> TalkBench:
    """Walks the named mazes (scenario to number); the policy sees the maze and where it stands."""
    scenarios = [Scenario(name, name, metadata={"maze": number}) for name, number in mazes.items()]
    flow = PlayEnvironment(world, memory=False, instruct=False)
    limits = Limits(turns=None)
    more = {"lr": 0.1, **more}
    return TalkBench(flow, scenarios, DIRECTIONS, recipe, view=_standing, seed=seed, limits=limits, **more)


def _standing(messages: tuple[Message, ...]) -> str:
    """What is seen now, whether or not the last move led anywhere."""
    return str(messages[-1]["content"]).removeprefix("Nothing happens. ")


def chance_to_arrive(bench: TalkBench, world: Mazes, number: int) -> float:
    """The exact chance of reaching the goal of a maze in time."""
    layout = world.layout(Key.of(number))
    return float(values(layout, _walked(bench, world, layout), world.steps).state[world.steps][layout.start])


def _walked(bench: TalkBench, world: Mazes, layout: Layout) -> NDArray[np.float64]:
    """The bench's policy in a maze, `[C, 4]`."""
    (policy,), flow = bench.policies.values(), bench.workflow
    assert isinstance(flow, PlayEnvironment)
    maze = world.make(Scenario("m", metadata={"maze": 0}))
    maze.layout = layout
    chances = np.full((layout.cells, 4), 0.25)
    for cell in range(layout.cells):
        maze.cell = cell
        if cell != layout.goal:
            chances[cell] = policy.probabilities(flow.question(maze.observe(maze.agents[0]), first=True)).numpy()
    return chances
