"""The agreement metric and its cause finder, and what Annotate fills."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from fakes import TablePolicy, random_trajectories

from hocket.core.batch import Batch, RecordedNumbers
from hocket.core.columns import Column
from hocket.core.packing import pack
from hocket.train.agreement import agreement
from hocket.train.annotate import annotate
from hocket.train.evaluate import pass_at_k


def sampled(policy: TablePolicy, *, change: float = 0.0, scale: float = 1.0, version: int = 0) -> Batch:
    trajectories = random_trajectories(0, groups=8, samples=8)
    for trajectory in trajectories:
        trajectory.turns[0].version = np.full(len(trajectory.turns[0]), version)
    batch = pack(trajectories)
    exact = policy.evaluate(batch, ()).logp.detach()
    known = torch.ones(batch.decisions, dtype=torch.bool)
    return batch.but(logp={"behaviour": RecordedNumbers(exact * scale + change, known)})


def found(policy: TablePolicy, batch: Batch, version: int = 0):  # type: ignore[no-untyped-def]
    now = policy.evaluate(batch, ()).logp
    return agreement(batch, now, torch.arange(batch.decisions), version)


def test_equal_log_probs_agree_exactly() -> None:
    policy = TablePolicy(5, 4)
    seen = found(policy, sampled(policy))
    assert seen.kl == 0
    assert seen.largest == 0
    assert seen.cause(0.05) is None


@pytest.mark.parametrize(
    ("difference", "word"),
    [({"scale": 1.3}, "temperature"), ({"change": 0.3}, "top-p"), ({"change": -0.2, "version": -1}, "older weights")],
)
def test_the_likely_cause_is_named(difference: dict[str, float], word: str) -> None:
    policy = TablePolicy(5, 4)
    seen = found(policy, sampled(policy, **difference))  # type: ignore[arg-type]
    assert seen.kl > 0
    assert word in (seen.cause(0.05) or "")


def test_replayed_samples_are_counted_and_not_compared() -> None:
    policy = TablePolicy(5, 4)
    batch = sampled(policy)
    replayed = torch.arange(batch.decisions) % 2 == 0
    behaviour = batch.logp["behaviour"]
    moved = RecordedNumbers(behaviour.values + 2.0 * replayed, behaviour.present)
    seen = found(policy, batch.but(logp={"behaviour": moved}, version=batch.version - replayed.long()))
    assert (seen.largest, seen.stale) == (0, pytest.approx(0.5, abs=0.01))
    assert seen.cause(0.05) is None


def test_gaps_without_a_pattern_point_at_precision() -> None:
    policy = TablePolicy(5, 4)
    batch = sampled(policy)
    noise = torch.from_numpy(np.random.default_rng(0).normal(0, 0.1, batch.decisions))
    noisy = RecordedNumbers(batch.logp["behaviour"].values + noise, batch.logp["behaviour"].present)
    assert "precision" in (found(policy, batch.but(logp={"behaviour": noisy})).cause(0.05) or "")


def test_kl_is_the_k3_estimate() -> None:
    policy = TablePolicy(5, 4)
    batch = sampled(policy, change=0.25)
    assert found(policy, batch).kl == pytest.approx(np.exp(-0.25) - 1 + 0.25)


def test_annotate_fills_what_is_read_and_keeps_the_samplers_numbers() -> None:
    policy, reference = TablePolicy(5, 4, seed=1), TablePolicy(5, 4, seed=2)
    trajectories = random_trajectories(1)
    trajectories[0].turns[0].logp = None
    batch = pack(trajectories)
    own = policy.evaluate(batch, ()).logp.detach()
    reads = frozenset({Column.REFERENCE, Column.PROXIMAL, Column.VALUE, Column.ENTROPY})
    filled = annotate(batch, reads, policy, reference)  # type: ignore[arg-type]
    imported = batch.turn == 0
    torch.testing.assert_close(filled.logp["behaviour"].values[imported].double(), own[imported], atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(
        filled.logp["behaviour"].values[~imported].float(), batch.logp["behaviour"].values[~imported]
    )
    torch.testing.assert_close(filled.logp["proximal"].values, own)
    torch.testing.assert_close(filled.logp["reference"].values, reference.evaluate(batch, ()).logp.detach())
    assert filled.logp["behaviour"].complete
    assert filled.value is not None
    assert filled.entropy is not None
    untouched = annotate(pack(random_trajectories(1)), frozenset(), policy, None)  # type: ignore[arg-type]
    assert set(untouched.logp) == {"behaviour"}
    assert untouched.value is None


@pytest.mark.parametrize(
    ("samples", "correct", "k"), [(8, 0, 4), (8, 8, 1), (8, 3, 1), (8, 3, 4), (5, 2, 5), (6, 1, 3)]
)
def test_pass_at_k_is_the_share_of_draws_that_hold_a_success(samples: int, correct: int, k: int) -> None:
    from itertools import combinations

    draws = list(combinations(range(samples), k))
    share = sum(any(place < correct for place in draw) for draw in draws) / len(draws)
    assert pass_at_k(samples, correct, k) == pytest.approx(share)
