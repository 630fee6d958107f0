"""Path consistency counted anew, what transcripts are worth by it, and the order of its two fits."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key
from hocket.lab.microscope import RecordedBatch, inspect
from hocket.lab.talk import LookupPolicy
from hocket.methods.agents.claims.oreo import ACTIONS, BETA, PATHS, PLAIN, learnt, tree, write
from hocket.methods.agents.claims.oreo import place as place_of
from hocket.methods.agents.oreo.method import OREO, PathConsistency, ValueSteps
from hocket.methods.agents.oreo.searcher import ConsistentValue
from hocket.objectives.surrogate import ClippedSurrogate
from hocket.train.aio import run_async
from hocket.train.loop import collect
from hocket.types import Evaluation


def value_of(made):
    learner = made.learners["policy"]
    assert isinstance(learner.reference, LookupPolicy)
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
    policy, row = place_of(made, "the tree", (ACTIONS[0], ACTIONS[0]))
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
    assert learnt(slow, "the tree", ())[0] == 0.0
    slow.step()
    assert learnt(slow, "the tree", ())[0] > 0
    metrics = slow.history[-1]
    assert metrics["value/loss"] > metrics["loss"], "the loss of the policy's step is that after the values moved"


def test_more_fits_bring_values_closer_before_the_policy_moves():
    losses = []
    for fits in (1, 10):
        made, _ = tree(0, PLAIN.but({"update.fits": fits}), even=True)
        made.step()
        losses.append(made.history[-1]["loss"])
    assert losses[1] < 0.5 * losses[0]


LAW = settings(max_examples=60, deadline=None, derandomize=True)


def row(draw_seed, size, reward, turns, scale=1.0):
    generator = torch.Generator().manual_seed(draw_seed)

    def numbers(mean=0.0):
        return (mean + scale * torch.randn(size, generator=generator, dtype=torch.float64)).tolist()

    return {
        "group": f"g{draw_seed % 2}",
        "scores": {"reward": reward},
        "logp": [min(0.0, x) for x in numbers(-1.0)],
        "logp_ref": [min(0.0, x) for x in numbers(-1.0)],
        "value": numbers(),
        "turn": [min(turns - 1, place) for place in range(size)] if turns > 1 else [0] * size,
        "segment": [place // 2 for place in range(size)] if turns == 1 else [0] * size,
        "trained": [bool(torch.rand((), generator=generator) < 0.7) for _ in range(size)],
    }


def close(found, wanted):
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        assert a == pytest.approx(b, rel=1e-9, abs=1e-11)


@LAW
@given(seed=st.integers(0, 30), size=st.integers(2, 4))
def test_it_does_not_depend_on_the_order_of_traces(seed, size):
    rows = [row(seed + n, size, float(n), 1) for n in range(3)]
    for one in rows:
        one["trained"][-1] = True
    there = inspect(OREO, {"version": 1, "trajectories": rows})
    back = inspect(OREO, {"version": 1, "trajectories": rows[::-1]})
    assert there["loss"] == pytest.approx(back["loss"], rel=1e-12)
    for a, b in zip(there["gradient"], back["gradient"][::-1], strict=True):
        close(a, b)


@pytest.mark.parametrize("gap", [50.0, -50.0, 125.0])
def test_far_from_the_reference_it_stays_finite(gap):
    one = row(0, 4, 1.0, 1) | {"logp_ref": [-200.0] * 4, "logp": [-200.0 + gap] * 4, "trained": [True] * 4}
    found = inspect(OREO, {"version": 1, "trajectories": [one]})
    assert math.isfinite(found["loss"])
    assert all(math.isfinite(x) for x in found["gradient"][0] + found["gradient_value"][0])


def test_traces_without_a_counted_decision_are_no_traces():
    rows = [row(1, 3, 1.0, 1), row(2, 3, 0.0, 1)]
    rows[0]["trained"], rows[1]["trained"] = [True] * 3, [False] * 3
    both = inspect(OREO, {"version": 1, "trajectories": rows})
    alone = inspect(OREO, {"version": 1, "trajectories": rows[:1]})
    assert both["loss"] == pytest.approx(alone["loss"], rel=1e-12)
    assert both["gradient"][1] == [0.0] * 3


def test_the_value_weight_scales_the_values_square_alone():
    rows = [row(3, 3, 1.0, 1) | {"trained": [True] * 3}]
    whole = inspect(OREO, {"version": 1, "trajectories": rows})
    half = inspect(OREO.but({"objective.value": 0.5}), {"version": 1, "trajectories": rows})
    close(half["gradient"][0], whole["gradient"][0])
    close([2 * x for x in half["gradient_value"][0]], whole["gradient_value"][0])
    assert half["loss"] == pytest.approx(0.75 * whole["loss"])


def test_credit_tells_the_falls_of_v_and_the_reward_to_come():
    rows = [
        {
            "group": "g",
            "scores": {"reward": 1.0},
            "logp": [-1.0] * 3,
            "logp_ref": [-1.0] * 3,
            "value": [0.5, 0.75, 0.25],
        }
    ]
    seen = ValueSteps()(OREO.compute_credit(RecordedBatch({"version": 1, "trajectories": rows}).batch, {}, {})[0])
    close(seen.advantage.tolist(), [0.25, -0.5, 0.75])
    assert seen.target is not None
    close(seen.target.tolist(), [1.0, 1.0, 1.0])


def test_without_targets_it_says_what_is_missing():
    rows = [row(0, 2, 1.0, 1) | {"trained": [True, True]}]
    batch = RecordedBatch({"version": 1, "trajectories": rows}).batch
    with pytest.raises(HocketError, match="targets"):
        PathConsistency()(Evaluation(torch.zeros(2), value=torch.zeros(2)), batch)


@pytest.mark.parametrize("changes", [{"beta": 0.0}, {"step": "word"}, {"aggregate": "sequence-sum"}, {"value": -1.0}])
def test_settings_without_sense_are_refused(changes):
    with pytest.raises(ValueError, match=r"must be|at least"):
        PathConsistency(**changes)


def test_a_recipe_whose_loss_has_no_value_is_refused_this_credit():
    with pytest.raises(ConfigurationError, match="values that nothing trains"):
        OREO.but({"objective": ClippedSurrogate()})
