"""Data of controllers: recorded, read, and learnt from without sampling."""

import json

import numpy as np
import pytest
from tiny_runs import call, rows, train

import hocket
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.core.signals import paid_at_decisions
from hocket.rollout.recorded_rows import read_rows, write_rows
from hocket.rollout.transitions import Transitions

PPO = ["--task", "gym:CartPole-v1?max_episode_steps=20", "--recipe", "ppo", "--threads", "1", "--evaluation.n", "2"]
PPO += ["--curriculum.prompts", "2"]


def data(size=12, **changes):
    """Three episodes of four decisions each; the second one is cut."""
    columns = {
        "observations": np.arange(size * 4, dtype=np.float64).reshape(size, 4),
        "actions": np.arange(size) % 2,
        "rewards": np.ones(size),
        "terminations": np.isin(np.arange(size), (3, 11)),
        "truncations": np.arange(size) == 7,
    }
    return {name: column for name, column in {**columns, **changes}.items() if column is not None}


def saved(folder, **changes):
    file = folder / "d.npz"
    np.savez(file, **data(**changes))
    return file


def test_episodes_come_back_as_they_were_written(tmp_path):
    file = saved(tmp_path, next_observations=np.arange(48.0).reshape(12, 4) + 4)
    episodes = read_rows(file, "policy")
    assert [len(one.turns[0]) for one in episodes] == [4, 4, 4]
    assert [one.terminated for one in episodes] == [True, False, True]
    assert episodes[1].final_state.tolist() == [32, 33, 34, 35]
    assert episodes[0].turns[0].logp is None
    assert write_rows(tmp_path / "again.npz", episodes) == 12
    with np.load(file) as one, np.load(tmp_path / "again.npz") as other:
        for name in one.files:
            np.testing.assert_array_equal(one[name], other[name])


def test_without_next_observations_the_last_row_of_a_cut_episode_is_left_out(tmp_path):
    state = Transitions(rows=4, begin=1, data=str(saved(tmp_path))).init()
    assert state["rings"]["policy"]["added"] == 11
    names = {"terminals": data()["terminations"], "timeouts": data()["truncations"]}
    other = Transitions(rows=4, begin=1, data=str(saved(tmp_path, terminations=None, truncations=None, **names)))
    drawn = other.draw(other.init(), 100, Key.of(0))
    assert not drawn.logp["behaviour"].present.any()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rewards": np.append(np.ones(11), np.nan)}, "not finite, in row 11 of rewards"),
        ({"rewards": np.ones(11)}, "12 observations and 11 rewards"),
        ({"actions": None}, "no array 'actions'"),
        ({"terminations": np.zeros(12), "truncations": np.zeros(12)}, "marks no end"),
    ],
)
def test_wrong_data_are_named(tmp_path, changes, message):
    with pytest.raises(ConfigurationError, match=message):
        read_rows(saved(tmp_path, **changes), "policy")


def test_files_that_are_no_data_are_named(tmp_path):
    (tmp_path / "d.npz").write_text("no")
    with pytest.raises(ConfigurationError, match="no readable"):
        read_rows(tmp_path / "d.npz", "policy")
    with pytest.raises(ConfigurationError, match="there is no file"):
        read_rows(tmp_path / "e.npz", "policy")


def test_a_run_is_recorded_and_cloned(tmp_path):
    train(tmp_path, "expert", steps=1, tiny=PPO)
    file = tmp_path / "d.npz"
    said = call("record", tmp_path / "expert", "--n", "3", "--out", file, "--json")
    assert said.code == 0
    assert json.loads(said.out)["rows"] == len(np.load(file)["rewards"])
    clone = [*PPO[:2], "--recipe", "bc", "--store.data", str(file), "--store.gradients_per_step", "3", *PPO[4:8]]
    train(tmp_path, "clone", "--store.rows", "8", steps=2, tiny=clone)
    found = rows(tmp_path / "clone")
    assert [row["update/gradients"] for row in found[1:]] == [3, 3]
    assert found[2]["loss"] != found[1]["loss"]
    said = call("train", "--runs", tmp_path, "--recipe", "bc", *PPO[:2], "--steps", "1")
    assert said.code == 2
    assert "store.data" in said.err
    said = call(
        "train", "--runs", tmp_path, "--recipe", "bc", "--steps", "1", "--task", "gym:Pendulum-v1", "--store.data", file
    )
    assert said.code == 2
    assert "data of the same task" in said.err


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"actions": np.array(["left"] * 12)}, "actions of .* holds no numbers"),
        ({"rewards": np.ones((12, 2))}, r"rewards of .* has the shape \[12, 2\]"),
        ({"next_observations": np.ones((12, 3))}, "next_observations of 3 numbers a row and observations of 4"),
    ],
)
def test_arrays_of_another_form_are_named(tmp_path, changes, message):
    with pytest.raises(ConfigurationError, match=message):
        read_rows(saved(tmp_path, **changes), "policy")


