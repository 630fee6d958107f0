"""`hocket play`."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from rich.markup import escape

from hocket.agents.workflows.chat import Chat
from hocket.agents.workflows.player import TextPlayer
from hocket.agents.workflows.single import SingleTurn
from hocket.apps.play.screen import TerminalScreen
from hocket.apps.play.table import NOBODY, PlayedEpisodes, seats_of
from hocket.apps.play.talk import ChatSession, Conversation
from hocket.apps.serve.source import ModelSource
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.types import Decoding


def play(path: Path, options: argparse.Namespace, pairs: Sequence[tuple[str, Any]], screen: TerminalScreen) -> None:
    """Talks to the run or model in a folder, or plays its workflow, until the person leaves."""
    from hocket.train.assemble import build_parts
    from hocket.train.checkpoint import weights_in

    flows = [] if options.workflow is None else [("workflow", options.workflow)]
    source = ModelSource.of(path, [*flows, *pairs], options.task, trust=options.trust)
    checkpoint, machine = source.checkpoint(), source.machine()
    machine.apply()
    label = checkpoint.name if checkpoint is not None else "not trained yet" if source.is_run else "as it is"
    parts = build_parts(source.config, source.task, weights=weights_in(checkpoint), precision=machine.precision)
    player = cast(TextPlayer, parts.player)
    decoding = _decoding(source, options)
    key = Key.of(options.seed).derive("play")
    names = f"[bold]{escape(source.name)}[/] ({label}), [cyan]{escape(source.task.name)}[/]"
    screen.say(f"{names}; /help lists commands, /quit leaves")
    if options.seat is None and _talks(player):
        _talk(screen, source, player, decoding, key, logp=options.logp)
        return
    actor = options.seat or _actor(player)
    PlayedEpisodes(screen, player, source.task, actor, decoding, key, show=options.show).run()


def _talks(player: TextPlayer) -> bool:
    """Whether there is nothing to play, only somebody to talk to."""
    from hocket.apps.serve.outside_agent import OutsideAgent

    return isinstance(player.workflow, (SingleTurn, OutsideAgent))


def _talk(
    screen: TerminalScreen, source: ModelSource, player: TextPlayer, decoding: Decoding, key: Key, *, logp: bool
) -> None:
    from hocket.engine.local import LocalEngine

    actor = next(iter(player.actors.values()))
    if not isinstance(actor.engine, LocalEngine) or not isinstance(actor.chat, Chat):
        raise ConfigurationError(f"{source.name} is sampled elsewhere (engine.kind); play it with --engine local")
    conversation = Conversation(actor.engine, actor.chat, decoding, key)
    system = player.workflow.prompts.get(next(iter(player.actors)))
    conversation.new(system)
    ChatSession(screen, conversation, source.task, name=source.name, logp=logp).run()


def _decoding(source: ModelSource, options: argparse.Namespace) -> Decoding:
    decoding = source.config.decoding
    if options.temperature is not None:
        if not 0 <= options.temperature < math.inf:
            raise ConfigurationError(f"--temperature {options.temperature}: must be at least 0 and finite")
        decoding = replace(decoding, temperature=options.temperature)
    if options.max_tokens is not None:
        if options.max_tokens < 1:
            raise ConfigurationError(f"--max-tokens {options.max_tokens}: must be at least 1")
        decoding = replace(decoding, max_tokens=options.max_tokens)
    return decoding


def _actor(player: TextPlayer) -> str:
    """The person's seat where none was named: the first of several; with one alone, the agent's, so one watches."""
    actors = seats_of(player.workflow)
    return actors[0] if len(actors) > 1 else NOBODY
