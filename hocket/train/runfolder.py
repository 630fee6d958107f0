"""The folder of a run: its name, the places of its files, and the lock that keeps a second process out."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import socket
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hocket.core.errors import ConfigurationError, HocketError, nearest, refusal
from hocket.nano import SHIPPED
from hocket.train.disk import json_ready, write_atomic

PLAN = "plan.yaml"
"""In a folder that holds the runs of a plan, `1-NAME`, `2-NAME`, ...: the configuration of each, in order."""

_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")


class RunFolder:
    """Where everything of a run is. `open` one to train in it (and `release` it), `find` one to read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: RunLock | None = None

    # ------------------------------------------------------------ places

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def config(self) -> Path:
        return self.path / "config.yaml"

    @property
    def machine(self) -> Path:
        return self.path / "machine.json"

    @property
    def cluster(self) -> Path:
        return self.path / "cluster.json"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def schedule(self) -> Path:
        """Which groups each step learnt from, where they were taken as they came."""
        return self.path / "schedule.jsonl"

    @property
    def rollouts(self) -> Path:
        return self.path / "rollouts"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def summary(self) -> Path:
        return self.path / "summary.json"

    @property
    def report(self) -> Path:
        return self.path / "report.html"

    @property
    def journal(self) -> Path:
        return self.path / "journal.jsonl"

    @property
    def media(self) -> Path:
        """Pictures by digest, see `hocket.core.media`."""
        return self.path / "media"

    @property
    def messages(self) -> Path:
        return self.path / "messages.txt"

    def episodes(self, step: int) -> Path:
        """`rollouts/step-000123.jsonl`."""
        return self.rollouts / f"step-{step:06d}.jsonl"

    # ------------------------------------------------------------ making and finding

    @staticmethod
    def create(runs: Path, name: str | None = None, *, stem: str = "run") -> RunFolder:
        """A new folder `runs/NAME/`; without a name, `STEM-001` or the next number.

        Raises:
            ConfigurationError: when a run of that name exists, or the name is no file name.
        """
        runs.mkdir(parents=True, exist_ok=True)
        if name is None:
            return RunFolder(_numbered(runs, _UNFIT.sub("-", stem).strip("-.") or "run"))
        if not name or _UNFIT.search(name) or name.startswith("."):
            raise ConfigurationError(f"run = {name!r}: use letters, digits, '.', '_' and '-' in a run's name")
        path = runs / name
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise ConfigurationError(
                f"run = {name!r}: {path} exists already; continue it with --resume {name}, or choose another name"
            )
        path.mkdir(exist_ok=True)
        return RunFolder(path)

    @staticmethod
    def open(runs: Path, name: str | None = None, *, stem: str = "run", resume: bool = False) -> RunFolder:
        """The folder to train in, locked against other processes: a new one, or with `resume` an earlier one.

        Raises:
            ConfigurationError: when a new run's name is taken, an earlier run is not there or in use, or the folder
                cannot be written.
        """
        try:
            if resume and name is not None:
                folder = RunFolder.find(name, runs)
            else:
                folder = RunFolder.create(runs, name, stem=stem)
            folder.lock()
        except OSError as error:
            raise ConfigurationError(f"runs = {str(runs)!r}: {refusal(error)} (--runs DIR)") from error
        return folder

    @staticmethod
    def find(run: str | Path, runs: Path) -> RunFolder:
        """The run called `run` in `runs`, or at the path `run`.

        Raises:
            ConfigurationError: when there is no such run, naming the nearest.
        """
        places = (Path(run), runs / run)
        for path in places:
            if (path / "config.yaml").is_file():
                return RunFolder(path)
        for path in places:
            if path.is_dir():
                raise ConfigurationError(f"{path} is not a run: it has no config.yaml")
        known = [path.name for path in runs.iterdir() if path.is_dir()] if runs.is_dir() else []
        hint = nearest(str(run), known) if known else ""
        raise ConfigurationError(f"there is no run {str(run)!r} in {runs}{hint}")

    # ------------------------------------------------------------ writing

    def write_text(self, path: Path, text: str) -> None:
        """Writes a whole file or leaves the earlier one.

        Raises:
            HocketError: when the disk refuses.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, text)
        except OSError as error:
            reason = error.strerror or str(error)
            raise HocketError(f"{path} cannot be written: {reason}; free some disk space or check the disk.") from error

    def write_json(self, path: Path, value: Mapping[str, Any]) -> None:
        """Writes strict JSON (non-finite numbers become null), as `write_text` does."""
        self.write_text(path, json.dumps(json_ready(value), indent=2, ensure_ascii=False) + "\n")

    def append_message(self, message: str) -> None:
        """Adds a line to `messages.txt`; a disk that refuses it must not stop a run."""
        with contextlib.suppress(OSError), self.messages.open("a", encoding="utf-8") as file:
            file.write(" ".join(message.split()) + "\n")

    def lock(self) -> None:
        """Keeps other processes from training here until `release`, or until this process ends.

        Raises:
            ConfigurationError: when another trainer holds it. The lock of a dead process is taken over.
        """
        if self._lock is None:
            self._lock = RunLock(self.path)

    def release(self) -> None:
        """Lets others train here; doing so twice does nothing."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def abandon(self, *, new: bool) -> None:
        """After a start that failed: lets go, and removes a folder that is `new`, so that its name stays free."""
        self.release()
        if new:
            shutil.rmtree(self.path, ignore_errors=True)


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file.

    Raises:
        HocketError: when it is missing or unreadable, naming it.
    """
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise HocketError(f"{path} is missing; is its folder a run?") from None
    except (OSError, ValueError) as error:
        raise HocketError(f"{path} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise HocketError(f"{path} holds no JSON object")
    return content


def _numbered(runs: Path, stem: str) -> Path:
    """Makes the folder with the next free number; making it is what claims the number."""
    pattern = re.compile(re.escape(stem) + r"-(\d+)")
    taken = [int(match[1]) for match in (pattern.fullmatch(path.name) for path in runs.iterdir()) if match]
    number = max(taken, default=0) + 1
    while True:
        path = runs / f"{stem}-{number:03d}"
        try:
            path.mkdir()
        except FileExistsError:
            number += 1
        else:
            return path


# ---------------------------------------------------------------- the lock


class RunLock:
    """Says in `.lock` which process trains in a folder. Also a context manager.

    The holder is named by host, process id and the time it started, so a process id used anew is not taken for it.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / ".lock"
        # What is written in a folder of others must not go to files elsewhere.
        if link := next((file for file in sorted(folder.iterdir()) if file.is_symlink() and not file.is_dir()), None):
            raise ConfigurationError(f"{link} is a link, and a run writes its own files; remove it")
        _claim(self.path)
        # A trainer that is forgotten without being closed, as happens in notebooks, gives its lock back too.
        self._finalizer = weakref.finalize(self, _release, self.path, os.getpid())

    def release(self) -> None:
        """Gives the lock back; doing so twice does nothing."""
        self._finalizer()

    def __enter__(self) -> RunLock:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


