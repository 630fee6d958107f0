"""Writes the file of a job, and sends it with the program of its place."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hocket.apps.launch.jobs import MARK, LaunchJob, k8s, slurm, ssh
from hocket.core.errors import ConfigurationError, HocketError


@dataclass(frozen=True)
class Destination:
    """Where jobs run.

    Attributes:
        write: gives the file of a job. suffix: of its name. send: the command before the file's name that sends it.
    """

    write: Callable[[LaunchJob], str]
    suffix: str
    send: tuple[str, ...]


PLACES: Mapping[str, Destination] = {
    "slurm": Destination(slurm, ".sbatch", ("sbatch",)),
    "k8s": Destination(k8s, ".yaml", ("kubectl", "create", "-f")),
    "ssh": Destination(ssh, ".sh", ("bash",)),
}
"""By the first word of `hocket launch`."""


def write_job(place: Destination, job: LaunchJob, out: str | None) -> Path:
    """Writes the file of a job: `out`, or one named after it. A file of an earlier launch is replaced.

    Raises:
        ConfigurationError: when another file is there.
    """
    file = Path(out or f"{job.name}{place.suffix}")
    if file.exists() and MARK not in file.read_text(errors="replace")[:200]:
        raise ConfigurationError(f"{file} exists and is not of hocket launch; choose another --out")
    file.write_text(place.write(job))
    return file


def send_job(place: Destination, file: Path) -> str:
    """Sends a job and returns what the program printed; that of ssh runs here, until the command ends.

    Raises:
        ConfigurationError: when the program is missing. HocketError: when it refuses or fails.
    """
    program, *rest = place.send
    if shutil.which(program) is None:
        raise ConfigurationError(f"--submit needs {program}, which is not on PATH; {file} is written")
    if program == "bash":
        code = subprocess.run([program, *rest, str(file)], check=False).returncode
        if code:
            raise HocketError(f"{file} ended with {code}")
        return ""
    done = subprocess.run([program, *rest, str(file)], check=False, capture_output=True, text=True)
    if done.returncode:
        raise HocketError(f"{program} refused {file}: {' '.join((done.stderr or done.stdout).split())}")
    return done.stdout.strip()
