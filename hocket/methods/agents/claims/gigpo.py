"""What gigpo claims."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import numpy as np
import torch

from hocket.core.batch import GroupBy, Level
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.credit.turn_level import EpisodeAndTurn
from hocket.credit.units import agent_returns, turn_units
from hocket.environments.maze import Mazes, uniform, values
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.toys.turn_toys import SEEDS, chance_to_arrive, episode, maze_bench, random_episodes, seen, worst
from hocket.methods.agents.gigpo import GIGPO
from hocket.methods.base.grpo import GRPO
from hocket.recipe import Recipe
from hocket.rewards.combine import WeightedSum
from hocket.types import Scenario, Score, Trajectory, Turn

claim = Claims("gigpo", "arXiv:2505.10978")


ONE = GIGPO.but({"credit.episode.scale": None, "credit.turn.scale": None})
"""The authors' other form: F = 1."""


@claim("With w = 0 it is GRPO.")
def without_weight_it_is_grpo() -> Finding:
    gap = 0.0
    for number in range(20):
        rows = random_episodes(Key.of(number))
        left, right = seen(GIGPO.but({"credit.weight": 0.0}), rows), seen(GRPO, rows)
        gap = max(gap, worst(left["advantages"], right["advantages"]), worst(left["gradient"], right["gradient"]))
    return Finding(gap == 0.0, f"w = 0 against GRPO on 20 random batches: largest difference {gap:.1e}")


@claim("A state seen once has A_S = 0.")
def a_state_seen_once_gets_nothing() -> Finding:
    """In a batch of states all different it is GRPO; one state made common gives credit to its turns alone."""
    rows = [
        episode("g", float(n % 2), [{"tokens": [n], "state": f"{n}/{t}", "reward": n * t} for t in range(3)])
        for n in range(4)
    ]
    apart = worst(seen(GIGPO, rows)["advantages"], seen(GRPO, rows)["advantages"])
    rows[0]["state"][1] = rows[1]["state"][1] = "common"
    extra = [
        [a - b for a, b in zip(left, right, strict=True)]
        for left, right in zip(seen(GIGPO, rows)["advantages"], seen(GRPO, rows)["advantages"], strict=True)
    ]
    where = [(n, t) for n, row in enumerate(extra) for t, value in enumerate(row) if value != 0]
    return Finding(
        apart == 0.0 and where == [(0, 1), (1, 1)],
        f"all states different: largest A_S {apart:.1e}; two turns in one state: A_S at {where} alone",
    )


def by_hand(rows: Sequence[Any], *, w: float, gamma: float, scaled: bool) -> list[list[float]]:
    """GiGPO's advantages, counted anew from the recorded rows."""

    def normal(value: float, others: Sequence[float]) -> float:
        middle = value - fmean(others)
        if not scaled or len(others) < 2:
            return middle
        return middle / (math.sqrt(sum((x - fmean(others)) ** 2 for x in others) / (len(others) - 1)) + 1e-6)

    to_go = []
    for row in rows:
        rewards = [turn["reward"] for turn in row["turn_scores"]]
        rewards[-1] += row["scores"]["reward"]
        to_go.append([sum(gamma ** (k - t) * rewards[k] for k in range(t, len(rewards))) for t in range(len(rewards))])
    total = [row["scores"]["reward"] + sum(turn["reward"] for turn in row["turn_scores"]) for row in rows]
    found = []
    for number, row in enumerate(rows):
        group = [n for n, other in enumerate(rows) if other["group"] == row["group"]]
        whole = normal(total[number], [total[n] for n in group])
        at = [
            normal(
                to_go[number][t],
                [to_go[n][k] for n in group for k, other in enumerate(rows[n]["state"]) if other == state],
            )
            for t, state in enumerate(row["state"])
        ]
        found.append([whole + w * at[turn] for turn in row["turn"]])
    return found


@claim("Advantages are the two normalised parts, with discounted returns.")
def it_is_the_formula() -> Finding:
    gap = 0.0
    for number in range(20):
        rows = random_episodes(Key.of(number), groups=3, states=2, turns=5)
        for recipe, scaled in ((GIGPO, True), (ONE, False)):
            wanted = by_hand(rows, w=0.7, gamma=0.9, scaled=scaled)
            found = seen(recipe.but({"credit.weight": 0.7, "credit.turn.gamma": 0.9}), rows)["advantages"]
            gap = max(gap, worst(found, wanted))
    return Finding(gap < 1e-12, f"against the formula counted anew, loops included, F = std and 1: {gap:.1e}")


