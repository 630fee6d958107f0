"""Hand-made experience: a tree, two agents, forced decisions, baselines."""

from __future__ import annotations

import numpy as np

from hocket.types import Scenario, Trajectory, Turn


def turn(tokens, *, agent="solo", policy=None, parent=None, observed=(7,), **columns):
    tokens = np.asarray(tokens, np.int64)
    columns.setdefault("logp", -np.arange(1, len(tokens) + 1, dtype=np.float32))
    return Turn(agent, policy or agent, np.asarray(observed, np.int64), tokens, parent=parent, **columns)


def trajectory(scenario, turns, scores=None, **columns):
    return Trajectory(Scenario(str(scenario)), list(turns), scores=scores or {}, **columns)


def tree():
    """Trunk (10, 11) of branch a (20) with leaves (30), (31, 32), and branch b (21): three trajectories.

    Returns the trajectories and the turns by name.
    """
    trunk = turn([10, 11], observed=(1, 2))
    a, b = turn([20], parent=trunk, observed=(3,)), turn([21], parent=trunk, observed=(3,))
    first, second = turn([30], parent=a, observed=(4, 5)), turn([31, 32], parent=a, observed=(4, 5))
    paths = [[trunk, a, first], [trunk, a, second], [trunk, b]]
    turns = {"trunk": trunk, "a": a, "b": b, "first": first, "second": second}
    return [trajectory("s", path, sample=i) for i, path in enumerate(paths)], turns


def two_agents():
    """A planner and a worker take turns; each extends only its own context."""
    plan = turn([1, 2], agent="planner", observed=(9, 9, 9), role="lead")
    work = turn([3], agent="worker", observed=(8,))
    again = turn([4, 5, 6], agent="planner", parent=plan, observed=(3,), role="lead")
    done = turn([7], agent="worker", parent=work, observed=(4, 5, 6))
    return trajectory("s", [plan, work, again, done])


def walked_back(batch, row):
    """The turns of a trajectory as (agent, observation, actions), read from a batch alone."""
    seen = batch.occurrences
    decisions = seen.decision[seen.trajectory == row]
    turns = list(dict.fromkeys(batch.turn[decisions].tolist()))
    return [
        (
            batch.names["agent"][batch.agent[number]],
            batch.observation[number].tolist(),
            batch.action[decisions[batch.turn[decisions] == number]].tolist(),
        )
        for number in turns
    ]


def recorded_path(path):
    """The same from the recorded turns."""
    return [(t.agent, t.observation.tolist(), t.action.tolist()) for t in path.turns if len(t)]
