"""Distillation: a student learns from what a teacher would do, on the student's own text, on data, or on the teacher's.

The teacher is the learner's reference: `--teacher MODEL`, or a run, with the student's tokenizer. Three choices make
every form: *what is compared* (all actions, the likeliest ones, or the sampled action), *by which divergence*
(`hocket.core.divergences`), and *whose text* it is read on (`DistillationText`).

Over all actions the divergence is the loss (`Distillation`), with an exact gradient at every decision; how a token
changes later ones is not part of it. At the sampled action the teacher's log-ratio is a reward (`TeacherLogRatio`), and
the policy gradient of it, summed over the rest of the answer, is that of the reverse KL of whole answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from hocket.core.batch import Batch, Level, Occurrences
from hocket.core.columns import Column
from hocket.core.divergences import Divergence, DivergencePart, JensenShannon, SkewedReverse
from hocket.core.errors import ConfigurationError
from hocket.core.examples import Example
from hocket.core.keys import Key
from hocket.core.schedules import Setting, bounds, value_at
from hocket.core.segments import segment_sum, suffix_sum
from hocket.credit.reinforce import Uniform
from hocket.methods.base.conventions import COMMON, RATIO
from hocket.methods.base.sft import SFT
from hocket.objectives.aggregate import HORIZON, Aggregate, check, mean, weights
from hocket.objectives.policy_gradient import PolicyGradient
from hocket.objectives.ratios import anchor, recorded
from hocket.objectives.surrogate import ClippedSurrogate
from hocket.recipe import Recipe
from hocket.rollout.demonstrations import Demonstrations, demonstrated
from hocket.rollout.independent import Independent
from hocket.stages import Credit, Grade, LedgerView, More, Objective, Play, Rollout
from hocket.types import Assignment, Evaluation, Experience, Quantity, Terms, Trajectory

# ------------------------------------------------------------ what is compared


@dataclass(frozen=True)
class Distillation(Objective):
    """Adds coefficient * divergence between policy and reference over all actions, at each counted decision.

    Attributes:
        divergence: see `hocket.core.divergences`.
        coefficient: a number or a schedule.
        aggregate, horizon: as in other objectives.
        metrics: `teacher/divergence`, its mean in nats.
    """

    lengths: ClassVar[tuple[str, ...]] = ("horizon",)

    divergence: Divergence = field(default_factory=JensenShannon)
    coefficient: Setting = 1.0
    aggregate: Aggregate = "token-mean"
    horizon: int = HORIZON

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.DIVERGENCE})
    couples: ClassVar[Level] = Level.DECISION
    idle_without_advantage: ClassVar[bool] = False
    learns_from_teacher: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check(self.aggregate, self.horizon)
        if bounds(self.coefficient)[0] < 0:
            raise ValueError(f"coefficient must be at least 0, not {self.coefficient}")

    @property
    def policy_parts(self) -> tuple[DivergencePart, ...]:
        """The divergence, which the policy computes."""
        return (DivergencePart(self.divergence),)

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        occurrences = batch.occurrences
        apart = now.get(Quantity.DIVERGENCE)[occurrences.decision]
        weight = weights(batch, self.aggregate, self.horizon, dtype=apart.dtype)
        metrics = {"teacher/divergence": mean(apart, occurrences.weight != 0)}
        return Terms(value_at(self.coefficient, batch.progress) * apart, weight, metrics=metrics)


@dataclass(frozen=True)
class TeacherLogRatio(Credit):
    """`r_t = log q(a_t) - log p_old(a_t)`, the teacher's log-ratio at the sampled action, as a reward per decision.

    `A_t = sum_{k >= t} gamma^(k - t) r_k` over the counted decisions of the trajectory; its expectation over the
    student's own text is minus the reverse KL from there on.

    Attributes:
        gamma: discount per decision. 0, the decision's own ratio alone, is the gradient of the reverse KL at each
            decision with the text held fixed; 1 is the gradient of the reverse KL of whole answers.
        later: leave out the decision's own ratio, for a loss that has the exact divergence at each decision.
        mean: divide by the number of ratios in the sum, so that early decisions of long answers do not dominate.
    """

    gamma: float = 0.0
    later: bool = False
    mean: bool = False

    reads: ClassVar[frozenset[Column]] = frozenset({Column.REFERENCE, Column.BEHAVIOUR})
    learns_from_teacher: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 <= self.gamma <= 1:
            raise ValueError(f"gamma must lie in [0, 1], not {self.gamma}")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64."""
        occurrences = batch.occurrences
        counted = (occurrences.weight != 0).double()
        ratio = _log_ratio(batch, self.teacher(batch))
        to_go, terms = (
            suffix_sum(values, occurrences.trajectory, batch.trajectories, discount=self.gamma)
            - (values if self.later else torch.zeros_like(values))
            for values in (ratio, counted)
        )
        return replace(occurrences, advantage=counted * (to_go / terms.clamp(min=1) if self.mean else to_go))

    def teacher(self, batch: Batch) -> Tensor:
        """The teacher's log-probs, `[T]`."""
        return recorded(batch, "reference")


