"""GiGPO's claims."""

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
from hocket.lab.claims.harness import SEEDS, Claims, Finding, below, gap, inspect_rows, say
from hocket.lab.toys.episodes import chance_to_arrive, episode, identical, maze_bench, random_batches, to_go
from hocket.methods.agents.gigpo import GIGPO, GIGPO_UNBIASED
from hocket.methods.base.grpo import GRPO
from hocket.recipe import Recipe
from hocket.rewards.combine import WeightedSum
from hocket.types import Scenario, Score, Trajectory, Turn
from hocket.zoo.maze import Mazes, uniform, values

claim = Claims("gigpo", "arXiv:2505.10978")

ONE = GIGPO.but({"credit.episode.scale": None, "credit.turn.scale": None})  # The authors' other form: F = 1.


@claim("With w = 0 it is GRPO.")
def with_w_0_it_is_grpo() -> Finding:
    return identical(GIGPO.but({"credit.weight": 0.0}), GRPO, random_batches())


@claim("A state seen once has A_S = 0.")
def a_state_seen_once_has_a_s_0() -> Finding:
    """In a batch of states all different it is GRPO; one state made common gives credit to its turns alone."""
    rows = [
        episode("g", float(n % 2), [{"tokens": [n], "state": f"{n}/{t}", "reward": n * t} for t in range(3)])
        for n in range(4)
    ]
    off = gap(inspect_rows(GIGPO, rows)["advantages"], inspect_rows(GRPO, rows)["advantages"])
    rows[0]["state"][1] = rows[1]["state"][1] = "common"
    both = zip(inspect_rows(GIGPO, rows)["advantages"], inspect_rows(GRPO, rows)["advantages"], strict=True)
    where = [(n, t) for n, pair in enumerate(both) for t, (a, b) in enumerate(zip(*pair, strict=True)) if a != b]
    figures = say(all_states_different_largest_A_S=off, two_turns_in_one_state_A_S_at=str(where))
    return Finding(off == 0.0 and where == [(0, 1), (1, 1)], figures)


def by_hand(rows: Sequence[Any], *, w: float, gamma: float, scaled: bool) -> list[list[float]]:
    """GiGPO's advantages, counted anew from the recorded rows."""

    def normal(value: float, others: Sequence[float]) -> float:
        middle = value - fmean(others)
        if not scaled or len(others) < 2:
            return middle
        return middle / (math.sqrt(sum((x - fmean(others)) ** 2 for x in others) / (len(others) - 1)) + 1e-6)

    after, total, wanted = [], [], []
    for row in rows:
        rewards = [turn["reward"] for turn in row["turn_scores"]]
        total.append(row["scores"]["reward"] + sum(rewards))
        rewards[-1] += row["scores"]["reward"]
        after.append(to_go(rewards, gamma))
    for number, row in enumerate(rows):
        group = [n for n, other in enumerate(rows) if other["group"] == row["group"]]
        whole = normal(total[number], [total[n] for n in group])
        alike: dict[str, list[float]] = {}
        for n in group:
            for state, value in zip(rows[n]["state"], after[n], strict=True):
                alike.setdefault(state, []).append(value)
        at = [normal(value, alike[state]) for state, value in zip(row["state"], after[number], strict=True)]
        wanted.append([whole + w * at[turn] for turn in row["turn"]])
    return wanted


@claim("Advantages are the two normalised parts, with discounted returns.")
def advantages_are_the_two_normalised_parts_with_discounted_returns() -> Finding:
    off, changes = 0.0, {"credit.weight": 0.7, "credit.turn.gamma": 0.9}
    for rows in random_batches(groups=3, states=2, turns=5):
        wanted = by_hand(rows, w=1.0, gamma=0.95, scaled=True)
        off = max(off, gap(inspect_rows(GIGPO, rows)["advantages"], wanted))
        wanted = by_hand(rows, w=0.7, gamma=0.9, scaled=False)
        off = max(off, gap(inspect_rows(ONE.but(changes), rows)["advantages"], wanted))
    return below(1e-12, off_the_formula_counted_anew_for_F_std_and_1=off)


@claim("The unbiased form compares with the other trajectories alone and sums over decisions.")
def the_unbiased_form_compares_with_the_other_trajectories_alone() -> Finding:
    off = 0.0
    for rows in random_batches(states=2, turns=5):
        earned = [[turn["reward"] for turn in row["turn_scores"]] for row in rows]
        earned = [[*own[:-1], own[-1] + row["scores"]["reward"]] for own, row in zip(earned, rows, strict=True)]
        after = [to_go(own, 0.95) for own in earned]
        wanted = []
        for i, row in enumerate(rows):
            others = [j for j, other in enumerate(rows) if j != i and other["group"] == row["group"]]
            whole = sum(earned[i]) - fmean(sum(earned[j]) for j in others)
            for turn in row["turn"]:
                here = [
                    (j, t) for j in others for t, state in enumerate(rows[j]["state"]) if state == row["state"][turn]
                ]
                wanted.append(whole + after[i][turn] - (fmean(after[j][t] for j, t in here) if here else 0.0))
        seen = inspect_rows(GIGPO_UNBIASED, rows)
        off = max(off, gap([a for own in seen["advantages"] for a in own], wanted))
        off = max(off, gap([s for own in seen["gradient"] for s in own], [-a / len(rows) for a in wanted]))
    return below(1e-12, advantages_and_gradient_off_the_formula_counted_anew=off)


