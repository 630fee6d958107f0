"""Credit per turn: reward-to-go against a baseline, and sums with other credits.

If the policy determines the length of an episode, the set of trajectories that reach a turn depends on earlier
decisions. A baseline over these trajectories is unbiased only if it does not depend on the decision from which it is
subtracted. The theorems in `hocket.lab.theorems.turns` state the effect of each form on the expected gradient.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from hocket.core.batch import Batch, GroupBy, Level, Occurrences
from hocket.core.segments import segment_count, segment_sum, suffix_sum
from hocket.core.signals import REWARD, counted_trajectories, rewards_by_occurrence
from hocket.credit.anchors import alike
from hocket.credit.formulas import centred, scaled
from hocket.credit.group import GroupRelative
from hocket.credit.units import Units, agent_returns, turn_units
from hocket.stages import Credit

Baseline = Literal["others", "mean", "everyone", "none"]


@dataclass(frozen=True)
class TurnRelative(Credit):
    """`A = (g - b) / F` for each turn of an agent: its reward-to-go g against a baseline b of comparable turns.

    `g_t = sum_{k >= t} gamma^(k - t) r_k` over the agent's own turns from this one on; the reward of a whole trajectory
    counts at the agent's last turn. b is taken in the turn's group, by `baseline`:

        others      mean of g over the group's turns in *other* trajectories, 0 without any. It does not depend on the
                    trajectory's own decisions, so with F = 1 the expected gradient is exactly the true one.
        mean        mean of g over the whole group, as in papers. Its expected gradient is shrunk by the turn's own
                    share in the mean. Rarely reached turns, whose groups are small, are shrunk most, and a single turn
                    in its group has credit 0. So the direction is biased, less so with larger groups.
        everyone    sum of g over the group divided by all G trajectories of the scenario; trajectories that never reach
                    the turn count as 0. Shrinks every turn that a trajectory visits once by the same (G - 1)/G.
        none        0.

    F is 1, or with `scale` the group's standard deviation plus epsilon. Turns whose weights are all 0 enter no
    statistic and get 0.

    Attributes:
        by: defines the groups of turns. gamma: discount per turn of the agent, in [0, 1].
        similarity: state keys with at least this similarity form a group, see `hocket.credit.anchors`; None requires
            equal keys.
        ddof, epsilon: as in `GroupRelative`.
    """

    by: GroupBy = GroupBy("scenario", "agent", "turn_index")
    baseline: Baseline = "others"
    scale: Literal["std"] | None = None
    gamma: float = 1.0
    similarity: float | None = None
    ddof: int = 1
    epsilon: float = 1e-6

    def __post_init__(self) -> None:
        if self.baseline not in get_args(Baseline):
            raise ValueError(f"baseline is {self.baseline!r}; choose from {', '.join(get_args(Baseline))}")
        if self.scale not in ("std", None):
            raise ValueError(f"scale must be 'std' or null, not {self.scale!r}")
        if not 0 <= self.gamma <= 1:
            raise ValueError(f"gamma must lie in [0, 1], not {self.gamma}")
        if self.by.level is not Level.TURN:
            raise ValueError("turns are compared: by must name a column of turns, such as state or turn_index")
        if self.similarity is not None and ("state" not in self.by.columns or not 0 < self.similarity <= 1):
            raise ValueError("similarity is of state keys: by must name state, and it must lie in (0, 1]")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64."""
        units = turn_units(batch)
        used = units.counted
        grouped = batch if self.similarity is None else alike(batch, self.similarity)
        group, size = units.groups(self.by, grouped)
        value, group = agent_returns(batch, units, self.gamma)[used], group[used]
        credit = value - self._baseline(value, group, size, units.trajectory[used], batch)
        if self.scale == "std":
            middle = centred(value, group, size)
            credit = scaled(credit, middle, group, size, ddof=self.ddof, epsilon=self.epsilon)
        return replace(batch.occurrences, advantage=in_units(credit, units))

    def _baseline(self, value: Tensor, group: Tensor, size: int, trajectory: Tensor, batch: Batch) -> Tensor:
        """The baseline of each member's reward-to-go, `[M]`."""
        if self.baseline == "none":
            return torch.zeros_like(value)
        if self.baseline == "mean":
            return value - centred(value, group, size)
        if self.baseline == "everyone":
            return segment_sum(value, group, size)[group] / _siblings(trajectory, batch)
        same_sum = _own(value, group, trajectory, batch.trajectories)
        same_count = _own(torch.ones_like(value), group, trajectory, batch.trajectories)
        others = segment_count(group, size)[group] - same_count
        total = segment_sum(value, group, size)[group] - same_sum
        return torch.where(others > 0, total / others.clamp(min=1), torch.zeros_like(total))


