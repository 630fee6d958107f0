"""Checkpoints of Tinker's clients: `tinker://MODEL/weights/NAME` and where it lies."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from hocket.core.errors import ConfigurationError
from hocket.policies.settings import LoraSettings

Room = Literal["weights", "sampler_weights"]

_PART = re.compile(r"[\w:-][\w.:-]{0,127}\Z")
_ABOUT = "about.json"


@dataclass(frozen=True)
class CheckpointFolder:
    """Where the checkpoints of a server lie.

    Attributes:
        root: the folder. base: the name of the model that they adapt.
    """

    root: Path
    base: str

    def place(self, model: str, room: Room, name: str, *, overwrite: bool = False) -> tuple[str, Path]:
        """The address of a new checkpoint, and its folder.

        Raises:
            ConfigurationError: when the name cannot be one, or is taken.
        """
        if not _PART.match(name):
            words = "at most 128 letters, digits and ._:-, the first no dot"
            raise ConfigurationError(f"a checkpoint cannot be called {name[:200]!r}: {words}")
        folder = self.root / model.replace(":", "_") / room / name
        if folder.exists() and not overwrite:
            raise ConfigurationError(f"there is a checkpoint {name!r} already; save with another name, or overwrite it")
        return f"tinker://{model}/{room}/{name}", folder

    def holds(self, session: str) -> bool:
        """Whether an earlier server has written checkpoints of a session of this name."""
        return any(self.root.glob(f"{session}_*"))

    def describe(self, folder: Path, lora: LoraSettings, metadata: Mapping[str, Any] | None) -> None:
        """Writes beside a checkpoint what it is; a folder without that is not finished."""
        about = {"base_model": self.base, "lora": asdict(lora), "metadata": dict(metadata or {})}
        (folder / _ABOUT).write_text(json.dumps(about), encoding="utf-8")

    def find(self, address: str) -> tuple[Path, LoraSettings]:
        """The folder of a checkpoint and the adapter that it holds.

        Raises:
            ConfigurationError: when there is none, or it adapts another model.
        """
        parts = address.removeprefix("tinker://").split("/")
        if not address.startswith("tinker://") or len(parts) != 3 or not all(map(_PART.match, parts)):
            raise ConfigurationError(f"{address!r} is no address of a checkpoint: tinker://MODEL/weights/NAME")
        folder = self.root / parts[0].replace(":", "_") / parts[1] / parts[2]
        if not (folder / _ABOUT).is_file():
            raise ConfigurationError(f"there is no checkpoint {address}")
        about = json.loads((folder / _ABOUT).read_text(encoding="utf-8"))
        if about["base_model"] != self.base:
            raise ConfigurationError(f"{address} adapts {about['base_model']}, and this server has {self.base}")
        lora = about["lora"] | {
            "targets": None if about["lora"]["targets"] is None else tuple(about["lora"]["targets"])
        }
        return folder, LoraSettings(**lora)

    def names(self, model: str) -> list[tuple[Room, str, Path]]:
        """The finished checkpoints of a model: their room, name and folder, the oldest first."""
        rooms: tuple[Room, ...] = ("weights", "sampler_weights")
        folders = [
            (room, file.parent.name, file.parent)
            for room in rooms
            for file in (self.root / model.replace(":", "_") / room).glob(f"*/{_ABOUT}")
        ]
        return sorted(folders, key=lambda entry: (entry[2] / _ABOUT).stat().st_mtime)
