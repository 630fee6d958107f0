"""Credit of agents that update sequentially within a step, with the ratios of the earlier agents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from hocket.core.annotators import Annotator
from hocket.core.batch import Batch
from hocket.core.columns import Column
from hocket.core.evaluating import evaluate_detached
from hocket.core.segments import segment_mean, segment_sum
from hocket.credit.formulas import whitened
from hocket.stages import Correction, Policy
from hocket.types import Quantity


def moved(batch: Batch, policy: Policy, decisions: Tensor) -> Tensor:
    """`log pi_now(a | o) - log pi_behaviour(a | o)` at the decisions, `[T]` float64."""
    current = evaluate_detached(policy, batch, {Quantity.LOGP}, decisions)
    return current.logp.double() - batch.logp["behaviour"].values.double()


MOVED = Annotator(
    "moved", "Log-prob now less that of the sampler, [T] in nats, of policies that have learnt.", moved, moving=True
)


@dataclass(frozen=True)
class InTurn(Correction):
    """`M_i = prod_j r_j A`: a team's advantage times the ratios of the agents that learnt before agent i in this step.

    The sequential update of HAPPO (Kuba et al., arXiv 2109.11251): the joint advantage `A(s, a)` is multiplied by
    `r_j = pi_j^new(a_j | o_j) / pi_j^old(a_j | o_j)` of the earlier agents; the order is random at every step.
    Decisions of one trajectory at one time are simultaneous. Each has the advantage of its own agent's critic, and the
    team's advantage is their mean. That equals the advantage of the mean reward and the mean of the critics, since
    generalised advantages are linear in both. The factor multiplies the advantage rather than the weight, so that the
    value loss is unchanged.

    Attributes:
        whiten: whiten the team's advantages over all counted decisions, before the factor; the credit should not
            whiten. epsilon, ddof: as in `GAE`.
        largest: the upper bound of the factor; None for none, as in the paper.
    """

    whiten: bool = True
    epsilon: float = 1e-8
    ddof: int = 1
    largest: float | None = None

    reads: ClassVar[frozenset[Column]] = frozenset({MOVED})

    def __post_init__(self) -> None:
        if self.largest is not None and self.largest < 1:
            raise ValueError(f"largest must be None or at least 1, not {self.largest}")

    def __call__(self, batch: Batch) -> Batch:
        """The batch with other advantages `[E]` float64."""
        occurrences, index, size = batch.occurrences, *simultaneous(batch)
        used = occurrences.weight != 0
        raw = occurrences.advantage.double()
        team = segment_mean(raw[used], index[used], size)[index]
        advantage = torch.zeros_like(raw)
        advantage[used] = whitened(team[used], ddof=self.ddof, epsilon=self.epsilon) if self.whiten else team[used]
        return batch.credited(advantage=advantage * self.factor(batch))

    def factor(self, batch: Batch) -> Tensor:
        """How much likelier those who learnt before make what they did at the same time, `[E]` float64.

        Where nobody says how far others moved, as in the microscope, nobody did.
        """
        occurrences, index, size = batch.occurrences, *simultaneous(batch)
        if MOVED.name not in batch.annotations:
            return torch.ones(len(occurrences), dtype=torch.float64)
        gap = MOVED.read(batch, "InTurn").double()[occurrences.decision]
        log = segment_sum(gap, index, size)[index] - gap
        # A sum of one less that one is 0; rounding must not make it anything else.
        alone = torch.bincount(index, minlength=size)[index] == 1
        factor = torch.where(alone, torch.zeros_like(log), log).exp()
        return factor if self.largest is None else factor.clamp(max=self.largest)


def simultaneous(batch: Batch) -> tuple[Tensor, int]:
    """A number for the decisions of a trajectory at one time, `[E]`, and how many these are; without times one each."""
    occurrences = batch.occurrences
    if batch.time is None:
        return torch.arange(len(occurrences)), len(occurrences)
    time = batch.time[occurrences.decision]
    pairs = occurrences.trajectory * (int(time.max()) + 1 if len(time) else 1) + time
    times, index = torch.unique(pairs, return_inverse=True)
    return index, len(times)
