"""The admission rule of asynchronous training, under random durations, deaths, retries, late and double results."""

from __future__ import annotations

import random
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.core.errors import ConfigurationError
from hocket.distributed.cluster.admission import GroupAdmission, GroupTicket

Order = Literal["start", "arrival"]


def run(seed: int, batch: int, lag: int, order: Order, steps: int = 6) -> list[tuple[GroupTicket, ...]]:
    """The batches of a run in which chance decides what happens next."""
    admission = GroupAdmission(batch, lag, order)
    holds = [0, 0, 0]
    given_out: list[GroupTicket] = []
    batches: list[tuple[GroupTicket, ...]] = []
    pick = random.Random(seed)
    for _ in range(20000):
        if len(batches) == steps:
            return batches
        node = pick.randrange(3)
        what = pick.choice(["begin", "begin", "finish", "finish", "lose", "twice", "load", "learn"])
        if what == "load":
            holds[node] = pick.randint(holds[node], admission.version)
        elif what == "begin":
            kept = range(max(0, holds[node] - lag), holds[node] + 1) if order == "start" else [holds[node]]
            if ticket := admission.begin(kept):
                assert ticket.version in kept
                given_out.append(ticket)
        elif what == "learn":
            if taken := admission.take():
                assert all(0 <= admission.version - ticket.version <= lag for ticket in taken)
                batches.append(taken)
                admission.learnt(taken)
        elif given_out:
            ticket = pick.choice(given_out)
            if what == "lose":
                admission.lose(ticket)
            else:
                admission.finish(ticket)
                assert not admission.finish(ticket), "a result counts once"
    raise AssertionError("the run stands still")


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(0, 4), st.sampled_from(["start", "arrival"]))
def test_no_group_is_older_than_the_lag_and_none_is_learnt_twice(seed: int, batch: int, lag: int, order: Order) -> None:
    batches = run(seed, batch, lag, order)
    groups = [ticket.group for taken in batches for ticket in taken]
    assert len(set(groups)) == len(groups) == 6 * batch
    if order == "start":
        assert groups == list(range(6 * batch))
        assert all(t.version == max(0, t.group // batch - lag) for taken in batches for t in taken)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 5), st.sampled_from(["start", "arrival"]))
def test_without_lag_the_sequence_is_the_synchronous_one(seed: int, batch: int, order: Order) -> None:
    for step, taken in enumerate(run(seed, batch, 0, order)):
        assert [(t.group, t.version) for t in taken] == [(step * batch + i, step) for i in range(batch)]


def test_what_grew_too_old_is_asked_again() -> None:
    admission = GroupAdmission(1, 0, "arrival")
    first = admission.begin([0])
    assert first is not None
    assert admission.begin([0]) is None
    admission.lose(first)
    again = admission.begin([0])
    assert again == GroupTicket(0, 0, 1)
    assert not admission.finish(first)
    assert admission.finish(again)


@pytest.mark.parametrize(("batch", "lag", "order"), [(0, 1, "start"), (1, -1, "start"), (1, 1, "random")])
def test_impossible_settings_are_refused(batch: int, lag: int, order: Order) -> None:
    with pytest.raises(ConfigurationError):
        GroupAdmission(batch, lag, order)
