"""An objective's terms under denominators of another kind: by prompt, or none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch

from hocket.core.batch import Batch
from hocket.core.segments import segment_count
from hocket.objectives.surrogate import ClippedSurrogate
from hocket.stages import Objective
from hocket.types import Evaluation, Terms

Form = Literal["prompt-mean", "token-sum"]


@dataclass(frozen=True)
class Aggregated(Objective):
    """The terms of `of`, one per decision, with the denominators of `form`; those of `of` itself are not used.

    Attributes:
        form: `prompt-mean`, 1/P sum_p 1/n_p sum_i sum_t x_it, over the P scenarios that count, n_p the decisions of
            all samples of one (SkyRL's `prompt_mean`); `token-sum`, sum_i sum_t x_it (verl's and slime's sums).

    Raises:
        ValueError: on a call, for an `of` whose terms are not one per decision.
    """

    of: Objective = ClippedSurrogate()
    form: Form = "prompt-mean"

    def __post_init__(self) -> None:
        if self.form not in get_args(Form):
            raise ValueError(f"form is {self.form!r}; choose from {', '.join(get_args(Form))}")

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        terms, seen = self.of(now, batch), batch.occurrences
        if terms.value.shape != seen.weight.shape:
            raise ValueError(
                f"of gives {tuple(terms.value.shape)} terms for {len(seen)} decisions; it must give one each"
            )
        weight = seen.weight.double()
        if self.form == "prompt-mean":
            prompt = batch.scenario[seen.trajectory]
            sizes = segment_count(prompt[seen.weight != 0], len(batch.names["scenario"]))
            weight = weight / ((sizes > 0).sum().clamp(min=1) * sizes.clamp(min=1)[prompt])
        return replace(terms, weight=torch.as_tensor(weight, dtype=terms.weight.dtype))
