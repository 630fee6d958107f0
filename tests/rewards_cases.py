"""Answers to be rewarded: as recorded batches, and as trajectories with a text."""

from __future__ import annotations

import asyncio

import numpy as np
from hypothesis import strategies as st

from hocket.core.keys import Key
from hocket.core.signals import returns
from hocket.lab.microscope import RecordedBatch
from hocket.methods.base.grpo import GRPO
from hocket.types import Scenario, Trajectory, Turn

# ---------------------------------------------------------------- scores


def scored_batch(rows, groups=None, info=None):
    """A batch with these scores per trajectory; the groups are all one unless told."""
    found = [
        {"id": str(n), "group": str(groups[n] if groups else 0), "scores": row, "logp": [-1.0, -0.5]}
        for n, row in enumerate(rows)
    ]
    for row, told in zip(found, info or [], strict=False):
        row["info"] = told
    return RecordedBatch({"version": 1, "trajectories": found}).batch


def rewards_of(batch):
    return batch.scores["reward"].values.tolist()


def read(*rows):
    """A combined batch of trajectories with one decision each unless told."""
    filled = [{"group": "a", "logp": [-1.0], "scores": {"reward": 0.0}, **row} for row in rows]
    batch = RecordedBatch({"version": 1, "trajectories": filled}).batch
    return GRPO.combine(batch, {})


# ---------------------------------------------------------------- lengths

ANSWERS = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from([0.0, 1.0]), st.integers(1, 9), st.booleans()),
    min_size=1,
    max_size=8,
)
"""Group, verdict, length, and whether the answer counts."""


def answer_rows(answers):
    return [
        {
            "group": group,
            "scores": {"reward": verdict},
            "logp": [-1.0] * length,
            "trained": [counts] * length,
            "text": "",
        }
        for group, verdict, length, counts in answers
    ]


def batch_of_answers(answers, **more):
    return RecordedBatch({"version": 1, "trajectories": [{**row, **more} for row in answer_rows(answers)]}).batch


def shaped_returns(shape, answers, **more):
    return returns(shape(batch_of_answers(answers, **more))).tolist()


# ---------------------------------------------------------------- texts


def answered(text, answer=None, **metadata):
    turn = Turn("solo", "solo", np.zeros(1, np.int64), np.zeros(1, np.int64), text=text)
    return Trajectory(Scenario("s", answer=answer, metadata=metadata), [turn])


def graded(reward, *trajectories):
    return list(asyncio.run(reward(list(trajectories), key=Key.of(0))))


def opinions(reward, texts, scenario):
    trajectories = [
        Trajectory(scenario, [Turn("a", "a", np.zeros(1, np.int64), np.zeros(1, np.int64), text=text)])
        for text in texts
    ]
    return graded(reward, *trajectories)


class AlwaysRight:
    name, weight = "truth", 1.0

    async def __call__(self, trajectories, *, key):
        return [1.0] * len(trajectories)
