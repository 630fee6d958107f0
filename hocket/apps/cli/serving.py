"""`hocket serve` and `play`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from hocket.apps.cli.output import Pairs, err, out
from hocket.core.errors import ConfigurationError
from hocket.train.runfolder import find_source

if TYPE_CHECKING:
    from hocket.apps.play.screen import TerminalScreen


def serve(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket serve`."""
    from hocket.apps.serve import command

    console = err()
    stray = next((flag for flag in ("name", "folder") if getattr(options, flag) is not None), None)
    if stray is not None and not options.tinker:
        raise ConfigurationError(f"--{stray} goes with --tinker; drop it")

    def ready(address: dict[str, Any]) -> None:
        console.print(
            f"serving [bold]{escape(', '.join(address['models']))}[/] ({address['weights']}) at {address['url']}"
        )
        console.print("[dim]Ctrl-C ends it[/]" if address["keys"] else "[dim]for this machine alone; Ctrl-C ends it[/]")
        if options.json:
            # One line, since it comes while the program goes on: whoever waits for it reads a line.
            print(json.dumps(address, ensure_ascii=False), flush=True)

    if options.tinker:
        command.serve_tinker(options, pairs, ready=ready)
    else:
        source = find_source(options.run, options.runs)
        command.serve(source, options, pairs, ready=ready, say=lambda words: console.print(escape(words)))
    return 0


def play(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket play`."""
    from hocket.apps.play import command
    from hocket.apps.play.screen import TerminalScreen

    source, screen = find_source(options.run, options.runs), TerminalScreen(out())
    if (source / "config.yaml").is_file() and _controls(source, options):
        _step_through(source, options, pairs, screen)
    else:
        command.play(source, options, pairs, screen)
    return 0


def _controls(run: Path, options: argparse.Namespace) -> bool:
    """Whether controllers play a run."""
    from hocket import tasks
    from hocket.apps.use.episode_view import is_control
    from hocket.apps.use.loading import task_at

    return is_control(tasks.find(options.task) if options.task else task_at(run, trust=options.trust))


def _step_through(run: Path, options: argparse.Namespace, pairs: Pairs, screen: TerminalScreen) -> None:
    """Plays the episodes of a controller with a person beside it."""
    from hocket.apps.use.controller import TrainedController
    from hocket.apps.use.loading import policy_of, reader, roles_of
    from hocket.apps.use.steering import step_through

    stray = next((flag for flag in ("workflow", "max_tokens", "logp", "show") if getattr(options, flag)), None)
    if stray is not None:
        raise ConfigurationError(f"--{stray.replace('_', '-')} is for language models, and {run} trained none; drop it")
    read = reader(run, {"task": options.task}, trust=options.trust, settings=dict(pairs))
    subject = read(None)
    agents = list(roles_of(subject))
    if len(agents) > 1:
        raise ConfigurationError(
            f"{run} was trained on {subject.name}, which has several agents; play beside them with hocket arena --task "
            f"'{subject.name}' --agents {agents[0]}=person,{agents[1]}=run:{options.run}, or watch with hocket act"
        )
    trained = policy_of(subject, None, read)
    assert isinstance(trained, TrainedController)
    greedy = not options.temperature
    if not greedy and options.temperature != subject.config.decoding.temperature:
        raise ConfigurationError(
            f"--temperature {options.temperature:g}: a controller plays greedily, 0, or as it was trained, "
            f"{subject.config.decoding.temperature:g}; choose one of them"
        )
    step_through(trained, screen, first=options.seed, greedy=greedy, seat=options.seat)
