"""A controller that denoises its actions trains, resumes and is measured like all others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file
from tiny_runs import resume, rows, summary, train

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.generative.dppo.task import RoundTheDisc
from hocket.methods.generative.dppo.world import DISC, HEIGHT, MOVES, REACH, astray, begin, demonstrations, moved

SMALL = ["--evaluation.n", "4", "--evaluation.between", "4", "--threads", "1", "--curriculum.prompts", "2"]
SMALL += ["--rollout.samples", "4"]


@pytest.mark.slow
def test_a_run_that_was_left_ends_with_the_same_bits(tmp_path: Path) -> None:
    words = ["--task", "round-the-disc?steps=2", "--recipe", "dppo", "--checkpoint.steps", "1"]
    train(tmp_path, "whole", *words, steps=2, tiny=SMALL)
    train(tmp_path, "parts", *words, steps=1, tiny=SMALL)
    resume(tmp_path, "parts", "--steps", "2")
    weights = [
        load_file(next((tmp_path / run / "checkpoints").glob("step-000002/policy/model.safetensors")))
        for run in ("whole", "parts")
    ]
    assert all(np.array_equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert rows(tmp_path / "whole")[2]["agreement/largest"] < 1e-3
    assert summary(tmp_path / "whole")["measure"] == "accuracy"


def test_an_action_has_at_least_one_step() -> None:
    with pytest.raises(ConfigurationError, match="steps must be at least 1, not 0"):
        RoundTheDisc(0)


def test_the_disc_and_the_goal_end_episodes() -> None:
    point = np.array([[-0.6, 0.0], [0.7, 0.1], [0.0, 0.9], [-1.0, 0.0]], np.float32)
    action = np.array([[0.3, 0.0], [0.3, -0.1], [0.4, 0.0], [9.0, 0.0]], np.float32)
    outcome = moved(point, action)
    assert outcome.struck.tolist() == [True, False, False, False]
    assert outcome.reached.tolist() == [False, True, False, False]
    assert np.allclose(outcome.point[3], [-1.0 + REACH, 0.0])
    assert np.array_equal(begin(3), begin(3))
    assert DISC < HEIGHT


def test_demonstrations_go_both_ways_near_the_ellipse() -> None:
    places, moves = demonstrations(Key.of(0), count=20)
    assert places.shape == moves.shape == (20 * (MOVES - 1), 2)
    assert astray(places).mean() < 0.1
    assert 0.4 < (places[:, 1] > 0).mean() < 0.6
