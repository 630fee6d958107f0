"""IGPO: GRPO with a reward for every turn that makes the right answer likelier (Wang et al., arXiv:2510.14967).

Before each turn the policy is asked how probable it finds the known answer (`WithBeliefs`); the rise is that turn's
reward (`InformationGain`) and the last turn gets the outcome. Rewards are normalised over the scenario, then summed
(`StepRelative` of `hocket.credit.group`); `igpo-unbiased` compares rewards-to-go turn by turn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from hocket.core.batch import Batch, GroupBy, Level, Occurrences
from hocket.core.columns import InfoColumn
from hocket.core.keys import Key
from hocket.core.requirements import Requirement
from hocket.core.segments import segment_std, suffix_sum
from hocket.credit.formulas import centred
from hocket.credit.group import StepRelative
from hocket.credit.turn_level import TurnRelative
from hocket.credit.units import step_units
from hocket.methods.base.conventions import TURNS
from hocket.methods.base.grpo import GRPO
from hocket.rewards.shaping import added
from hocket.rollout.branches import ANSWER
from hocket.stages import (
    Grade,
    LedgerView,
    LogProbScorer,
    More,
    Play,
    Rollout,
    Shaping,
    Tokenizer,
    log_prob_scorer_of,
    tokenizer_of,
)
from hocket.types import Assignment, Experience, Scenario, Trajectory


@dataclass(frozen=True)
class WithBeliefs(Rollout):
    """`samples` trajectories per scenario, and for each turn the belief in the right answer as the turn began.

    IGPO (arXiv 2510.14967): `b = exp( (1/|g|) sum_j log pi(g_j | h, phrase, g_<j) )`, g the tokens of the scenario's
    answer (the first, where several are right) and h all that the agent had seen when the turn began, what the turn
    before it brought included. The response is imposed, never sampled, under the policy that played, at its sampling
    temperature. Column `beliefs` holds them, a list per trajectory in call order; None where nobody could tell (no
    answer, no room in the context, a role that does not learn), and as a whole where the player has no likelihoods.

    Attributes:
        phrase: what is imposed before the answer and not counted.
        measure: `probability`, b itself; or `log`, its logarithm, nats per token.
    """

    samples: int = 8
    phrase: str = ANSWER
    measure: Literal["probability", "log"] = "probability"

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise ValueError(f"samples must be at least 1, not {self.samples}")
        if self.measure not in ("probability", "log"):
            raise ValueError(f"measure must be probability or log, not {self.measure!r}")

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
        """The samples with their beliefs. Metric `rollout/belief` is the mean belief at the last turns."""
        trajectories = await play([replace(assignment, samples=self.samples) for assignment in asked])
        await self._ask(trajectories, log_prob_scorer_of(play), tokenizer_of(play))
        await score(trajectories)
        last = [held[-1] for one in trajectories if (held := BELIEFS.get(one)) and held[-1] is not None]
        return Experience(trajectories, metrics={"rollout/belief": sum(last) / len(last)} if last else {})

    async def _ask(
        self, trajectories: Sequence[Trajectory], scorer: LogProbScorer | None, tokenizer: Tokenizer | None
    ) -> None:
        """Writes the beliefs of every trajectory."""
        for trajectory in trajectories:
            BELIEFS.write(trajectory, None)
        if scorer is None or tokenizer is None:
            return
        lead = tokenizer.encode(self.phrase) if self.phrase else ()
        golds = {one.scenario.id: _gold(one.scenario, tokenizer, lead) for one in trajectories}
        whole = [one for one in trajectories if one.failure is None and golds[one.scenario.id]]
        asked = [(turn, (*lead, *golds[one.scenario.id])) for one in whole for turn in one.turns]
        found = iter(await scorer.likelihood(asked))
        for one in whole:
            BELIEFS.write(one, [self._belief(next(found), len(lead)) for _ in one.turns])

    def _belief(self, logp: NDArray[np.float32] | None, lead: int) -> float | None:
        """What is believed, from the log-probs of the phrase and the answer."""
        if logp is None:
            return None
        mean = float(np.asarray(logp[lead:], np.float64).mean())
        return mean if self.measure == "log" else math.exp(mean)


def _gold(scenario: Scenario, tokenizer: Tokenizer, lead: Sequence[int]) -> tuple[int, ...]:
    """The tokens of a scenario's answer behind `lead`; none where it has no answer."""
    answer: Any = scenario.answer
    if isinstance(answer, (list, tuple)):
        answer = answer[0] if answer else None
    return () if answer is None or str(answer) == "" else tokenizer.encode(str(answer), lead)


