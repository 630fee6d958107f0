"""A run on a Ray cluster of this machine: the same bits as in one process, also when a process of it is killed."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from disturbed import interrupted_often
from tiny_runs import REWARDS, TEAM, TINY, call, rows, train, weights

from hocket.core.errors import ConfigurationError
from hocket.distributed.cluster import ray as cluster
from hocket.distributed.cluster.sampler import Sampler

pytestmark = [
    pytest.mark.slow,
    pytest.mark.global_rng,  # Ray draws from it.
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs pip install 'hocket[cluster]'"),
]


def ray_command(*arguments: str) -> None:
    command = [sys.executable, "-m", "ray.scripts.scripts", *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    import ray

    folder = tmp_path_factory.mktemp("r")  # Sockets stand in it, whose paths must be short.
    flags = [
        "--port=0",
        "--num-cpus=4",
        "--num-gpus=2",
        "--include-dashboard=false",
        "--disable-usage-stats",
        f"--temp-dir={folder}",
    ]
    ray_command("start", "--head", *flags)
    yield
    ray.shutdown()
    ray_command("stop", "--force")


def flags(folder: Path) -> list[str]:
    (folder / "mine.py").write_text(REWARDS)
    return ["--recipe", "grpo-kl", "--update.lr", "1e-3", "--leaves", "2", "--reward", f"{folder}/mine.py:spread"]


OWN = ["--roles.planner.learners", "1", "--roles.worker.learners", "2"]


@pytest.mark.parametrize(
    ("team", "spread"), [([], ["--samplers", "2", "--learners", "2"]), (TEAM, OWN)], ids=["one group", "a group each"]
)
@pytest.mark.usefixtures("head")
def test_a_cluster_learns_what_one_process_learns(team: list[str], spread: list[str], tmp_path: Path) -> None:
    more = [*flags(tmp_path), *team]
    train(tmp_path, "one", *more, steps=3)
    train(tmp_path, "ray", *more, "--cluster", "auto", *spread, steps=3)
    assert weights(tmp_path / "one") == weights(tmp_path / "ray")
    assert rows(tmp_path / "one") == rows(tmp_path / "ray")


@pytest.mark.usefixtures("head")
def test_what_a_killed_process_was_asked_another_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    more = flags(tmp_path)
    train(tmp_path, "one", *more, steps=3)
    ask, killed = Sampler.ask, []

    def struck(sampler: Sampler, message: Any) -> Any:
        assert isinstance(sampler.line, cluster.RayLine)
        if not killed and sampler.weights is not None:
            killed.append(sampler.line.name)
            here = sampler.line.actor.versions.options(concurrency_group="life").remote()
            os.kill(int(sampler.line._ray.get(here)["process"]), signal.SIGKILL)
        return ask(sampler, message)

    monkeypatch.setattr(Sampler, "ask", struck)
    train(tmp_path, "ray", *more, "--cluster", "auto", "--samplers", "2", steps=3)
    assert f"{killed[0]} ended" in (tmp_path / "ray" / "messages.txt").read_text()
    assert weights(tmp_path / "one") == weights(tmp_path / "ray")
    assert rows(tmp_path / "one") == rows(tmp_path / "ray")


@pytest.mark.usefixtures("head")
def test_what_a_cluster_cannot_do_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    common = ["--runs", tmp_path, "--run", "run", "--quiet", "--cluster", "auto"]
    said = call("train", *TINY, *common, "--samplers", "9")
    assert said.code == 2
    assert "9 processes of 1 cores are more than its 4 cores" in " ".join(said.err.split())
    found = cluster.versions()
    monkeypatch.setattr(cluster, "versions", lambda: {**found, "torch": "0.1"})
    said = call("train", *TINY, *common, "--samplers", "1")
    assert said.code == 2
    assert "and this process 0.1; install the same on all nodes" in " ".join(said.err.split())


@pytest.mark.usefixtures("head")
def test_answers_on_a_cluster_go_on_under_new_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted_often(monkeypatch)
    more = [*flags(tmp_path)[4:], "--recipe", "grpo-tis", "--engine.max_rows", "2", "--decoding.max_tokens", "40"]
    more += ["--cluster", "auto", "--samplers", "2", "--lag", "3", "--order", "arrival", "--interrupt", "true"]
    train(tmp_path, "ray", *more, "--differences", "true", "--checkpoint.steps", "1", steps=5)
    assert '"parts"' in (tmp_path / "ray" / "schedule.jsonl").read_text()
    assert "all weights and metrics are equal" in call("replay", tmp_path / "ray", "--quiet").out


@pytest.mark.usefixtures("head")
def test_a_study_is_spread_over_a_cluster(tmp_path: Path) -> None:
    small = ["--measure.n", "8", "--measure.between", "4", "--measure.problems", "4", "--measure.samples", "2"]
    more = ["--recipes", "grpo,cispo", "--seeds", "1", "--steps", "2", "--prompts", "2", "--samples", "4", *small]
    said = call("study", *more, "--task", "sums", "--out", tmp_path / "study", "--cluster", "auto", "--workers", "2")
    assert said.code == 0, said.err
    assert len(list((tmp_path / "study" / "runs").glob("*.json"))) == 2
    said = call("study", *more, "--task", "sums", "--out", tmp_path / "two", "--cluster", "auto", "--workers", "9")
    assert said.code == 2
    assert "9 processes of 1 cores are more than its 4 cores" in " ".join(said.err.split())


@pytest.mark.usefixtures("head")
def test_every_process_is_given_a_device_or_an_equal_part_of_one() -> None:
    import ray

    place = cluster.RayCluster("auto", processes=1, cores=1, devices=True)
    other = place.line("learner 1", "hocket.distributed.cluster.learner_worker")
    ray.get(other.actor.versions.options(concurrency_group="life").remote())
    assert ray.available_resources().get("GPU", 0.0) == 0.0, "the first process has the other one"
    other.close()
    assert cluster.RayCluster("auto", processes=3, cores=1, devices=True)._device == 0.5
    assert cluster.RayCluster("auto", processes=3, cores=1)._device == 0.0


def test_a_cluster_that_is_not_there_is_refused() -> None:
    """The last one: a client that found nobody leaves Ray in a state in which no other cluster is joined."""
    import ray

    ray.shutdown()
    with pytest.raises(ConfigurationError, match=r"no Ray cluster answers there.*--cluster local"):
        cluster.RayCluster("ray://127.0.0.1:1", processes=1, cores=1)
