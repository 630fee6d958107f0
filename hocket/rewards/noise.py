"""Verdicts of a verifier that errs, corrected for its error rates.

A verifier is a channel on the true verdict r*: `rho0 = P(r = 1 | r* = 0)`, `rho1 = P(r = 0 | r* = 1)`, with
rho0 + rho1 < 1 (Reinforcement Learning with Verifiable yet Noisy Rewards, arXiv 2510.00915).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from hocket.core.columns import InfoColumn
from hocket.core.method_columns import APPEAL
from hocket.signals import REWARD, counted_trajectories
from hocket.stages import Shaping, State
from hocket.types import Batch, Level, LevelScores

FALSE_POSITIVE = InfoColumn("false_positive", "The verifier's rate of accepting wrong answers, here alone.")
FALSE_NEGATIVE = InfoColumn("false_negative", "The verifier's rate of rejecting right answers, here alone.")

Form = Literal["backward", "forward"]


def backward(verdict: Tensor, false_positive: Tensor, false_negative: Tensor) -> Tensor:
    """`(r - rho0) / (1 - rho0 - rho1)`: its mean over the channel is r*. All `[N]`."""
    return (verdict - false_positive) / (1 - false_positive - false_negative)


def forward(verdict: Tensor, false_negative: Tensor) -> Tensor:
    """w(1) = rho1, w(0) = rho1 - 1, that is r - (1 - rho1): its mean is (1 - rho0 - rho1) (r* - 1). All `[N]`.

    So the expected score-function update is the clean one times 1 - rho0 - rho1, without knowing rho0. It differs from
    the verdict by a constant: any centring of rewards within a group removes it where rho1 is constant there.
    """
    return verdict - (1 - false_negative)


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