def gains(beliefs: Sequence[float | None], agents: Sequence[int]) -> list[float]:
    """What each turn added, `[T]`: the belief when its agent spoke next minus that when it spoke.

    0 for an agent's last turn, whose worth the outcome tells, and where one of the two beliefs is unknown. So an
    agent's gains sum to its last belief minus its first.
    """
    found = [0.0] * len(beliefs)
    last: dict[int, int] = {}
    for place, agent in enumerate(agents):
        if agent in last:
            before, after = beliefs[last[agent]], beliefs[place]
            found[last[agent]] = 0.0 if before is None or after is None else after - before
        last[agent] = place
    return found


@dataclass(frozen=True)
class InformationGain(Shaping):
    """`r_t += weight (b_t - b_{t-1})` for every turn but an agent's last: IGPO (arXiv 2510.14967).

    b_t is the belief in the right answer after turn t and what it led to, as `hocket.rollout.WithBeliefs` measures it
    and writes it into the column `beliefs`. A turn shared by several trajectories keeps the gain of the first.

    Raises:
        ConfigurationError: on a call, without that column.
    """

    weight: float = 1.0

    def __call__(self, batch: Batch) -> Batch:
        known = BELIEFS.read(batch, "InformationGain")
        values = torch.zeros(batch.turns, dtype=torch.float64)
        given = torch.zeros(batch.turns, dtype=torch.bool)
        for number, path in enumerate(_paths(batch)):
            beliefs = known[number]
            if beliefs is None:
                continue
            held = [beliefs[place] if place < len(beliefs) else None for place in batch.index[path].tolist()]
            own = torch.tensor(gains(held, batch.agent[path].tolist()), dtype=torch.float64)
            fresh = ~given[path]
            values[path[fresh]] = own[fresh]
            given[path] = True
        return added(batch, Level.TURN, self.weight * values)


