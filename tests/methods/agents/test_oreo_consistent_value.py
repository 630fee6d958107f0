"""What transcripts are worth by a consistent policy and value function, and the order of OREO's two fits."""

from __future__ import annotations

import math

import pytest
import torch

from hocket.core.keys import Key
from hocket.lab.talk import Lookup
from hocket.methods.agents.claims.oreo import ACTIONS, BETA, PATHS, PLAIN, learnt, place, tree, write
from hocket.search.consistent import ConsistentValue
from hocket.train.aio import run_async
from hocket.train.loop import collect


def value_of(made):
    learner = made.learners["policy"]
    assert isinstance(learner.reference, Lookup)
    return ConsistentValue(learner.policy, learner.reference, BETA)


def test_at_the_optimum_whole_transcripts_are_worth_what_they_earn():
    made, soft = tree(0, PLAIN, even=False)
    write(made, soft)
    experience, _ = run_async(collect(made.parts, Key.of(0)))
    found = run_async(value_of(made)(experience.trajectories))
    assert found == pytest.approx([soft.worth[one.text] for one in experience.trajectories])
    assert len(found) == len(PATHS)


def test_in_general_it_is_the_value_and_the_cost_of_the_last_decision():
    made, _ = tree(1, PLAIN, even=True)
    policy, row = place(made, (ACTIONS[0], ACTIONS[0]))
    assert policy.module.values is not None
    with torch.no_grad():
        policy.module.values[row] = 0.25
        policy.module.logits[row] = torch.tensor([math.log(3.0), 0.0], dtype=torch.float64)
    experience, _ = run_async(collect(made.parts, Key.of(0)))
    first = next(one for one in experience.trajectories if one.text.startswith(f"{ACTIONS[0]} {ACTIONS[0]}"))
    chance = 0.75 if first.text.endswith(ACTIONS[0]) else 0.25
    assert run_async(value_of(made)([first])) == pytest.approx([0.25 + BETA * math.log(chance / 0.5)])
    assert run_async(value_of(made)([])) == []


def test_the_policy_is_fitted_to_values_that_were_fitted_before():
    """Rewards and a policy at the reference: values move first, so the policy already moves in the first step."""
    slow, _ = tree(0, PLAIN.but({"update.lr": 0.05}), even=True)
    assert learnt(slow, ())[0] == 0.0
    slow.step()
    assert learnt(slow, ())[0] > 0
    metrics = slow.history[-1]
    assert metrics["value/loss"] > metrics["loss"], "the loss of the policy's step is that after the values moved"


def test_more_fits_bring_values_closer_before_the_policy_moves():
    losses = []
    for fits in (1, 10):
        made, _ = tree(0, PLAIN.but({"update.fits": fits}), even=True)
        made.step()
        losses.append(made.history[-1]["loss"])
    assert losses[1] < 0.5 * losses[0]
