"""The Collaboration Gap: mazes of which two agents see half each; task `split-maze`, workflow `split-map`.

A benchmark, so no recipe: how much worse a pair does than one agent that holds both halves. What it claims runs beside.
"""

from __future__ import annotations

from hocket.core.analyses import Analysis

COLLABORATION_GAP = Analysis(
    name="collaboration-gap",
    title="The Collaboration Gap: mazes of which two agents see half each; task split-maze, workflow split-map",
    where="hocket/methods/teams/collaboration_gap/task.py",
    kind="benchmark",
)
