"""`hocket launch`."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path

from hocket.apps.cli.command import Command
from hocket.apps.cli.output import Pairs, emit
from hocket.core.errors import ConfigurationError

DETAILS = """Writes the job that runs a command of hocket elsewhere, and with --submit sends it. What follows -- is the
command, without `hocket`. Several nodes become a Ray cluster, with --cluster auto (docs/cluster.md).

  hocket launch slurm --gpus 1 --time 12:00:00 -- train run.yaml
  hocket launch slurm --nodes 4 --cpus 16 --submit -- train run.yaml --samplers 12 --threads 4
  hocket launch k8s --image REGISTRY/hocket:cuda --volume CLAIM --gpus 1 -- train run.yaml
  hocket launch ssh --hosts a,b,c -- train run.yaml --samplers 6"""

HERE = {"slurm": ("partition", "account"), "ssh": ("hosts",), "k8s": ("image", "volume", "namespace")}
"""Flags that one place alone has."""


def _flags(parser: argparse.ArgumentParser) -> None:
    parser.usage = "hocket launch {slurm,k8s,ssh} [--FLAG VALUE ...] -- train ..."
    parser.add_argument("place", choices=("slurm", "k8s", "ssh"), help="where it runs")
    parser.add_argument("command", nargs="+", metavar="COMMAND", help="`train` or `study` with their flags, after --")
    for flag, text in (
        ("--nodes", "machines (1; with ssh the hosts)"),
        ("--cpus", "cores of each machine"),
        ("--gpus", "GPUs of each machine"),
    ):
        parser.add_argument(flag, type=int, metavar="N", help=text)
    for flag, metavar, text in (
        ("--memory", "SIZE", "memory of each machine, as 64G (k8s: 64Gi)"),
        ("--time", "H:MM:SS", "slurm: time limit; a checkpoint is saved shortly before it"),
        ("--partition", "NAME", "slurm: partition"),
        ("--account", "NAME", "slurm: account"),
        ("--hosts", "A,B", "ssh: machines; the first one runs the command"),
        ("--image", "NAME", "k8s: image with hocket, see the Dockerfile (hocket)"),
        ("--volume", "CLAIM", "k8s: claim of the volume where runs are written"),
        ("--namespace", "NAME", "k8s: namespace"),
        ("--folder", "DIR", "folder in which the command runs, there (this one; k8s: /work)"),
        ("--name", "NAME", "name of the job (hocket)"),
        ("--out", "FILE", "file to write (NAME.sbatch, NAME.yaml or NAME.sh)"),
    ):
        parser.add_argument(flag, metavar=metavar, help=text)
    parser.add_argument(
        "--setup", metavar="LINE", action="append", help="shell before the command (activates this environment)"
    )
    more = "more for #SBATCH or ssh, as --option=--qos=high"
    parser.add_argument("--option", metavar="TEXT", action="append", default=[], help=more)
    parser.add_argument("--submit", action="store_true", help="also send it: sbatch, kubectl create, or run the script")


def _run(options: argparse.Namespace, pairs: Pairs) -> int:
    from hocket.apps.launch.jobs import LaunchJob, on_cluster
    from hocket.apps.launch.sending import PLACES, send_job, write_job

    _check(options)
    hosts = [host for host in (options.hosts or "").split(",") if host]
    nodes = len(hosts) if options.place == "ssh" else options.nodes or 1
    words = on_cluster(options.command, nodes)
    _check_command(words)
    queue = [f"--{flag}={getattr(options, flag)}" for flag in HERE["slurm"] if getattr(options, flag)]
    extra = shlex.split(" ".join(options.option)) if options.place == "ssh" else options.option
    job = LaunchJob(
        name=options.name or "hocket",
        words=words,
        nodes=nodes,
        cpus=options.cpus,
        gpus=options.gpus,
        memory=options.memory,
        time=options.time,
        setup=_setup(options),
        folder=options.folder or ("/work" if options.place == "k8s" else os.getcwd()),
        options=[*queue, *extra],
        hosts=hosts,
        image=options.image or "hocket",
        volume=options.volume,
        namespace=options.namespace,
    )
    place = PLACES[options.place]
    file = write_job(place, job, options.out)
    if options.place == "k8s" and options.volume is None:
        print("! without --volume the run is lost with its pod", file=sys.stderr)
    answer = send_job(place, file) if options.submit else ""
    if options.json:
        emit({"file": str(file), "command": job.command, "sent": options.submit, "answer": answer})
        return 0
    print(file)
    if options.submit and answer:
        print(answer)
    elif not options.submit:
        print(f"send it with: {shlex.join([*place.send, str(file)])}", file=sys.stderr)
    return 0


def _check(options: argparse.Namespace) -> None:
    """Refuses flags of another place, and names that are none."""
    for place, flags in HERE.items():
        stray = next((flag for flag in flags if getattr(options, flag) and place != options.place), None)
        if stray is not None:
            raise ConfigurationError(f"--{stray} goes with hocket launch {place}; drop it")
    if options.place == "ssh":
        unused = next((flag for flag in ("nodes", "memory", "time") if getattr(options, flag)), None)
        if unused is not None:
            raise ConfigurationError(f"--{unused} has no meaning for hocket launch ssh; drop it")
        if not options.hosts:
            raise ConfigurationError("hocket launch ssh needs the machines: --hosts A,B")
        if any(host.startswith("-") for host in options.hosts.split(",")):
            raise ConfigurationError(f"--hosts {options.hosts}: a host begins with no hyphen")
    elif options.place == "k8s":
        unused = next((flag for flag in ("time", "option") if getattr(options, flag)), None)
        if unused is not None:
            raise ConfigurationError(f"--{unused} has no meaning for hocket launch k8s; drop it, or edit the file")
    name = options.name or "hocket"
    if not (name.isascii() and name.replace("-", "").isalnum() and name == name.lower().strip("-") and len(name) < 53):
        raise ConfigurationError(f"--name {name!r}: use at most 52 lower-case letters, digits and hyphens")


def _check_command(words: list[str]) -> None:
    """Refuses a command that would fail there at once, before it waits in a queue."""
    from hocket.apps.cli.parser import build_parser, split_settings
    from hocket.apps.cli.training import check_settings

    command = build_parser(words[0]).commands[words[0]]
    rest, pairs = split_settings(words[1:], command.flags)
    options = command.parse_args(rest)
    if words[0] == "train" and not options.resume:
        check_settings(options, pairs)


def _setup(options: argparse.Namespace) -> list[str]:
    if options.setup is not None or options.place == "k8s":
        return list(options.setup or ())
    activate = Path(sys.prefix) / "bin" / "activate"
    return [f"source {shlex.quote(str(activate))}"] if activate.is_file() else []


LAUNCH = Command(
    name="launch",
    description="write a job for Slurm, Kubernetes or ssh, and send it",
    family="train and measure",
    details=DETAILS,
    flags=_flags,
    run=_run,
    settings=False,
)
