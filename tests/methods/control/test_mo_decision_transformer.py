"""The crooked corridor, its records, and what the multi-objective decision transformer refuses."""

from __future__ import annotations

import numpy as np
import pytest
from tiny_runs import rows, train

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
    low, place = start[:, 1] < 0.2, start
    for _ in range(20):  # Whoever is below the first gate stops at the wall.
        place = moved(place, np.tile([1.0, 0.0], (30, 1)))
    assert (place[low, 0] < -0.33).all()
    assert (place[~low, 0] > -0.33).all()
    assert (place[:, 0] < 0.33).all()


def test_records_are_whole_episodes_of_several_skills():
    data = recorded(20, Key.of(0))
    ends = np.flatnonzero(data["terminations"] | data["truncations"])
    assert len(ends) == 20
    assert ends[-1] == len(data["rewards"]) - 1
    lengths = np.diff(np.append(-1, ends))
    assert lengths.min() < 30
    assert lengths.max() > 60
    np.testing.assert_array_equal(data["next_observations"][:5], data["observations"][1:6])


def test_a_run_learns_from_a_file_and_plays(tmp_path, monkeypatch):
    file = tmp_path / "d.npz"
    monkeypatch.setattr("sys.argv", ["recorded", "--out", str(file), "--episodes", "3"])
    main()
    train(tmp_path, "run", "--store.data", str(file), steps=1, tiny=RUN)
    last = rows(tmp_path / "run")[-1]
    assert last["loss"] == pytest.approx(
        last["prediction/action"] + 0.1 * last["prediction/state"] + 0.1 * last["prediction/return"], rel=1e-4
    )
    assert last["eval/return"] <= -1


@pytest.mark.parametrize("weights", [{"state": -0.1}, {"to_go": -1.0}])
def test_weights_are_not_negative(weights):
    with pytest.raises(ValueError, match="must be at least 0"):
        ThreeLikelihoods(policy=PredictedReturn(), **weights)
