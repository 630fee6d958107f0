"""An expert's answer among the samples of a group, and the curve that bends returns."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from hocket.lab.bench import Bench
from hocket.lab.toys.recorded_answers import said, shaped
from hocket.lab.world import World
from hocket.methods.group_relative.tempsamp_r1 import TEMPSAMP_R1, AsymmetricCurve, WithExpert


@pytest.mark.parametrize(("samples", "experts"), [(4, 4), (4, -1), (0, 0)])
def test_an_expert_is_never_alone(samples, experts):
    with pytest.raises(ValueError, match="fewer than samples"):
        WithExpert(samples=samples, experts=experts)


def world():
    return World(
        questions=2,
        tokens=6,
        horizon=2,
        reward=lambda question, answer: float(answer == (3, 4)),
        metadata=lambda question: {"demonstration": (3, 4)},
    )


def test_an_expert_is_learnt_from_with_ratio_one():
    bench = Bench(world(), TEMPSAMP_R1.but({"rollout.samples": 4}), seed=0)
    before = bench.policy.logits.detach().clone()
    result = bench.step()
    taught = [t for t in result.trajectories if t.source == "expert"]
    assert [tuple(t.turns[0].action.tolist()) for t in taught] == [(3, 4), (3, 4)]
    assert all(t.turns[0].logp is None for t in taught)
    batch = result.batch
    assert batch is not None
    rows = [n for n, t in enumerate(result.trajectories) if t.source == "expert"]
    own = torch.isin(batch.occurrences.trajectory, torch.tensor(rows))
    assert bool((batch.occurrences.weight[own] == 1).all())
    assert bool((batch.occurrences.advantage[own] > 0).all())
    table = torch.log_softmax(before, -1)
    wanted = [float(table[bench.policy.row(0, (3, 4)[:length]), (3, 4)[length]]) for length in range(2)]
    found = batch.logp["behaviour"].values[batch.occurrences.decision[own]][:2].tolist()
    assert found == pytest.approx(wanted, abs=1e-6)
    bench.run(30, every=30)
    assert bench.success() > 0.5


def test_text_demonstrations_are_read_as_tokens():
    told = replace(world(), metadata=lambda question: {"demonstration": "3 4"})
    taught = [t for t in Bench(told, TEMPSAMP_R1, seed=0).step().trajectories if t.source == "expert"]
    assert [t.turns[0].action.tolist() for t in taught] == [[3, 4], [3, 4]]


def test_the_curve_is_applied_to_whole_returns():
    rows = [said("q", "x", 0.3), {**said("q", "x", 0.1), "token_scores": {"step": [0.1, 0.1]}}]
    shape = AsymmetricCurve()
    assert TEMPSAMP_R1.shaping == (shape,)
    summed = TEMPSAMP_R1.but(name="sum")
    rows = [{**row, "scores": {"verdict": row["scores"]["reward"]}} for row in rows]
    assert shaped(summed, rows)[0] == pytest.approx(shaped(summed, rows)[1])
