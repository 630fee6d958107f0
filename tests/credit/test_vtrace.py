"""V-trace against the sums of its paper."""

from __future__ import annotations

import math

import pytest
import torch
from credit_cases import LAW, batch_of, by_trajectory, experiences, make, recorded, rewards_by_hand, weights_by_hand
from hypothesis import given
from hypothesis import strategies as st

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.credit.gae import GAE
from hocket.credit.vtrace import VTrace


def stale(trajectories, seed, spread):
    """A batch with random values, and log-probs of a sampler and a learner that `spread` sets apart."""
    batch, draw = batch_of(trajectories), Key.of(seed).torch()
    value = torch.randn(batch.decisions, generator=draw, dtype=torch.float64)
    final = torch.randn(batch.trajectories, generator=draw, dtype=torch.float64)
    old = -torch.rand(batch.decisions, generator=draw, dtype=torch.float64)
    now = old + spread * torch.randn(batch.decisions, generator=draw, dtype=torch.float64)
    logp = {"behaviour": recorded(old), "proximal": recorded(now)}
    return batch.but(value=value, final_value=torch.where(batch.truncated, final, 0.0), logp=logp)


def sums(rewards, values, final, ratios, stage):
    """v_s and the advantages by equation 1 as it stands: a sum over all later differences for each decision."""
    rho, c = [min(r, stage.rho) for r in ratios], [stage.lam * min(r, stage.c) for r in ratios]
    ahead = [*values[1:], final]
    delta = [w * (r + stage.gamma * n - v) for w, r, n, v in zip(rho, rewards, ahead, values, strict=True)]
    target = [
        v + math.fsum(stage.gamma ** (t - s) * math.prod(c[s:t]) * delta[t] for t in range(s, len(delta)))
        for s, v in enumerate(values)
    ]
    after = [*target[1:], final]
    return target, [w * (r + stage.gamma * n - v) for w, r, n, v in zip(rho, rewards, after, values, strict=True)]


@LAW
@given(
    experiences(sources=("own", "own", "baseline")),
    st.integers(0, 10**6),
    st.sampled_from([VTrace(), VTrace(gamma=0.9, lam=0.8), VTrace(rho=2.0, c=0.5), VTrace(gamma=1.0, rho=9.0, c=9.0)]),
)
def test_by_the_papers_sums(trajectories, seed, stage):
    batch = stale(trajectories, seed, 0.7)
    seen = stage(batch)
    ratio = (batch.logp["proximal"].values - batch.logp["behaviour"].values).exp()[batch.occurrences.decision]
    columns = (batch.value[batch.occurrences.decision], ratio, seen.target, seen.advantage)
    rows = zip(*(by_trajectory(batch, column) for column in columns), strict=True)
    for number, (trajectory, (values, ratios, target, advantage)) in enumerate(zip(trajectories, rows, strict=True)):
        if not values:
            continue
        final = float(batch.final_value[number])
        wanted, credit = sums(rewards_by_hand(trajectory), values, final, ratios, stage)
        assert target == pytest.approx(wanted, abs=1e-9)
        counted = [a if w else 0.0 for a, w in zip(credit, weights_by_hand(trajectory), strict=True)]
        assert advantage == pytest.approx(counted, abs=1e-9)


@LAW
@given(experiences(), st.integers(0, 10**6))
def test_on_policy_its_targets_are_gaes(trajectories, seed):
    batch = stale(trajectories, seed, 0.0)
    ours = VTrace(gamma=0.9, lam=0.8)(batch)
    plain = GAE(gamma=0.9, lam=0.8, whiten=False)(batch)
    assert ours.target.tolist() == pytest.approx(plain.target.tolist(), abs=1e-9)


def test_what_is_refused():
    batch = batch_of([make("s", 1.0)])
    with pytest.raises(ConfigurationError, match="value"):
        VTrace()(batch)
    with pytest.raises(ConfigurationError, match="proximal"):
        VTrace()(batch.but(value=torch.zeros(batch.decisions, dtype=torch.float64)))
    for wrong in ({"gamma": 1.5}, {"lam": -0.1}, {"c": 2.0}, {"c": 0.0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            VTrace(**wrong)
