"""GRPO of another name: preferences of several groups, the worst-off weighing most (Ramesh et al., arXiv:2405.20304).

Annotators of different groups disagree. An adversary holds a weight for each group and raises, step by step and
multiplicatively, that of the group whose loss is largest (`GroupWeights`); the policy minimises the weighted sum, and
how far each group is served is reported (`GroupedPairwise`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from hocket.core.batch import Batch, Occurrences
from hocket.core.columns import Column, info_or_metadata
from hocket.core.errors import ConfigurationError
from hocket.credit.pairs import BestAgainstWorst, Pairing
from hocket.methods.base.dpo import DPO, RECORDED
from hocket.objectives.preference import Pairwise
from hocket.objectives.ratios import recorded
from hocket.stages import Credit, State
from hocket.types import Evaluation, Terms


@dataclass(frozen=True)
class GroupWeights(Credit):
    """Pairs whose weights make the loss sum_g w_g L_g, w <- w exp(eta L) / sum w exp(eta L) (arXiv 2405.20304, eq. 8).

    Stateful: the weight of each group seen, by name; a new one begins with the mean of the others', 1 for the first.
    L_g is the mean of `loss` over the group's pairs at the weights as the step began; a group without pairs in a step
    keeps its share.

    Attributes:
        of: which trajectories are paired. column: the info or metadata column with a pair's group.
        loss: what the adversary looks at, the recipe's objective. eta: its step size; 0 holds all weights equal.

    Raises:
        ConfigurationError: on a call, for a pair without a group.
    """

    of: Pairing = BestAgainstWorst()
    column: str = "group"
    loss: Pairwise = Pairwise()
    eta: float = 0.1

    reads: ClassVar[frozenset[Column]] = frozenset({Column.PROXIMAL, Column.REFERENCE})
    pairs: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.eta < 0:
            raise ValueError(f"eta must be at least 0, not {self.eta}")

    def init(self) -> State:
        """No group seen."""
        return {}

    def __call__(self, batch: Batch, state: State) -> tuple[Occurrences, State]:  # type: ignore[override]
        seen = self.of(batch)
        assert seen.pairs is not None
        groups = groups_of_pairs(batch, seen.pairs, self.column)
        if any(group is None for group in groups):
            raise ConfigurationError(
                f"GroupWeights reads the {self.column!r} of every pair, and one has none; give the data that column"
            )
        loss = self._losses(batch.but(occurrences=seen))
        members = places(groups)
        state = self._raised(state, {str(name): float(loss[rows].mean()) for name, rows in members.items()})
        weight = torch.zeros(len(groups), dtype=torch.float64)
        for name, rows in members.items():
            weight[rows] = state[str(name)] * len(groups) / len(rows)
        carried = torch.ones_like(weight) if seen.pair_weight is None else seen.pair_weight
        return replace(seen, pair_weight=weight * carried), state

    def _losses(self, batch: Batch) -> Tensor:
        """Of each pair at the weights as the step began, `[P]`."""
        return self.loss(Evaluation(recorded(batch, "proximal").double()), batch).value

    def _raised(self, state: State, losses: dict[str, float]) -> State:
        """The adversary's weights after a step up; they sum to 1."""
        usual = sum(state.values()) / len(state) if state else 1.0
        held = {**state, **{name: usual for name in losses if name not in state}}
        raised = {name: value * math.exp(self.eta * losses.get(name, 0.0)) for name, value in held.items()}
        # Who is absent keeps the share that it had among all.
        here, share = sum(raised[name] for name in losses), sum(held[name] for name in losses)
        now = {name: raised[name] * share / here if name in losses else value for name, value in held.items()}
        total = sum(now.values())
        return {name: value / total for name, value in now.items()}


def groups_of_pairs(batch: Batch, pairs: Tensor, column: str) -> list[Any]:
    """The group of each pair's preferred member; None where it has none."""
    values = info_or_metadata(batch, column)
    return [values[row] for row in pairs[:, 0].tolist()]


def places(groups: Sequence[Any]) -> dict[Any, list[int]]:
    """The places of every group, by name."""
    return {name: [i for i, group in enumerate(groups) if group == name] for name in sorted(set(groups), key=str)}


@dataclass(frozen=True)
class GroupedPairwise(Pairwise):
    """`Pairwise`, with metrics of every group that has pairs in the batch.

    `pairs/loss/GROUP` is the mean loss of the group's pairs, `pairs/accuracy/GROUP` the share of them whose loss is
    below log 2, so that the chosen response leads (a tie is a half), `pairs/worst` the smallest of these shares and
    `pairs/adversary/GROUP` the group's share of the loss's weight, w_g where credit is `GroupWeights`.

    Attributes:
        column: the info or metadata column with a pair's group.
    """

    column: str = "group"

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        terms, pairs = super().__call__(now, batch), batch.occurrences.pairs
        assert pairs is not None
        loss, weight = (values.detach()[: len(pairs)].double() for values in (terms.value, terms.weight))
        right = ((math.log(2) - loss).sign() + 1) / 2
        metrics: dict[str, Tensor] = {}
        shares: list[Tensor] = []
        groups = places([str(group) for group in groups_of_pairs(batch, pairs, self.column)])
        for name, rows in groups.items():
            counted = [row for row in rows if weight[row] != 0]
            if counted:
                metrics[f"pairs/loss/{name}"] = loss[counted].mean()
                metrics[f"pairs/adversary/{name}"] = weight[counted].sum() / weight.sum()
                shares.append(right[counted].mean())
                metrics[f"pairs/accuracy/{name}"] = shares[-1]
        if shares:
            metrics["pairs/worst"] = torch.stack(shares).min()
        return replace(terms, metrics={**terms.metrics, **metrics})


GROUP_ROBUST_PO = DPO.but(
    name="group-robust-po",
    title="Group Robust Preference Optimisation",
    source="Ramesh et al., arXiv:2405.20304, and the authors' code",
    catalogue_ids=("group-robust-po",),
    axes=("objective", "data"),
    formula="min_pi max_w sum_g w_g L_g(pi),  w_g <- w_g exp(eta L_g) / sum_h w_h exp(eta L_h),  L_g DPO's mean loss "
    "of group g",
    task="graded-sums?dissent=0.1",
    conventions={
        **RECORDED,
        "groups": "the column `group` of the data (credit.column)",
        "adversary": "one step of eta = 0.1 per batch, on losses as they are at the weights as the step began; the "
        "authors may add a constant over the root of a group's size",
        "sampling": "the data's own shares; a group's loss is the mean over its pairs in the batch",
        "absent groups": "keep their share of the weights",
    },
    credit=GroupWeights(),
    objective=GroupedPairwise(),
)