@dataclass(frozen=True)
class PrefixWeightedLogRatio(Credit):
    """The teacher's log-ratio, weighed more the less the student has strayed before (IW-OPD, TRL 1.16).

    `A_t = w_t r_t`, `w_t = 1 + amplify (1 - sum_{k < t} |r_k| / sum_k |r_k|)` over a trajectory's counted decisions:
    after a prefix that the teacher would hardly have written, its opinion of the next token counts less.

    Attributes:
        amplify: how much more the first decision counts than the last; 0 weighs all alike.
        epsilon: the least sum of absolute ratios that is divided by.
    """

    amplify: float = 0.5
    epsilon: float = 1e-8

    reads: ClassVar[frozenset[Column]] = frozenset({Column.REFERENCE, Column.BEHAVIOUR})
    learns_from_teacher: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.amplify < 0 or self.epsilon <= 0:
            raise ValueError(f"amplify must be at least 0 and epsilon above 0, not {self.amplify} and {self.epsilon}")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64."""
        trajectory, ratio = batch.occurrences.trajectory, _log_ratio(batch, recorded(batch, "reference"))
        size = ratio.abs()
        total = segment_sum(size, trajectory, batch.trajectories)[trajectory]
        before = total - suffix_sum(size, trajectory, batch.trajectories)
        weight = 1 + self.amplify * (1 - before / total.clamp(min=self.epsilon))
        return replace(batch.occurrences, advantage=weight * ratio)


def _log_ratio(batch: Batch, teacher: Tensor) -> Tensor:
    """log q - log p_old at each occurrence, `[E]` float64; 0 where it does not count."""
    occurrences = batch.occurrences
    ratio = (teacher - anchor(batch)).double()[occurrences.decision]
    return torch.where(occurrences.weight != 0, ratio, torch.zeros_like(ratio))


# ------------------------------------------------------------ whose text

Writer = Literal["data", "teacher"]


@dataclass(frozen=True)
class DistillationText(Rollout):
    """`samples` answers per scenario, the student's own with probability `student`, else somebody else's.

    The draw is made per scenario and step (in the paper per batch: GKD, arXiv 2306.13649, algorithm 1). Somebody else's
    answers are imposed, so they have no behaviour log-probs: of `data` the scenario's demonstration, else its answer;
    of the `teacher` what it samples now, by the run's decoding. Answers that the teacher did not finish are left out.

    Attributes:
        student: lambda, in [0, 1].
        other: who writes the rest.
        metrics: `teacher/student`, the share of scenarios that the student answers; `teacher/unfinished` answers.

    Raises:
        ConfigurationError: on a call, for a scenario without demonstration or answer where data are asked for, and for
            a teacher whose answer takes several turns.
    """

    samples: int = 4
    student: float = 0.5
    other: Writer = "data"

    def __post_init__(self) -> None:
        if self.samples < 1 or not 0 <= self.student <= 1:
            raise ValueError(f"samples must be at least 1 and student in [0, 1], not {self.samples} and {self.student}")
        if self.other not in get_args(Writer):
            raise ValueError(f"other is {self.other!r}; choose from {', '.join(get_args(Writer))}")

    @property
    def plays_reference(self) -> bool:
        """Whether the teacher writes."""
        return self.student < 1 and self.other == "teacher"

    @property
    def learns_from_teacher(self) -> bool:
        """Whether the teacher writes, so that a run without one imitates itself, which it says."""
        return self.plays_reference

    @property
    def replays(self) -> Example | None:
        """Demonstrations, where nothing is ever sampled."""
        return Example.DEMONSTRATION if self.student == 0 and self.other == "data" else None

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
        """Scored trajectories in the order asked; the teacher's own samples are discarded, their text is replayed."""
        draws = [float(key.derive("student", asking.scenario.id).numpy().random()) for asking in asked]
        mine = [asking for asking, draw in zip(asked, draws, strict=True) if draw < self.student]
        others = [asking for asking, draw in zip(asked, draws, strict=True) if draw >= self.student]
        taught, discarded = others, list[Trajectory]()
        if self.other == "teacher" and others:
            discarded = await play(
                [replace(asking, samples=self.samples, actor="reference", source="baseline") for asking in others]
            )
            taught = [_imitating(asking, answer) for asking, answer in _answers(others, discarded)]
        else:
            taught = [replace(each, scenario=demonstrated(each.scenario), samples=self.samples) for each in others]
        played = [replace(asking, samples=self.samples) for asking in mine]
        trajectories = await play([*played, *(replace(asking, source="expert") for asking in taught)])
        await score([*trajectories, *discarded])
        metrics = {"teacher/student": len(mine) / max(1, len(asked))}
        if self.plays_reference:
            metrics["teacher/unfinished"] = float(len(discarded) - len(taught))
        return Experience(trajectories, discarded, metrics)