def is_training(folder: Path) -> bool:
    """Whether a process trains in a run's folder; one on another host, which cannot be asked, is believed to."""
    try:
        holder = _holder((folder / ".lock").read_text())
    except OSError:
        return False
    return holder is not None and _alive(holder)


def _claim(path: Path) -> None:
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    with os.fdopen(handle, "r+") as file:
        # Held only while looking and writing, so that two processes cannot both take over a dead one's lock.
        fcntl.flock(file, fcntl.LOCK_EX)
        holder = _holder(file.read())
        if holder is not None and _alive(holder):
            raise ConfigurationError(_refusal(path, holder))
        pid = os.getpid()
        claim = {"host": socket.gethostname(), "pid": pid, "started": _started(pid), "since": time.time()}
        file.seek(0)
        file.truncate()
        file.write(json.dumps(claim))


def _release(path: Path, pid: int) -> None:
    if pid != os.getpid():
        return  # a forked child does not own its parent's lock
    try:
        with path.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            holder = _holder(file.read())
            if holder is not None and holder.get("pid") == pid and holder.get("host") == socket.gethostname():
                file.truncate(0)
    except OSError:
        pass  # the folder is gone, and its lock with it


def _refusal(path: Path, holder: Mapping[str, Any]) -> str:
    run = path.parent
    if holder["host"] != socket.gethostname():
        return (
            f"{run} is in use by process {holder['pid']} on {holder['host']}; wait for it, or delete {path} if that "
            "process is gone"
        )
    if holder["pid"] == os.getpid():
        return f"{run} is in use by another trainer of this process; close that one first"
    return f"{run} is in use by process {holder['pid']}; wait for it or stop it"


def _holder(text: str) -> dict[str, Any] | None:
    try:
        holder = json.loads(text)
    except ValueError:
        return None  # empty, or torn by a crash of its writer
    return holder if isinstance(holder, dict) and {"host", "pid"} <= holder.keys() else None


def _alive(holder: Mapping[str, Any]) -> bool:
    if holder["host"] != socket.gethostname():
        return True  # unknown from here
    pid = int(holder["pid"])
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it lives, and belongs to somebody else
    started = _started(pid)
    return started != "dead" and (started is None or holder.get("started") in (None, started))


def _started(pid: int) -> str | None:
    """Clock ticks from boot to a process's start; `dead` for one that only waits to be reaped; None if unknown."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return "dead" if fields[0] in ("Z", "X") else fields[19]


def run_named(name: str, runs: str) -> Path | None:
    """A run folder by path, or by name under `runs`, None where there is none; of a plan of runs the one that began
    last. Where `runs` is itself a plan's, names are also those beside the plan."""
    places = [Path(name), Path(runs) / name]
    if (Path(runs) / PLAN).is_file():
        places.append(Path(runs).parent / name)
    for folder in places:
        if (folder / "config.yaml").is_file():
            return folder
        if (folder / PLAN).is_file() and (begun := [path.parent for path in folder.glob("*/config.yaml")]):
            return max(begun, key=lambda path: int(path.name.partition("-")[0]))
    return None


def find_run(name: str, runs: str) -> Path:
    """As `run_named`.

    Raises:
        ConfigurationError: when there is none.
    """
    if (folder := run_named(name, runs)) is not None:
        return folder
    if Path(name).is_dir():
        raise ConfigurationError(f"{name} is not a run: it has no config.yaml")
    there = [f.name for f in Path(runs).glob("*") if (f / "config.yaml").is_file()] if Path(runs).is_dir() else []
    hint = nearest(name, there) if there else f"; there are no runs in {runs}/ yet"
    if "choose from" in hint and len(there) > 3:
        hint = f"; there are {len(there)} others in {runs}/"
    raise ConfigurationError(f"there is no run {name!r}{hint}")


def find_source(name: str, runs: str) -> Path:
    """A run as `find_run` finds it, or a model: with a `config.json`, a shipped one, `smollm2`, `FILE.gguf`."""
    if (Path(name) / "config.json").is_file() or name in (*SHIPPED, "smollm2") or name.endswith(".gguf"):
        return Path(name)
    return find_run(name, runs)
