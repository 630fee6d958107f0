"""Secrets of RLHF II: reward models from doubtful preferences, and from policies that move (Wang et al., 2401.06080).

Several reward models of the same data measure how strong a preference is, mu = mean_m R_m(chosen) - R_m(rejected).
Where mu is lowest the label is probably wrong and is turned round, elsewhere mu is the margin of the loss
(`DenoisedPairs`). MetaRM climbs, before each step, towards telling the present policy's samples apart, and takes the
gradient of the preference loss there (`MetaStep`). Read from a note on the paper, whose contrastive term on embeddings
is not here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import torch
from torch import Tensor

from hocket.core.batch import Batch, Level
from hocket.core.columns import PAIR_MARGIN, PAIR_TARGET
from hocket.core.errors import ConfigurationError
from hocket.core.examples import Example
from hocket.core.keys import Key
from hocket.core.signals import reference_trajectories
from hocket.methods.base.reward_model import READ, REWARD_MODEL
from hocket.objectives.aggregate import mean, trajectory_sums
from hocket.objectives.scores import ScoreLoss
from hocket.rewards.members import SCENARIO, with_return
from hocket.rewards.strength import REWARDS_ALONE, strengths_of
from hocket.rollout.demonstrations import Preferences
from hocket.rollout.scored_pairs import ScoredPreferences
from hocket.stages import Grade, LedgerView, Metrics, More, Play, Shaping, State
from hocket.types import Assignment, Evaluation, Experience, Terms
from hocket.update.gradient import GradientStep
from hocket.update.problem import Problem
from hocket.update.weights import moved_to, restored, trained_weights


@dataclass(frozen=True)
class DenoisedPairs(Shaping):
    """Recorded pairs in the order that is learnt, with margins and targets by their strength mu (arXiv 2401.06080).

    mu is the difference of the returns as they were before, so of what rewards say. Afterwards the return of a pair's
    better member is 1 and of the other 0. The pairs of the lowest share `flip` of all strengths seen, if negative, are
    turned round; the margin is `margin` times the strength in the order learnt, so |mu| where a pair is turned. Pairs
    of negative mu that are not turned are right with probability 1 - `soft`. Margins in the data are added.

    Stateful: the newest strengths, `window` of them, whose lowest share is meant.

    Raises:
        ConfigurationError: on a call, for a batch without recorded pairs.
    """

    flip: float = 0.2
    margin: float = 1.0
    soft: float = 0.0
    window: int = 1024

    def __post_init__(self) -> None:
        if not 0 <= self.flip < 1 or not 0 <= self.soft <= 0.5 or self.margin < 0 or self.window < 1:
            raise ValueError(
                "flip must lie in [0, 1), soft in [0, 0.5], margin be at least 0 and window at least 1, not "
                f"{self.flip}, {self.soft}, {self.margin} and {self.window}"
            )

    def init(self) -> State:
        """No strengths."""
        return {"strengths": []}

    def __call__(self, batch: Batch, state: State) -> tuple[Batch, State]:  # type: ignore[override]
        pairs, mu = strengths_of(batch, "DenoisedPairs")
        known = [*state["strengths"], *mu.tolist()][-self.window :]
        turned = self.turned(mu, known)
        order = torch.where(turned[:, None], pairs.flip(1), pairs)
        value = torch.zeros(batch.trajectories, dtype=torch.float64)
        value[order[:, 0]] = 1.0
        margins, targets = list(PAIR_MARGIN.rows(batch)), list(PAIR_TARGET.rows(batch))
        doubtful = (mu < 0) & ~turned
        own = self.margin * torch.where(turned, -mu, mu)
        rows = zip(order[:, 0].tolist(), own.tolist(), doubtful.tolist(), strict=True)
        for better, margin, doubt in rows:
            margins[better] = (margins[better] or 0.0) + margin
            if doubt and self.soft:
                targets[better] = 1 - self.soft
        info = {**batch.info, PAIR_MARGIN.name: margins, PAIR_TARGET.name: targets}
        return with_return(batch.but(info=info), value), {"strengths": known}

    def turned(self, mu: Tensor, known: Sequence[float]) -> Tensor:
        """Which pairs are turned round, `[P]` bool, given their strengths `[P]` and all that are known."""
        count = int(self.flip * len(known))
        if not count:
            return torch.zeros(len(mu), dtype=torch.bool)
        return (mu <= sorted(known)[count - 1]) & (mu < 0)


SECRETS_RLHF_2 = REWARD_MODEL.but(
    name="secrets-rlhf-2",
    title="Reward model from doubtful pairs: the weakest turned round, strengths as margins",
    source="Wang et al., arXiv:2401.06080, by a reading note; the contrastive term on embeddings is left out",
    catalogue_ids=("secrets-rlhf-2",),
    axes=("reward", "data"),
    formula="L = -mean_pairs log sigmoid(h - m),  mu = mean_m R_m(chosen) - R_m(rejected);  lowest 20% of mu: "
    "h = r_l - r_w, m = -mu;  else h = r_w - r_l, m = mu",
    task="graded_sums?noise=0.2",
    note="the contrastive term on embeddings is left out",
    conventions={
        **READ,
        "pairs": "each scenario's chosen against its rejected response",
        "strength": "the difference of what the run's rewards say of the two: --reward model:A+B+C for the mean of "
        "reward models trained with other seeds (the paper has 10), else the task's verifier",
        "turned round": "the lowest 20% of the newest 1024 strengths, where negative; shaping.0.flip",
        "margin": "the strength in the order learnt, |mu| where turned; that of the data is added",
        "label smoothing": "0; shaping.0.soft mixes in the other order of pairs with mu < 0 (secrets-rlhf-2-soft)",
        "centring": "0",
    },
    rollout=ScoredPreferences(),
    combine=REWARDS_ALONE,
    shaping=(DenoisedPairs(),),
)


SECRETS_RLHF_2_SOFT = SECRETS_RLHF_2.but(
    name="secrets-rlhf-2-soft",
    title="Reward model from doubtful pairs: soft labels where the strength is negative, strengths as margins",
    formula="L = -mean_pairs (1-a) log sigmoid(r_w - r_l - mu) + a log sigmoid(-(r_w - r_l - mu)),  a = 0.4 if mu < 0",
    conventions={
        **SECRETS_RLHF_2.conventions,
        "turned round": "none",
        "margin": "the strength, also where negative",
        "label smoothing": "0.4 where mu < 0, chosen here",
    },
    **{"shaping.0.flip": 0.0, "shaping.0.soft": 0.4},
)


# ---------------------------------------------------------------- MetaRM


@dataclass(frozen=True)
class PairsBesideSamples(Preferences):
    """Recorded pairs, and `metadata["responses"]` as answers of the present policy, which nobody has judged.

    The answers have source `baseline`, so they are in no pair, and are learnt from by `MetaStep` alone.

    Raises:
        ConfigurationError: on a call, for a scenario without a pair or without two `responses`.
    """

    replays: ClassVar[Example | None] = Example.PAIR

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
        """Per scenario the pair; then the answers."""
        found = await super().collect(asked, play=play, score=score, ledger=ledger, key=key, more=more)
        wanted = list[Assignment]()
        for asking in asked:
            told = asking.scenario.metadata
            said = list(told.get("responses") or ())
            if len(said) < 2:
                raise ConfigurationError(
                    f"scenario {asking.scenario.id!r} has {len(said)} 'responses' in its metadata; MetaRM needs two or "
                    "more answers of the policy to tell apart"
                )
            for place, text in enumerate(said):
                scenario = replace(asking.scenario, metadata={**told, "demonstration": text})
                wanted.append(replace(asking, scenario=scenario, samples=1, first=2 + place, source="expert"))
        samples = await play(wanted)
        for trajectory in samples:
            trajectory.source = "baseline"
        return Experience([*found.trajectories, *samples])


@dataclass(frozen=True)
class Difference(ScoreLoss):
    """Minimises -J, J = mean sigmoid(|r_i - r_j|) over every two trajectories of a scenario that count."""

    couples: ClassVar[Level] = Level.GROUP

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        reward = trajectory_sums(self.scores(now, batch), batch)
        read = torch.zeros(batch.trajectories, dtype=torch.bool)
        read[batch.occurrences.trajectory[batch.occurrences.weight != 0]] = True
        group = SCENARIO(batch).index
        first, second = torch.triu_indices(len(reward), len(reward), 1)
        counted = read[first] & read[second] & (group[first] == group[second])
        first, second = first[counted], second[counted]
        apart = torch.sigmoid((reward[first] - reward[second]).abs())
        weight = torch.full_like(apart, 1 / max(1, len(apart)))
        return Terms(-apart, weight, Level.GROUP, {"meta/difference": mean(apart, weight > 0)})


class Ascended:
    """A problem whose gradient is taken where a step up J leads, theta + rate grad J; the weights stay at theta."""

    def __init__(self, problem: Problem, rate: float) -> None:
        self._problem, self._rate = problem, rate

    def __getattr__(self, name: str) -> Any:
        return getattr(self._problem, name)

    def gradient(self, batch: Batch | None = None) -> Metrics:
        """Puts the gradient into `.grad`, as `Problem.gradient`."""
        batch = self._problem.batch if batch is None else batch
        weights = trained_weights(self._problem.optimiser)
        with restored(weights):
            found = self._climb(batch).gradient()
            slopes = [torch.zeros_like(one) if one.grad is None else one.grad for one in weights]
            moved_to(weights, [one - self._rate * slope for one, slope in zip(weights, slopes, strict=True)])
            report = self._problem.gradient(batch)
        return {**report, "meta/difference": found["meta/difference"]}

    def _climb(self, batch: Batch) -> Problem:
        """The problem of -J, on the ends of the policy's own answers."""
        seen, last = batch.occurrences, batch.last()[reference_trajectories(batch)]
        weight = torch.zeros_like(seen.weight)
        weight[last[last >= 0]] = 1.0
        if not bool(weight.any()):
            raise ConfigurationError(
                "MetaStep tells the policy's own answers apart, and there are none beside the pairs; use the rollout "
                "PairsBesideSamples"
            )
        return replace(
            self._problem,
            batch=batch.credited(weight=weight),
            loss_terms=lambda now, part: [Difference()(now, part)],
            couples=Level.GROUP,
            idle_without_advantage=False,
            first=None,
        )


