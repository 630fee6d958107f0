"""Lattica: nodes that find, tell and hand each other things without a coordinator.

A system, so no recipe: `hocket swarm --listen` is what runs, `hocket.distributed.swarm.mesh` and its two parts
(`registry`, whose copies agree whatever they heard first, and `blobs`, pieces that are named by what they are) are how.
The paper also crosses address translation, by punching holes and relays; here nodes must reach each other's addresses.
"""

from __future__ import annotations

from hocket.core.analyses import Analysis

LATTICA = Analysis(
    name="lattica",
    title="Nodes without a coordinator: a registry that merges, pieces named by their content",
    where="docs/cluster.md",
    kind="system",
)
