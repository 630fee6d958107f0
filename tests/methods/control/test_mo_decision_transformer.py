"""The crooked corridor, its records, and what the multi-objective decision transformer refuses."""

from __future__ import annotations

import numpy as np
import pytest
from tiny_runs import call, train

from hocket.core.keys import Key
from hocket.methods.control.mo_decision_transformer.method import PredictedReturn, ThreeLikelihoods
from hocket.methods.control.mo_decision_transformer.recorded import main, recorded
from hocket.methods.control.mo_decision_transformer.world import arrived, begun, moved, shown

RUN = ["--task", "crooked:point?length=6", "--recipe", "mo-decision-transformer", "--threads", "1"]
RUN += ["--evaluation.n", "2", "--network.hidden", "8,8", "--store.gradients_per_step", "2", "--store.draws", "2"]


def test_the_way_shown_reaches_the_goal_and_walls_hold():
    place = start = begun(range(30))
    steps, live = np.zeros(30), np.ones(30, bool)
    for _ in range(40):
        place = moved(place, shown(place))
        steps += live
        live = live & ~arrived(place)
    assert not live.any()
    assert steps.mean() < 30
    low, place = start[:, 1] < 0.4, start
    for _ in range(20):  # Whoever is below the first gate stops at the wall.
        place = moved(place, np.tile([1.0, 0.0], (30, 1)))
    assert (place[low, 0] < -0.33).all()
    assert (place[~low, 0] > -0.33).all()
    assert (place[:, 0] < 0.33).all()


def test_records_are_whole_episodes_of_several_skills():
    rows = recorded(20, Key.of(0))
    ends = np.flatnonzero(rows["terminations"] | rows["truncations"])
    assert len(ends) == 20
    assert ends[-1] == len(rows["rewards"]) - 1
    lengths = np.diff(np.append(-1, ends))
    assert lengths.min() < 60
    assert lengths.max() == 80
    np.testing.assert_array_equal(rows["next_observations"][:5], rows["observations"][1:6])


def test_a_run_learns_from_a_file_and_is_resumed_and_evaluated(tmp_path, monkeypatch):
    file = tmp_path / "d.npz"
    monkeypatch.setattr("sys.argv", ["recorded", "--out", str(file), "--episodes", "3"])
    main()
    train(tmp_path, "run", "--store.data", str(file), steps=1, tiny=RUN)
    assert call("eval", tmp_path / "run", "--n", "2").code == 0
    refused = call(
        "train", "--runs", tmp_path, "--steps", "1", "--recipe", "mo-decision-transformer", "--task", "gym:CartPole-v1"
    )
    assert refused.code == 2


@pytest.mark.parametrize("weights", [{"state": -0.1}, {"to_go": -1.0}])
def test_weights_are_not_negative(weights):
    with pytest.raises(ValueError, match="must be at least 0"):
        ThreeLikelihoods(policy=PredictedReturn(), **weights)
