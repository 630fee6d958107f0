"""Agents and teams as ordinary async Python, and what records them."""

from typing import Any

from hocket.workflows.chat import Chat
from hocket.workflows.episode import LimitReached, Limits
from hocket.workflows.library import WORKFLOWS
from hocket.workflows.player import TextPlayer
from hocket.workflows.reply import Reply
from hocket.workflows.single import SingleTurn
from hocket.workflows.team import Agent, Seat, Team
from hocket.workflows.workflow import Outcome, Workflow, asked

__all__ = [
    "Agent",
    "Chat",
    "LimitReached",
    "Limits",
    "Outcome",
    "Reply",
    "Seat",
    "SingleTurn",
    "Team",
    "TextPlayer",
    "Workflow",
    "asked",
]


def __getattr__(name: str) -> Any:
    if name == "OutsideAgent":  # It stands beside the server that it needs, above this room.
        return WORKFLOWS.load("outside:")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
