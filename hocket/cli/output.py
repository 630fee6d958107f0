"""What commands print: progress to stderr, the result or one JSON document to stdout."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from hocket.core.errors import ConfigurationError, nearest

Pairs = list[tuple[str, Any]]


INTERRUPTED = 130


def out() -> Console:
    """Where results go."""
    return Console(highlight=False, soft_wrap=not sys.stdout.isatty())


def err() -> Console:
    """Where progress goes."""
    return Console(stderr=True, highlight=False)


def emit(document: Any) -> None:
    """One JSON document on stdout; what is not a finite number is null."""
    print(json.dumps(_finite(document), indent=2, ensure_ascii=False))


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


def find_run(name: str, runs: str) -> Path:
    """A run folder by path, or by name under `runs`; of a plan of runs, the one that began last."""
    from hocket.train.runfolder import PLAN

    for folder in (Path(name), Path(runs) / name):
        if (folder / "config.yaml").is_file():
            return folder
        if (folder / PLAN).is_file() and (begun := [path.parent for path in folder.glob("*/config.yaml")]):
            return max(begun, key=lambda path: int(path.name.partition("-")[0]))
    there = [f.name for f in Path(runs).glob("*") if (f / "config.yaml").is_file()] if Path(runs).is_dir() else []
    hint = nearest(name, there) if there else f"; there are no runs in {runs}/ yet"
    if "choose from" in hint and len(there) > 3:
        hint = f"; there are {len(there)} others in {runs}/"
    raise ConfigurationError(f"there is no run {name!r}{hint}")
