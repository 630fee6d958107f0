"""`hocket.Run`: what a folder holds of a run, finished or stopped."""

from __future__ import annotations

import json
import shutil
import sys
import xml.etree.ElementTree as xml
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import CONTROL, train

import hocket
from hocket.core.errors import ConfigurationError, HocketError

QUICK: dict[str, Any] = {"threads": 1, "precision": "fp32"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("runs")
    train(runs, "cart", "--recipe", "ppo", steps=3, tiny=CONTROL)
    return runs / "cart"


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def test_it_opens_by_path_and_by_name(folder: Path) -> None:
    for run in (hocket.Run(folder), hocket.Run(str(folder)), hocket.Run("cart", runs=str(folder.parent))):
        assert run.path == folder
        assert repr(run).startswith(f"Run({str(folder)!r}: ppo on gym:CartPole-v1")
        assert run.phases == ()


def test_what_it_recorded(folder: Path) -> None:
    run = hocket.Run(folder)
    assert run.config["task"] == "gym:CartPole-v1?max_episode_steps=20"
    assert [row["step"] for row in run.metrics] == [0, 1, 2, 3]
    assert run.summary == json.loads((folder / "summary.json").read_text())
    recorded = {int(file.stem.partition("-")[2]) for file in (folder / "rollouts").glob("step-*.jsonl")}
    assert {episode["step"] for episode in run.episodes} == recorded
    assert len(run.episodes) == 4 * len(recorded)


def test_metrics_as_a_frame(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas")
    run = hocket.Run(folder)
    frame = run.frame()
    assert frame.index.tolist() == [0, 1, 2, 3]
    assert frame["reward/mean"][2] == run.metrics[2]["reward/mean"]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ConfigurationError, match="pip install pandas"):
        run.frame()


def test_a_run_that_was_trained_here_is_the_same_class(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"curriculum.prompts": 4, "evaluation.n": 4, "evaluation.between": 2, "threads": 1}
    task = "gym:CartPole-v1?max_episode_steps=20"
    run = hocket.train(task, recipe="ppo", steps=2, runs=str(tmp_path), run="cart", **settings)  # type: ignore[operator]
    opened = hocket.Run(tmp_path / "cart")
    assert type(run) is type(opened) is hocket.Run
    assert opened.evaluate(3).each == run.evaluate(3).each
    assert opened.evaluate().success == run.evaluate().success == run.summary["after"]["return"]
    own, read = run.policy.module.state_dict(), opened.policy.module.state_dict()
    assert all((own[name] == read[name]).all() for name in own)
    observation = [0.1, 0.2, 0.3, 0.4]
    assert run.load().act(observation)[0] == opened.load().act(observation)[0]


def test_curves_as_one_picture(folder: Path, tmp_path: Path) -> None:
    run = hocket.Run(folder)
    figure = run.plot()
    assert figure._repr_html_().startswith('<img src="data:image/svg+xml;base64,')
    root = xml.fromstring(figure.svg())
    styles = [element.text or "" for element in root.iter() if element.tag.endswith("style")]
    assert all("svg .line { fill: none" in style and "--c0: #" in style for style in styles)
    charts = [element for element in root.iter() if element.get("class") == "chart"]
    assert len(charts) == len(figure.charts) > 5
    two = run.plot("reward/mean", "eval/return")
    assert [chart.title for chart in two.charts] == ["reward/mean", "eval/return"]
    file = two.save(tmp_path / "curves.svg")
    assert "reward/mean" in file.read_text()
    with pytest.raises(ConfigurationError, match="no metric 'reward/men'; did you mean 'reward/mean'"):
        run.plot("reward/men")
    with pytest.raises(ConfigurationError, match=r"ends in \.svg"):
        two.save(tmp_path / "curves.png")


def test_a_stopped_run_says_what_its_metrics_say(copy: Path) -> None:
    (copy / "summary.json").unlink()
    run = hocket.Run(copy)
    assert run.summary["reason"] == "unfinished"
    assert run.summary["steps"] == 3
    assert run.load().act([0.0, 0.0, 0.0, 0.0])[0] in (0, 1)


def test_damaged_files_are_named(copy: Path, caplog: pytest.LogCaptureFixture) -> None:
    (copy / "summary.json").write_text("{")
    assert hocket.Run(copy).summary["reason"] == "unfinished"
    assert "summary.json cannot be read" in caplog.text
    (copy / "config.yaml").write_text("task: [")
    with pytest.raises(HocketError, match=r"config\.yaml cannot be read"):
        _ = hocket.Run(copy).config
    with pytest.raises(ConfigurationError, match="is not valid YAML"):
        hocket.Run(copy).load()


def test_a_run_without_a_checkpoint(copy: Path) -> None:
    shutil.rmtree(copy / "checkpoints")
    with pytest.raises(ConfigurationError, match="has no last checkpoint yet"):
        hocket.Run(copy).load()


def test_folders_that_are_no_runs(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"is not a run: it has no config\.yaml"):
        hocket.Run(tmp_path)
    with pytest.raises(ConfigurationError, match="there is no run 'cat'; did you mean 'cart'"):
        hocket.Run("cat", runs=str(folder.parent))
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(ConfigurationError, match="is an adapter without its model"):
        hocket.load(tmp_path)


def test_the_last_phase_of_a_plan(tmp_path: Path) -> None:
    plan = [{"recipe": "sft", "steps": 1, "name": name} for name in ("first", "second")]
    settings: dict[str, Any] = {"curriculum.prompts": 2, "evaluation.n": 2, "decoding.max_tokens": 6, **QUICK}
    run = hocket.train("sums", plan=plan, runs=str(tmp_path), run="two", lessons=0, **settings)  # type: ignore[operator]
    opened = hocket.Run(tmp_path / "two")
    assert [phase.name for phase in opened.phases] == [phase.name for phase in run.phases]
    assert opened.path == run.path == run.phases[-1]
    assert opened.load().generate("What is 1 + 1?") == run.load().generate("What is 1 + 1?")
