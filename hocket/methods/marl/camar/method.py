"""CAMAR: routes of many agents in a plane, with continuous actions (arXiv:2508.12845).

A benchmark, so no recipe. The world is `camar:routing` (`hocket.methods.marl.camar.world`), with the forces,
sights and pay of the package; its planner is RRT* (`hocket.methods.marl.camar.rrt`), which also guides learners
there: with `?guide=true&maps=8` agents are shown the next point of a route around obstacles.
"""

from __future__ import annotations

from hocket.core.analyses import Analysis

CAMAR = Analysis(
    name="camar",
    title="Routes of many agents in a plane, by continuous forces",
    where="docs/control.md",
    kind="benchmark",
)
