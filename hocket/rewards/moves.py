"""Comparison of screen agents' moves with recorded ones: the attempts at each move, and their correctness."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hocket.agents.environments.protocol import same_move
from hocket.rewards.verifiers import token_match

PLAN = "plan"
"""The metadata key of a scenario's recorded moves, in order and in words."""

_MOVE = re.compile(r"(?:(click) (\d+)|(type) (\d+) (\S.*)|(say)() (\S.*))", re.IGNORECASE)


def parsed(move: str | None) -> tuple[str, str, str] | None:
    """Kind, place and text of a move, places and texts empty where it has none; None where it is no move."""
    match = _MOVE.fullmatch(" ".join((move or "").split()))
    if match is None:
        return None
    parts = [part for part in match.groups() if part is not None]
    return parts[0].lower(), parts[1], parts[2] if len(parts) > 2 else ""


def made(move: str | None, wanted: str) -> bool:
    """Whether the wanted move was made, as environments hear it."""
    return move is not None and same_move(move, (wanted,)) is not None


def argument_match(said: tuple[str, str, str], due: tuple[str, str, str]) -> float:
    """The share of a move's arguments that are right: places by equality, texts by the words they share."""
    matches = [float(said[1] == due[1])] if due[1] else []
    return sum([*matches, token_match(said[2], due[2])] if due[2] else matches) / (bool(due[1]) + bool(due[2]))


def attempts(actions: Sequence[str | None], plan: Sequence[str]) -> list[list[str | None]]:
    """For each move of a plan, what was done while it was the one wanted: until it was made, or the episode ended."""
    tries, done = [list[str | None]() for _ in plan], 0
    for move in actions:
        if done == len(plan):
            break
        tries[done].append(move)
        done += made(move, plan[done])
    return tries
