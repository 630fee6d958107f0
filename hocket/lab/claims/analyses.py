"""Catalogue rows that are no method: analyses, whose claims are checks and a page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hocket.lab.claims.record import status_of, verdicts_of


@dataclass(frozen=True)
class Analysis:
    """A row that states something about methods. `where` is its page."""

    id: str
    title: str
    where: str
    kind: str = "analysis"

    def to_json(self) -> dict[str, Any]:
        """As in `hocket catalogue --json`."""
        found = [verdict for verdict in verdicts_of(self.id) if verdict is not None]
        return {
            "id": self.id,
            "status": status_of((self.id,), ""),
            "kind": self.kind,
            "where": self.where,
            "checks": [verdict.to_json() for verdict in found],
        }


ANALYSES = (
    Analysis(
        "grpo-success-amplification",
        "GRPO's effective loss, dynamics and success amplification",
        "docs/success-amplification.md",
    ),
    Analysis(
        "group-relative-reinforce",
        "Group-relative REINFORCE as an off-policy method; recipes rec-*",
        "docs/group-relative-reinforce.md",
    ),
    Analysis(
        "collaboration-gap",
        "The Collaboration Gap: mazes of which two agents see half each; task split_maze, workflow split-map",
        "hocket/tasks/split_maze.py",
        kind="benchmark",
    ),
)
