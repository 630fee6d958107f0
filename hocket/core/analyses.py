"""Catalogue rows that are no method."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Analysis:
    """A row that states something about methods, or measures them.

    Attributes:
        name: its catalogue id. where: its page, or what is measured. kind: `analysis`, `system` or `benchmark`.
    """

    name: str
    title: str
    where: str
    kind: str = "analysis"
