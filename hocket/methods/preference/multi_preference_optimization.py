"""MPO (also SWEPO): a set of good answers against a set of bad ones (Gupta et al., arXiv:2412.04628).

Answers above their prompt's mean reward are chosen and the others rejected; one softmax over the set takes the place of
pairs, and answers far from the mean weigh more (`SetContrast`).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hocket.methods.preference.lipo import LIPO
from hocket.objectives.listwise import ListLoss, Listwise


@dataclass(frozen=True)
class SetContrast(ListLoss):
    """-log(sum over Y+ of w e^s / sum over all of w e^s), w = exp(scale |R - mean R|^power).

    Y+ are the answers above the mean; one at the mean is rejected.

    Attributes:
        scale: of the weights' exponent; 0 weighs all alike. power: 0, 1 or 2.
    """

    scale: float = 1.0
    power: int = 1

    def __post_init__(self) -> None:
        if self.power not in (0, 1, 2) or self.scale < 0:
            raise ValueError(f"power must be 0, 1 or 2, and scale at least 0, not {self.power} and {self.scale}")

    def __call__(self, score: Tensor, label: Tensor) -> Tensor:
        away = label - label.mean()
        weighted = score + self.scale * away.abs() ** self.power
        return torch.logsumexp(weighted, 0) - torch.logsumexp(weighted[away > 0], 0)


MULTI_PREFERENCE_OPTIMIZATION = LIPO.but(
    name="multi-preference-optimization",
    title="Multi-Preference Optimisation: a set of good answers against a set of bad ones",
    source="Gupta et al., arXiv:2412.04628; the loss as recalled, its limits derived",
    catalogue_ids=("multi-preference-optimization",),
    axes=("objective", "data"),
    formula="L = -mean_lists log( sum_{Y+} w e^s / sum_{Y+ u Y-} w e^s ),  w = exp(a |R - mean R|^p),  "
    "s = beta log pi(y)/ref(y)",
    conventions={
        **{name: text for name, text in LIPO.conventions.items() if name not in ("rank", "labels", "equal labels")},
        "labels": "the recorded scores; above their mean is chosen, at it or below rejected",
        "constant group": "does not count",
        "weights": "a = 1 and p = 1, chosen here; of one chosen and one rejected answer with a = 0 it is DPO",
    },
    objective=Listwise(SetContrast(), beta=0.1),
)
