"""XPO: online DPO that also makes what the reference says less likely, and so explores (Xie et al., arXiv:2405.21046).

Every prompt is answered by the policy and by the reference (`BesideReference`), the two are compared, and to DPO's loss
the log-probs of the reference's answer are added (`Optimism`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from hocket.core.batch import Batch, Level
from hocket.core.keys import Key
from hocket.credit.pairs import ComparedPairs
from hocket.methods.base.dpo import ONLINE_DPO
from hocket.objectives.aggregate import counted_lengths, trajectory_sums
from hocket.rewards.wins import PREFERENCES, WinShare
from hocket.stages import Grade, LedgerView, More, Objective, Play, Rollout
from hocket.types import Assignment, Evaluation, Experience, Quantity, Source, Terms, before_training

OTHERS: Source = "imported"
"""The source of answers that the reference gave and the policy learns from, as from text that it did not write."""


@dataclass(frozen=True)
class BesideReference(Rollout):
    """`samples` answers to every scenario, the last `references` of them by the policy before training; all are learnt
    from.

    Attributes:
        samples: more than `references`. references: at least 1.
    """

    samples: int = 2
    references: int = 1

    plays_reference: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 1 <= self.references < self.samples:
            raise ValueError(f"references must lie in [1, samples), not {self.references} of {self.samples}")

    async def collect(
        self,
        asked: Sequence[Assignment],
        *,
        play: Play,
        score: Grade,
        ledger: LedgerView,
        key: Key,
        more: More | None = None,
    ) -> Experience:
        """The policy's and the reference's, numbered one after the other within a scenario."""
        count = self.samples - self.references
        own = [replace(one, samples=count) for one in asked]
        told = [replace(one, samples=self.references, first=one.first + count, actor="reference") for one in asked]
        trajectories = await play([one for pair in zip(own, told, strict=True) for one in pair])
        suffix = before_training("")
        for one in trajectories:
            if any(turn.policy.endswith(suffix) for turn in one.turns):
                one.source = OTHERS
        for turn in {id(turn): turn for one in trajectories for turn in one.turns}.values():
            if turn.policy.endswith(suffix):
                # What the sampler knows is the reference's; the learner evaluates its own.
                turn.policy, turn.logp = turn.policy.removesuffix(suffix), None
        await score(trajectories)
        return Experience(trajectories)


@dataclass(frozen=True)
class Optimism(Objective):
    """Adds coefficient * log pi(y'), the mean over answers y' of the reference (XPO, arXiv 2405.21046, algorithm 1).

    Attributes:
        coefficient: alpha.
    """

    coefficient: float = 1e-5

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP})
    couples: ClassVar[Level] = Level.TRAJECTORY
    idle_without_advantage: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.coefficient < 0:
            raise ValueError(f"coefficient must be at least 0, not {self.coefficient}")

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        names = batch.names["source"]
        told = batch.source == (names.index(OTHERS) if OTHERS in names else -1)
        told = told & (counted_lengths(batch) > 0)
        value: Tensor = self.coefficient * trajectory_sums(now.logp[batch.occurrences.decision], batch)
        weight = told.to(value.dtype) / told.sum().clamp(min=1)
        return Terms(value, weight, self.couples, {"optimism/answers": torch.as_tensor(told.sum()).double()})


XPO = ONLINE_DPO.but(
    name="xpo",
    title="Exploratory Preference Optimisation",
    source="Xie et al., arXiv:2405.21046, algorithm 1; TRL 1.12",
    catalogue_ids=(),
    axes=("objective", "data"),
    formula="L = mean_x [-P log sigmoid(h) - (1 - P) log sigmoid(-h) + alpha log pi(y')],  h = beta (log pi(y)/ref(y) "
    "- log pi(y')/ref(y')),  y ~ pi, y' ~ ref, P = P(y > y')",
    conventions={
        **ONLINE_DPO.conventions,
        "pairs": "an answer of the policy and one of the reference to every prompt, fresh each step",
        "constant group": "a tie, drawn together; TRL prefers the policy's",
        **PREFERENCES,
        "label": "a pair's loss is the expectation over it",
        "alpha": "regularisers.0.coefficient = 1e-5, as in TRL; constant, where the theory lets it fall",
        "history": "the newest samples alone; the paper's theory fits all of them",
    },
    rollout=BesideReference(),
    shaping=(WinShare(),),
    credit=ComparedPairs(),
    regularisers=(Optimism(coefficient=1e-5),),
)