@claim("States may be told apart by a similarity threshold.")
def similar_states_are_one() -> Finding:
    """Texts that differ in a letter join at 0.9 and stay apart at 1."""
    rows = [
        episode("g", reward, [{"tokens": [n], "state": f"You are in the kitchen. You see a red mug, number {n}."}])
        for n, reward in enumerate((1.0, 0.0))
    ]
    joined = ONE.but({"credit.turn.similarity": 0.9})
    found = [seen(recipe, rows)["advantages"][0][0] for recipe in (ONE, joined)]
    return Finding(
        abs(found[0] - 0.5) < 1e-12 and abs(found[1] - 1.0) < 1e-12,
        f"A of the winner: {found[0]:g} apart, {found[1]:g} joined",
    )


GAMMA, EPISODES, STEPS = 0.9, 3000, 120


def wandered(world: Mazes, number: int, count: int) -> list[Trajectory]:
    """`count` walks of the even policy through a maze, recorded turn by turn."""
    layout, rng = world.layout(Key.of(number)), Key.of(7).numpy()
    scenario = Scenario("maze")
    logp = [np.array([-math.log(len(layout.open(cell)) or 1)], np.float32) for cell in range(layout.cells)]
    found = []
    for sample in range(count):
        cell = layout.start
        turns: list[Turn] = []
        earned: list[float] = []
        while cell != layout.goal and len(turns) < STEPS:
            ways = layout.open(cell)
            way = ways[int(rng.integers(len(ways)))]
            turns.append(Turn("solo", "solo", np.zeros(0), np.array([way]), logp[cell], state=str(cell)))
            cell = layout.ways[cell][way]
            earned.append(float(cell == layout.goal))
        found.append(Trajectory(scenario, turns, sample, scores={"reward/turn": Score(earned, Level.TURN)}))
    return found


@claim(
    "With F = 1 the group mean at a state converges to V(s) and A_S to Q(s, a) - V(s).",
    "derived; by dynamic programming",
    slow=True,
)
def it_converges_to_the_advantage() -> Finding:
    """The group's mean at a state is V, and A_S averages to Q - V per state and action."""
    world, number = Mazes(width=3, height=3, loops=2, steps=STEPS), 2
    layout = world.layout(Key.of(number))
    exact = values(layout, uniform(layout), STEPS, discount=GAMMA)
    batch = WeightedSum()(pack(wandered(world, number, EPISODES)), {})
    recipe = ONE.but({"credit.turn.gamma": GAMMA})
    units = turn_units(batch)
    assert units.turn is not None
    returns = agent_returns(batch, units, GAMMA)
    assert isinstance(recipe.credit, EpisodeAndTurn)
    step = recipe.credit.turn(batch).advantage
    of_unit = torch.zeros_like(returns).index_put((units.member,), step)
    group, size = units.groups(GroupBy("scenario", "state"), batch)
    cells = [int(name) for name in batch.names["state"]]
    off, spread = [], []
    for code in range(size):
        here = group == code
        cell = cells[int(batch.state[units.turn[here][0]])]
        mean = float((returns - of_unit)[here].mean())
        off.append(abs(mean - exact.state[STEPS][cell]))
        action = batch.action[here]
        for way in layout.open(cell):
            wanted = exact.action[STEPS][cell][way] - exact.state[STEPS][cell]
            off.append(abs(float(of_unit[here][action == way].mean()) - wanted))
            spread.append(abs(wanted))
    return Finding(
        max(off) < 0.02 and max(spread) > 0.1,
        f"{EPISODES} walks of the even policy through a 3x3 maze with loops, {size} states: largest error of V and of "
        f"Q - V {max(off):.4f}, |Q - V| up to {max(spread):.2f}",
    )


WORLD, MAZE, ENOUGH, MOST = Mazes(width=4, height=4, loops=3, steps=30), 1, 0.97, 45


def steps_until(recipe: Recipe, seed: int) -> int:
    """Training steps until the exact chance to arrive is `ENOUGH`."""
    bench = maze_bench(recipe, {"maze": MAZE}, WORLD, seed)
    while bench.done < MOST and chance_to_arrive(bench, WORLD, MAZE) < ENOUGH:
        bench.run(1)
    return bench.done


@claim("In a gridworld with loops it succeeds faster than GRPO.", slow=True)
def it_is_faster_than_grpo() -> Finding:
    plain = [steps_until(GRPO, seed) for seed in SEEDS]
    ours = [steps_until(GIGPO, seed) for seed in SEEDS]
    return Finding(
        max(ours) < min(plain) and fmean(ours) < 0.75 * fmean(plain),
        f"steps of 8 episodes until {ENOUGH:.0%} of walks through a 4x4 maze with loops arrive: GRPO {plain} "
        f"(at most {MOST}), GiGPO {ours}, 5 seeds",
    )