@dataclass(frozen=True)
class MetaStep(GradientStep):
    """`GradientStep` with the gradient of the loss at theta + rate grad J applied to theta (arXiv 2401.06080, MetaRM).

    J = mean sigmoid(|R(s_i) - R(s_j)|) over every two of a scenario's trajectories of source `baseline`, which are
    answers of the present policy. `rate` is of plain gradient ascent.

    Raises:
        ConfigurationError: on a call, for a batch without such trajectories.
    """

    rate: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rate < 0:
            raise ValueError(f"rate must be at least 0, not {self.rate}")

    def _passes(self, problem: Problem, key: Key) -> Metrics:
        return super()._passes(cast(Problem, Ascended(problem, self.rate)), key)


META_REWARD_MODEL = REWARD_MODEL.but(
    name="meta-reward-model",
    title="MetaRM: the preference loss where the present policy's samples are told apart",
    source="Wang et al., arXiv:2401.06080, section on MetaRM, recalled",
    axes=("reward", "update"),
    formula="theta <- theta - lr grad L(theta + eta grad J(theta)),  J = mean_ij sigmoid(|r(s_i) - r(s_j)|)",
    conventions={
        **REWARD_MODEL.conventions,
        "samples": "the scenario's `responses`, whose scores nobody reads; every two of a scenario are compared",
        "inner step": "plain gradient ascent, eta = 0.01 (update.rate); the gradient through it is left out",
    },
    rollout=PairsBesideSamples(),
    update=MetaStep(),
)
