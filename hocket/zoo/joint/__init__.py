"""Worlds in which agents act together, many copies side by side in numpy, and adapters to those of others."""

from __future__ import annotations

from hocket.core.rooms import lazy

__getattr__, __dir__ = lazy(__name__)
