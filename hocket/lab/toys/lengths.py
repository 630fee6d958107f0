"""Toys of several claims: lengths."""

from __future__ import annotations

from typing import Any


def answer(verdict: float, decisions: int, group: str = "g", **more: Any) -> dict[str, Any]:
    """One recorded answer of so many decisions."""
    return {"group": group, "scores": {"reward": verdict}, "logp": [-1.0] * decisions, "text": "", **more}