def _own(values: Tensor, group: Tensor, trajectory: Tensor, trajectories: int) -> Tensor:
    """The sum of `values` over the members of the same group and trajectory, `[M]`."""
    _, pair = torch.unique(group * trajectories + trajectory, return_inverse=True)
    return segment_sum(values, pair, len(values))[pair]


def _siblings(trajectory: Tensor, batch: Batch) -> Tensor:
    """How many trajectories of each member's scenario have a counted turn, `[M]`."""
    present = torch.zeros(batch.trajectories, dtype=torch.bool)
    present[trajectory] = True
    count = segment_count(batch.scenario[present], len(batch.names["scenario"]))
    return count[batch.scenario[trajectory]]


def in_units(credit: Tensor, units: Units) -> Tensor:
    """Credit of counted units as a column of occurrences, `[E]` float64; 0 where a unit does not count."""
    spread = torch.zeros(len(units.counted), dtype=torch.float64)
    spread[units.counted] = credit
    return spread[units.member]


@dataclass(frozen=True)
class EpisodeAndTurn(Credit):
    """`A = A_E + weight A_S`: credit for the whole episode plus credit for the single turn.

    GiGPO (arXiv 2505.10978): the episode against its scenario's others, and each turn against the turns that started
    from the same state, anywhere in the scenario's trajectories. With weight 0 it is `episode` alone.

    Attributes:
        apart: `episode` reads the rewards of whole trajectories alone, `turn` those of turns and decisions alone;
            otherwise both read all.
    """

    episode: Credit = field(default_factory=GroupRelative)
    turn: TurnRelative = field(default_factory=TurnRelative)
    weight: float = 1.0
    apart: bool = False

    def __post_init__(self) -> None:
        if self.episode.pairs:
            raise ValueError("episode yields pairs; set it to a credit that gives advantages")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64."""
        episode, turn = self._read(batch)
        occurrences = self.episode(episode)
        return replace(occurrences, advantage=occurrences.advantage + self.weight * self.turn(turn).advantage)

    def _read(self, batch: Batch) -> tuple[Batch, Batch]:
        """The batch of each of the two credits."""
        if not self.apart:
            return batch, batch
        trajectory = {name: score for name, score in batch.scores.items() if score.level is Level.TRAJECTORY}
        local = {name: score for name, score in batch.scores.items() if score.level is not Level.TRAJECTORY}
        return batch.but(scores=trajectory), batch.but(scores=local)


@dataclass(frozen=True)
class TurnAndOutcome(Credit):
    """A reward for using a tool and one for the answer, each compared on its own: MT-GRPO (arXiv 2505.11821).

    R_O is the reward of the whole trajectory, R_T the sum of its turns' rewards, N(x) = (x - mean)/(std + epsilon) over
    the scenario's trajectories. A trajectory of several turns has called its tool in all but the last. By `form`:

        added       N(R_O) + coefficient N(R_T) before the last turn, N(R_O) in it
        cumulative  N(R_T + gamma R_O) before the last turn, N(R_O) in it

    With more than one turn before the last, each has the turn rewards from it on in place of R_T; trajectories that
    are shorter count 0 there. A trajectory of one turn never called the tool: its credit is N(R_O + coefficient R_T),
    or N(R_T + gamma R_O). (The authors' code weighs that sum by weights of its own; this choice makes coefficient 0
    GRPO on the outcome.) Without `scale`, with coefficient 1, and when the last turn earns nothing of its own, `added`
    is reward-to-go minus its mean over all G trajectories, so the expected gradient is exactly (G - 1)/G times the true
    one however long the policy plays.

    Trajectories whose weights are all 0 enter no statistic and get 0. Rewards of decisions count as their turn's.

    Attributes:
        coefficient: weight of the turns' rewards. gamma: of the outcome, in `cumulative`.
        by: columns of trajectories that are compared. scale, ddof, epsilon: as in `GroupRelative`.
    """

    form: Literal["added", "cumulative"] = "added"
    coefficient: float = 1.0
    gamma: float = 1.0
    by: GroupBy = GroupBy("scenario")
    scale: Literal["std"] | None = "std"
    ddof: int = 1
    epsilon: float = 1e-6

    least_samples: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if self.form not in ("added", "cumulative"):
            raise ValueError(f"form must be added or cumulative, not {self.form!r}")
        if self.scale not in ("std", None):
            raise ValueError(f"scale must be 'std' or null, not {self.scale!r}")
        if self.by.level is Level.TURN:
            raise ValueError("whole trajectories are compared: by may not name a column of turns")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64."""
        units = turn_units(batch)
        outcome, to_go = _outcomes(batch), _earned_to_go(batch, units)
        number = _number_in_trajectory(units)
        turns = segment_count(units.trajectory, batch.trajectories)
        at_start = torch.zeros(batch.trajectories, dtype=torch.float64)
        at_start[units.trajectory[number == 0]] = to_go[number == 0]
        alone = self._normalised(self._joint(outcome, at_start), batch)
        final = self._normalised(outcome, batch)
        credit = torch.where((turns == 1)[units.trajectory], alone[units.trajectory], final[units.trajectory])
        for place in range(int(turns.max()) - 1 if len(turns) else 0):
            mask = number == place
            early = mask & (turns[units.trajectory] > place + 1)
            rewards = torch.zeros(batch.trajectories, dtype=torch.float64)
            rewards[units.trajectory[mask]] = to_go[mask]
            if self.form == "added":
                bonus = self.coefficient * self._normalised(rewards, batch)
                credit[early] += bonus[units.trajectory[early]]
            else:
                credit[early] = self._normalised(self._joint(outcome, rewards), batch)[units.trajectory[early]]
        return replace(batch.occurrences, advantage=torch.where(units.counted, credit, 0.0)[units.member])

    def _joint(self, outcome: Tensor, turns: Tensor) -> Tensor:
        return outcome + self.coefficient * turns if self.form == "added" else turns + self.gamma * outcome

    def _normalised(self, values: Tensor, batch: Batch) -> Tensor:
        """`N(x)` over the trajectories that count, `[N]`."""
        groups, used = self.by(batch), counted_trajectories(batch)
        index = groups.index[used]
        middle = centred(values[used], index, groups.size)
        if self.scale == "std":
            middle = scaled(middle, middle, index, groups.size, ddof=self.ddof, epsilon=self.epsilon)
        column = torch.zeros_like(values)
        column[used] = middle
        return column


def _outcomes(batch: Batch) -> Tensor:
    """The reward of each whole trajectory, `[N]` float64."""
    name = REWARD[Level.TRAJECTORY]
    nothing = torch.zeros(batch.trajectories, dtype=torch.float64)
    return batch.scores[name].values.double() if name in batch.scores else nothing


def _earned_to_go(batch: Batch, units: Units) -> Tensor:
    """What turns and decisions earned from each visit on, the reward of the whole trajectory aside, `[M]`."""
    local = {name: score for name, score in batch.scores.items() if name != REWARD[Level.TRAJECTORY]}
    earned = segment_sum(rewards_by_occurrence(batch.but(scores=local)), units.member, len(units.counted))
    return suffix_sum(earned, units.trajectory, batch.trajectories)


def _number_in_trajectory(units: Units) -> Tensor:
    """The place of each visit among its trajectory's, `[M]` from 0."""
    counts = segment_count(units.trajectory, int(units.trajectory.max()) + 1 if len(units.trajectory) else 0)
    starts = torch.cumsum(counts, 0) - counts
    return torch.arange(len(units.trajectory)) - starts[units.trajectory]