@claim("States may be told apart by a similarity threshold.")
def states_may_be_told_apart_by_a_similarity_threshold() -> Finding:
    """Texts that differ in a letter join at 0.9 and stay apart at 1."""
    rows = [
        episode("g", reward, [{"tokens": [n], "state": f"You are in the kitchen. You see a red mug, number {n}."}])
        for n, reward in enumerate((1.0, 0.0))
    ]
    recipes = (ONE, ONE.but({"credit.turn.similarity": 0.9}))
    apart, joined = (inspect_rows(recipe, rows)["advantages"][0][0] for recipe in recipes)
    return Finding(gap([apart, joined], [0.5, 1.0]) < 1e-12, say(A_of_the_winner_apart=apart, joined=joined))


GAMMA, EPISODES, STEPS = 0.9, 3000, 120


def wandered(world: Mazes, number: int, count: int) -> list[Trajectory]:
    """`count` walks of the even policy through a maze, recorded turn by turn."""
    layout, rng, walks = world.layout(Key.of(number)), Key.of(7).numpy(), []
    logp = [np.array([-math.log(len(layout.open(cell)) or 1)], np.float32) for cell in range(layout.cells)]
    for sample in range(count):
        cell, turns, earned = layout.start, list[Turn](), list[float]()
        while cell != layout.goal and len(turns) < STEPS:
            ways = layout.open(cell)
            way = ways[int(rng.integers(len(ways)))]
            turns.append(Turn("solo", "solo", np.zeros(0), np.array([way]), logp[cell], state=str(cell)))
            cell = layout.ways[cell][way]
            earned.append(float(cell == layout.goal))
        walks.append(Trajectory(Scenario("maze"), turns, sample, scores={"reward/turn": Score(earned, Level.TURN)}))
    return walks


@claim(
    "With F = 1 the group mean at a state converges to V(s) and A_S to Q(s, a) - V(s).",
    "derived; by dynamic programming",
    slow=True,
)
def with_f_1_the_group_mean_at_a_state_converges_to_v_and_a_s_to_q() -> Finding:
    world, number = Mazes(width=3, height=3, loops=2, steps=STEPS), 2
    layout = world.layout(Key.of(number))
    exact = values(layout, uniform(layout), STEPS, discount=GAMMA)
    batch = WeightedSum()(pack(wandered(world, number, EPISODES)), {})
    credit, units = ONE.but({"credit.turn.gamma": GAMMA}).credit, turn_units(batch)
    assert units.turn is not None
    assert isinstance(credit, EpisodeAndTurn)
    returns = agent_returns(batch, units, GAMMA)
    of_unit = torch.zeros_like(returns).index_put((units.member,), credit.turn(batch).advantage)
    group, size = units.groups(GroupBy("scenario", "state"), batch)
    off, spread = [], []
    for here in (group == code for code in range(size)):
        cell = int(batch.names["state"][int(batch.state[units.turn[here][0]])])
        off.append(abs(float((returns - of_unit)[here].mean()) - exact.state[STEPS][cell]))
        for way in layout.open(cell):
            wanted = exact.action[STEPS][cell][way] - exact.state[STEPS][cell]
            off.append(abs(float(of_unit[here][batch.action[here] == way].mean()) - wanted))
            spread.append(abs(wanted))
    figures = say(walks=EPISODES, maze="3x3", states=size, error_of_V_and_of_Q_minus_V=max(off), largest=max(spread))
    return Finding(max(off) < 0.02 and max(spread) > 0.1, figures)


WORLD, MAZE, ENOUGH, MOST = Mazes(width=4, height=4, loops=3, steps=30), 1, 0.97, 45


def steps_until(recipe: Recipe, seed: int) -> int:
    """Training steps of 8 episodes until the exact chance to arrive is `ENOUGH`."""
    bench = maze_bench(recipe, {"maze": MAZE}, WORLD, seed)
    while bench.done < MOST and chance_to_arrive(bench, WORLD, MAZE) < ENOUGH:
        bench.run(1)
    return bench.done


@claim("In a gridworld with loops it succeeds faster than GRPO.", slow=True)
def in_a_gridworld_with_loops_it_succeeds_faster_than_grpo() -> Finding:
    plain, ours = ([steps_until(recipe, seed) for seed in SEEDS] for recipe in (GRPO, GIGPO))
    holds = max(ours) < min(plain) and fmean(ours) < 0.75 * fmean(plain)
    return Finding(holds, say(maze="4x4", arrive=ENOUGH, at_most=MOST, steps_of_GRPO=str(plain), GiGPO=str(ours)))


claim.shipped(GIGPO, "credit", settings={"curriculum.prompts": 4})
