"""A portfolio by actor-critic whose reward is a Sharpe ratio: deep RL for dynamic portfolios on the CSI 300.

A portfolio that is paid its return puts all wealth where the mean is highest. Paid the Sharpe ratio of a window, mean
over deviation, it goes to the tangency portfolio. The paper averages the ratio over windows and does not state what a
single day is paid. `SharpeReward` pays what the day adds: with mean m and deviation s of an episode's returns and
`S = m / s`,

    r'_t = S + (r_t - m) / s - S / 2 ((r_t - m)^2 / s^2 - 1),

the ratio and its influence function at the day. The mean of r' over the episode is S, and its slope in `r_t`, m and s
held, is T times that of S. So credit is by the day and the sum by the window; as an increment over time it is the
differential Sharpe ratio of Moody and Saffell (2001).

The CSI 300 cannot be had as a package: `market:sp500` has 20 US stocks, `market:gaussian` known moments. Weights are a
softmax of the action, and a share of the turnover is lost. The network is a perceptron where the paper's convolves.
"""

from __future__ import annotations

from dataclasses import dataclass

from hocket.core.batch import Batch
from hocket.core.segments import segment_sum
from hocket.core.signals import paid_at_decisions, rewards_by_occurrence
from hocket.methods.base.ppo import PPO
from hocket.stages import Shaping


@dataclass(frozen=True)
class SharpeReward(Shaping):
    """Pays every decision the Sharpe ratio of its trajectory's rewards and the decision's influence on it.

    Mean and deviation (ddof 0) are over the trajectory's decisions of non-zero weight.

    Attributes:
        least: deviations below it count as this, so that rewards that hardly vary earn no huge ratio.
    """

    least: float = 1e-3

    def __post_init__(self) -> None:
        if self.least <= 0:
            raise ValueError(f"least must be above 0, not {self.least}")

    def __call__(self, batch: Batch) -> Batch:
        """The batch with these rewards at its decisions."""
        occurrences = batch.occurrences
        reward, rows = rewards_by_occurrence(batch), batch.trajectories
        used = (occurrences.weight != 0).double()
        count = segment_sum(used, occurrences.trajectory, rows).clamp(min=1)
        mean = segment_sum(reward * used, occurrences.trajectory, rows) / count
        centred = (reward - mean[occurrences.trajectory]) * used
        deviation = (segment_sum(centred**2, occurrences.trajectory, rows) / count).sqrt().clamp(min=self.least)
        ratio, scaled = (mean / deviation)[occurrences.trajectory], centred / deviation[occurrences.trajectory]
        paid = (ratio + scaled - ratio / 2 * (scaled**2 - 1)) * used
        return paid_at_decisions(batch, paid)


DRL_PORTFOLIO = PPO.but(
    name="drl-portfolio-csi300",
    title="Portfolios by actor-critic, paid a Sharpe ratio",
    source="A Deep Reinforcement Learning Framework for Dynamic Portfolio Optimization: Evidence from China's Stock "
    "Market, arXiv:2412.18563",
    catalogue_ids=("drl-portfolio-csi300",),
    axes=("reward", "environment", "policy"),
    formula="as ppo,  r'_t = S + (r_t - m)/s - S/2 ((r_t - m)^2/s^2 - 1),  S = m/s over the episode",
    conventions={
        **PPO.conventions,
        "Sharpe reward": "the ratio of the episode and the day's influence on it; the paper leaves the daily form open",
        "discount": "0 on markets, whose prices no decision moves",
        "network": "a perceptron of the window's returns and the weights; the paper convolves",
        "simplex": "a softmax of a Gaussian action",
    },
    task="market:gaussian",
    shaping=(SharpeReward(),),
)
