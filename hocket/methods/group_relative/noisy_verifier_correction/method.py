"""GRPO corrected for a verifier with known or estimated error rates (arXiv:2510.00915).

`NoiseCorrection` maps the verdict so that its mean is the true one's (backward) or points the same way (forward, needs
the false-negative rate alone); the appeals variant estimates that rate by a second judge on some rejections
(`WithAppeals`, `AppealedCorrection`). No deviation is divided by, as it would cancel the correction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from torch import Tensor

from hocket.core import sums
from hocket.core.batch import Batch, Level, LevelScores
from hocket.core.columns import InfoColumn
from hocket.core.keys import Key
from hocket.core.signals import REWARD, counted_trajectories
from hocket.credit.reinforce import ReturnToGo
from hocket.methods.base.grpo import GRPO, UNSCALED
from hocket.methods.group_relative.noisy_verifier_correction.noise import backward, forward
from hocket.rewards.verifiers import ExactMatch
from hocket.rollout.dynamic import total
from hocket.stages import Grade, LedgerView, More, Play, Reward, Rollout, Shaping, State
from hocket.types import Assignment, Experience, Trajectory


@dataclass(frozen=True)
class WithAppeals(Rollout):
    """Independent samples, of whose rejected ones a second judge re-checks a share (arXiv 2510.00915).

    Rejected is a trajectory whose scores sum to less than `accept`. Each is re-checked with probability `share`, its
    own draw; the judge's verdict stands in `info["appeal"]`, None where it was not asked or had no opinion. Rewards
    stay as they are. Metrics count appeals and those upheld.

    Attributes:
        samples: trajectories of every scenario. judge: any reward whose verdict is 0 or 1; None asks nobody.
        share: probability of a re-check. accept: from which total score on an answer counts as accepted.
    """

    samples: int = 8
    judge: Reward | None = None
    share: float = 0.25
    accept: float = 0.5

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise ValueError(f"samples must be at least 1, not {self.samples}")
        if not 0 <= self.share <= 1:
            raise ValueError(f"share must lie in [0, 1], not {self.share}")

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
        """The samples, some with an appeal."""
        trajectories = await play([replace(assignment, samples=self.samples) for assignment in asked])
        await score(trajectories)
        chosen = [one for one in trajectories if self._appeals(one, key.derive("appeal"))]
        heard = await self.judge(chosen, key=key.derive("judge")) if self.judge is not None and chosen else []
        for trajectory in trajectories:
            APPEAL.write(trajectory, None)
        for trajectory, verdict in zip(chosen, heard, strict=False):
            APPEAL.write(trajectory, verdict)
        upheld = sum(verdict is not None and verdict >= 0.5 for verdict in heard)
        return Experience(trajectories, metrics={"appeals": float(len(heard)), "appeals/upheld": float(upheld)})

    def _appeals(self, trajectory: Trajectory, key: Key) -> bool:
        if trajectory.failure is not None or sums.total(map(total, trajectory.scores.values())) >= self.accept:
            return False
        draw = key.derive(trajectory.scenario.id, trajectory.source, trajectory.sample).numpy().random()
        return bool(draw < self.share)


FALSE_POSITIVE = InfoColumn("false_positive", "The verifier's rate of accepting wrong answers, here alone.")
FALSE_NEGATIVE = InfoColumn("false_negative", "The verifier's rate of rejecting right answers, here alone.")


Form = Literal["backward", "forward"]


def corrected(form: Form, verdict: Tensor, false_positive: Tensor, false_negative: Tensor) -> Tensor:
    """One of the two."""
    return backward(verdict, false_positive, false_negative) if form == "backward" else forward(verdict, false_negative)


def with_verdicts(batch: Batch, values: Tensor) -> Batch:
    """The batch with another combined reward of trajectories."""
    return batch.but(scores={**batch.scores, REWARD[Level.TRAJECTORY]: LevelScores(Level.TRAJECTORY, values)})


def check_form(form: str) -> None:
    """Refuses an unknown form with a `ValueError`."""
    if form not in get_args(Form):
        raise ValueError(f"form must be backward or forward, not {form!r}")


def check_rates(false_positive: float, false_negative: float) -> None:
    """Refuses rates that are no probabilities, or of a verifier no better than chance, with a `ValueError`."""
    if min(false_positive, false_negative) < 0 or false_positive + false_negative >= 1:
        raise ValueError(
            "false_positive and false_negative must be at least 0 and sum to less than 1, not "
            f"{false_positive} and {false_negative}"
        )


@dataclass(frozen=True)
class NoiseCorrection(Shaping):
    """The combined reward of a trajectory, 0 or 1, corrected for known error rates: backward or forward.

    A trajectory whose `batch.info` (or scenario's metadata) tells `false_positive` or `false_negative` has its own
    rates. With rates that are constant in a group both maps are affine there: a group's deviation removes the backward
    one entirely, its mean the forward one.

    Attributes:
        form: `backward`, (r - rho0)/(1 - rho0 - rho1), or `forward`, r - (1 - rho1).
        false_positive, false_negative: rho0 and rho1 of trajectories that tell none.
    """

    form: Form = "backward"
    false_positive: float = 0.1
    false_negative: float = 0.1

    def __post_init__(self) -> None:
        check_form(self.form)
        check_rates(self.false_positive, self.false_negative)

    def __call__(self, batch: Batch) -> Batch:
        rates = []
        for column in (FALSE_POSITIVE, FALSE_NEGATIVE):
            own = [getattr(self, column.name) if one is None else float(one) for one in column.or_metadata(batch)]
            rates.append(torch.tensor(own, dtype=torch.float64))
        for pair in zip(*(rate.tolist() for rate in rates), strict=True):
            check_rates(*pair)
        return with_verdicts(batch, corrected(self.form, batch.scores[REWARD[Level.TRAJECTORY]].values, *rates))


def true_share(said: float, false_positive: float, false_negative: float) -> float:
    """The share of right answers when a judge with these error rates says `said`, in [0, 1]."""
    return min(1.0, max(0.0, (said - false_positive) / (1 - false_positive - false_negative)))


def false_negative_rate(accepted: float, rejected: float, right: float, false_positive: float = 0.0) -> float:
    """rho1 of a verifier from counts, when a share `right` of what it rejected is right after all.

    With C right answers among N: `rejected * right = rho1 C` and `accepted = (1 - rho1) C + rho0 (N - C)`, so
    `C = (accepted + rejected right - rho0 N) / (1 - rho0)`. Derived here; with rho0 = 0 it is FN / (FN + accepted).
    """
    wronged = rejected * right
    number = (accepted + wronged - false_positive * (accepted + rejected)) / (1 - false_positive)
    return min(1.0, wronged / number) if number > 0 else 0.0


@dataclass(frozen=True)
class AppealedCorrection(Shaping):
    """A correction whose rho1 is estimated on the way: a second judge re-checks a sample of what was rejected.

    Reads `appeal` of every trajectory (the judge's verdict, None where it was not asked; the rollout `WithAppeals`
    writes it). Stateful: counts of accepted and rejected answers and of appeals, which fade by `momentum` per step;
    the batch's own appeals count before it is corrected. Until `least` appeals were heard rho1 is `initial`. The
    estimate is cut to what keeps 1 - rho0 - rho1 at least 0.05.

    Attributes:
        form, false_positive: as in `NoiseCorrection`; the forward form uses rho0 for the estimate alone.
        initial: rho1 before. least: appeals wanted.
        momentum: 1 counts all steps alike, less forgets.
        judge_false_positive, judge_false_negative: error rates of the judge itself, which the estimate allows for.
    """

    form: Form = "forward"
    false_positive: float = 0.0
    initial: float = 0.0
    least: int = 16
    momentum: float = 1.0
    judge_false_positive: float = 0.0
    judge_false_negative: float = 0.0

    def __post_init__(self) -> None:
        check_form(self.form)
        check_rates(self.false_positive, self.initial)
        check_rates(self.judge_false_positive, self.judge_false_negative)
        if not 0 < self.momentum <= 1:
            raise ValueError(f"momentum must lie in (0, 1], not {self.momentum}")

    def init(self) -> State:
        """Nothing was counted."""
        return {"accepted": 0.0, "rejected": 0.0, "appeals": 0.0, "upheld": 0.0}

    def __call__(self, batch: Batch, state: State) -> tuple[Batch, State]:  # type: ignore[override]
        verdict, used = batch.scores[REWARD[Level.TRAJECTORY]].values, counted_trajectories(batch)
        accepted = used & (verdict >= 0.5)
        heard = [float(said) for said in APPEAL.or_metadata(batch) if said is not None]
        new = {
            "accepted": float(accepted.sum()),
            "rejected": float((used & ~accepted).sum()),
            "appeals": float(len(heard)),
            "upheld": float(sum(said >= 0.5 for said in heard)),
        }
        state = {name: self.momentum * state[name] + new[name] for name in new}
        rate = torch.full_like(verdict, self.estimate(state))
        changed = corrected(self.form, verdict, torch.full_like(verdict, self.false_positive), rate)
        return with_verdicts(batch, changed), state

    def estimate(self, state: State) -> float:
        """rho1 from what was counted."""
        if state["appeals"] < max(1, self.least):
            return self.initial
        right = true_share(state["upheld"] / state["appeals"], self.judge_false_positive, self.judge_false_negative)
        rate = false_negative_rate(state["accepted"], state["rejected"], right, self.false_positive)
        return max(0.0, min(rate, 0.95 - self.false_positive))


APPEAL = InfoColumn("appeal", "The judge's verdict on an appeal; None if not asked or without an opinion.")


NOISY_VERIFIER = GRPO.but(
    name="noisy-verifier-correction",
    title="Backward correction of a noisy verifier",
    source="Reinforcement Learning with Verifiable yet Noisy Rewards under Imperfect Verifiers, arXiv:2510.00915",
    catalogue_ids=("noisy-verifier-correction",),
    axes=("reward", "objective", "analysis"),
    formula="r_hat = (r - rho0)/(1 - rho0 - rho1),  A_i = r_hat_i - mean_g r_hat",
    conventions={
        **UNSCALED,
        "scale": "none: a group's deviation would cancel the correction exactly where rates are constant in a group",
        "rates": "shaping.0.false_positive and .false_negative, 0.1 until told; answers may tell their own",
    },
    shaping=(NoiseCorrection("backward", false_positive=0.1, false_negative=0.1),),
    **{"credit.scale": None},
)


NOISY_VERIFIER_FORWARD = NOISY_VERIFIER.but(
    name="noisy-verifier-forward",
    title="Forward correction of a noisy verifier",
    catalogue_ids=("noisy-verifier-correction",),
    formula="w(1) = rho1, w(0) = rho1 - 1 in place of the advantage; E[w | r*] = (1 - rho0 - rho1)(r* - 1)",
    conventions={
        **NOISY_VERIFIER.conventions,
        "scale": "no baseline, no deviation: w is r - (1 - rho1), so any centring within a group would cancel it",
        "constant group": "no statistic is taken: right answers of such a group get rho1, wrong ones rho1 - 1",
        "group of one": "as any other",
    },
    shaping=(NoiseCorrection("forward", false_positive=0.1, false_negative=0.1),),
    credit=ReturnToGo(),
)


NOISY_VERIFIER_APPEALS = NOISY_VERIFIER_FORWARD.but(
    name="noisy-verifier-appeals",
    title="Forward correction with the false-negative rate estimated by appeals",
    catalogue_ids=("noisy-verifier-correction",),
    formula="rho1 = FN/(FN + accepted), FN = rejected x share of re-checked rejections that a second judge upholds",
    conventions={
        **NOISY_VERIFIER_FORWARD.conventions,
        "rates": "rho0 = 0 (shaping.0.false_positive); rho1 = 0 until 16 appeals were heard, then by counts of the run",
        "judge": "the last number equals the answer, whatever the form (rollout.judge); it re-checks a quarter",
    },
    rollout=WithAppeals(samples=8, judge=ExactMatch("number"), share=0.25),
    shaping=(AppealedCorrection("forward"),),
)
