"""Skirmishes that are seen alike whatever the number of units."""

from __future__ import annotations

import numpy as np
import pytest
from tiny_runs import rows, train

from hocket import tasks

FEW, MANY = "skirmish:2v2?influence=5&ids=false&length=4", "skirmish:3v3?influence=5&ids=false&length=4"
TINY = ["--curriculum.prompts", "2", "--threads", "1", "--evaluation.n", "2", "--network.hidden", "8"]
TINY += ["--update.minibatches", "1", "--update.epochs", "1"]


@pytest.mark.parametrize("name", [FEW, MANY])
def test_random_play_keeps_to_what_is_allowed_and_states_are_restored(name):
    field, rng = tasks.find(name).world.open(6), np.random.default_rng(0)
    field.reset(range(6), range(6))
    for _ in range(4):
        masks = np.stack(field.allowed())
        assert masks.any(-1).all()
        assert np.isfinite(field.state()).all()
        field.step(list((rng.random(masks.shape) * masks).argmax(-1)), np.ones(6, bool))
    field.restore(1, field.snapshot(0))
    np.testing.assert_array_equal(field.seen()[0][1], field.seen()[0][0])


def test_a_run_of_few_and_steps_of_few_begin_one_of_many(tmp_path):
    train(tmp_path, "few", "--task", FEW, "--recipe", "ippo", steps=1, tiny=TINY)
    more = ["--recipe", "scenario-independent-marl-transfer", "--hooks.0.sides", "2", "--hooks.0.steps", "1"]
    train(tmp_path, "many", "--task", MANY, *more, "--model", str(tmp_path / "few"), steps=2, tiny=TINY)
    assert [row["turns/mean"] for row in rows(tmp_path / "many")[1:]] == [2, 3]
