"""Putting a cast in its seats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hocket.core.casting import Cast
from hocket.stages import Player
from hocket.types import before_training
from hocket.workflows.player import TextPlayer
from hocket.workflows.team import Seat


def recast(player: Player, cast: Cast, step: int) -> Player:
    """The player with the cast of `step` in its seats. Seats of outside models, and players without roles, stay.

    A policy brings its engine and template to the seat; how the role is decoded stays with the role.
    """
    if not isinstance(player, TextPlayer):
        return player
    usual = {role: seat.policy for role, seat in player.seats.items() if seat.learns}
    now = cast.seats(usual, step)
    if now == usual:
        return player
    return replace(player, seats=_seated(player.seats, now), references=_seated(player.references, _before(now)))


def _seated(seats: Mapping[str, Seat], now: Mapping[str, str]) -> dict[str, Seat]:
    of = {seat.policy: seat for seat in seats.values()}
    return {
        role: replace(of[now[role]], decoding=seat.decoding) if role in now else seat for role, seat in seats.items()
    }


def _before(now: Mapping[str, str]) -> dict[str, str]:
    return {role: before_training(policy) for role, policy in now.items()}
