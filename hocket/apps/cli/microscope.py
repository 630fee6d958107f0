"""`hocket microscope`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from hocket.apps.cli.output import Pairs, emit, out
from hocket.core.errors import ConfigurationError, HocketError
from hocket.train.runfolder import find_run


def microscope(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket microscope`."""
    if options.record:
        return _record(options)
    if not options.batch or not options.recipe:
        raise ConfigurationError("name a batch and at least one recipe: --batch FILE.json --recipe NAME")
    from hocket.apps.report.microscope import html, view
    from hocket.lab.microscope import inspect

    document = _read_batch(Path(options.batch))
    changes = dict(_assignment(text) for text in options.set)
    inspections: list[dict[str, Any]] = []
    for name in options.recipe:
        try:
            inspections.append(inspect(_changed(name, changes), document))
        except (HocketError, ValueError) as error:
            inspections.append({"recipe": name, "error": str(error)})
    if options.html:
        Path(options.html).write_text(html(inspections, document, f"{', '.join(options.recipe)} on {options.batch}"))
        print(options.html, file=sys.stderr)
    if options.json:
        emit(inspections)
    elif not options.html:
        out().print(view(inspections, document))
    return 2 if all("error" in inspection for inspection in inspections) else 0


def _changed(name: str, changes: dict[str, Any]) -> Any:
    from hocket.recipes import find

    return find(name).but(changes) if changes else find(name)


def _assignment(text: str) -> tuple[str, Any]:
    import yaml

    key, equals, value = text.partition("=")
    if not equals:
        raise ConfigurationError(f"--set {text}: write KEY=VALUE, for example --set objective.low=0.1")
    return key, yaml.safe_load(value)


def _read_batch(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text())
    except FileNotFoundError:
        raise ConfigurationError(f"there is no batch {path}") from None
    except json.JSONDecodeError as error:
        raise ConfigurationError(f"{path} is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise ConfigurationError(f"{path} must hold one object with version and trajectories")
    return document


def _record(options: argparse.Namespace) -> int:
    from hocket.lab.microscope import record
    from hocket.train.episodes import read_episodes

    if not options.out:
        raise ConfigurationError("--record needs --out FILE.json")
    rollouts = find_run(options.record, options.runs) / "rollouts"
    steps = sorted(rollouts.glob("step-*.jsonl"))
    chosen = steps[-1:] if options.step is None else [f for f in steps if int(f.stem.split("-")[1]) == options.step]
    if not chosen:
        there = ", ".join(str(int(f.stem.split("-")[1])) for f in steps) or "none"
        raise ConfigurationError(f"step {options.step} was not recorded; recorded steps: {there}")
    Path(options.out).write_text(json.dumps(record(read_episodes(chosen[0]))))
    print(options.out, file=sys.stderr)
    return 0
