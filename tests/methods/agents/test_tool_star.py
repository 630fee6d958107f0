"""Tool-Star's rounds: which steps compare pairs."""

from __future__ import annotations

import pytest
import torch

from hocket.lab.microscope import RecordedBatch
from hocket.methods.agents.claims.tool_star import bench
from hocket.methods.agents.tool_star import TOOL_STAR, TOOL_STAR_RL
from hocket.types import Evaluation

ROWS = [
    {"group": "g", "scores": {"correct": score}, "logp": [-1.0, -0.5], "logp_ref": [-1.2, -0.4]}
    for score in (1.1, 1.0, 0.0, -1.0)
]


@pytest.mark.parametrize(("step", "pairs"), [(1, False), (30, False), (31, True), (40, True), (41, False), (71, True)])
def test_ten_steps_of_forty_compare_pairs(step, pairs):
    batch = RecordedBatch({"version": 1, "trajectories": ROWS}).batch.but(step=step)
    credited, _ = TOOL_STAR.compute_credit(batch, TOOL_STAR.init(), {})
    seen = credited.occurrences
    assert (seen.pairs is not None) is pairs
    logp = torch.tensor([-1.0, -0.5] * 4, dtype=torch.float64)
    terms = TOOL_STAR.loss(Evaluation(logp), credited)
    if pairs:
        assert seen.pairs.tolist() == [[0, 3]], "the best against the worst"
        assert len(terms[0].value) == 1
    else:
        alone, _ = TOOL_STAR_RL.compute_credit(batch, TOOL_STAR_RL.init(), {})
        assert torch.equal(seen.advantage, alone.occurrences.advantage)
        assert terms[0].total() == TOOL_STAR_RL.loss(Evaluation(logp), alone)[0].total()


def test_a_phase_of_pairs_changes_the_policy():
    made = bench("by turns", 0)
    made.run(15)
    before = made.policies["policy"].module.logits.detach().clone()
    made.step()
    assert "pairs/total" in made.history[-1]
    assert "pairs/total" not in made.history[-2]
    assert not torch.equal(before, made.policies["policy"].module.logits)
