"""Tasks that are played together, and layers that they share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tiny_runs import call, train

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.types import Score, Trajectory, Turn

BOTH, NEW = "together:skirmish:1v2+skirmish:3v2", "together:skirmish:2v2"
TINY = ["--curriculum.prompts", "2", "--threads", "1", "--evaluation.n", "2", "--network.hidden", "8,8"]
TINY += ["--update.minibatches", "1", "--update.epochs", "1", "--recipe", "mtmarl-shared-layers"]


def test_states_are_restored_with_their_task():
    course = tasks.find(BOTH).world.open(4)
    course.reset(range(4), [0, 2, 4, 6])
    course.restore(1, course.snapshot(0))
    for seen in course.seen():
        np.testing.assert_array_equal(seen[1], seen[0])
    assert course.acting().sum(1).tolist() == [1, 1, 1, 3]


def test_success_is_the_mean_over_who_is_there():
    task = tasks.find(BOTH)
    alone = Trajectory(
        task.scenario("train", 0),
        [Turn("member_0", "policy", np.zeros((1, 2)), np.zeros(1))],
        scores={"reward": Score(np.array([0.5]))},
    )
    assert task.success(alone) == pytest.approx(0.5)
    assert task.success(replace(alone, turns=alone.turns * 3)) == pytest.approx(0.5 / 3)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("together:skirmish:2v2+skirmish:2v2", "named twice"),
        ("together:sums", "no task of a team"),
        ("together:gym:Pendulum-v1", "no task of a team|choose one of"),
        ("together:mpe:nowhere", "nowhere"),
    ],
)
def test_what_cannot_be_mixed_is_refused(name, said):
    with pytest.raises(ConfigurationError, match=said):
        tasks.find(name)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--task", "skirmish:2v2"], "use such as together:"),
        (["--task", f"{BOTH}?ids=true"], "drop ids=true"),
        (["--task", BOTH, "--network.normalise", "true"], "drop network.body and network.normalise"),
    ],
)
def test_what_shares_no_layers_is_refused(more, said, tmp_path):
    refused = call("train", *TINY, "--steps", "1", "--runs", tmp_path, *more)
    assert refused.code == 2
    assert said in refused.err


def test_a_run_of_two_tasks_begins_one_of_a_third(tmp_path):
    train(tmp_path, "both", "--task", BOTH, steps=1, tiny=TINY)
    more = ["--model", str(tmp_path / "both"), "--hooks.0.frozen", "true"]
    train(tmp_path, "new", "--task", NEW, *more, steps=1, tiny=TINY)
