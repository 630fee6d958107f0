"""What putting a claim to the test comes to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """Whether a claim held, and the figures seen, in a line."""

    holds: bool
    saw: str
