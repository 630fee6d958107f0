"""AR3PO: samples in stages until one is right, and an earlier right one where none is (Zhang et al., arXiv:2509.25808).

A question is sampled `k` times per stage and left in peace once a sample is right, so easy ones cost one stage
(`ReusedSuccess(stages=...)`). Where all stages fail a kept right answer replaces a wrong one: `ar3po` lets it enter
mean and deviation alone (option II, `WithoutReplayed`), `ar3po-reused` learns from it with the present policy's own
probabilities as the old ones (option I).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from hocket.core.batch import Batch, Occurrences
from hocket.credit.refinement import Refined
from hocket.curriculum.scenario_worth import Weighted
from hocket.methods.base.grpo import GRPO
from hocket.rollout.replay import ReusedSuccess


@dataclass(frozen=True)
class WithoutReplayed(Refined):
    """Replayed trajectories are compared with the others, and then carry no gradient: AR3PO (arXiv 2509.25808), II."""

    def refine(self, batch: Batch) -> Occurrences:
        seen, names = batch.occurrences, batch.names["source"]
        if "replay" not in names:
            return seen
        old = batch.source[seen.trajectory] == names.index("replay")
        return replace(seen, weight=torch.where(old, torch.zeros_like(seen.weight), seen.weight))


AR3PO_REUSED = GRPO.but(
    name="ar3po-reused",
    title="AR3PO that learns from the answer it brings back",
    source="Zhang et al., Improving Sampling Efficiency in RLVR through Adaptive Rollout and Response Reuse, "
    "arXiv:2509.25808, as public summaries have it",
    family="data-and-rollout",
    axes=("rollout", "data", "credit"),
    formula="draw k samples at a time, S times at most, until one is right; if none is, one y_i <- a kept right one, "
    "r_t = pi/sg[pi];  A_i = (R_i - mean R)/(std R + eps) over what the question got",
    conventions={
        **GRPO.conventions,
        "stages": "2 of 4 samples",
        "what is kept": "the latest 16 right answers of a question",
        "the answer that comes back": "option I: its old probabilities are the policy's at the step's beginning",
        "questions": "all of a finite task and 256 of an endless one (curriculum.pool) come again in random order",
    },
    task="sums",
    curriculum=Weighted(),
    rollout=ReusedSuccess(samples=4, stages=2, fresh_ratio=True),
)

AR3PO = AR3PO_REUSED.but(
    name="ar3po",
    title="AR3PO: adaptive rollout and response reuse",
    catalogue_ids=("ar3po",),
    formula="draw k samples at a time, S times at most, until one is right; if none is, a kept right one enters mean "
    "and deviation in the place of a wrong one, without a gradient;  A_i = (R_i - mean R)/(std R + eps)",
    conventions={**AR3PO_REUSED.conventions, "the answer that comes back": "option II: it carries no gradient"},
    credit=WithoutReplayed(of=GRPO.credit),
)
