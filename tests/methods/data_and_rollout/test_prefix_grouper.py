"""Prefixes that are computed once."""

from __future__ import annotations

from hocket.lab.claims.harness import below
from hocket.lab.claims.lesson_data import begin
from hocket.methods.base.grpo import GRPO_KL
from hocket.policies.causal_lm import CausalLM


def test_hocket_train_shares_prefixes_unasked():
    runs = [begin(GRPO_KL, "sums", {"curriculum.prompts": 2}) for _ in range(2)]
    for run, shared in zip(runs, (True, False), strict=True):
        (learner,) = run.parts.learners.values()
        policy = run.parts.lead.policy
        assert isinstance(policy, CausalLM)
        assert policy.share_prefixes
        for one in (policy, learner.reference):
            if isinstance(one, CausalLM):
                one.share_prefixes = shared
    ours, plain = (run.run(1).results[0].metrics for run in runs)
    assert below(
        0.0001,
        ours["groups/with_signal"] > 0,
        loss_apart=abs(float(ours["loss"]) - float(plain["loss"])),
        entropy_apart=abs(float(ours["entropy"]) - float(plain["entropy"])),
    ).holds