def _answers(asked: Sequence[Assignment], played: Sequence[Trajectory]) -> list[tuple[Assignment, Trajectory]]:
    """Every finished answer with the assignment that it answers."""
    by_id = {asking.scenario.id: asking for asking in asked}
    finished = (answer for answer in played if answer.failure is None and answer.terminated)
    return [(by_id[answer.scenario.id], answer) for answer in finished]


def _imitating(asking: Assignment, answer: Trajectory) -> Assignment:
    """The assignment that imposes an answer's text as its one sample."""
    if len(answer.turns) != 1:
        raise ConfigurationError(
            f"the teacher's answer to scenario {asking.scenario.id!r} has {len(answer.turns)} turns, and a "
            "teacher writes answers of one turn; set rollout.student = 1, so that the teacher reads only"
        )
    metadata = {**asking.scenario.metadata, "demonstration": answer.turns[0].text}
    scenario = replace(asking.scenario, metadata=metadata)
    return replace(asking, scenario=scenario, samples=1, first=asking.first + answer.sample)


# ------------------------------------------------------------ recipes

TEACHER = {
    "teacher": "the learner's reference: `--teacher MODEL`, or a run; it has the student's tokenizer",
    "temperature": "student and teacher at the decoding's temperature",
}

GKD = Recipe(
    name="gkd",
    title="Generalised knowledge distillation",
    source="Agarwal et al., On-Policy Distillation of Language Models, arXiv:2306.13649",
    family="distillation",
    axes=("objective", "data"),
    formula="L = 1/sum_i n_i sum_i sum_t beta KL(q || m) + (1 - beta) KL(p || m),  m = (1 - beta) p + beta q",
    conventions={
        **COMMON,
        **TEACHER,
        "aggregation": "mean over all decisions of the batch",
        "beta": "0.5 (objective.divergence.beta); 0 is forward, 1 reverse KL",
        "lambda": "0.5 (rollout.student): the student writes half of the answers, the data the other half; drawn per "
        "scenario, in the paper per batch",
        "gradient": "of the divergence at each decision; the text is held fixed, as in the paper",
    },
    rollout=DistillationText(student=0.5),
    credit=Uniform(),
    objective=Distillation(),
)


KD_SFT = SFT.but(
    name="kd-sft",
    title="Word-level distillation on data",
    source="Hinton et al., arXiv:1503.02531; for text Sanh et al., arXiv:1910.01108",
    family="distillation",
    formula="L = 1/sum_i n_i sum_i sum_t KL(q || p)",
    conventions={
        **SFT.conventions,
        **TEACHER,
        "labels": "not read; the teacher's distribution at each of their tokens",
    },
    rollout=Demonstrations(),
    objective=Distillation(JensenShannon(beta=0.0)),
)


SEQ_KD = SFT.but(
    name="seq-kd",
    title="Sequence-level distillation: supervised fine-tuning on the teacher's answers",
    source="Kim and Rush, arXiv:1606.07947",
    family="distillation",
    formula="L = -1/sum_i n_i sum_i sum_t log p(a_it),  a_i ~ q",
    conventions={
        **SFT.conventions,
        **TEACHER,
        "answers": "sampled by the teacher in every step, 4 per prompt; the paper takes the best of its beam once",
    },
    rollout=DistillationText(student=0.0, other="teacher"),
)


