"""Worlds and toy tasks that two or more methods use, and nobody brings their own work to."""

from __future__ import annotations

from hocket.core.rooms import lazy

__getattr__, __dir__ = lazy(__name__)
