"""Agreement across paraphrases, and families of scenarios that are asked together."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hocket.core.keys import Key
from hocket.lab.microscope import RecordedBatch
from hocket.lab.toys.rewarded import said, shaped
from hocket.lab.world import World
from hocket.methods.group_relative.ps_grpo import PS_GRPO, Families, GroupSimilarity
from hocket.tasks.sums import Sums
from hocket.train.ledger import Ledger


def test_paraphrases_share_an_origin_and_others_stand_alone():
    rows = [
        said("p", "oak", info={"origin": "o"}),
        said("q", "oak", info={"origin": "o"}),
        said("q", "elm", info={"origin": "o"}),
        said("alone", "fir"),
        said("alone", "fir"),
        said("alone", "oak"),
    ]
    recipe = PS_GRPO.but({"shaping.0.similarity": "exact"})
    assert shaped(recipe, rows) == pytest.approx([0.5, 1.0, 0.0, 0.5, 0.5, 0.0])
    rewarded = [{**row, "scores": {"reward": 1.0}} for row in rows]
    added = shaped(recipe.but({"shaping.0.accuracy": 0.25}), rewarded)
    assert added == pytest.approx([0.75, 1.25, 0.25, 0.75, 0.75, 0.25])


def test_draws_depend_on_the_step_and_the_seed_alone():
    rows = [said(name, text, info={"origin": "o"}) for name in "pqr" for text in ("oak", "elm", "fir oak", "oak elm")]
    few = GroupSimilarity("rouge-1", others=1, rollouts=1)
    batch = PS_GRPO.combine(RecordedBatch({"version": 1, "trajectories": rows}).batch, {})
    first = few(batch.but(step=1)).scores["reward"].values
    assert torch.equal(first, few(batch.but(step=1)).scores["reward"].values)
    assert not torch.equal(first, few(batch.but(step=2)).scores["reward"].values)


def asked(curriculum, size, count, *, start=0, seed=0):
    world = World(questions=size, tokens=2, horizon=1, reward=lambda question, answer: 0.0)
    return [s.seed for s in curriculum(world, start, count, Ledger(), Key.of(seed))]


@given(st.integers(1, 13), st.integers(1, 5), st.integers(0, 99))
def test_every_pass_asks_everything_once_and_families_together(size, family, seed):
    found = asked(Families(family=family), size, 2 * size, seed=seed)
    for epoch in (found[:size], found[size:]):
        assert sorted(epoch) == list(range(size))
        runs = [number // family for number in epoch]
        changes = sum(one != other for one, other in itertools.pairwise(runs))
        assert changes == len(set(runs)) - 1, "a family's members follow each other"


@given(st.integers(1, 13), st.integers(1, 5), st.integers(1, 20))
def test_what_is_asked_does_not_depend_on_the_steps(size, family, cut):
    curriculum = Families(family=family)
    whole = asked(curriculum, size, 30)
    assert asked(curriculum, size, cut) + asked(curriculum, size, 30 - cut, start=cut) == whole


def test_families_of_an_endless_task_are_aligned():
    numbers = [s.seed for s in Families(family=4)(Sums(), 8, 8, Ledger(), Key.of(3))]
    assert numbers[0] % 4 == 0
    assert numbers == list(range(numbers[0], numbers[0] + 8))


def test_a_family_has_members():
    with pytest.raises(ValueError, match="family"):
        Families(family=0)
