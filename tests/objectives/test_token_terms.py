"""Ratios of segments, and objectives on some of the trajectories."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.core.keys import Key
from hocket.core.schedules import Linear
from hocket.lab.documents import random_document
from hocket.lab.microscope import RecordedBatch, inspect
from hocket.methods.base.grpo import GRPO
from hocket.objectives.divergence import ExactKL, KLToReference
from hocket.objectives.policy_gradient import PolicyGradient
from hocket.objectives.ratios import log_ratios, segment_means
from hocket.objectives.subset import Among
from hocket.objectives.surrogate import ClippedSurrogate
from hocket.types import Evaluation

LAW = settings(max_examples=40, deadline=None, derandomize=True)


@LAW
@given(st.integers(0, 10_000))
def test_the_mean_of_each_segment_by_hand(seed):
    document = random_document(Key.of(seed))
    noise = Key.of(seed).derive("trained").numpy()
    for row in document["trajectories"]:
        row["trained"] = [bool(noise.random() < 0.7) for _ in row["logp"]]
    read = RecordedBatch(document)
    own = log_ratios(Evaluation(read.logp), read.batch)
    found = read.by_trajectory(segment_means(own, read.batch))
    for row, means, ratios in zip(document["trajectories"], found, read.by_trajectory(own), strict=True):
        for place, segment in enumerate(row["segment"]):
            inside = [r for r, s, t in zip(ratios, row["segment"], row["trained"], strict=True) if s == segment and t]
            assert means[place] == pytest.approx(math.fsum(inside) / len(inside) if inside else 0.0)


@LAW
@given(st.integers(0, 10_000))
def test_segments_of_one_decision_or_of_a_whole_trajectory_are_other_ratios(seed):
    document = random_document(Key.of(seed), longest=1)
    by_segment = inspect(GRPO.but({"objective.ratio": "segment"}), document)["gradient"]
    assert by_segment == inspect(GRPO, document)["gradient"]
    document = random_document(Key.of(seed))
    for row in document["trajectories"]:
        row["segment"] = [0] * len(row["logp"])
    by_segment = inspect(GRPO.but({"objective.ratio": "segment"}), document)["gradient"]
    whole = inspect(GRPO.but({"objective.ratio": "sequence"}), document)["gradient"]
    for left, right in zip(by_segment, whole, strict=True):
        assert left == pytest.approx(right, rel=1e-9, abs=1e-15)


def split_documents():
    document = random_document(Key.of(4))
    for number, row in enumerate(document["trajectories"]):
        row["info"]["tempered"] = number % 3 == 0
    chosen = [row for row in document["trajectories"] if row["info"]["tempered"]]
    others = [row for row in document["trajectories"] if not row["info"]["tempered"]]
    return document, {"version": 1, "trajectories": chosen}, {"version": 1, "trajectories": others}


@pytest.mark.parametrize("chosen", [True, False])
def test_an_objective_among_some_is_the_objective_of_those_alone(chosen):
    whole, picked, left = split_documents()
    part = picked if chosen else left
    for of in (ClippedSurrogate(), PolicyGradient(aggregate="token-mean"), ClippedSurrogate(ratio="sequence")):
        totals = []
        for document, objective in ((whole, Among(of=of, chosen=chosen, coefficient=3.0)), (part, of)):
            read = RecordedBatch(document)
            batch = read.batch.credited(advantage=torch.ones(len(read.batch.occurrences)))
            totals.append(float(objective(Evaluation(read.logp), batch).total()))
        assert totals[0] == pytest.approx(3 * totals[1])
        assert Among(of=of).couples is of.couples
        assert Among(of=of).idle_without_advantage == of.idle_without_advantage
    assert Among(of=PolicyGradient()).on_policy_only
    assert not Among().on_policy_only


def test_without_the_column_nothing_is_chosen():
    read = RecordedBatch(random_document(Key.of(4)))
    terms = Among(column="nowhere")(Evaluation(read.logp), read.batch)
    assert float(terms.total()) == 0.0


@pytest.mark.parametrize("leash", [KLToReference, ExactKL])
def test_a_scheduled_leash_follows_the_run(leash):
    read = RecordedBatch(random_document(Key.of(4)))
    now = Evaluation(read.logp, kl_exact=read.logp.abs())
    rising, full = leash(coefficient=Linear(0.0, 0.1)), leash(coefficient=0.1)
    assert float(full(now, read.batch).total()) != 0
    for share in (0.0, 0.25, 1.0):
        scheduled = float(rising(now, read.batch.but(progress=share)).total())
        assert scheduled == pytest.approx(share * float(full(now, read.batch).total()))
