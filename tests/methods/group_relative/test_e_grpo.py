"""Entities matched in texts, and what they earn by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hocket.lab.toys.recorded_answers import said, shaped
from hocket.methods.group_relative.e_grpo import E_GRPO, TracedSums
from hocket.tasks.split import split_of


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.booleans()), min_size=1, max_size=6))
def test_entity_rewards_by_hand(samples):
    names = ["oak", "pine", "fir"]
    rows = [
        said("q", " ".join(names[:found]), float(right), label="x" if formed else None, info={"entities": names})
        for found, right, formed in samples
    ]
    highest = max(found for found, _, _ in samples)
    wanted = [
        1.0 if right else 0.3 * found / highest if formed and highest else 0.0 for found, right, formed in samples
    ]
    other = said("other", "", label="x")
    assert shaped(E_GRPO, [*rows, other])[:-1] == pytest.approx(wanted, abs=1e-12)


def test_the_entities_of_traced_sums_are_the_totals_on_the_way():
    sizes = set()
    for split in ("train", "eval"):
        for number in range(60):
            scenario = TracedSums().scenario(split, number)
            asked = str(scenario.prompt).removeprefix("What is ").removesuffix("?")
            terms = [int(one) for one in asked.replace(" + ", " ").replace(" - ", " -").split()]
            totals = [str(sum(terms[:count])) for count in range(2, len(terms) + 1)]
            assert scenario.metadata["entities"] == totals
            assert scenario.answer == totals[-1]
            assert split_of(str(scenario.prompt)) == split
            sizes.add(len(terms))
    assert sizes == {3, 4}
