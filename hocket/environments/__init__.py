"""Worlds of one or many agents in words: games, households, servers, all behind one protocol."""

from hocket.environments.gymnasium import GymnasiumWorld
from hocket.environments.household import Households
from hocket.environments.legal import IllegalMoves, LegalMoves
from hocket.environments.maze import Mazes
from hocket.environments.openenv import OpenEnv
from hocket.environments.openspiel import OpenSpiel
from hocket.environments.pettingzoo import PettingZoo
from hocket.environments.protocol import UNREADABLE, Environment, Observation, World, same_move
from hocket.environments.reading import LastLine, Reading, Tagged, WholeText
from hocket.environments.textarena import TextArena

__all__ = [
    "UNREADABLE",
    "Environment",
    "GymnasiumWorld",
    "Households",
    "IllegalMoves",
    "LastLine",
    "LegalMoves",
    "Mazes",
    "Observation",
    "OpenEnv",
    "OpenSpiel",
    "PettingZoo",
    "Reading",
    "Tagged",
    "TextArena",
    "WholeText",
    "World",
    "same_move",
]
