"""The losses of public implementations, on padded arrays in float64, to be compared with recipes.

Each is written here from what the named release computes, with its own conventions: what it divides by, where it adds
an epsilon, what it clips. `LEDGER` says which recipe it corresponds to, and which settings make the two agree.
"""

from __future__ import annotations

from collections.abc import Sequence

from hocket.lab.peers import agents, author_code, distillation, frameworks, losses_and_weights, preferences, trl, verl
from hocket.lab.peers.comparing import Distance, PeerComparison, distance

__all__ = ["LEDGER", "Distance", "PeerComparison", "distance"]

LEDGER: Sequence[PeerComparison] = (
    *trl.ENTRIES,
    *preferences.ENTRIES,
    *verl.ENTRIES,
    *author_code.ENTRIES,
    *frameworks.ENTRIES,
    *agents.ENTRIES,
    *distillation.ENTRIES,
    *losses_and_weights.ENTRIES,
)
