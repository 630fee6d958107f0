"""Where hocket keeps what it can make again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder(name: str) -> Path:
    """The folder for one kind of thing: `XDG_CACHE_HOME/hocket/NAME`, under `~/.cache` by default; it may not exist."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "hocket" / name
