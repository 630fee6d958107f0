"""Agents and teams as ordinary async Python, and the players that record their episodes."""

from __future__ import annotations

from hocket.core.rooms import lazy

__getattr__, __dir__ = lazy(__name__, OutsideAgent="hocket.apps.serve.outside_agent")
