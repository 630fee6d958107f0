"""TPO: preferences beside a gold answer, in one stage (Saeidi et al., arXiv:2405.16681; TRL 1.16, TPOTrainer).

Three answers of each prompt: the chosen and the rejected one are compared without a reference (`Pairwise` of
`Likelihood`), and the gold one, which is neither, is imitated (`GoldLikelihood`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from hocket.core.batch import Batch, GroupBy, Occurrences
from hocket.core.keys import Key
from hocket.credit.pairs import BestAgainstWorst
from hocket.methods.base.dpo import DPO, RECORDED
from hocket.objectives.likelihood import NegativeLogLikelihood
from hocket.objectives.measures import Likelihood
from hocket.objectives.preference import Pairwise
from hocket.rollout.demonstrations import Preferences, demonstrated
from hocket.stages import Grade, LedgerView, More, Play
from hocket.types import Assignment, Evaluation, Experience, Terms


@dataclass(frozen=True)
class Triples(Preferences):
    """`Preferences` with a gold answer: the scenario's demonstration, else its answer, of source `expert`.

    Raises:
        ConfigurationError: on a call, for a scenario that lacks one of the three.
    """

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
        """The pairs, then the gold answers."""
        gold = [
            replace(each, scenario=demonstrated(each.scenario), samples=1, first=2, source="expert") for each in asked
        ]
        pairs = await super().collect(asked, play=play, score=score, ledger=ledger, key=key, more=more)
        return Experience([*pairs.trajectories, *await play(gold)])


def gold_answers(batch: Batch) -> Tensor:
    """Which occurrences are of gold answers, `[E]` bool."""
    names = batch.names["source"]
    gold = batch.source == (names.index("expert") if "expert" in names else -1)
    return gold[batch.occurrences.trajectory]


@dataclass(frozen=True)
class PairsBesideGold(BestAgainstWorst):
    """`BestAgainstWorst` among the answers that are not gold; these keep their weight."""

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with `pairs` `[P, 2]`."""
        gold, weight = gold_answers(batch), batch.occurrences.weight
        paired = super().__call__(batch.credited(weight=torch.where(gold, 0.0, weight)))
        return replace(paired, weight=torch.where(gold, weight, paired.weight))


@dataclass(frozen=True)
class GoldLikelihood(NegativeLogLikelihood):
    """coefficient times -log pi of the gold answers' decisions.

    Attributes:
        coefficient: at least 0; TRL's `tpo_alpha`.
    """

    coefficient: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.coefficient < 0:
            raise ValueError(f"coefficient must be at least 0, not {self.coefficient}")

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        occurrences = batch.occurrences
        weight = torch.where(gold_answers(batch), occurrences.weight, torch.zeros_like(occurrences.weight))
        terms = super().__call__(now, batch.but(occurrences=replace(occurrences, pairs=None, weight=weight)))
        return replace(terms, value=self.coefficient * terms.value)


TPO = DPO.but(
    name="tpo",
    title="Triple Preference Optimisation: a pair and a gold answer",
    source="Saeidi et al., arXiv:2405.16681; TRL 1.16, TPOTrainer",
    axes=("objective", "data"),
    formula="L = -mean_pairs log sigmoid(beta (log pi(y_w) - log pi(y_l))) - 1/sum_g n_g sum_g log pi(y_g)",
    conventions={
        **{name: text for name, text in RECORDED.items() if name != "reference"},
        "imitation": "of the gold answers, mean over all their decisions, weight 1 (regularisers.0.coefficient)",
        "gold answer": "the scenario's demonstration, else its answer",
        "beta": "0.01",
    },
    rollout=Triples(),
    credit=PairsBesideGold(by=GroupBy("scenario")),
    objective=Pairwise(beta=0.01, measure=Likelihood()),
    regularisers=(GoldLikelihood(aggregate="token-mean"),),
)


TPO_L = TPO.but(
    name="tpo-l",
    title="Triple Preference Optimisation, length-normalised with a margin",
    formula="L = -mean_pairs log sigmoid(beta (log pi(y_w)/n_w - log pi(y_l)/n_l) - gamma) - 1/sum_g n_g "
    "sum_g log pi(y_g)",
    conventions={
        **TPO.conventions,
        "aggregation": "log-probs averaged over a trajectory's decisions, mean over pairs",
        "margin": "gamma = 0.5 (objective.margin)",
    },
    objective=Pairwise(beta=0.01, margin=0.5, measure=Likelihood(length_normalised=True)),
)
