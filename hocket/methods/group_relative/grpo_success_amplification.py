"""GRPO with verifiable rewards: effective loss, dynamics and success amplification (Mroueh, arXiv:2503.06639).

An analysis, so no recipe: its equations are the claims beside this file, and docs/success-amplification.md shows them.
"""

from __future__ import annotations

from hocket.core.analyses import Analysis

SUCCESS_AMPLIFICATION = Analysis(
    name="grpo-success-amplification",
    title="GRPO's effective loss, dynamics and success amplification",
    where="docs/success-amplification.md",
)
