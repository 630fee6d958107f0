"""Toys of several claims: preferences."""

from __future__ import annotations

from hocket.core.keys import Key

KEY = Key.of(0).derive("checks", "preferences")
