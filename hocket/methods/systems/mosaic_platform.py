"""MOSAIC: policies, language models, scripts and people as decision-makers of one world, compared on equal seeds.

A platform, so no recipe: `hocket arena` is what runs. An operator (`hocket.apps.play.operators`) decides for one agent
by `begin` and `act`, here or in a process of its own that speaks a versioned protocol (`hocket.apps.play.worker`). It
draws by the numbers that it is given alone, so an episode is the same wherever its operators run. The paper's operators
also see images; here they see vectors, and language models those in words.
"""

from __future__ import annotations

from hocket.core.analyses import Analysis

MOSAIC_PLATFORM = Analysis(
    name="mosaic-platform",
    title="Policies, language models, scripts and people in one world",
    where="docs/control.md",
    kind="system",
)
