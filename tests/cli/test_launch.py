"""Jobs for other machines: what is written, run here with scripts in place of their programs, and what is sent."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from tiny_runs import Said, call

from hocket.distributed.cluster.nodes import wait_for_nodes

TRAIN = ("--", "train", "--task", "sums", "--run", "mine")

PROGRAMS = {
    # Flags of its own, then a command.
    "srun": 'while [[ $1 == -* ]]; do [[ $1 == -w ]] && shift; shift; done\nexec "$@"',
    "scontrol": "printf 'node7\\nnode8\\n'",
    "ray": 'echo "ray $* $RAY_AUTH_MODE" >> log; [[ -s $RAY_AUTH_TOKEN_PATH ]] && echo token >> log; exec sleep 20',
    "python": 'echo "python $*" >> log',
    "hocket": 'echo "hocket $* at ${RAY_ADDRESS:-nothing}" >> log\n'
    "trap 'echo saved >> log; exit 3' TERM\n[[ -e hold ]] && { touch held; while :; do sleep .02; done; }\nexit 4",
    "ssh": "while [[ $1 == -* ]]; do [[ $1 == -p ]] && shift; shift; done\nhost=$1; shift\n"
    'echo "to $host" >> log\nHOME=$PWD/home-$host exec bash -c "$*"',
    "sbatch": 'echo "Submitted batch job 42"; echo "sbatch $*" >> log',
    "kubectl": 'echo "kubectl $*" >> log; echo "no such claim" >&2; exit 1',
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own, with scripts in place of the programs of clusters."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, text in PROGRAMS.items():
        (programs / name).write_text(f"#!/bin/bash\n{text}\n")
        (programs / name).chmod(0o755)
    for host in ("a", "b"):
        (tmp_path / f"home-{host}").mkdir()
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def launch(*words: str) -> Said:
    return call("launch", *words)


def log(here: Path) -> list[str]:
    return sorted((here / "log").read_text().splitlines())


def test_a_batch_script_of_one_node(here: Path) -> None:
    flags = ("--gpus", "1", "--memory", "64G", "--time", "12:00:00", "--account", "lab", "--option=--qos=high")
    said = launch("slurm", *flags, "--setup", "export MINE=1", *TRAIN)
    assert (said.code, said.out, said.err) == (0, "hocket.sbatch\n", "send it with: sbatch hocket.sbatch\n")
    lines = (here / "hocket.sbatch").read_text().splitlines()
    settings = [line.removeprefix("#SBATCH --") for line in lines if line.startswith("#SBATCH")]
    assert settings == [
        *("job-name=hocket", "nodes=1", "ntasks-per-node=1", "gpus-per-node=1", "mem=64G", "time=12:00:00"),
        *(f"chdir={here}", "output=hocket-%j.log", "signal=B:TERM@180", "account=lab", "qos=high"),
    ]
    assert "export MINE=1" in lines
    assert subprocess.run(["bash", "hocket.sbatch"], check=False).returncode == 4  # Of the command itself.
    assert log(here) == ["hocket train --task sums --run mine at nothing"]


def test_the_end_of_the_time_limit_is_passed_on_and_waited_for(here: Path) -> None:
    launch("slurm", "--setup", "true", *TRAIN)
    (here / "hold").touch()
    job = subprocess.Popen(["bash", "hocket.sbatch"])
    while not (here / "held").exists():
        time.sleep(0.02)
    job.send_signal(signal.SIGTERM)
    assert job.wait(20) == 3
    assert "saved" in log(here)


def test_several_nodes_become_a_ray_cluster(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "30005")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "node[7-8]")
    said = launch("slurm", "--nodes", "2", "--cpus", "8", "--setup", "true", "--name", "big", *TRAIN, "--samplers", "3")
    assert said.code == 0, said.err
    assert "export SRUN_CPUS_PER_TASK=8" in (here / "big.sbatch").read_text()
    done = subprocess.run(["bash", "-m", "big.sbatch"], check=False, start_new_session=True)
    assert done.returncode == 4
    told = log(here)
    assert "hocket train --task sums --run mine --samplers 3 --cluster auto at node7:30005" in told
    assert "python -m hocket.distributed.cluster.nodes node7:30005 2" in told
    assert not list(here.glob(".hocket-*.token"))


def test_a_job_is_sent(here: Path) -> None:
    said = launch("slurm", "--submit", "--json", "--setup", "true", *TRAIN)
    command = "hocket train --task sums --run mine"
    answer = {"file": "hocket.sbatch", "command": command, "sent": True, "answer": "Submitted batch job 42"}
    assert said.json == answer
    assert log(here) == ["sbatch hocket.sbatch"]
    refused = launch("k8s", "--submit", "--volume", "mine", *TRAIN)
    assert (refused.code, refused.err) == (1, "hocket: kubectl refused hocket.yaml: no such claim\n")
    (here / "programs" / "sbatch").unlink()
    missing = launch("slurm", "--submit", *TRAIN)
    assert (missing.code, missing.err) == (
        2,
        "hocket: --submit needs sbatch, which is not on PATH; hocket.sbatch is written\n",
    )


def test_a_manifest_of_one_pod(here: Path) -> None:
    said = launch("k8s", "--image", "r/hocket:cuda", "--gpus", "2", "--cpus", "8", "--memory", "64Gi", *TRAIN)
    assert said.err.startswith("! without --volume the run is lost")
    found = yaml.safe_load((here / "hocket.yaml").read_text())
    assert (found["apiVersion"], found["kind"], found["spec"]["backoffLimit"]) == ("batch/v1", "Job", 0)
    pod = found["spec"]["template"]["spec"]
    limits = {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "2"}
    assert pod["restartPolicy"] == "Never"
    assert pod["containers"] == [
        {
            "name": "hocket",
            "image": "r/hocket:cuda",
            "workingDir": "/work",
            "command": ["hocket", "train", "--task", "sums", "--run", "mine"],
            "resources": {"requests": limits, "limits": limits},
        }
    ]


def test_a_manifest_of_several_pods(here: Path) -> None:
    more = ("--nodes", "3", "--volume", "claim", "--namespace", "lab", "--setup", "export A=1")
    assert launch("k8s", *more, *TRAIN, "--learners", "2").code == 0
    found = yaml.safe_load((here / "hocket.yaml").read_text())
    assert (found["kind"], found["metadata"]) == ("RayJob", {"name": "hocket", "namespace": "lab"})
    spec = found["spec"]
    assert spec["entrypoint"] == (
        "export A=1 && python -m hocket.distributed.cluster.nodes auto 3 && "
        "hocket train --task sums --run mine --learners 2 --cluster auto"
    )
    (workers,) = spec["rayClusterSpec"]["workerGroupSpecs"]
    assert [workers[name] for name in ("replicas", "minReplicas", "maxReplicas")] == [2, 2, 2]
    assert spec["rayClusterSpec"]["authOptions"] == {"mode": "token"}
    for group in (workers, spec["rayClusterSpec"]["headGroupSpec"]):
        pod = group["template"]["spec"]
        assert pod["volumes"] == [{"name": "work", "persistentVolumeClaim": {"claimName": "claim"}}]
        assert pod["containers"][0]["volumeMounts"] == [{"name": "work", "mountPath": "/work"}]


def test_one_machine_by_ssh(here: Path) -> None:
    words = ("ssh", "--hosts", "a", "--setup", "export B='x y'", "--option=-p 22", "--submit")
    said = launch(*words, "--", "train", "--run", "mine", "--samplers", "2")
    assert (said.code, said.err) == (1, "hocket: hocket.sh ended with 4\n")
    assert log(here) == ["hocket train --run mine --samplers 2 --cluster local at nothing", "to a"]


def test_several_machines_by_ssh(here: Path) -> None:
    assert launch("ssh", "--hosts", "me@a,b", "--setup", "true", *TRAIN, "--samplers", "2").code == 0
    (here / "home-me@a").mkdir()
    done = subprocess.run(["bash", "hocket.sh"], check=False, timeout=60)
    assert done.returncode == 4
    told = log(here)
    assert "hocket train --task sums --run mine --samplers 2 --cluster auto at a:6379" in told
    assert "python -m hocket.distributed.cluster.nodes a:6379 2" in told
    assert {"to me@a", "to b"} <= set(told)
    assert not list(here.glob("home-*/.hocket*"))


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("slurm",), "COMMAND"),
        (("slurm", "--", "eval", "x"), "starts `train` or `study`, not 'eval'"),
        (("slurm", "--", "train", "--tsak", "sums"), "tsak"),
        (("slurm", "--", "train", "--update.lr", "fast"), "update.lr"),
        (("slurm", "--nodes", "2", "--", "train"), "add --samplers N or --learners N"),
        (("slurm", "--nodes", "2", "--", "train", "--samplers", "2", "--cluster", "local"), "drop --cluster"),
        (("slurm", "--image", "x", *TRAIN), "--image goes with hocket launch k8s"),
        (("k8s", "--time", "1:00", *TRAIN), "--time has no meaning for hocket launch k8s"),
        (("ssh", *TRAIN), "--hosts A,B"),
        (("ssh", "--hosts", "a,-oProxyCommand=x", *TRAIN), "begins with no hyphen"),
        (("slurm", "--name", "My Job", *TRAIN), "lower-case letters"),
        (("cloud", *TRAIN), "invalid choice"),
    ],
)
def test_what_cannot_run_is_one_sentence(here: Path, words: tuple[str, ...], reason: str) -> None:
    said = launch(*words)
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1), said.err
    assert reason in said.err
    assert not list(here.glob("hocket.*"))


def test_only_its_own_files_are_replaced(here: Path) -> None:
    for _ in range(2):
        assert launch("slurm", *TRAIN).code == 0
    (here / "mine.sh").write_text("echo precious\n")
    said = launch("slurm", "--out", "mine.sh", *TRAIN)
    assert (said.code, "is not of hocket launch" in said.err) == (2, True)
    assert (here / "mine.sh").read_text() == "echo precious\n"


def test_nodes_are_waited_for() -> None:
    counts, asked, pauses = [1, 2, 3], [], []

    def init(**settings: object) -> None:
        asked.append(settings["address"])
        if len(asked) < 3:
            raise ConnectionError("not yet")

    nodes = lambda: [{"Alive": True}] * counts.pop(0) + [{"Alive": False}]  # noqa: E731
    ray = SimpleNamespace(is_initialized=lambda: len(asked) > 2, init=init, nodes=nodes)
    assert wait_for_nodes(ray, "a:1", 3, 60.0, pauses.append)
    assert (asked, len(pauses)) == (["a:1"] * 3, 4)
    counts.append(2)
    assert not wait_for_nodes(ray, "a:1", 3, 0.0, pauses.append)
