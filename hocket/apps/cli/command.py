"""Commands of `hocket` that a row of the catalogue brings."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hocket.core.discovery import Registry, constant

GROUPS = ("train and measure", "look", "methods", "agents", "system")
"""The groups of commands in `hocket --help`, in order."""

TRAIN, LOOK, METHODS, AGENTS, SYSTEM = GROUPS


@dataclass(frozen=True)
class Command:
    """A command that is found by its name, the first thing it says; its file is imported when the command is run.

    Every such command takes `--json`, with which it prints one JSON document.

    Attributes:
        name: as typed. description: its line in `hocket --help`. details: what its own help says instead.
        flags: adds its arguments and flags to its parser.
        run: does the work, of what was typed and the settings; returns the exit code.
        settings: whether it takes settings, `--a.b VALUE`.
        trust: whether it takes `--trust`, since it opens runs that may name code of others.
        methods: names of methods that it runs and that are no recipes; None for a command without any.
        usage: how a method of these is run, but for its name: `hocket summarise RUN --method`.
        family: the group of `GROUPS` under which `hocket --help` lists it; stated right after the description.
    """

    name: str
    description: str
    details: str
    flags: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace, list[tuple[str, Any]]], int]
    settings: bool = True
    trust: bool = False
    methods: Registry | None = None
    usage: str = ""
    family: str = LOOK


ROW_COMMANDS = Registry("command", ("hocket.apps.cli", "hocket.zoo", "hocket.methods"), constant("Command"))
"""Every such command of the library and of installed packages."""