@dataclass(frozen=True)
class GainRelative(StepRelative):
    """`StepRelative` with statistics of its own for every trajectory's last step: outcomes apart from gains.

    IGPO's mode `separate` (the release's `info_gain_norm_mode`): outcomes are compared with outcomes, what was gained
    before with gains, each over the samples of a scenario; then both are summed from each step on.

    Attributes:
        by, scale, ddof, epsilon, gamma: as in `StepRelative`.
        apart: outcomes apart from gains; False is the mode `joint`, `StepRelative` itself but for `floor`.
        floor: added to the variance, besides `epsilon` to the deviation; 1e-8 in the release, which keeps gains that
            differ by less than 1e-4 small.
    """

    ddof: int = 0
    apart: bool = True
    floor: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.floor < 0:
            raise ValueError(f"floor must be at least 0, not {self.floor}")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64."""
        units = step_units(batch)
        used = units.counted
        group, size = units.groups(self.by, batch)
        last = torch.ones(len(used), dtype=torch.bool)
        last[:-1] = units.trajectory[1:] != units.trajectory[:-1]
        if self.apart:
            group, size = 2 * group + last, 2 * size
        group = group[used]
        middle = centred(units.value[used], group, size)
        if self.scale == "std":
            deviation = segment_std(middle, group, size, ddof=self.ddof)
            divisor = (deviation.square() + self.floor).sqrt()[group] + self.epsilon
            middle = torch.where(divisor > 0, middle / divisor, middle)
        credit = torch.zeros(len(used), dtype=torch.float64)
        credit[used] = middle
        to_go = suffix_sum(credit, units.trajectory, batch.trajectories, discount=self.gamma)
        return replace(batch.occurrences, advantage=to_go[units.member])


def _paths(batch: Batch) -> list[torch.Tensor]:
    """The turns of each trajectory in time order."""
    seen = batch.occurrences
    found = []
    for number in range(batch.trajectories):
        turns = batch.turn[seen.decision[seen.trajectory == number]]
        found.append(torch.unique_consecutive(turns))
    return found


BELIEFS = InfoColumn("beliefs", "Per turn the belief in the right answer as the turn began; None where unknown.")


IGPO = GRPO.but(
    name="igpo",
    title="Information Gain-based Policy Optimisation",
    source="Wang et al., arXiv:2510.14967",
    family="agents",
    catalogue_ids=("igpo",),
    axes=("reward", "credit"),
    formula="r_t = b_t - b_{t-1},  b_t = exp(1/|g| sum_j log pi(g_j | h_t, g_<j)),  r_T = R;  "
    "A_t = sum_{k>=t} gamma^(k-t) (r_k - mean r)/(std r + eps)",
    conventions={
        **GRPO.conventions,
        **TURNS,
        "belief": "of the policy that played, at its temperature, after the imposed rollout.phrase; only the answer's "
        "tokens count; detached",
        "several right answers": "the first",
        "order": "rewards are normalised, then summed, as in the authors' code",
        "statistics": "gains and outcomes of all turns of the scenario together; igpo-separate has them apart",
        "a gain of 0": "is a reward of 0; the released code reads it as no reward, so that it enters no mean and its "
        "turn is credited with the next",
        "degrees of freedom": "0: the sum of squares is divided by the number of turns, as in the authors' code",
        "epsilon": "1e-6, added to the standard deviation; the released code adds 1e-8 to the variance too "
        "(credit.floor of igpo-separate)",
        "discount": "credit.gamma = 1 per turn",
        "bias": "the mean is taken away once per turn still to come, so long episodes lose by it however large the "
        "group is; igpo-unbiased subtracts the other trajectories' mean reward-to-go instead",
    },
    task="calculator?digits=5",
    requires=(Requirement.TURNS,),
    rollout=WithBeliefs(samples=8),
    shaping=(InformationGain(),),
    credit=StepRelative(by=GroupBy("scenario"), scale="std", ddof=0),
)


IGPO_SEPARATE = IGPO.but(
    name="igpo-separate",
    title="IGPO with gains and outcomes normalised apart",
    formula="A_t = sum_{k>=t} gamma^(k-t) z_k,  z_k = (r_k - mean r)/(std r + eps), over gains where k < T, over "
    "outcomes at T",
    conventions={
        **IGPO.conventions,
        "statistics": "of gains over all turns but the last of the scenario's samples, of outcomes over the last ones",
    },
    credit=GainRelative(),
)


IGPO_UNBIASED = IGPO.but(
    name="igpo-unbiased",
    title="IGPO against the reward-to-go of the other trajectories that reached the turn",
    formula="A_t = G_t - mean over other trajectories of G_t,  G_t = sum_{k>=t} gamma^(k-t) r_k,  r as in igpo",
    conventions={
        **IGPO.conventions,
        "order": "rewards are summed, then compared turn by turn",
        "statistics": "reward-to-go at the same turn of the other trajectories of the scenario; 0 if none came there",
        "degrees of freedom": "no deviation is taken",
        "epsilon": "none",
        "bias": "none, with sums over decisions: the expected step is the policy gradient",
        "aggregation": "sum over a trajectory's decisions, mean over trajectories",
    },
    credit=TurnRelative(by=GroupBy("scenario", "agent", "turn_index"), baseline="others"),
    **{"objective.aggregate": "sequence-sum"},
)
