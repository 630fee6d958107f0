"""Secrets of RLHF II: reward models from doubtful preferences, and from policies that move (Wang et al., 2401.06080).

Several reward models of the same data measure how strong a preference is, mu = mean_m R_m(chosen) - R_m(rejected).
Where mu is lowest the label is probably wrong and is turned round, elsewhere mu is the margin of the loss
(`DenoisedPairs`). A contrastive term tells what sets one pair's members apart from what sets other pairs' apart
(`ContrastedPairs`). MetaRM climbs, before each step, towards telling the present policy's samples apart, and takes the
gradient of the preference loss there (`MetaStep`). Read from notes on the paper; the contrastive term is SimCSE's
(Gao et al., 2104.08821, eq. 4) on differences of embeddings, as public summaries say, with constants chosen here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from hocket.core.batch import Batch, Level
from hocket.core.columns import PAIR_MARGIN, PAIR_TARGET
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.examples import Example
from hocket.core.keys import Key
from hocket.core.signals import REWARD, reference_trajectories
from hocket.methods.base.reward_model import READ, REWARD_MODEL
from hocket.objectives.aggregate import counted_lengths, mean, trajectory_sums
from hocket.objectives.scores import ScoreLoss
from hocket.rewards.members import SCENARIO, with_return
from hocket.rewards.strength import PREFERENCE, REWARDS_ALONE, strengths_of
from hocket.rollout.demonstrations import Preferences
from hocket.rollout.scored_pairs import ScoredPreferences
from hocket.stages import Grade, LedgerView, Metrics, More, Play, Shaping, State
from hocket.types import Assignment, Evaluation, Experience, Quantity, Terms
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
        ConfigurationError: on a call, for a batch without recorded pairs, or when no reward has an opinion on the first
            ones.
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
        if not state["strengths"] and not _judged(batch):
            raise ConfigurationError(
                "DenoisedPairs measures by the run's rewards how strong a preference is, and none has an opinion on "
                "these pairs; give reward models of the same data with other seeds, --reward model:A+B+C"
            )
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


def _judged(batch: Batch) -> bool:
    """Whether any reward has an opinion, beside which member was chosen."""
    sums = {PREFERENCE, *REWARD.values()}
    opinions = (score.values for name, score in batch.scores.items() if name not in sums)
    return batch.combined or any(not bool(values.isnan().all()) for values in opinions)


SECRETS_RLHF_2 = REWARD_MODEL.but(
    name="secrets-rlhf-2",
    title="Reward model from doubtful pairs: the weakest turned round, strengths as margins",
    source="Wang et al., arXiv:2401.06080, by a reading note; its contrastive term is contrastive-reward-model",
    catalogue_ids=("secrets-rlhf-2",),
    axes=("reward", "data"),
    formula="L = -mean_pairs log sigmoid(h - m),  mu = mean_m R_m(chosen) - R_m(rejected);  lowest 20% of mu: "
    "h = r_l - r_w, m = -mu;  else h = r_w - r_l, m = mu",
    task="graded-sums?noise=0.2",
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


# ---------------------------------------------------------------- contrast


@dataclass(frozen=True)
class ContrastedPairs(ScoreLoss):
    """Adds coefficient x mean_i -log(e^(cos(a_i, b_i) / tau) / sum_j e^(cos(a_i, b_j) / tau)) over a batch's P pairs.

    a_i and b_i are two views of h_i = e(chosen) - e(rejected): numbers of h are left out at random, as dropout does. e
    is what the scorer's outputs after the first say of an answer, `size` numbers: a linear projection of its last
    state. So the pairs are told apart by what makes the difference. A pair counts as in `BradleyTerry`; a single one
    costs nothing.

    What is left out depends on `seed` and a pair's place in its batch alone, so a step is repeated to the bit.

    Attributes:
        size: of e. temperature: tau. share: of the numbers left out in a view. coefficient: of the term.

    Raises:
        ValueError: for a setting out of range.
    """

    size: int = 16
    temperature: float = 0.05
    share: float = 0.1
    coefficient: float = 0.1
    seed: int = 0

    couples: ClassVar[Level] = Level.BATCH

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size < 1 or self.temperature <= 0 or not 0 <= self.share < 1 or self.coefficient < 0:
            raise ValueError(
                "size must be at least 1, temperature above 0, share lie in [0, 1) and coefficient be at least 0, not "
                f"{self.size}, {self.temperature}, {self.share} and {self.coefficient}"
            )

    @property
    def outputs(self) -> int:
        return super().outputs + self.size

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        seen = batch.occurrences
        if seen.pairs is None:
            raise HocketError("the term contrasts pairs, but credit gave none; use a credit that pairs trajectories")
        counted = (counted_lengths(batch)[seen.pairs] > 0).all(1)
        if seen.pair_weight is not None:
            counted &= seen.pair_weight != 0
        pairs = seen.pairs[counted]
        said = now.get(Quantity.SCORE)[seen.decision, self.output + 1 :]
        embedded = torch.stack([trajectory_sums(one, batch) for one in said.unbind(1)], 1)
        apart = embedded[pairs[:, 0]] - embedded[pairs[:, 1]]
        one, other = (normalize(self.view(apart, number), dim=1) for number in range(2))
        here = torch.arange(len(pairs))
        value = self.coefficient * cross_entropy(one @ other.T / self.temperature, here, reduction="none")
        weight = torch.full_like(value, 1 / max(1, len(value)))
        return Terms(value, weight, Level.BATCH, {"contrast": mean(value, weight > 0)})

    def view(self, apart: Tensor, number: int) -> Tensor:
        """A view `[P, size]` of differences `[P, size]`."""
        kept = Key.of(self.seed).derive("view", number).numpy().random(apart.shape) >= self.share
        return apart * torch.from_numpy(kept).to(apart.dtype) / (1 - self.share)


CONTRASTIVE_REWARD_MODEL = REWARD_MODEL.but(
    name="contrastive-reward-model",
    title="Reward model whose pairs are also told apart by what sets their members apart",
    source="Wang et al., arXiv:2401.06080, section on contrastive learning, by public summaries; SimCSE's loss, "
    "arXiv:2104.08821, eq. 4",
    axes=("reward",),
    formula="L = -mean_pairs log sigmoid(r_w - r_l) + c mean_i -log softmax_j(cos(a_i, b_j) / tau)_i,  a, b: views of "
    "e_w - e_l",
    conventions={
        **REWARD_MODEL.conventions,
        "embedding": "16 linear outputs of the scorer beside the reward, after the answer's last token",
        "views": "a tenth of the numbers of the difference left out, twice; the paper's come from dropout in the net",
        "constants": "tau = 0.05 as in SimCSE, c = 0.1, chosen here",
    },
    regularisers=(ContrastedPairs(),),
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
