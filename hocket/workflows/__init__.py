"""Agents and teams as ordinary async Python, and what records them."""

from hocket.workflows.chat import Chat
from hocket.workflows.episode import LimitReached, Limits
from hocket.workflows.outside import OutsideAgent
from hocket.workflows.player import TextPlayer
from hocket.workflows.single import SingleTurn
from hocket.workflows.team import Agent, Reply, Seat, Team
from hocket.workflows.workflow import Outcome, Workflow, asked

__all__ = [
    "Agent",
    "Chat",
    "LimitReached",
    "Limits",
    "Outcome",
    "OutsideAgent",
    "Reply",
    "Seat",
    "SingleTurn",
    "Team",
    "TextPlayer",
    "Workflow",
    "asked",
]
