"""Representation-based reward: stored pairs re-ordered by what the policy's own states say of them (2503.10093).

Off-policy preference tuning drifts from its data; sampling and judging anew is dear. It is assumed here that the stored
answers stay representative while their ranking changes. A linear probe on the policy's hidden states gives an answer a
reward s, a pair's label has confidence c = sigmoid(s(chosen) - s(rejected)), and pairs are re-ordered or weighted by it
before DPO (`Reordered`), at every step with the states as they are then: no token is generated. The abstract names the
parts; the probe's data and the forms of c are chosen here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Protocol, get_args, runtime_checkable

import torch
from torch import Tensor

from hocket.core.annotators import Annotator
from hocket.core.batch import Batch, GroupBy, Occurrences
from hocket.core.columns import Column
from hocket.core.errors import ConfigurationError
from hocket.credit.pairs import BestAgainstWorst, Pairing
from hocket.methods.base.dpo import DPO, RECORDED
from hocket.rewards.judge import logistic
from hocket.stages import Credit, Policy, State

Form = Literal["reorder", "weigh"]


@runtime_checkable
class ShowsStates(Protocol):
    """A policy that can show what it has made of a turn."""

    def mean_states(self, batch: Batch) -> Tensor:
        """The mean of its last hidden states over each turn's tokens, `[U, H]`."""
        ...


def states(batch: Batch, policy: Policy, decisions: Tensor) -> Tensor:
    """The mean hidden state of each decision's turn, `[T, H]` float64; NaN for turns of others.

    Raises:
        ConfigurationError: for a policy without hidden states.
    """
    if not isinstance(policy, ShowsStates):
        raise ConfigurationError(
            f"Reordered probes the hidden states of policy {policy.name!r}, which has none; use a language model"
        )
    return policy.mean_states(batch)[batch.turn]


STATES = Annotator("states", "The mean hidden state of the decision's turn under the policy, [T, H].", states)


@dataclass(frozen=True)
class Reordered(Credit):
    """Pairs by the confidence c = sigmoid(v . d) of their labels, d the difference of mean hidden states.

    v is a linear probe of a small capacity: the ridge regression, logistic, of the labels of earlier pairs on their d,
    so that no pair speaks for itself. Labels that are wrong at random shrink it and do not turn it.

    Stateful: the newest `window` differences as they were labelled. With fewer than `least` pairs stay as they are.

    Attributes:
        of: which trajectories are paired.
        form: `reorder`, a pair of c < 1/2 is learnt the other way round; `weigh`, pairs weigh c, its mean being 1.
        ridge: per pair, on differences whose mean square is 1.
    """

    of: Pairing = BestAgainstWorst()
    form: Form = "reorder"
    ridge: float = 0.1
    window: int = 1024
    least: int = 128

    reads: ClassVar[frozenset[Column]] = frozenset({STATES})
    pairs: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.form not in get_args(Form) or self.ridge <= 0 or not 1 <= self.least <= self.window:
            raise ValueError(
                "form is reorder or weigh, ridge positive and least between 1 and window, not "
                f"{self.form!r}, {self.ridge} and {self.least}"
            )

    def init(self) -> State:
        """No pair seen."""
        return {"differences": []}

    def __call__(self, batch: Batch, state: State) -> tuple[Occurrences, State]:  # type: ignore[override]
        seen = self.of(batch)
        assert seen.pairs is not None
        told = STATES.read(batch, "Reordered")[seen.decision[batch.last()]].double()
        difference = told[seen.pairs[:, 0]] - told[seen.pairs[:, 1]]
        earlier: list[Tensor] = list(state["differences"])
        after: State = {"differences": [*earlier, *difference.unbind()][-self.window :]}
        if len(earlier) < self.least or not len(difference):
            return seen, after
        chance = self.confidence(difference, torch.stack(earlier))
        if self.form == "reorder":
            turned = (chance < 0.5)[:, None]
            return replace(seen, pairs=torch.where(turned, seen.pairs.flip(1), seen.pairs)), after
        carried = torch.ones_like(chance) if seen.pair_weight is None else seen.pair_weight
        return replace(seen, pair_weight=carried * chance / chance.mean()), after

    def confidence(self, difference: Tensor, earlier: Tensor) -> Tensor:
        """c of pairs `[P, H]`, by a probe of `earlier` ones `[M, H]`."""
        size = earlier.square().mean().sqrt().clamp(min=1e-12)
        labelled = torch.ones(len(earlier), dtype=torch.float64)
        probe = logistic(earlier / size, labelled, self.ridge * len(earlier))
        return torch.sigmoid(difference / size @ probe)


RERANKING = DPO.but(
    name="representation-reward-reranking",
    title="DPO on stored pairs re-ordered by a probe of the policy's own hidden states",
    source="Representation-based Reward Modeling for Efficient Safety Alignment, arXiv:2503.10093 (abstract)",
    catalogue_ids=("representation-reward-reranking",),
    axes=("reward", "data", "objective"),
    formula="c = sigmoid(v . (h(y_w) - h(y_l))),  v logistic on earlier pairs;  DPO's loss with y_w and y_l exchanged "
    "where c < 1/2",
    task="graded-sums?noise=0.3",
    conventions={
        **RECORDED,
        "state": "the mean of the last hidden states over an answer, of the policy as the step begins",
        "probe": "linear, without bias, ridge 0.1 a pair, on the newest 1024 pairs before the step as labelled",
        "first pairs": "as they are labelled until 128 are known (credit.least)",
        "confidence": "pairs of c < 1/2 are exchanged; credit.form = weigh weighs all by c instead",
    },
    credit=Reordered(of=BestAgainstWorst(by=GroupBy("scenario"))),
)
