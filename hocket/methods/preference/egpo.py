"""EGPO: a trial step, then the step from the old weights against the policy that the trial led to.

Zhou, Fazel and Du, arXiv:2503.08942. Online IPO, a regression of log-ratios on win rates against a frozen
opponent, is a step of mirror descent on the game of preferences charged with beta KL, and circles or crawls; taking the
opponent from a trial step makes the last iterate converge. `ExtragradientStep` makes both on the same samples, whose
weights stand for the opponent, so that the second opponent is not sampled anew.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from hocket.core.batch import Batch
from hocket.core.columns import WINS
from hocket.core.evaluating import evaluate_detached
from hocket.core.keys import Key
from hocket.credit.group import GroupRelative
from hocket.methods.base.conventions import COMMON
from hocket.methods.base.rloo import RLOO
from hocket.objectives.aggregate import trajectory_sums
from hocket.objectives.ratios import recorded
from hocket.objectives.regression import AdvantageRegression
from hocket.rewards.members import SCENARIO, groups_of
from hocket.rewards.wins import PREFERENCES, WinShare
from hocket.stages import Metrics
from hocket.types import Quantity
from hocket.update.gradient import GradientStep
from hocket.update.problem import Problem
from hocket.update.weights import restored, trained_weights


def win_rates(batch: Batch, logp: Tensor) -> Tensor:
    """P(y > y'), `[N]`, y' of the policy with log-probs `logp` `[T]`: the group's samples, weighted by their ratio to
    who sampled them. An answer ties with itself.

    Raises:
        ConfigurationError: for a batch without the column `WINS`.
    """
    wins, order = WINS.read(batch, "ExtragradientStep"), batch.order.tolist()
    gap = logp.double() - recorded(batch, "behaviour").double()
    weight = trajectory_sums(gap[batch.occurrences.decision], batch)
    rate = torch.full((batch.trajectories,), 0.5, dtype=torch.float64)
    for members in groups_of(batch, SCENARIO):
        told = [[(wins[i] or {}).get(order[j], 0.5) for j in members] for i in members]
        rate[members] = torch.tensor(told, dtype=torch.float64) @ torch.softmax(weight[members], 0)
    return rate


@dataclass(frozen=True)
class ExtragradientStep(GradientStep):
    """A trial update against the policy as it is; then weights go back, and the update against the trial's policy.

    Advantages are win rates against the opponent (`win_rates`); the optimiser's state goes back as well.

    Attributes:
        extra: whether there is a trial; without one it is single-step online IPO.
    """

    extra: bool = True

    def step(self, problem: Problem, key: Key) -> Metrics:
        batch, first = problem.batch, problem.first
        try:
            moved = 0.0
            problem.batch, rate = against(problem, batch)
            if self.extra:
                moments = copy.deepcopy(problem.optimiser.state_dict())
                with restored(trained_weights(problem.optimiser)):
                    super().step(problem, key.derive("trial"))
                    problem.batch, trial = against(problem, batch)
                moved = float((trial - rate).abs().mean())
                problem.optimiser.load_state_dict(moments)
                problem.first = first
            return {**super().step(problem, key), "extragradient/moved": moved}
        finally:
            problem.batch = batch


def against(problem: Problem, batch: Batch) -> tuple[Batch, Tensor]:
    """The batch with win rates against the policy as it is for advantages, and the rates `[N]`."""
    now = evaluate_detached(problem.policy, batch, {Quantity.LOGP}, problem.counted())
    rate = win_rates(batch, now.logp)
    seen = batch.occurrences
    return batch.but(occurrences=replace(seen, advantage=rate[seen.trajectory])), rate


EGPO = RLOO.but(
    name="egpo",
    title="Extragradient Preference Optimisation",
    source="Zhou et al., arXiv:2503.08942; the logit form derived",
    family="preference",
    catalogue_ids=("egpo",),
    axes=("objective", "team", "reward", "update"),
    formula="L(pi; mu) = mean over pairs of (beta (d_i - d_j) - (P(y_i > mu) - P(y_j > mu)))^2,  d = log pi/ref;  "
    "trial: theta' by L(.; pi_t);  theta_{t+1} from theta_t by L(.; pi')",
    conventions={
        **COMMON,
        "aggregation": "log-ratios summed over a trajectory's decisions, mean over trajectories",
        "pairs": "of the group's samples, the regression centred within it, which is the mean over pairs",
        "samples": "the policy's own, where the tabular theory draws answers uniformly",
        "opponent": "the group's samples weighted by pi'/pi_t and normalised; an answer ties with itself, so that "
        "differences are 1/K smaller than against fresh draws",
        "optimiser": "its state goes back with the weights; update.method = sgd is the theory's",
        "beta": "objective.temperature = 0.1",
        **PREFERENCES,
        "group of one": "ties with itself",
        "constant group": "all tie, and are drawn towards the reference",
        "updates per batch": "2, of which the first is taken back",
    },
    shaping=(WinShare(),),
    credit=GroupRelative(by=SCENARIO, scale=None),
    objective=AdvantageRegression(temperature=0.1, centred=True, against="reference", unbiased=True),
    update=ExtragradientStep(),
)
