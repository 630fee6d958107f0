"""New project folders: the files of a template, copied as they are."""

from __future__ import annotations

from pathlib import Path

from hocket.core.errors import ConfigurationError, nearest

TEMPLATES = Path(__file__).parent / "templates"

KINDS = {
    "text": "a language model on data and a reward of your own",
    "tools": "a language model that calls a function of your own",
    "team": "two agents in a workflow of your own",
    "control": "a controller in a Gymnasium environment of your own",
}
"""The kinds of projects, and what each trains."""

NAME = "PROJECT"
"""The word in a README that is the project's name."""


def files_of(kind: str) -> list[Path]:
    """The files of a template, in order of their names.

    Raises:
        ConfigurationError: for an unknown kind.
    """
    if kind not in KINDS:
        raise ConfigurationError(f"--kind {kind} is unknown{nearest(kind, KINDS)}")
    return sorted(file for file in (TEMPLATES / kind).iterdir() if file.is_file())


def make_project(folder: Path, kind: str) -> list[Path]:
    """Writes a project into a new or empty folder and returns its files.

    Raises:
        ConfigurationError: for an unknown kind, and for a folder that holds files.
    """
    files = files_of(kind)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigurationError(f"{folder} exists and is not empty; name a new folder, since nothing is overwritten")
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for file in files:
        text = file.read_text(encoding="utf-8")
        path = folder / file.name
        path.write_text(text.replace(NAME, folder.name) if file.suffix == ".md" else text, encoding="utf-8")
        written.append(path)
    return written