def test_a_folder_of_minari_is_read(tmp_path):
    h5py = pytest.importorskip("h5py")
    (tmp_path / "data").mkdir()
    rng, actions = np.random.default_rng(0), []
    with h5py.File(tmp_path / "data" / "main_data.hdf5", "w") as file:
        for number in range(11):  # episode_10 comes after episode_9.
            group = file.create_group(f"episode_{number}")
            actions.append(rng.uniform(-2, 2, (3, 1)))
            group["observations"] = np.arange(4.0)[:, None] + 10 * number
            group["actions"], group["rewards"] = actions[-1], np.ones(3)
            group["terminations"], group["truncations"] = [False, False, number == 0], [False] * 3
    space = json.dumps({"type": "Box", "low": [-2.0], "high": [2.0]})
    (tmp_path / "data" / "metadata.json").write_text(json.dumps({"action_space": space}))
    episodes = read_rows(tmp_path, "policy")
    assert [one.turns[0].observation[0, 0] for one in episodes] == [10 * n for n in range(11)]
    assert [one.terminated for one in episodes] == [True] + [False] * 10
    assert episodes[3].final_state == [33]
    np.testing.assert_allclose(episodes[2].turns[0].action, actions[2] / 2, rtol=1e-6)
    (tmp_path / "data" / "metadata.json").unlink()
    with pytest.raises(ConfigurationError, match="states no range of actions"):
        read_rows(tmp_path, "policy")
    with pytest.raises(ConfigurationError, match=r"has no main_data\.hdf5"):
        read_rows(tmp_path.parent, "policy")


def test_rows_come_from_files_and_fresh_decisions_in_their_shares(tmp_path):
    one, other = tmp_path / "one.npz", tmp_path / "other.npz"
    np.savez(one, **data())
    np.savez(other, **data(observations=np.full((12, 4), 1000.0)))
    store = Transitions(size=30, rows=4, begin=1, data=f"{one}=0.5, {other}=0.2")
    state = store.init()

    def shares():
        seen = store.draw(state, 4000, Key.of(0)).observation[0][:, 0]
        return [float(np.mean(part)) for part in (seen < 500, (seen > 500) & (seen < 1500), seen > 1500)]

    assert shares() == pytest.approx([5 / 7, 2 / 7, 0], abs=0.03)
    fresh = read_rows(saved(tmp_path, observations=np.full((12, 4), 2000.0)), "policy")
    batch = pack(fresh[:1])
    state = store.add(state, paid_at_decisions(batch, batch.scores["reward"].values))
    assert shares() == pytest.approx([0.5, 0.2, 0.3], abs=0.03)
    batch = pack(fresh)
    with pytest.raises(ConfigurationError, match="no longer fit"):
        store.add(state, paid_at_decisions(batch, batch.scores["reward"].values))
    for text in (f"{one}=0.5,{other}", f"{one}=0.9,{other}=0.2"):
        with pytest.raises(ValueError, match="give every file a share"):
            Transitions(rows=4, data=text)


@pytest.mark.slow
def test_a_decision_transformer_is_trained_and_used(tmp_path):
    file = saved(tmp_path, rewards=np.arange(12.0))
    flags = ["--task", "gym:CartPole-v1?max_episode_steps=6", "--recipe", "decision-transformer", "--threads", "1"]
    flags += ["--store.data", str(file), "--store.rows", "4", "--store.gradients_per_step", "8", "--store.draws", "8"]
    flags += ["--network.hidden", "[8]", "--evaluation.n", "1"]
    train(tmp_path, "dt", *flags, steps=2)
    losses = [row["loss"] for row in rows(tmp_path / "dt") if row["loss"] is not None]
    assert losses[-1] < losses[0]
    policy = hocket.load(tmp_path / "dt")
    assert float(policy.policy.module.actor.wanted) == 8 + 9 + 10 + 11
    _, state = policy.act(np.zeros(4, np.float32))
    with pytest.raises(ConfigurationError, match="pass it as reward"):
        policy.act(np.zeros(4, np.float32), state)
    _, after = policy.act(np.zeros(4, np.float32), state, reward=1.5)
    to_go = -2 - policy.policy.actions  # What the policy carries beside its window.
    assert after[to_go] == pytest.approx(state[to_go] - 1.5)


def test_networks_with_memory_learn_from_sequences_alone(tmp_path):
    file = saved(tmp_path)
    flags = ["--task", "gym:CartPole-v1?max_episode_steps=6", "--recipe", "bc", "--store.data", str(file)]
    flags += ["--store.rows", "4", "--store.gradients_per_step", "2", "--network.body", "recurrent", "--threads", "1"]
    flags += ["--network.activation", "tanh", "--evaluation.n", "1"]
    said = call("train", *flags, "--runs", tmp_path, "--run", "no", "--steps", "1")
    assert said.code == 2
    assert "set store.length to draw sequences" in said.err
    train(tmp_path, "yes", *flags, "--store.length", "3", steps=1)
