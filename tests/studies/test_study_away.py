"""Workers of a study that are elsewhere: the same results, lost workers are replaced, bad places are said."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import call

from hocket.apps.studies.folder import read_result
from hocket.apps.studies.remote_workers import RemoteWorkers
from hocket.core.errors import ConfigurationError
from hocket.distributed.cluster.connection import PeerLost

TINY = [
    *("--task", "sums", "--steps", "2", "--prompts", "2", "--samples", "4", "--decoding.max_tokens", "10"),
    *("--measure.n", "8", "--measure.between", "4", "--measure.points", "2", "--seeds", "1", "--equal_batches", "2"),
    *("--measure.problems", "4", "--measure.samples", "2", "--recipes", "grpo,cispo", "--workers", "1", "--quiet"),
]

Answer = Callable[[dict[str, Any]], dict[str, Any]]


class Scripted:
    """A worker that answers by a function of the job."""

    def __init__(self, name: str, answer: Answer) -> None:
        self.name, self.closed = name, False
        self._answer, self._job = answer, dict[str, Any]()

    def send(self, message: bytes, beside: object = ()) -> None:
        self._job = json.loads(message)

    def receive(self) -> bytes:
        return json.dumps(self._answer(self._job)).encode()

    def ready(self, seconds: float) -> bool:
        return True

    def close(self) -> None:
        self.closed = True


class Stage:
    """A place whose workers answer by a function of the job."""

    host, cores = "127.0.0.1", 3

    def __init__(self, answer: Answer) -> None:
        self._answer, self.lines = answer, list[Scripted]()

    def line(self, name: str, module: str) -> Scripted:
        assert module == "hocket.apps.studies.remote_workers"
        self.lines.append(Scripted(name, self._answer))
        return self.lines[-1]


def done_by(answer: Answer, folder: Path, *, jobs: int = 6, size: int = 2) -> tuple[Stage, dict[str, str | None]]:
    stage, told = Stage(answer), dict[str, str | None]()
    away = RemoteWorkers(stage, size)
    wanted = [{"kind": "run", "number": n, "file": str(folder / f"{n}.json")} for n in range(jobs)]
    away.do(wanted, lambda job, error: told.update({str(job["number"]): error}))
    away.close()
    assert all(line.closed for line in stage.lines)
    return stage, told


def test_every_job_leaves_its_result_here(tmp_path: Path) -> None:
    stage, told = done_by(lambda job: {"found": job["number"] ** 2, "gap": float("inf")}, tmp_path)
    assert told == {str(n): None for n in range(6)}
    assert [read_result(tmp_path / f"{n}.json") for n in range(6)] == [{"found": n * n, "gap": None} for n in range(6)]
    assert len(stage.lines) <= 2


def test_what_a_lost_worker_did_another_does_and_what_kills_two_has_failed(tmp_path: Path) -> None:
    deaths: list[int] = []

    def answer(job: dict[str, Any]) -> dict[str, Any]:
        time.sleep(0.01)
        if job["number"] == 4 or (job["number"] == 1 and 1 not in deaths):
            deaths.append(job["number"])
            raise PeerLost("study worker 2 ended by SIGKILL")
        return {"found": 1} if job["number"] != 5 else {"error": "it cannot be made"}

    stage, told = done_by(answer, tmp_path)
    assert sorted(deaths) == [1, 4, 4]
    assert len(stage.lines) <= 2 + 3
    assert told["1"] is None
    assert told["4"] == "its worker process died 2 times (study worker 2 ended by SIGKILL); is there enough memory?"
    assert told["5"] == "it cannot be made"
    assert read_result(tmp_path / "4.json") == {"error": told["4"]}


def test_a_node_with_other_versions_ends_the_study_with_its_sentence(tmp_path: Path) -> None:
    def other(job: dict[str, Any]) -> dict[str, Any]:
        raise ConfigurationError("study worker 1 on node has torch 1, and this process 2; install the same")

    with pytest.raises(ConfigurationError, match="install the same"):
        done_by(other, tmp_path)


@pytest.mark.parametrize(
    ("where", "said"), [("nowhere", "choose local, auto or ray://HOST:PORT"), ("ray://", "choose local, auto or ray")]
)
def test_a_place_that_is_none_is_refused(where: str, said: str, tmp_path: Path) -> None:
    found = call("study", *TINY, "--out", tmp_path / "study", "--cluster", where)
    assert found.code == 2
    assert said in found.err
    assert not (tmp_path / "study").exists()


@pytest.mark.slow
def test_a_study_elsewhere_finds_what_one_here_does(tmp_path: Path) -> None:
    found = {}
    for name, more in {"here": [], "away": ["--cluster", "local"]}.items():
        said = call("study", *TINY, "--out", tmp_path / name, *more)
        assert said.code == 0, said.err
        files = [*(tmp_path / name / "runs").glob("*.json"), *(tmp_path / name / "equal").glob("*.json")]
        results = {file.name: read_result(file) or {} for file in files}
        found[name] = {
            file: {key: value for key, value in one.items() if key not in ("seconds", "wall")}
            for file, one in results.items()
        }
    assert len(found["here"]) == 3
    assert found["here"] == found["away"]
