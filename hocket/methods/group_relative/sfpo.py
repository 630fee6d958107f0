"""SFPO: GRPO that looks ahead, steps back and then takes its step (Wang et al., arXiv:2510.04072).

`SlowFastStep` makes several updates on a batch, returns part of the way to the weights it came from and updates once
more there; once entropy rises unusually it goes on as plain GRPO.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from hocket.core.batch import Batch
from hocket.core.keys import Key
from hocket.methods.base.grpo import GRPO
from hocket.stages import Metrics, State
from hocket.update.gradient import GradientStep
from hocket.update.problem import Problem


def entropy_alarm(entropies: Sequence[float], window: int, threshold: float) -> bool:
    """Whether the latest entropy lies `threshold` deviations above the mean of the last `window`, itself included.

    False before there are that many. The deviation divides by their number.
    """
    if len(entropies) < window:
        return False
    last = torch.tensor(entropies[-window:], dtype=torch.float64)
    return bool((last[-1] - last.mean()) / (last.std(correction=0) + 1e-9) >= threshold)


@dataclass(frozen=True)
class SlowFastStep(GradientStep):
    """Slow-Fast Policy Optimization (arXiv 2510.04072, and the released code): reposition before update.

    From weights w0, `fast` ordinary updates on the batch lead to w1; the weights go back to
    w0 + alpha (w1 - w0); and one more ordinary update is made there, on the same batch. Once the sampling entropy's
    z-score over the last `window` steps reaches `threshold`, every later step is one ordinary update.

    Stateful: it remembers the entropies of the last `window` steps, and whether the alarm has gone off.

    Attributes:
        fast: K; an ordinary update is `epochs` passes in `minibatches` parts.
        alpha: 0 goes all the way back, 1 stays.
        window, threshold: of the alarm; a window of 0 sets none.
        moments: `carried`, the released code's, leaves the optimiser's state as the fast updates made it; `rewound`
            gives it back as it was before them.
    """

    fast: int = 3
    alpha: float = 0.8
    window: int = 30
    threshold: float = 1.0
    moments: Literal["carried", "rewound"] = "carried"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fast < 1 or not 0 <= self.alpha <= 1:
            raise ValueError(f"fast must be at least 1 and alpha in [0, 1], not {self.fast} and {self.alpha}")
        if self.window < 0 or self.moments not in ("carried", "rewound"):
            raise ValueError(f"window must be at least 0 and moments carried or rewound, not {self.moments!r}")

    def init(self) -> State:
        """No entropies, no alarm."""
        return {"entropies": [], "alarmed": False}

    def step(self, problem: Problem, key: Key) -> Metrics:
        known = {**self.init(), **problem.memory}
        entropies = list(known["entropies"])
        alarmed = bool(known["alarmed"]) or (self.window > 0 and entropy_alarm(entropies, self.window, self.threshold))
        found = super().step(problem, key) if alarmed else self._slow_fast(problem, key)
        kept = [*entropies, _entropy(problem.batch)][-self.window :] if self.window else []
        problem.memory = {"entropies": kept, "alarmed": alarmed}
        return {**found, "update/alarmed": float(alarmed)}

    def _slow_fast(self, problem: Problem, key: Key) -> Metrics:
        weights = [weight for group in problem.optimiser.param_groups for weight in group["params"]]
        start = [weight.detach().clone() for weight in weights]
        moments = copy.deepcopy(problem.optimiser.state_dict()) if self.moments == "rewound" else None
        for number in range(self.fast):
            super().step(problem, key.derive("fast", number))
        _reposition(weights, start, self.alpha)
        if moments is not None:
            problem.optimiser.load_state_dict(moments)
        # The slow update is the one that ordinary training makes, and draws from the same key.
        return super().step(problem, key)


def _reposition(weights: Sequence[Tensor], start: Sequence[Tensor], alpha: float) -> None:
    """Moves weights to `start + alpha (weights - start)`, to the last bit `start` at 0 and themselves at 1."""
    with torch.no_grad():
        for weight, origin in zip(weights, start, strict=True):
            if alpha < 1:
                weight.copy_(origin + alpha * (weight - origin))


def _entropy(batch: Batch) -> float:
    """The sampling entropy per decision: the mean of -log-prob over what was sampled and counts."""
    seen = batch.occurrences
    logp = batch.logp["behaviour"].values[seen.decision[seen.weight != 0]].double()
    return float(-logp.mean()) if len(logp) else 0.0


SFPO = GRPO.but(
    name="sfpo",
    title="Slow-Fast Policy Optimization",
    source="Wang et al., arXiv:2510.04072, and the code its authors released",
    catalogue_ids=("sfpo",),
    axes=("update",),
    formula="w0 -> wK by K steps of GRPO;  w' = w0 + alpha (wK - w0);  one more step at w', all on one batch",
    conventions={
        **GRPO.conventions,
        "updates per batch": "K + 1 = 4: 3 fast ones, back to alpha = 0.8 of the way, and a slow one",
        "optimiser state": "carried through; update.moments = rewound gives the slow step the state before the fast",
        "entropy alarm": "plain GRPO for good once the entropy is 1 deviation above the mean of the last 30 steps; "
        "entropy is that of sampling, per decision",
    },
    update=SlowFastStep(fast=3, alpha=0.8, window=30, threshold=1.0),
)
