"""Masks, the copy that they come from, and the charge that follows its target."""

from __future__ import annotations

import torch
from core_cases import uneven_bench

from hocket.policies.masking import allowed_at
from hocket.rollout.nucleus import DELAYED


def test_masks_belong_to_their_decisions_and_the_copy_is_refreshed_on_time():
    run = uneven_bench("nlpo", **{"rollout.mass": 0.6, "update.every": 2})
    batch = run.step().batch
    found = allowed_at(batch, torch.arange(batch.decisions), 3)
    assert bool(found.gather(1, batch.action[:, None]).all())
    assert not bool(found.all())
    backwards = torch.arange(batch.decisions).flip(0)
    assert torch.equal(allowed_at(batch, backwards, 3), found.flip(0))
    assert allowed_at(batch.but(allowed=()), backwards, 3) is None
    held = run.policy.module.copies[DELAYED].clone()
    assert not torch.equal(held, run.policy.logits.detach())
    run.step()
    assert torch.equal(run.policy.module.copies[DELAYED], run.policy.logits.detach())
    assert [row["mask/refreshed"] for row in run.history] == [0.0, 1.0]


def test_a_table_keeps_its_copy_on_disk(tmp_path):
    run = uneven_bench("nlpo", **{"rollout.mass": 0.6})
    run.step()
    run.policy.save(tmp_path)
    other = uneven_bench("nlpo")
    other.policy.load(tmp_path)
    assert torch.equal(other.policy.module.copies[DELAYED], run.policy.module.copies[DELAYED])
    assert not torch.equal(other.policy.module.copies[DELAYED], other.policy.logits.detach())
