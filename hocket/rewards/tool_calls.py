"""Rewards that look at how often a tool was called, and whether that was needed."""

from __future__ import annotations

CALL = "<tool_call>"
"""How a response opens a call; the shipped base model was trained on it."""


# ---------------------------------------------------------------- when to search


# ---------------------------------------------------------------- whether it helps
