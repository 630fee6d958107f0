"""The folder of a study: what it is, its finished runs by their keys, and its results."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from hocket.apps.studies.study import Study, check_same
from hocket.core.errors import ConfigurationError
from hocket.core.yaml_text import load_yaml
from hocket.train.disk import json_ready, write_atomic


class StudyFolder:
    """`study.yaml`, `runs/KEY.json`, `equal/KEY.json`, `results.json` and `report.html`.

    A run that is not finished has left nothing in `runs/`, so the folder is complete at any moment.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None

    @staticmethod
    def open(path: Path, study: Study) -> StudyFolder:
        """The folder of `study`, new or with finished runs in it, locked against a second study process.

        Raises:
            ConfigurationError: when it holds another study or something else, or is in use.
        """
        spec = path / "study.yaml"
        if spec.is_file():
            check_same(study, _mapping(spec), path)
        elif path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise ConfigurationError(f"{path} exists and is no study's folder; choose another --out")
        for folder in (path, path / "runs", path / "equal", path / "work"):
            folder.mkdir(parents=True, exist_ok=True)
        opened = StudyFolder(path)
        opened._hold()
        write_atomic(spec, yaml.safe_dump(json_ready(study.to_json()), sort_keys=False, allow_unicode=True))
        return opened

    def _hold(self) -> None:
        handle = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            raise ConfigurationError(f"{self.path} is in use by another `hocket study`; wait for it to end") from None
        self._lock = handle

    def close(self) -> None:
        """Lets go of the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    # ------------------------------------------------------------ results

    def result(self, key: str) -> dict[str, Any] | None:
        """The result of a finished run; a failed one counts as not finished, so that it is tried again."""
        outcome = read_result(self.path / "runs" / f"{key}.json")
        return None if outcome is None or "error" in outcome else outcome

    def failure(self, key: str) -> str | None:
        """Why a run failed when it was last tried."""
        outcome = read_result(self.path / "runs" / f"{key}.json")
        return None if outcome is None else outcome.get("error")

    def write(self, name: str, text: str) -> Path:
        """Writes a file of the folder whole."""
        write_atomic(self.path / name, text)
        return self.path / name


def read_result(path: Path) -> dict[str, Any] | None:
    """A stored result; None where there is none that can be read."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) else None


def write_result(path: Path, result: Mapping[str, Any]) -> None:
    """Stores a result whole."""
    write_atomic(path, json.dumps(json_ready(result), allow_nan=False))


@contextlib.contextmanager
def alone(folder: Path, key: str) -> Iterator[None]:
    """Waits until no other process works on `key`: a worker whose study was killed ends its run before it goes.

    A lock on one byte of a file, which the system lets go of when its process ends.
    """
    with (folder / "working").open("a+b") as file:
        place = int(key, 16) % 2**40
        fcntl.lockf(file, fcntl.LOCK_EX, 1, place)
        try:
            yield
        finally:
            fcntl.lockf(file, fcntl.LOCK_UN, 1, place)


def _mapping(path: Path) -> dict[str, Any]:
    try:
        document = load_yaml(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        document = None
    if not isinstance(document, dict):
        raise ConfigurationError(f"{path} cannot be read; choose another --out")
    return document
