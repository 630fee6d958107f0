"""AEPO: GRPO that holds entropy at a target by learning from hotter or colder samples (arXiv:2510.08141).

Some further samples are drawn hot while entropy is below the target and cold while it is above (`Tempered`); they are
paid their return in a REINFORCE term of their own and enter no group statistic (`RewardWhereTempered`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from hocket.core.batch import Batch, Occurrences
from hocket.core.columns import InfoColumn
from hocket.core.keys import Key
from hocket.core.signals import counted_trajectories, returns
from hocket.credit.refinement import Refined
from hocket.methods.base.grpo import GRPO
from hocket.objectives.policy_gradient import PolicyGradient
from hocket.objectives.subset import Among
from hocket.rollout.dynamic import total
from hocket.stages import Grade, LedgerView, More, Play, Rollout
from hocket.types import Assignment, Experience, Trajectory


@dataclass(frozen=True)
class Tempered(Rollout):
    """`samples` of the policy itself, then `extra` at temperature `hot` or `cold`: AEPO (arXiv 2510.08141).

    If the entropy measured on the policy's own samples is below `target`, the extra ones are hot, else cold: to learn
    towards hotter samples raises the entropy, towards cooler ones lowers it. The measure is the mean of -log pi over
    their decisions, an unbiased estimate of the entropy per decision.

    Extra samples are marked by the column `tempered`, for credit and objective to tell apart. They are to be learnt
    from under the policy itself, not under its tempered form: so their turns take the temperature of the others and
    forget the log-probs they were drawn with, which are evaluated anew.

    Attributes:
        target: nats per decision. hot, cold: factors on the run's temperature, above and below 1.
        control: of the right hot ones so many are kept per step, and half as many of the right cold ones; the rest of
            the right ones is left out.
    """

    samples: int = 8
    extra: int = 4
    target: float = 0.5
    hot: float = 1.2
    cold: float = 0.8
    control: int = 60

    def __post_init__(self) -> None:
        if self.samples < 1 or self.extra < 1:
            raise ValueError(f"samples and extra must be at least 1, not {self.samples} and {self.extra}")
        if not 0 < self.cold < 1 < self.hot:
            raise ValueError(f"cold and hot must satisfy 0 < cold < 1 < hot, not {self.cold} and {self.hot}")
        if self.control < 2:
            raise ValueError(f"control must be at least 2, not {self.control}")
        if self.target < 0:
            raise ValueError(f"target must be at least 0, not {self.target}")

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
        """The own samples, then the tempered ones, scenario by scenario in each part."""
        own = await play([replace(asking, samples=self.samples) for asking in asked])
        entropy = sampled_entropy(own)
        factor = self.hot if entropy < self.target else self.cold
        further = await play([self._tempered(asking, factor) for asking in asked])
        for asking, start in zip(asked, range(0, len(further), self.extra), strict=True):
            for trajectory in further[start : start + self.extra]:
                TEMPERED.write(trajectory, True)
                for turn in trajectory.turns:
                    turn.decoding, turn.logp = asking.decoding, None
        await score([*own, *further])
        kept = self._kept(further, self.control if factor > 1 else self.control // 2)
        metrics = {"rollout/entropy": entropy, "rollout/temperature": factor}
        return Experience([*own, *kept], metrics=metrics)

    @staticmethod
    def _kept(further: Sequence[Trajectory], most: int) -> list[Trajectory]:
        """All but the right ones beyond the first `most`."""
        kept, right = [], 0
        for trajectory in further:
            right += sum(map(total, trajectory.scores.values())) > 0
            if right <= most or sum(map(total, trajectory.scores.values())) <= 0:
                kept.append(trajectory)
        return kept

    def _tempered(self, asking: Assignment, factor: float) -> Assignment:
        decoding = replace(asking.decoding, temperature=(asking.decoding.temperature or 1.0) * factor)
        return replace(asking, samples=self.extra, first=asking.first + self.samples, decoding=decoding)


def sampled_entropy(trajectories: Sequence[Trajectory]) -> float:
    """The mean of -log pi over all sampled decisions, nats; 0 without any."""
    parts = [
        -np.asarray(turn.logp, np.float64)[~_imposed(turn.forced, len(turn))]
        for trajectory in trajectories
        for turn in trajectory.turns
        if turn.logp is not None
    ]
    values = np.concatenate(parts) if parts else np.zeros(0)
    return float(values.mean()) if len(values) else 0.0


def _imposed(forced: np.ndarray | None, length: int) -> np.ndarray:
    return np.zeros(length, np.bool_) if forced is None else np.asarray(forced, np.bool_)


@dataclass(frozen=True)
class RewardWhereTempered(Refined):
    """`A_i = R_i` for samples whose column `tempered` is set, the credit of `of` for the others: AEPO (2510.08141).

    The tempered ones enter no statistic of `of`, so that its groups are exactly those of the policy's own samples.
    """

    def __call__(self, batch: Batch) -> Occurrences:
        seen = batch.occurrences
        apart = torch.tensor([bool(one) for one in TEMPERED.rows(batch)])
        here = apart[seen.trajectory]
        given = self.of(batch.credited(weight=torch.where(here, torch.zeros_like(seen.weight), seen.weight)))
        reward = torch.where(counted_trajectories(batch), returns(batch), 0.0)[seen.trajectory]
        weight = torch.where(here, seen.weight, given.weight)
        return replace(given, advantage=torch.where(here, reward, given.advantage.double()), weight=weight)


TEMPERED = InfoColumn("tempered", "True for samples at a temperature of their own, which are credited apart.")


AEPO = GRPO.but(
    name="aepo",
    title="Arbitrary Entropy Policy Optimisation",
    source="Wang et al., Arbitrary Entropy Policy Optimization: Entropy Is Controllable in Reinforcement Fine-tuning, "
    "arXiv:2510.08141",
    catalogue_ids=("aepo",),
    axes=("objective", "rollout"),
    formula="grad J = grad J_GRPO + alpha E_{o ~ pi^T}[R(o) grad log pi(o)],  T hot if H < target else cold",
    conventions={
        **GRPO.conventions,
        "entropy": "mean of -log pi over the decisions of the step's own samples; in the released code of the batch "
        "that was learnt from a step before",
        "target": "rollout.target, nats per decision",
        "temperatures": "1.2 and 0.8 of the run's, as in the released code",
        "control samples": "of the right tempered ones at most rollout.control = 60 a step, half when "
        "cold, as in the released code; there they take the place of own samples of the batch, here they come besides",
        "coefficient": "regularisers.0.coefficient alpha = 4, our choice: it holds entropy against GRPO's pull",
        "REINFORCE term": "on the tempered samples alone, at the run's temperature; mean over decisions, then samples",
        "reward": "the return itself, so that only right samples pull where wrong ones get 0",
        "samples": "4 tempered ones beside the group's 8; they enter no group statistic; the released code draws whole "
        "groups for every fourth scenario",
    },
    rollout=Tempered(samples=8, extra=4),
    credit=RewardWhereTempered(of=GRPO.credit),
    objective=Among(of=GRPO.objective, column="tempered", chosen=False),
    regularisers=(
        Among(of=PolicyGradient(aggregate="sequence-mean"), column="tempered", chosen=True, coefficient=4.0),
    ),
)
