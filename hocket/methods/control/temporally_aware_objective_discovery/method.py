"""TA-LPO: a learnt drift that knows how much of training is done (Jackson et al., arXiv:2402.05828).

A learnt objective that does not know when training ends can only be one compromise for its beginning and its end. Here
the network of Learnt Policy Optimisation reads beside its features x(r, A) the same times n / N, the share of updates
that are done (the paper's equation 10, by a public review of it):

    L = -mean_t (r A - f(r, A, n/N)),   f = relu( w . tanh( W [x, n/N x] ) - 1e-6 ),   x(1, A) = 0,

so that f is a drift at every time. log N, which the paper's other objective reads too, is left out, as the paper leaves
it out where one horizon is trained on. Its weights come from evolution strategies on what is earned at the end of whole
runs (`python -m hocket.methods.control.temporally_aware_objective_discovery.lifetimes`); the gradient of a few updates
finds no schedules, says the paper.

`TimedDrift` is the drift. `BLIND` has the weights of a network that is not told the time, found at equal cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from torch import Tensor

from hocket.methods.control.temporally_aware_objective_discovery.timed_drift import read_timed_drift, timed_drift
from hocket.methods.group_relative.discovered_policy_optimisation import LPO
from hocket.objectives.drift import Drift, DriftSurrogate

TIMED = Path(__file__).with_name("timed_drift.json")
"""What `python -m hocket.methods.control.temporally_aware_objective_discovery.lifetimes` found."""

BLIND = Path(__file__).with_name("blind_drift.json")
"""What it found with `--blind`, at equal cost."""


@dataclass(frozen=True)
class TimedDrift(Drift):
    """The drift of a network that is told the time; see `timed_drift`. Computed in float64.

    `file` is a JSON file that `python -m hocket.methods.control.temporally_aware_objective_discovery.lifetimes --out
    FILE` wrote; None takes the shipped parameters.
    """

    file: str | None = None

    power: ClassVar[int] = 1
    regardless_of_advantage: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _ = self.weights  # A missing or damaged file shows at once.

    @property
    def weights(self) -> tuple[Tensor, Tensor]:
        """`inner` `[16, H]` and `outer` `[H]`, float64."""
        return read_timed_drift(str(TIMED) if self.file is None else self.file)

    def __call__(self, log_ratio: Tensor, advantage: Tensor, progress: float) -> Tensor:
        inner, outer = (weight.to(log_ratio.device) for weight in self.weights)
        return timed_drift(log_ratio.double(), advantage.double(), progress, inner, outer).to(log_ratio.dtype)


TA_LPO = LPO.but(
    name="temporally-aware-objective-discovery",
    title="TA-LPO: a learnt drift that knows how much of training is done",
    source="Jackson et al., Discovering Temporally-Aware Reinforcement Learning Algorithms, arXiv:2402.05828",
    catalogue_ids=("temporally-aware-objective-discovery",),
    formula="L = -mean_t (r A - f(r, A, n/N)) + 1/2 mean_t (V - y)^2,  f = relu(w . tanh(W [x, n/N x]) - 1e-6),  "
    "x(1, A) = 0",
    conventions={
        **LPO.conventions,
        "n / N": "0 in the first step of a run and 1 in the last",
        "parameters": "136 weights, found on runs of 20 batches on two-state bandits; the paper's come from robots, "
        "and its other objective (TA-LPG, a recurrent network that also reads log N) is not here",
    },
    note="its schedule is found, but the small search here finds none that earns more than a network that is not told "
    "the time, and on CartPole one run of two stays far below PPO's; of the paper's two objectives one is here",
    objective=DriftSurrogate(drift=TimedDrift(), aggregate="token-mean"),
)
