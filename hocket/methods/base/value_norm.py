"""MAPPO and HAPPO with normalised values and Huber's loss, as their authors' code has them (ValueNorm).

The critic predicts returns less a running mean, over a running deviation, so its task does not change with the scale of
rewards (`NormalisedValues`; PopArt without the rescaling of the last layer, arXiv:1602.07714). Its loss is a clipped
Huber loss (`HuberValueLoss`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from hocket.core.batch import Batch, Occurrences
from hocket.core.errors import HocketError
from hocket.credit.gae import GAE
from hocket.methods.base.happo import HAPPO
from hocket.methods.base.mappo import MAPPO
from hocket.objectives.central import CentralValueLoss
from hocket.objectives.entropy import EntropyBonus
from hocket.stages import Credit, State
from hocket.types import Evaluation, Quantity, Terms


@dataclass(frozen=True)
class NormalisedValues(Credit):
    """Credit from values in units of returns, and targets in units of the critic: mean 0 and deviation 1.

    Stateful: running means of the targets and their squares, each corrected for its start at 0. A step's values are
    read by the statistics before it; then its targets enter, and are normalised by the statistics after.

    Attributes:
        of: the credit. rate: of the running means, in [0, 1). floor: the least variance. epsilon: the least correction.
    """

    of: Credit = field(default_factory=GAE)
    rate: float = 0.99999
    floor: float = 1e-2
    epsilon: float = 1e-5

    def __post_init__(self) -> None:
        if not 0 <= self.rate < 1 or self.floor <= 0 or self.epsilon <= 0:
            raise ValueError(
                f"rate must lie in [0, 1), floor and epsilon above 0, not {self.rate}, {self.floor}, {self.epsilon}"
            )

    def init(self) -> State:
        """Nothing is known: the mean is 0, the variance the floor."""
        return {"mean": 0.0, "square": 0.0, "weight": 0.0}

    def scale(self, state: State) -> tuple[float, float]:
        """The mean and the deviation of targets."""
        weight = max(float(state["weight"]), self.epsilon)
        mean = float(state["mean"]) / weight
        return mean, max(float(state["square"]) / weight - mean**2, self.floor) ** 0.5

    def __call__(self, batch: Batch, state: State) -> tuple[Occurrences, State]:  # type: ignore[override]
        """The occurrences with advantages and normalised targets `[E]` float64, and the statistics after this step."""
        mean, deviation = self.scale(state)

        def returned(values: Tensor | None) -> Tensor | None:
            return None if values is None else values.double() * deviation + mean

        credit = self.of(batch.but(value=returned(batch.value), final_value=returned(batch.final_value)))
        if credit.target is None:
            raise HocketError("NormalisedValues needs a credit that gives targets, such as hocket.credit.GAE")
        counted = credit.target[credit.weight != 0]
        if len(counted):
            keep, add = self.rate, 1 - self.rate
            state = {
                "mean": keep * state["mean"] + add * float(counted.mean()),
                "square": keep * state["square"] + add * float(counted.square().mean()),
                "weight": keep * state["weight"] + add,
            }
        mean, deviation = self.scale(state)
        return replace(credit, target=(credit.target - mean) / deviation), state


def huber(error: Tensor, delta: float) -> Tensor:
    """Half the square up to `delta`, linear beyond; any shape."""
    size = error.abs()
    return torch.where(size <= delta, error.square() / 2, delta * (size - delta / 2))


@dataclass(frozen=True)
class HuberValueLoss(CentralValueLoss):
    """`CentralValueLoss` with Huber's loss of the error; with `clip`, the larger one of the plain and clipped errors'.

    Attributes:
        delta: the error, in units of the critic, above which the loss is linear.
    """

    coefficient: float = 1.0
    clip: float | None = 0.2
    delta: float = 10.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.delta <= 0:
            raise ValueError(f"delta must be above 0, not {self.delta}")

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        terms, occurrences = super().__call__(now, batch), batch.occurrences
        value = now.get(Quantity.VALUE)[occurrences.decision]
        assert occurrences.target is not None, "the square's loss has refused a batch without targets"
        target = occurrences.target.detach().to(value.dtype)
        loss = huber(target - value, self.delta)
        if self.clip is not None and (old := self._old(batch, value)) is not None:
            near = old + (value - old).clamp(-self.clip, self.clip)
            loss = torch.maximum(loss, huber(target - near, self.delta))
        return replace(terms, value=self.coefficient * loss)


NORMALISED = {
    "values": "the critic's are normalised by running statistics of its targets, once a step, rate 0.99999 (the "
    "authors' code updates them at every mini-batch)",
    "value loss": "Huber's at 10, the larger one of the plain and the clipped error's (0.2), coefficient 1",
}
LOSSES = (HuberValueLoss(aggregate="token-mean"), EntropyBonus(coefficient=0.01))

MAPPO_VALUE_NORM = MAPPO.but(
    name="mappo-value-norm",
    title="MAPPO with normalised values and Huber's loss",
    source="Yu et al., arXiv:2103.01955, and the authors' code (use_valuenorm, use_huber_loss)",
    formula="L = -mean_t min(r_t A_t, clip(r_t) A_t) + mean_t max(h(z_t - V_t), h(z_t - clip(V_t))) - 0.01 mean_t "
    "H_t,  z = (y - m)/s,  A = GAE(gamma, lam) of s V + m",
    conventions={**MAPPO.conventions, **NORMALISED},
    credit=NormalisedValues(of=MAPPO.credit),
    regularisers=LOSSES,
)


HAPPO_VALUE_NORM = HAPPO.but(
    name="happo-value-norm",
    title="HAPPO with normalised values and Huber's loss",
    source="Kuba et al., arXiv:2109.11251, and the authors' code (use_valuenorm, use_huber_loss)",
    formula=HAPPO.formula + ",  V and its loss as mappo-value-norm's",
    conventions={**HAPPO.conventions, **NORMALISED},
    credit=NormalisedValues(of=HAPPO.credit),
    regularisers=LOSSES,
)
