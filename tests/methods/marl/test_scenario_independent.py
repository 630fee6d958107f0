"""Skirmishes that are seen alike whatever the number of units."""

from __future__ import annotations

import numpy as np
import pytest
from tiny_runs import call, train

from hocket import tasks

FEW, MANY = "skirmish:2v2?influence=5&ids=false&length=4", "skirmish:3v3?influence=5&ids=false&length=4"
TINY = ["--curriculum.prompts", "2", "--threads", "1", "--evaluation.n", "2", "--network.hidden", "8"]


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


def test_a_small_team_trains_a_larger_one(tmp_path):
    train(tmp_path, "few", "--task", FEW, "--recipe", "ippo", steps=1, tiny=TINY)
    assert call("eval", tmp_path / "few", "--task", MANY, "--n", "2").code == 0
    train(tmp_path, "many", "--task", MANY, "--recipe", "ippo", "--model", str(tmp_path / "few"), steps=1, tiny=TINY)
    plain = call(
        "train",
        "--runs",
        tmp_path,
        "--steps",
        "1",
        "--recipe",
        "scenario-independent-marl-transfer",
        "--task",
        "skirmish:3v3",
        *TINY,
    )
    assert plain.code == 2
    assert "influence=7&ids=false" in plain.err


def test_a_run_begins_with_few(tmp_path):
    hooks = ["--hooks.0.sides", "2", "--hooks.0.steps", "1"]
    train(tmp_path, "run", "--task", MANY, "--recipe", "scenario-independent-marl-transfer", *hooks, steps=2, tiny=TINY)
