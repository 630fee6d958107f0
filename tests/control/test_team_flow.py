"""Recorded moments of teams, and policies of one step that learn from them."""

import math

import numpy as np
import pytest
import torch

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.stored_rows import FOLLOWING, NOISE, TEAM_PAID, moments
from hocket.methods.generative.mac_flow.method import MAC_FLOW, FlowDistillation, TeamFlow
from hocket.methods.generative.mac_flow.records import RecordedTeams, read_moments
from hocket.methods.generative.mac_flow.world import PLACES, RECORDS, Meeting, moved, records, worth
from hocket.policies.control import ControlPolicy
from hocket.policies.settings import NetworkSettings
from hocket.tasks.joint import JointTask
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.loop import train_step

SMALL = {"network.hidden": [8, 8], "store.rows": 4, "store.gradients_per_step": 3, "evaluation.n": 2, "threads": 1}


def changed(tmp_path, **arrays):
    """A file of records of which some arrays are others, or with None are absent."""
    columns = {**records(3, Key.of(0)), **arrays}
    np.savez(tmp_path / "d.npz", **{name: column for name, column in columns.items() if column is not None})
    return tmp_path / "d.npz"


def parts_of(**settings):
    world = tasks.find("meeting:pair")
    pairs = [("task", world.name), ("recipe", MAC_FLOW), *SMALL.items(), *settings.items()]
    return build_parts(configure(pairs, world), world)


def test_drawn_rows_are_the_files_moments(tmp_path):
    file = changed(tmp_path, rewards=np.arange(48.0).reshape(24, 2))
    store = RecordedTeams(data=str(file), size=100, rows=4, noises=4)
    batch = store.draw(store.init(), 16, Key.of(1))
    rows, place = np.load(file), moments(batch)
    for agent in range(2):
        mine = batch.agent[batch.turn] == agent
        observed = torch.from_numpy(batch.observation[agent])
        row = [int(np.argmin(np.abs(rows["observations"][:, agent] - one.numpy()).sum(1))) for one in observed]
        assert torch.equal(observed, torch.from_numpy(rows["observations"][row, agent]))
        assert torch.equal(batch.action[mine], torch.from_numpy(rows["actions"][row, agent]))
        assert torch.equal(
            batch.annotations[FOLLOWING.name][mine], torch.from_numpy(rows["next_observations"][row, agent])
        )
        assert torch.equal(batch.annotations[TEAM_PAID.name][mine], torch.tensor([2.0 * n + 0.5 for n in row]))
    assert batch.annotations[NOISE.name].shape == (32, 4, 2)
    assert not batch.logp["behaviour"].present.any()
    assert place.max() == 15


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"actions": None}, "no array 'actions'"),
        ({"rewards": np.zeros(24)}, "rewards .* 2 axes"),
        ({"actions": np.full((24, 2, 2), "a")}, "write numbers"),
        ({"next_observations": np.full((24, 2, 6), np.nan)}, "not finite"),
        ({"truncations": np.zeros(24, bool)}, "no end of an episode"),
    ],
)
def test_wrong_files_are_refused(tmp_path, arrays, message):
    with pytest.raises(ConfigurationError, match=message):
        read_moments(changed(tmp_path, **arrays))


def test_a_missing_file_several_files_and_data_of_another_task_are_refused(tmp_path):
    with pytest.raises(ConfigurationError, match=r"no readable \.npz file"):
        RecordedTeams(data=str(tmp_path / "none.npz")).init()
    with pytest.raises(ValueError, match="one file"):
        RecordedTeams(data="a.npz,b.npz")
    parts = parts_of(**{"store.data": str(changed(tmp_path, actions=np.zeros((24, 2, 3))))})
    with pytest.raises(ConfigurationError, match=r"act by float32 \[3\].* 2 dimensions"):
        run_async(train_step(parts, 1))


def test_a_step_learns_from_the_records_alone_and_files_keep_all(tmp_path):
    parts = parts_of()
    policy = parts.learners["policy"].policy
    before = [weight.clone() for weight in policy.module.parameters()]
    result = run_async(train_step(parts, 1))
    assert result.metrics["update/gradients"] == 3
    assert all(math.isfinite(result.metrics[name]) for name in ("flow/error", "actor/from_flow", "values/mean"))
    assert (
        sum(not torch.equal(*pair) for pair in zip(before, policy.module.parameters(), strict=True)) > len(before) / 2
    )
    policy.save(tmp_path)
    other = ControlPolicy(
        JointTask(Meeting()).spaces(Meeting.agents),
        key=Key.of(9),
        network=NetworkSettings(hidden=(8, 8), activation="relu"),
    )
    TeamFlow().install(other)
    other.load(tmp_path)
    seen, uniforms = np.ones((3, 6), np.float32), np.full((3, 2), 0.3)
    acted = [one.sample(seen, uniforms, np.ones(3, np.float32))[0] for one in (policy, other)]
    assert np.array_equal(*acted)


def test_the_pair_is_paid_where_both_are_near_one_place():
    place = np.stack([PLACES[[0, 0]], PLACES[[1, 1]], PLACES[[0, 1]], np.zeros((2, 2))])
    assert worth(place).tolist() == [0.5, 1.0, 0.0, 0.0]
    assert moved(np.full((1, 2, 2), 0.9), np.full((1, 2, 2), 5.0)).max() == 1.0
    environment = Meeting(length=1).open(3)
    environment.reset([0, 2], [4, 5])
    after = environment.step([np.zeros((3, 2), np.float32)] * 2, np.array([True, False, True]))
    assert after.truncated[:, 0].tolist() == [True, False, True]
    own, other = environment.seen()
    assert np.array_equal(own[:, :2], other[:, 2:])


def test_shipped_records_are_those_of_the_script():
    with np.load(RECORDS) as rows:
        assert all(np.array_equal(rows[name], column) for name, column in records(200, Key.of(0)).items())


def test_settings_out_of_range_are_refused():
    with pytest.raises(ValueError, match="at least 0"):
        FlowDistillation(alpha=-1.0)
    with pytest.raises(ConfigurationError, match="at least 1"):
        Meeting(length=0)
