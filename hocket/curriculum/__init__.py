"""Curricula: which scenarios are drawn, and how often."""

from __future__ import annotations

from hocket.core.rooms import lazy

__getattr__, __dir__ = lazy(__name__)
