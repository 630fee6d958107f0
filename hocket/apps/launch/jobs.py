"""The files that start a command of hocket elsewhere: a batch script of Slurm, a manifest of Kubernetes, or by ssh.

A job of one node is the command itself. On several nodes it starts a Ray cluster among them, waits until all have
joined, and runs the command on the first one with `--cluster auto`.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from hocket.core.errors import ConfigurationError

MARK = "Written by hocket launch"
"""In the first line of every file, which may therefore be replaced."""

GRACE = 180
"""Seconds before its time limit at which Slurm asks a job to end, so that it saves a checkpoint."""


@dataclass(frozen=True)
class LaunchJob:
    """What is to run, and with which resources.

    Attributes:
        name: of the job and its files. words: what follows `hocket` on the command line. nodes: how many.
        cpus, gpus: of each node. memory, time: limits in the words of the place, such as `64G` and `12:00:00`.
        setup: lines of shell before the command. folder: where it runs.
        options: lines for the place alone: of `#SBATCH`, or options of ssh.
        hosts: of ssh, the first one runs the command. image, volume, namespace: of Kubernetes.
    """

    name: str
    words: Sequence[str]
    nodes: int = 1
    cpus: int | None = None
    gpus: int | None = None
    memory: str | None = None
    time: str | None = None
    setup: Sequence[str] = ()
    folder: str = "."
    options: Sequence[str] = ()
    hosts: Sequence[str] = ()
    image: str = "hocket"
    volume: str | None = None
    namespace: str | None = None

    @property
    def command(self) -> str:
        """The command as one line of shell."""
        return shlex.join(["hocket", *self.words])


def on_cluster(words: Sequence[str], nodes: int) -> list[str]:
    """The words of a command for a job of so many nodes, with the `--cluster` that it needs.

    Raises:
        ConfigurationError: when the command does not train, says otherwise, or would leave nodes idle.
    """
    command, *rest = words
    if command not in ("train", "study"):
        raise ConfigurationError(f"hocket launch starts `train` or `study`, not {command!r}; write it after --")
    flags = [word.partition("=")[0] for word in rest if word.startswith("--")]
    processes = [flag for flag in flags if flag.rpartition(".")[2].lstrip("-") in ("samplers", "learners")]
    if nodes == 1:
        return [*words, "--cluster", "local"] if processes and "--cluster" not in flags else list(words)
    if "--cluster" in flags:
        raise ConfigurationError(f"a job of {nodes} nodes is a Ray cluster of its own; drop --cluster")
    if command == "train" and not processes:
        raise ConfigurationError(
            f"one process uses one of {nodes} nodes; add --samplers N or --learners N after --, or take one node"
        )
    return [*words, "--cluster", "auto"]


def slurm(job: LaunchJob) -> str:
    """A batch script for `sbatch`."""
    settings = {
        "job-name": job.name,
        "nodes": job.nodes,
        "ntasks-per-node": 1,
        "cpus-per-task": job.cpus,
        "gpus-per-node": job.gpus,
        "mem": job.memory,
        "time": job.time,
        "chdir": job.folder,
        "output": f"{job.name}-%j.log",
        # To this script alone, which passes it on: the cluster must outlast the command.
        "signal": f"B:TERM@{GRACE}",
    }
    lines = ["#!/bin/bash", f"# {MARK} slurm."]
    lines += [f"#SBATCH --{name}={value}" for name, value in settings.items() if value is not None]
    lines += [f"#SBATCH {option}" for option in job.options]
    lines += ["set -u", *job.setup]
    # Steps do not take this over by themselves.
    lines += [f"export SRUN_CPUS_PER_TASK={job.cpus}", ""] if job.cpus else [""]
    if job.nodes > 1:
        lines += [
            'export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH="$HOME/.hocket-$SLURM_JOB_ID.token"',
            '(umask 077; head -c 32 /dev/urandom | base64 > "$RAY_AUTH_TOKEN_PATH")',
            "trap 'rm -f \"$RAY_AUTH_TOKEN_PATH\"' EXIT",
            'first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
            'export RAY_ADDRESS="$first:$((20000 + SLURM_JOB_ID % 20000))"',
            'srun --overlap --nodes=1 --ntasks=1 -w "$first" '
            f'ray start --head --port="${{RAY_ADDRESS##*:}}"{_ray_share(job)} --block &',
            f'srun --overlap --nodes={job.nodes - 1} --ntasks={job.nodes - 1} --exclude="$first" '
            f"bash -c 'until ray start --address=\"$RAY_ADDRESS\"{_ray_share(job)} --block; do sleep 2; done' &",
            f'srun --overlap --nodes=1 --ntasks=1 -w "$first" {_wait("$RAY_ADDRESS", job.nodes)} || exit 1',
            "",
        ]
    where = '--overlap --nodes=1 --ntasks=1 -w "$first" ' if job.nodes > 1 else ""
    lines += [
        f"srun {where}{job.command} &",
        "command=$!",
        "# The first signal has the command save a checkpoint and end.",
        "signalled=",
        "trap 'signalled=1; kill -TERM \"$command\" 2>/dev/null' TERM",
        # A signal interrupts the wait.
        'while wait "$command"; code=$?; [ -n "$signalled" ]; do signalled=; done',
        'exit "$code"',
    ]
    return "\n".join(lines) + "\n"


def ssh(job: LaunchJob) -> str:
    """A script that runs here and starts the command on other machines."""
    first, *others = job.hosts
    options = shlex.join(job.options)
    begin = " && ".join([f"cd {shlex.quote(job.folder)}", *job.setup])
    lines = ["#!/bin/bash", f"# {MARK} ssh. It lasts as long as the command; Ctrl-C ends that in order.", "set -u"]
    lines += [f"ssh=(ssh {options})" if options else "ssh=(ssh)", f"begin={shlex.quote(begin)}"]
    if not others:
        lines.append(f'exec "${{ssh[@]}}" -t {shlex.quote(first)} "$begin && exec "{shlex.quote(job.command)}')
        return "\n".join(lines) + "\n"
    token = f".hocket-{job.name}.token"
    address = f"{first.rpartition('@')[2]}:6379"
    lines += [
        'token=$(umask 077; mktemp) && head -c 32 /dev/urandom | base64 > "$token"',
        f"for host in {shlex.join(job.hosts)}; do",
        f'  "${{ssh[@]}}" "$host" "umask 077; cat > ~/{token}" < "$token" || exit 1',
        "done",
        'rm -f "$token"',
        f'begin="$begin && export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=~/{token} RAY_ADDRESS={address}"',
        "finish() {",
        "  kill $(jobs -p) 2>/dev/null  # What was started elsewhere ends with its line.",
        f'  for host in {shlex.join(job.hosts)}; do "${{ssh[@]}}" "$host" "rm -f ~/{token}" < /dev/null; done',
        "}",
        "trap finish EXIT",
        f'"${{ssh[@]}}" -tt {shlex.quote(first)} "$begin && ray start --head --port=6379{_ray_share(job)} --block" '
        f"< /dev/null > {job.name}-ray.log 2>&1 &",
        *(
            f'"${{ssh[@]}}" -tt {shlex.quote(host)} "$begin && until ray start --address={address}{_ray_share(job)} '
            f'--block; do sleep 2; done" < /dev/null >> {job.name}-ray.log 2>&1 &'
            for host in others
        ),
        f'"${{ssh[@]}}" {shlex.quote(first)} "$begin && {_wait(address, job.nodes)}" || exit 1',
        f'"${{ssh[@]}}" -t {shlex.quote(first)} "$begin && exec "{shlex.quote(job.command)}',
    ]
    return "\n".join(lines) + "\n"


def k8s(job: LaunchJob) -> str:
    """A manifest for `kubectl`: a Job, or on several nodes a RayJob of the KubeRay operator (1.5 or later)."""
    head = {"name": job.name, **({"namespace": job.namespace} if job.namespace else {})}
    if job.nodes == 1:
        words = ["bash", "-c", " && ".join([*job.setup, f"exec {job.command}"])] if job.setup else None
        pod = _pod(job, "hocket", words or ["hocket", *job.words]) | {"restartPolicy": "Never"}
        manifest: dict[str, Any] = {"apiVersion": "batch/v1", "kind": "Job", "metadata": head}
        # Ends like Ctrl-C, with a checkpoint; a job that failed is looked at before it begins again.
        manifest["spec"] = {"backoffLimit": 0, "template": {"spec": pod | {"terminationGracePeriodSeconds": GRACE}}}
    else:
        entry = " && ".join([*job.setup, _wait("auto", job.nodes), job.command])
        workers: dict[str, Any] = {"groupName": "workers", "rayStartParams": {}}
        workers |= dict.fromkeys(("replicas", "minReplicas", "maxReplicas"), job.nodes - 1)
        workers["template"] = {"spec": _pod(job, "ray-worker")}
        cluster = {
            "authOptions": {"mode": "token"},
            "headGroupSpec": {"rayStartParams": {}, "template": {"spec": _pod(job, "ray-head")}},
            "workerGroupSpecs": [workers],
        }
        manifest = {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": head}
        manifest["spec"] = {"entrypoint": entry, "shutdownAfterJobFinishes": True, "rayClusterSpec": cluster}
    return f"# {MARK} k8s.\n" + yaml.safe_dump(manifest, sort_keys=False, width=110)


def _pod(job: LaunchJob, name: str, command: Sequence[str] = ()) -> dict[str, Any]:
    """A pod with one container."""
    wanted = {"cpu": job.cpus and str(job.cpus), "memory": job.memory, "nvidia.com/gpu": job.gpus and str(job.gpus)}
    resources = {resource: value for resource, value in wanted.items() if value}
    container: dict[str, Any] = {"name": name, "image": job.image, "workingDir": job.folder}
    container |= {"command": list(command)} if command else {}
    container |= {"resources": {"requests": resources, "limits": resources}} if resources else {}
    if job.volume is None:
        return {"containers": [container]}
    container["volumeMounts"] = [{"name": "work", "mountPath": job.folder}]
    volume = {"name": "work", "persistentVolumeClaim": {"claimName": job.volume}}
    return {"containers": [container], "volumes": [volume]}


def _ray_share(job: LaunchJob) -> str:
    """What Ray may use of a node, where the job says it."""
    known = {"num-cpus": job.cpus, "num-gpus": job.gpus}
    return "".join(f" --{name}={value}" for name, value in known.items() if value is not None)


def _wait(address: str, nodes: int) -> str:
    return f"python -m hocket.distributed.cluster.nodes {address} {nodes}"
