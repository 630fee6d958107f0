"""Starts every game of TextArena and plays it with random words; prints which run here and why others do not.

    python tests/environments/play_all_textarena.py [SECONDS PER GAME]

A game runs when two episodes from one key were the same move for move and every legal end paid numbers.
"""

from __future__ import annotations

import json
import re
import signal
import sys
from collections import Counter

import players
import textarena

from hocket.agents.environments.textarena import TextArena
from hocket.core.errors import HocketError
from hocket.core.keys import Key

MOVES = 300


class TooSlow(Exception):
    """A game did not return in time."""


def tried(game: str) -> tuple[str, str]:
    """`runs`, `refused` or `broken`, and what was seen."""
    try:
        world = TextArena(game)
        environment = players.started(world, 1)
        log, returns = players.episode(environment, players.legal(Key.of(1)), MOVES)
        again, _ = players.episode(players.started(world, 1), players.legal(Key.of(1)), MOVES)
    except HocketError as error:
        return "refused", str(error)
    except TooSlow:
        return "broken", "it did not return in time"
    if log != again:
        return "broken", "equal keys gave different episodes"
    ended = "ended" if environment.over else "unfinished"
    return "runs", f"{len(world.agents)} players, {len(log)} moves, {ended}, returns {list(returns.values())}"


def main() -> None:
    def late(number: int, frame: object) -> None:
        raise TooSlow

    signal.signal(signal.SIGALRM, late)
    counts: Counter[str] = Counter()
    for game in textarena.envs.registration.ENV_REGISTRY:
        if not re.fullmatch(r".+-v\d+", game):  # variants of size and wrapping
            continue
        signal.alarm(int(sys.argv[1]) if len(sys.argv) > 1 else 30)
        verdict, seen = tried(game)
        signal.alarm(0)
        counts[verdict] += 1
        print(f"{verdict:8} {game:32} {seen}", flush=True)
    print(json.dumps(counts))


if __name__ == "__main__":
    main()