ON_POLICY_DISTILLATION = Recipe(
    name="on-policy-distillation",
    title="On-policy distillation: the teacher's log-ratio as the reward of each token",
    source="Lu and Thinking Machines Lab 2025, On-Policy Distillation, doi:10.64434/tml.20251026, and its code",
    family="distillation",
    axes=("credit",),
    formula="A_it = log q(a_it) - log p_old(a_it),  L = -1/sum_i n_i sum_i sum_t r_it A_it",
    conventions={
        **RATIO,
        **TEACHER,
        "aggregation": "mean over all decisions of the batch; the authors sum",
        "discount": "0: a token has its own ratio alone (credit.gamma)",
        "clipping side": "none",
        "reward": "not read",
        "samples": "4 per prompt; nothing is compared within a group",
    },
    rollout=Independent(samples=4),
    credit=TeacherLogRatio(),
    objective=ClippedSurrogate(low=1.0, high=1e6, aggregate="token-mean"),
)


ON_POLICY_DISTILLATION_EXACT = GKD.but(
    name="on-policy-distillation-exact",
    title="On-policy distillation by the reverse KL over all tokens",
    source="Agarwal et al., arXiv:2306.13649, with beta = 1 and lambda = 1",
    formula="L = 1/sum_i n_i sum_i sum_t KL(p || q),  a_i ~ p",
    conventions={**GKD.conventions, "beta": "1", "lambda": "1: the student writes everything"},
    rollout=Independent(samples=4),
    objective=Distillation(JensenShannon(beta=1.0)),
)


IW_OPD = ON_POLICY_DISTILLATION.but(
    name="iw-opd",
    title="Importance-weighted on-policy distillation",
    source="TRL 1.16, IWOPDTrainer",
    formula="A_it = w_it (log q - log p_old),  w_it = 1 + gamma (1 - sum_{k<t} |r_ik| / sum_k |r_ik|),  "
    "L = -1/sum_i n_i sum_i sum_t A_it log p(a_it)",
    conventions={
        **ON_POLICY_DISTILLATION.conventions,
        "aggregation": "mean over all decisions of the batch",
        "discount": "none",
        "clipping side": "no ratio, so one update per batch",
        "gamma": "0.5 (credit.amplify)",
    },
    credit=PrefixWeightedLogRatio(),
    objective=PolicyGradient(aggregate="token-mean"),
)


MINILLM = Recipe(
    name="minillm",
    title="MiniLLM: the reverse KL of whole answers",
    source="Gu et al., arXiv:2306.08543, and the authors' code",
    family="distillation",
    axes=("objective", "credit"),
    formula="A_it = 1/(n_i - t) sum_{k>t} (log q(a_ik) - log p_old(a_ik)),  "
    "L = 1/sum_i n_i sum_i sum_t [KL(p || q) - min(r_it A_it, clip(r_it) A_it)]",
    conventions={
        **RATIO,
        **TEACHER,
        "aggregation": "mean over all decisions of the batch",
        "single step": "the exact reverse KL at each decision",
        "long term": "the ratios of later tokens, divided by their number (eq. 7)",
        "clipping side": "both, 0.2",
        "sampling": "the student's own; the paper samples from a mixture with 0.2 of the teacher and weighs it",
        "pretraining loss": "none; the paper adds it on a corpus",
    },
    note="without teacher-mixed sampling and without the language-modelling loss",
    rollout=Independent(samples=4),
    credit=TeacherLogRatio(gamma=1.0, later=True, mean=True),
    objective=ClippedSurrogate(aggregate="token-mean"),
    regularisers=(Distillation(JensenShannon(beta=1.0)),),
)


DISTILLM = GKD.but(
    name="distillm",
    title="DistiLLM: skewed divergences",
    source="Ko et al., arXiv:2402.03898, and the authors' code",
    formula="L = 1/sum_i n_i sum_i sum_t KL(p || alpha p + (1 - alpha) q)",
    conventions={
        **GKD.conventions,
        "beta": "none; alpha = 0.1 (objective.divergence.alpha), the skewed reverse KL. The skewed forward KL is "
        "objective.divergence = {type: hocket.core.divergences.SkewedForward}",
        "lambda": "0.5; the paper raises it while the validation loss does not fall",
    },
    note="the share of the student's own text is constant, and old answers are not used again",
    objective=Distillation(SkewedReverse()),
)
