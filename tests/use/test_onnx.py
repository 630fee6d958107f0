"""Controllers as ONNX files, run by onnxruntime beside `act`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_runs import CONTROL, call, train

import hocket
from hocket.core.errors import ConfigurationError

QUICK = ["--curriculum.prompts", "4", "--threads", "1", "--evaluation.n", "2", "--evaluation.between", "2"]


def session(file: Path) -> Any:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    return runtime.InferenceSession(str(file))


def compared(run: Path, file: Path, batches: list[np.ndarray], *role: str) -> dict[str, str]:
    """Compares actions and states along an episode; returns the file's properties."""
    pytest.importorskip("onnx")
    trained = hocket.load(run, *role)
    found = session(trained.save_onnx(file))
    outputs = [output.name for output in found.get_outputs()]
    state = None
    for batch in batches:
        feed = {"observation": batch}
        if trained.carries:  # type: ignore[attr-defined]
            zeros = np.zeros((len(batch), trained.carries), np.float32)  # type: ignore[attr-defined]
            feed["state"] = zeros if state is None else state
        result = dict(zip(outputs, found.run(None, feed), strict=True))
        actions, state = trained.act(batch, state)
        np.testing.assert_allclose(result["action"], actions, atol=1e-5)
        if state is not None:
            np.testing.assert_allclose(result["new_state"], state, atol=1e-5)
    return dict(found.get_modelmeta().custom_metadata_map)


def rows(*shape: int) -> np.ndarray:
    return np.random.Generator(np.random.Philox(5)).normal(size=shape).astype(np.float32)


@pytest.mark.global_rng
@pytest.mark.parametrize(
    ("task", "more", "batches"),
    [
        ("gym:Pendulum-v1?max_episode_steps=15", (), [rows(1, 3), rows(70, 3)]),
        ("recall:corridor?length=4", ("--network.body", "recurrent"), [rows(3, 3)] * 3),
    ],
)
def test_the_graph_decides_as_the_policy_does(
    task: str, more: tuple[str, ...], batches: list[np.ndarray], tmp_path: Path
) -> None:
    pytest.importorskip("onnxruntime")
    train(tmp_path, "r", "--recipe", "ppo", "--task", task, "--network.normalise", "true", *more, steps=2, tiny=QUICK)
    about = compared(tmp_path / "r", tmp_path / "model.onnx", batches)
    assert about["task"] == task.partition("?")[0] or about["task"] == task


@pytest.mark.global_rng
def test_the_command_writes_a_file_for_each_agent(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    team = ["--task", "mpe:spread?agents=2&length=5", "--recipe", "ippo"]
    train(tmp_path, "team", *team, steps=1, tiny=QUICK)
    said = call("export", tmp_path / "team", "--onnx", "--out", tmp_path / "out", "--json")
    assert said.code == 0, said.err
    files = [f"model-agent_{number}.onnx" for number in range(2)]
    assert set(files) < set(said.json["files"])
    trained = hocket.load(tmp_path / "out", "agent_1")
    batch = rows(6, trained.form.size)  # type: ignore[attr-defined]
    (actions, _) = session(tmp_path / "out" / files[1]).run(None, {"observation": batch})
    assert actions.tolist() == trained.act(batch)[0].tolist()


def test_without_the_packages_a_sentence_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(tmp_path, "r", "--recipe", "ppo", steps=1, tiny=CONTROL)
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'hocket\[onnx\]'"):
        hocket.load(tmp_path / "r").save_onnx(tmp_path / "model.onnx")
    said = call("export", tmp_path / "r", "--onnx", "--out", tmp_path / "out")
    assert said.code == 2
    assert "hocket[onnx]" in said.err
    assert not (tmp_path / "out").exists()


def test_actions_in_parts_have_no_graph(tmp_path: Path) -> None:
    train(tmp_path, "r", "--task", "rts:beacon?length=3", "--recipe", "sc2le", steps=1, tiny=QUICK)
    with pytest.raises(ConfigurationError, match="several parts"):
        hocket.load(tmp_path / "r").save_onnx(tmp_path / "model.onnx")
