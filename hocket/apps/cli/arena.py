"""`hocket arena`."""

from __future__ import annotations

import argparse
import math
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from hocket.apps.cli.output import Pairs, emit, err, out
from hocket.core.errors import ConfigurationError

if TYPE_CHECKING:
    from hocket.apps.play.arena import Lineup


def arena(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket arena`."""
    from hocket.apps.play.arena import Lineup, lineup_of, played, seated, unread
    from hocket.apps.play.operators import places_of
    from hocket.apps.play.screen import TerminalScreen
    from hocket.core.keys import Key

    if options.episodes < 1:
        raise ConfigurationError(f"episodes = {options.episodes}: play at least one")
    places, key = places_of(options.task), Key.of(options.seed).derive("arena")
    lineups = [Lineup(lineup_of(text, places)) for text in options.agents or ["random"]]
    with ExitStack() as stack:
        file = stack.enter_context(Path(options.out).open("w", encoding="utf-8")) if options.out else None
        for lineup in lineups:
            how: dict[str, Any] = {"runs": options.runs, "temperature": options.temperature, "trust": options.trust}
            with seated(
                options.task, lineup.who, workers=options.workers, screen=TerminalScreen(out()), **how
            ) as player:
                for number in range(options.episodes):
                    lineup.episodes.append(played(player, options.task, number, key))
                    if file is not None:
                        file.write(lineup.episodes[-1].to_json() + "\n")
                lineup.unread = unread(player)
    if options.json:
        emit({"task": options.task, "lineups": [_told(lineup) for lineup in lineups]})
    else:
        err().print(_table(lineups))
        for lineup in lineups:
            if lineup.unread:
                who = ", ".join(name for name in lineup.who.values() if name.startswith("model:"))
                err().print(f"{lineup.unread} answers of {who} named no allowed action; one was drawn in their place")
    return 0


def _told(lineup: Lineup) -> dict[str, Any]:
    agents = {agent: dict(zip(("mean", "half"), lineup.mean(agent), strict=True)) for agent in lineup.who}
    return {
        "who": dict(lineup.who),
        "returns": agents,
        "episodes": len(lineup.episodes),
        "failed": sum(episode.failure is not None for episode in lineup.episodes),
        "unread": lineup.unread,
    }


def _table(lineups: list[Lineup]) -> Table:
    from hocket.apps.play.arena import interval

    table = Table(box=None, header_style="dim")
    for heading in ("agent", "who", "return", "against the first lineup"):
        table.add_column(heading, justify="left" if heading in ("agent", "who") else "right")
    for lineup in lineups:
        for agent, who in lineup.who.items():
            mean, half = lineup.mean(agent)
            beside = ""
            if lineup is not lineups[0]:
                pairs = zip(lineup.episodes, lineups[0].episodes, strict=True)
                difference = interval([episode.returns[agent] - other.returns[agent] for episode, other in pairs])
                beside = _number(*difference, sign="+")
            table.add_row(agent, who, _number(mean, half), beside)
        table.add_section()
    return table


def _number(mean: float, half: float, sign: str = "") -> str:
    return f"{mean:{sign}.3f}" + ("" if math.isnan(half) else f" ± {half:.3f}")
