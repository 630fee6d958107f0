"""Worlds of one or many agents in words: games, households, servers, all behind one protocol."""

from __future__ import annotations

from hocket.core.rooms import lazy

__getattr__, __dir__ = lazy(__name__)
