"""The policy gradient at forking tokens alone: the fifth of highest entropy (Wang et al., arXiv:2506.01939).

Most tokens of a chain of thought follow from what was said; few decide where it goes. `HighEntropyTokens` leaves the
gradient to these, and they are enough: the rest is what DAPO does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from hocket.core.batch import Batch, Occurrences
from hocket.core.columns import Column
from hocket.credit.refinement import Refined
from hocket.methods.base.conventions import ENTROPY
from hocket.methods.base.dapo import DAPO


@dataclass(frozen=True)
class HighEntropyTokens(Refined):
    """Advantage 0 where the entropy lies below the quantile `1 - share` of all decisions that count.

    The quantile is interpolated between neighbours; decisions at it stay. Those without advantage stay in the
    denominators, as in the paper's objective and in TRL (`top_entropy_quantile`).
    """

    share: float = 0.2

    adds: ClassVar[frozenset[Column]] = frozenset({Column.ENTROPY})

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.share <= 1:
            raise ValueError(f"share must lie in (0, 1], not {self.share}")

    def refine(self, batch: Batch) -> Occurrences:
        seen, entropy = batch.occurrences, self.entropy(batch)
        used = seen.weight != 0
        if not used.any():
            return seen
        ordered = entropy[used].sort().values
        place = (1 - self.share) * (len(ordered) - 1)
        below, rest = int(place), place - int(place)
        least = ordered[below] + rest * (ordered[min(below + 1, len(ordered) - 1)] - ordered[below])
        return replace(seen, advantage=torch.where(entropy >= least, seen.advantage, 0.0))


HIGH_ENTROPY_TOKENS = DAPO.but(
    name="high-entropy-tokens",
    title="DAPO at the fifth of the tokens that has the highest entropy",
    source="Wang et al., Beyond the 80/20 Rule, arXiv:2506.01939; TRL 1.16 (top_entropy_quantile)",
    formula=DAPO.formula + ",  A_it = 0 where H_it is below the 0.8-quantile of the batch",
    conventions={
        **DAPO.conventions,
        "entropy": ENTROPY,
        "share": "credit.share = 0.2 of all decisions of the batch; the others stay in the denominators",
        "KL": "none; a regulariser would go on seeing all decisions",
    },
    credit=HighEntropyTokens(of=DAPO.credit),
)
