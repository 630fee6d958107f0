"""An objective with other denominators: by prompt, by turns of a constant length, or none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

import torch

from hocket.core.batch import Batch
from hocket.core.segments import segment_count
from hocket.core.signals import turn_visits
from hocket.objectives.aggregate import HORIZON
from hocket.objectives.surrogate import ClippedSurrogate
from hocket.stages import Objective
from hocket.types import Evaluation, Terms

Form = Literal["prompt-mean", "turn-constant-length", "token-sum"]


@dataclass(frozen=True)
class Aggregated(Objective):
    """The terms of `of`, one per decision, with the denominators of `form`; those of `of` itself are not used.

    Attributes:
        form: `prompt-mean`, 1/P sum_p 1/n_p sum_i sum_t x_it, over the P counted scenarios, n_p the decisions of all
            samples of a scenario (SkyRL's `prompt_mean`); `turn-constant-length`, 1/K sum_k 1/L sum_t x_kt, over the K
            counted turns (SPIRAL's release, where each turn is a sample); `token-sum`, sum_i sum_t x_it (verl's and
            slime's sums).
        horizon: L, in decisions.

    Raises:
        ValueError: on a call, for an `of` whose terms are not one per decision.
    """

    lengths: ClassVar[tuple[str, ...]] = ("horizon",)

    of: Objective = ClippedSurrogate()
    form: Form = "prompt-mean"
    horizon: int = HORIZON

    def __post_init__(self) -> None:
        if self.form not in get_args(Form):
            raise ValueError(f"form is {self.form!r}; choose from {', '.join(get_args(Form))}")
        if self.horizon < 1:
            raise ValueError(f"horizon must be at least 1, not {self.horizon}")

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        terms, occurrences = self.of(now, batch), batch.occurrences
        if terms.value.shape != occurrences.weight.shape:
            raise ValueError(
                f"of gives {tuple(terms.value.shape)} terms for {len(occurrences)} decisions; it must give one each"
            )
        weight = occurrences.weight.double()
        if self.form == "prompt-mean":
            prompt = batch.scenario[occurrences.trajectory]
            sizes = segment_count(prompt[occurrences.weight != 0], len(batch.names["scenario"]))
            weight = weight / ((sizes > 0).sum().clamp(min=1) * sizes.clamp(min=1)[prompt])
        if self.form == "turn-constant-length":
            visit, _ = turn_visits(batch)
            weight = weight / (len(torch.unique(visit[occurrences.weight != 0])) or 1) / self.horizon
        return replace(terms, weight=torch.as_tensor(weight, dtype=terms.weight.dtype))
