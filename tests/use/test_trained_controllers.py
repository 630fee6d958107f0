"""Controllers in use: `hocket.load(RUN).act`, in the forms of the environment, beside what `hocket eval` plays."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_runs import call, train

import hocket
from hocket.apps.use.environment_form import EnvironmentForm
from hocket.core.errors import ConfigurationError, HocketError
from hocket.tasks.gym import GymTask


@pytest.fixture
def runs(controllers: Path) -> Path:
    return controllers


def load(runs: Path, name: str, *role: str) -> Any:
    return hocket.load(runs / name, *role)


def replayed(trained: Any, turn: Any) -> np.ndarray:
    """What `act` decides, one observation after another, where an evaluation saw these."""
    state, actions = None, []
    for row in turn.observation:
        action, state = trained.act(row[: trained.form.size], state)
        actions.append(action)
    return np.array(actions)


@pytest.mark.parametrize(
    ("name", "role"),
    [("cart", ()), ("corridor", ()), ("team", ("agent_0",)), ("team", ("agent_1",)), ("tag", ("agent_0",))],
)
def test_it_decides_as_the_evaluation_does(runs: Path, name: str, role: tuple[str, ...]) -> None:
    trained = load(runs, name, *role)
    for trajectory in trained.evaluate(n=3).trajectories:
        (turn,) = [turn for turn in trajectory.turns if turn.agent == trained.role]
        assert np.array_equal(replayed(trained, turn), turn.action)


def test_vectors_are_those_that_the_environment_takes(runs: Path) -> None:
    trained = load(runs, "pend")
    (turn,) = trained.evaluate(n=1).trajectories[0].turns
    environment = GymTask("Pendulum-v1").make()
    taken = [environment.move(action) for action in turn.action]
    environment.close()
    assert np.array_equal(replayed(trained, turn), taken)
    assert np.abs(taken).max() <= 2.0


def test_an_episode_played_outside_earns_what_the_evaluation_measured(runs: Path) -> None:
    gymnasium = pytest.importorskip("gymnasium")
    trained = load(runs, "cart")
    measured = trained.evaluate(n=2)
    for number, trajectory in enumerate(measured.trajectories):
        world = gymnasium.make("CartPole-v1", max_episode_steps=20)
        observation, _ = world.reset(seed=trajectory.scenario.seed)
        earned, over = 0.0, False
        while not over:
            action, _ = trained.act(observation)
            observation, reward, terminated, truncated, _ = world.step(action)
            earned, over = earned + float(reward), terminated or truncated
        world.close()
        assert earned == measured.each[number]


def test_batches_and_single_observations_agree(runs: Path) -> None:
    rows = np.random.Generator(np.random.Philox(1)).normal(size=(70, 4)).astype(np.float32)
    trained = load(runs, "cart")
    actions, state = trained.act(rows)
    assert state is None
    assert actions.shape == (70,)
    assert [trained.act(row)[0] for row in rows] == actions.tolist()
    assert isinstance(trained.act(rows[0])[0], int)


def test_discrete_observations_and_their_batches(runs: Path) -> None:
    trained = load(runs, "lake")
    actions, _ = trained.act(np.arange(16))
    assert [trained.act(place)[0] for place in range(16)] == actions.tolist()
    with pytest.raises(ConfigurationError, match=r"the observation 16 is not in Discrete\(16\)"):
        trained.act(16)
    with pytest.raises(ConfigurationError, match="whole numbers"):
        trained.act(0.5)


def test_the_state_is_carried_and_begins_anew(runs: Path) -> None:
    trained = load(runs, "corridor")
    rows = np.random.Generator(np.random.Philox(2)).normal(size=(3, trained.form.size)).astype(np.float32)
    _, first = trained.act(rows)
    _, second = trained.act(rows, first)
    assert first.shape == second.shape == (3, trained.carries)
    assert not np.array_equal(first, second)
    _, mixed = trained.act(rows, first, episode_start=[True, False, False])
    assert np.array_equal(mixed[0], first[0])
    assert np.array_equal(mixed[1:], second[1:])
    with pytest.raises(ConfigurationError, match="state has the shape"):
        trained.act(rows, first[0])


def test_sampled_actions_follow_the_seed(runs: Path) -> None:
    rows = np.zeros((200, 4), np.float32)

    def drawn(seed: int) -> list[int]:
        actions, _ = hocket.load(runs / "cart", seed=seed).act(rows, greedy=False)
        return actions.tolist()  # type: ignore[no-any-return]

    assert drawn(0) == drawn(0) != drawn(1)
    assert set(drawn(0)) == {0, 1}


def test_only_allowed_actions_are_taken(runs: Path) -> None:
    trained = load(runs, "cart")
    rows = np.zeros((2, 4), np.float32)
    assert trained.act(rows, allowed=[[True, False], [False, True]])[0].tolist() == [0, 1]
    masked = {"observation": rows[0], "action_mask": np.array([0, 1], np.int8)}
    assert trained.act(masked)[0] == 1
    with pytest.raises(ConfigurationError, match="permits no action"):
        trained.act(rows, allowed=[False, False])
    with pytest.raises(ConfigurationError, match="allowed has the shape"):
        trained.act(rows, allowed=[True])


def test_observations_that_do_not_fit_are_refused(runs: Path) -> None:
    trained = load(runs, "cart")
    with pytest.raises(ConfigurationError, match=r"shape \(3,\); the environment's have \(4,\), a batch \(B, 4\)"):
        trained.act(np.zeros(3))
    with pytest.raises(ConfigurationError, match="not finite"):
        trained.act(np.array([0, np.nan, 0, 0]))


def test_parts_of_an_observation_are_flattened_in_the_order_of_the_space() -> None:
    spaces = pytest.importorskip("gymnasium").spaces
    space = spaces.Dict({"place": spaces.Box(-1, 1, (2,)), "kind": spaces.Discrete(3)})
    form = EnvironmentForm((5,), 5, 2, int, read=lambda parts: spaces.flatten(space, parts), space=space)
    observation = {"place": np.array([0.5, -0.5], np.float32), "kind": 1}
    row, mask = form.rows(observation)
    assert mask is None
    assert np.array_equal(row, spaces.flatten(space, observation))
    batch = {"kind": np.array([1, 2]), "place": np.array([[0.5, -0.5], [0.0, 1.0]], np.float32)}
    rows, _ = form.rows(batch)
    assert np.array_equal(rows[0], row)
    assert rows.shape == (2, 5)
    with pytest.raises(ConfigurationError, match="have kind, place"):
        form.rows({"place": np.zeros(2)})


def test_a_team_needs_a_role(runs: Path) -> None:
    with pytest.raises(ConfigurationError, match="agents agent_0, agent_1; choose one: role='agent_0'"):
        load(runs, "team")
    with pytest.raises(ConfigurationError, match="has no role 'agent_7'"):
        load(runs, "team", "agent_7")
    assert load(runs, "tag", "adversary_1").policy.name == "adversary_1"


def test_what_is_saved_is_a_run_that_everything_reads(runs: Path, tmp_path: Path) -> None:
    trained = load(runs, "cart")
    folder = trained.save(tmp_path / "kept")
    again = hocket.load(folder)
    rows = np.random.Generator(np.random.Philox(3)).normal(size=(9, 4)).astype(np.float32)
    assert np.array_equal(again.act(rows)[0], trained.act(rows)[0])
    assert call("eval", folder, "--n", "2", "--json").code == 0
    resumed = call("train", "--resume", folder, "--steps", "3", "--quiet")
    assert resumed.code == 0, resumed.err
    assert hocket.Run(folder).metrics[-1]["step"] == 3
    with pytest.raises(ConfigurationError, match="exists already"):
        trained.save(folder)


def test_a_checkpoint_is_loaded_by_its_folder(runs: Path) -> None:
    (step,) = (runs / "cart" / "checkpoints").glob("step-*")
    rows = np.zeros((2, 4), np.float32)
    expected = load(runs, "cart").act(rows)[0]
    for place in (step, step / "policy"):
        assert np.array_equal(hocket.load(place).act(rows)[0], expected)


def test_a_damaged_checkpoint_is_refused(runs: Path, tmp_path: Path) -> None:
    folder = load(runs, "cart").save(tmp_path / "damaged")
    (weights,) = folder.rglob("model.safetensors")
    weights.write_bytes(weights.read_bytes()[:-8])
    with pytest.raises(HocketError, match="is damaged"):
        hocket.load(folder)
    (step,) = (folder / "checkpoints").glob("step-*")
    with pytest.raises(HocketError, match="is damaged"):
        hocket.load(step)


def test_it_works_inside_a_running_event_loop(runs: Path) -> None:
    async def cell() -> float:
        return float(load(runs, "cart").evaluate(n=2).success)

    assert asyncio.run(cell()) == load(runs, "cart").evaluate(n=2).success


def test_other_uses_are_refused_in_a_sentence(runs: Path) -> None:
    trained = load(runs, "cart")
    for wrong in (trained.generate, trained.chat, trained.score):
        with pytest.raises(ConfigurationError, match=r"is a controller and has no \.\w+\(\); use \.act\(observation\)"):
            wrong("What is 1 + 1?")


def test_export_writes_a_run_of_controllers(runs: Path, tmp_path: Path) -> None:
    said = call("export", runs / "cart", "--out", tmp_path / "out", "--json")
    assert said.code == 0, said.err
    assert said.json["kind"] == "controller"
    assert hocket.load(tmp_path / "out").act(np.zeros(4))[0] in (0, 1)
    for flag in ("--gguf", "--merge"):
        said = call("export", runs / "cart", "--out", tmp_path / "other", flag)
        assert said.code == 2
        assert f"{flag} is for language models" in said.err


def test_a_kind_of_ones_own_is_measured_and_saved(tmp_path: Path) -> None:
    points = f"{Path(__file__).parents[1] / 'kinds' / 'points.py'}:Points"
    small = ["--curriculum.prompts", "2", "--rollout.samples", "2", "--evaluation.n", "2", "--threads", "1"]
    train(tmp_path, "points", "--task", points, steps=1, tiny=small)
    trained = hocket.load(tmp_path / "points")
    again = hocket.load(trained.save(tmp_path / "kept"))
    assert again.evaluate(n=2).each == trained.evaluate(n=2).each
    with pytest.raises(ConfigurationError, match=r"a policy of its own kind and has no \.act\(\)"):
        trained.act([0.0])
    said = call("act", tmp_path / "points")
    assert said.code == 2
    assert "is diffusion, and only the episodes of controllers are shown" in said.err


def test_a_controller_that_was_never_trained_is_not_saved(tmp_path: Path) -> None:
    fresh = hocket.load("nano", task="gym:CartPole-v1", threads=1)
    assert fresh.act(np.zeros(4))[0] in (0, 1)
    with pytest.raises(ConfigurationError, match="was never trained"):
        fresh.save(tmp_path / "kept")
    assert not any(tmp_path.iterdir())
