"""Semantic entropy by count, its other form, and answers of hardly any likelihood."""

from __future__ import annotations

import math

import pytest
from credit_cases import LAW, credit_of
from hypothesis import given
from hypothesis import strategies as st

from hocket.core.errors import ConfigurationError
from hocket.credit.group import GroupRelative
from hocket.methods.group_relative.seed_grpo import SemanticEntropy


@LAW
@given(st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=6), st.floats(0, 1))
def test_entropy_by_count(labels, alpha):
    rewards = [float(place) for place in range(len(labels))]
    weight = SemanticEntropy(alpha=alpha, mass="count")
    found = credit_of(GroupRelative(scale=None, weigh=(weight,)), rewards, label=labels)
    known = [label for label in labels if label is not None]
    counts_of = [known.count(label) for label in set(known)] + [1] * (len(labels) - len(known))
    shares = [count / len(labels) for count in counts_of]
    entropy = -math.fsum(share * math.log(share) for share in shares)
    factor = 1 - alpha * (entropy / math.log(len(labels)) if len(labels) > 1 else 0.0)
    plain = credit_of(GroupRelative(scale=None), rewards)
    assert found == pytest.approx([a * factor for a in plain], abs=1e-9)


def test_reciprocal_form_and_missing_labels():
    weight = SemanticEntropy(alpha=0.5, form="reciprocal", mass="count")
    found = credit_of(GroupRelative(scale=None, weigh=(weight,)), [1.0, 0.0], label=["x", "y"])
    assert found == pytest.approx([0.5 / 1.5, -0.5 / 1.5])
    with pytest.raises(ConfigurationError, match="SemanticEntropy reads 'label'"):
        credit_of(GroupRelative(weigh=(weight,)), [1.0, 0.0])
