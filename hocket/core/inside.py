"""Names in other people's files that are to lead to files beside them, and nowhere else."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from hocket.core.errors import ConfigurationError

_HUB = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


def leads_out(folder: Path, name: str) -> bool:
    """Whether the file or folder of a name in `folder` lies elsewhere: by its path, or by links on the way."""
    if Path(name).is_absolute() or ".." in Path(name).parts or "\\" in name or "\0" in name:
        return True
    root = folder.resolve()
    # The hub's cache keeps a model's files beside its snapshots, which link to them.
    root = root.parent.parent if root.parent.name == "snapshots" else root
    return not (folder / name).resolve().is_relative_to(root)


def check_model_folder(folder: Path) -> None:
    """Refuses a model folder whose files lie elsewhere.

    Raises:
        ConfigurationError: naming the file, and what in it leads out.
    """
    for index in sorted(folder.glob("*.index.json")):
        for name in _strings(_read(index).get("weight_map")):
            if leads_out(folder, name):
                raise ConfigurationError(f"{index} takes weights from {name!r}, which is no file of its folder")
    for file in sorted(folder.iterdir()):
        if leads_out(folder, file.name):
            raise ConfigurationError(f"{file} is a link out of its folder; put what it leads to in its place")
    base = _read(folder / "adapter_config.json").get("base_model_name_or_path")
    if base and not (isinstance(base, str) and _HUB.fullmatch(base) and not Path(base).exists()):
        raise ConfigurationError(
            f"{folder / 'adapter_config.json'} takes its base from {base!r}, which is no model of the hub; merge the "
            "adapter into its base first"
        )


def _read(file: Path) -> dict[str, Any]:
    """The object in a file; nothing where there is none that can be read, which whoever needs it says."""
    try:
        data = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def _strings(value: Any) -> list[str]:
    return sorted({str(item) for item in value.values()}) if isinstance(value, dict) else []
