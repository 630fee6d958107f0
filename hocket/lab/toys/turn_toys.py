"""Toys of several claims: turn toys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.keys import Key
from hocket.environments.maze import DIRECTIONS, Layout, Mazes, values
from hocket.lab.claims.harness import gap, inspect_rows
from hocket.lab.microscope import inspect
from hocket.lab.talk import TalkBench
from hocket.recipe import Recipe
from hocket.types import Message, Scenario
from hocket.workflows.environment import PlayEnvironment
from hocket.workflows.episode import Limits

SEEDS = range(5)


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


def seen(recipe: Recipe, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the recipe makes of these trajectories."""
    return inspect(recipe, {"version": 1, "trajectories": [dict(row) for row in rows]})


def by_turn(row: Mapping[str, Any], values: Sequence[float]) -> list[list[float]]:
    """One list of a trajectory's numbers per turn."""
    found: list[list[float]] = [[] for _ in range(row["turn"][-1] + 1)]
    for turn, value in zip(row["turn"], values, strict=True):
        found[turn].append(value)
    return found


def worst(left: Any, right: Any) -> float:
    """The largest difference between two nested lists of numbers."""
    if isinstance(left, (int, float)):
        return float(abs(left - right))
    return max((worst(a, b) for a, b in zip(left, right, strict=True)), default=0.0)


def difference(left: Recipe, right: Recipe, batches: Iterable[Sequence[Mapping[str, Any]]]) -> float:
    """The largest difference of two recipes' advantages and gradients on batches of recorded episodes."""
    both = [[inspect_rows(recipe, rows) for recipe in (left, right)] for rows in batches]
    return max(gap(one[field], other[field]) for one, other in both for field in ("advantages", "gradient"))


def maze_bench(recipe: Recipe, mazes: Mapping[str, int], world: Mazes, seed: int, **settings: Any) -> TalkBench:
    """Walks the named mazes (scenario to number); the policy sees the maze and where it stands."""
    scenarios = [Scenario(name, name, metadata={"maze": number}) for name, number in mazes.items()]
    flow = PlayEnvironment(world, memory=False, instruct=False)
    limits = Limits(turns=None)
    return TalkBench(
        flow, scenarios, DIRECTIONS, recipe, view=standing, seed=seed, limits=limits, **{"lr": 0.1, **settings}
    )


def standing(messages: tuple[Message, ...]) -> str:
    """What is seen now, whether or not the last move led anywhere."""
    return str(messages[-1]["content"]).removeprefix("Nothing happens. ")


def chance_to_arrive(bench: TalkBench, world: Mazes, number: int) -> float:
    """The exact chance of reaching the goal of a maze in time."""
    layout = world.layout(Key.of(number))
    return float(values(layout, walked(bench, world, layout), world.steps).state[world.steps][layout.start])


def walked(bench: TalkBench, world: Mazes, layout: Layout) -> NDArray[np.float64]:
    """The bench's policy in a maze, `[C, 4]`."""
    (policy,), flow = bench.policies.values(), bench.workflow
    assert isinstance(flow, PlayEnvironment)
    maze = world.make(Scenario("m", metadata={"maze": 0}))
    maze.layout = layout
    found = np.full((layout.cells, 4), 0.25)
    for cell in range(layout.cells):
        maze.cell = cell
        if cell != layout.goal:
            found[cell] = policy.probabilities(flow.question(maze.observe(maze.agents[0]), first=True)).numpy()
    return found
