"""Assigns the policies of a cast to the seats of a player."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol, runtime_checkable

from hocket.agents.workflows.player import TextPlayer
from hocket.agents.workflows.team import Actor
from hocket.core.casting import Cast
from hocket.stages import Player
from hocket.types import before_training


@runtime_checkable
class Seats(Protocol):
    """A player with a policy for each seat: `hocket.rollout.joint.JointPlayer`."""

    seats: Mapping[str, str]

    def seated(self, policies: Mapping[str, str]) -> Player:
        """The player with other policies in these seats."""
        ...


def recast(player: Player, cast: Cast, step: int) -> Player:
    """The player with the cast of `step` in its seats. Seats of outside models, and players without roles, stay.

    A policy brings its engine and template to the seat; the decoding settings stay with the role.
    """
    if isinstance(player, Seats):
        seats = cast.seats(player.seats, step)
        return player if seats == player.seats else player.seated(seats)
    if not isinstance(player, TextPlayer):
        return player
    usual = {role: actor.policy for role, actor in player.actors.items() if actor.learns}
    seats = cast.seats(usual, step)
    return seated(player, seats)


def seated(player: Player, policies: Mapping[str, str]) -> Player:
    """The player with other policies in the roles that `policies` names."""
    if not isinstance(player, TextPlayer) or all(player.actors[role].policy == policies[role] for role in policies):
        return player
    references = _seated(player.references, {role: before_training(policy) for role, policy in policies.items()})
    return replace(player, actors=_seated(player.actors, policies), references=references)


def _seated(actors: Mapping[str, Actor], seats: Mapping[str, str]) -> dict[str, Actor]:
    of = {actor.policy: actor for actor in actors.values()}
    return {
        role: replace(of[seats[role]], decoding=actor.decoding) if role in seats else actor
        for role, actor in actors.items()
    }
