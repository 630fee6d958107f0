"""Kimi k1.5: policy optimisation as regression on rewards (Kimi Team, arXiv:2501.12599).

The log-ratio to the old policy is fitted to the centred return (`AdvantageRegression` of
`hocket.objectives.regression`) instead of being clipped; length is scored within the group after a warm-up
(`SpreadLength`), and scenarios that fail often are asked more (`ByFailure`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from hocket.core.batch import Batch, GroupBy, Level
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key
from hocket.core.occurrences import OccurrenceIds
from hocket.core.posterior import Outcomes
from hocket.core.signals import RIGHT, counted_trajectories, right
from hocket.credit.pairs import ShortestAgainstLonger
from hocket.curriculum.difficulty_stages import Staged
from hocket.curriculum.pool import at_least_one
from hocket.curriculum.scenario_worth import Value, Weighted
from hocket.methods.base.conventions import CENTRED
from hocket.methods.base.dpo import ONLINE_DPO
from hocket.methods.base.grpo import GRPO
from hocket.objectives.regression import AdvantageRegression
from hocket.rewards.lengths import spread_length
from hocket.rewards.shaping import added
from hocket.rollout.branches import continued
from hocket.rollout.groups import groups
from hocket.rollout.remembering import RememberingRollout
from hocket.rollout.replay_store import restored, told_of, written
from hocket.stages import Curriculum, Grade, LedgerView, More, Play, Shaping, State, Task
from hocket.types import Assignment, Decoding, Experience, Scenario, Trajectory


@dataclass(frozen=True)
class FailureRate(Value):
    """`floor + 1 - s`, s the mean of the last `window` groups' rewards, cut to [0, 1]; 0 before the first."""

    floor: float = 0.05
    window: int = 4

    def __call__(self, outcomes: Outcomes, rewards: Sequence[float]) -> float:
        known = rewards[-self.window :]
        return self.floor + 1 - (float(np.clip(np.mean(known), 0.0, 1.0)) if known else 0.0)


@dataclass(frozen=True)
class ByFailure(Curriculum):
    """Prioritised sampling: with probability proportional to `1 - s`, s a scenario's success rate so far (Kimi k1.5).

    Drawn as `hocket.curriculum.Weighted` says, by `FailureRate`.

    Attributes:
        prompts: scenarios per step. pool: how many scenarios take part, as there.
        floor: added to `1 - s`, so that solved scenarios come back now and then. window: past groups that count.
    """

    prompts: int = 16
    pool: int | None = None
    floor: float = 0.05
    window: int = 4
    _drawn: Weighted = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        at_least_one(prompts=self.prompts, pool=self.pool, window=self.window)
        if self.floor <= 0:
            raise ValueError(f"floor must be positive, not {self.floor}")
        # One for all steps, as it keeps what it found.
        drawn = Weighted(FailureRate(self.floor, self.window), self.prompts, self.pool)
        object.__setattr__(self, "_drawn", drawn)

    def __call__(self, task: Task, asked: int, count: int, ledger: LedgerView, key: Key) -> list[Scenario]:
        return self._drawn(task, asked, count, ledger, key)


@dataclass(frozen=True)
class EasyToHard(Staged):
    """Scenarios in stages by a difficulty that they tell, the easiest first, then `ByFailure` (Kimi k1.5, 2.3.4).

    Attributes:
        label: the metadata that tells it, a number; in a file, a column.

    Raises:
        ConfigurationError: on a call, for a scenario whose label is no number.
    """

    then: Curriculum | None = ByFailure()
    label: str = "difficulty"

    @property
    def reads_metadata(self) -> frozenset[str]:
        return super().reads_metadata | {self.label}

    def difficulty(self, scenario: Scenario) -> float:
        told = scenario.metadata.get(self.label)
        if isinstance(told, bool) or not isinstance(told, (int, float)):
            raise ConfigurationError(
                f"curriculum: scenario {scenario.id!r} tells {self.label} = {told!r}; give a number, or name another "
                "column with curriculum.label"
            )
        return float(told)


@dataclass
class _Answer:
    """An answer so far, and whether it goes on."""

    said: Trajectory
    open: bool


@dataclass(frozen=True)
class PartialRollouts(RememberingRollout):
    """`samples` of every scenario, each written over at most `pieces` steps (Kimi k1.5, section 2.6.2).

    A step adds at most `decoding.max_tokens / pieces` tokens, rounded up, to an answer. One that is cut there is kept,
    and goes on in the next step under the weights of then; what was written stays as it was, each token with the
    log-prob and the version that it was written with. A group is scored and learnt from once all of its answers have
    ended, be it at `decoding.max_tokens`; so a step learns from groups that earlier steps began, and the first ones
    perhaps from none. What is open when the run ends is not learnt from.

    Attributes:
        pieces: how many; 1 writes every answer at once. The report bounds tokens, and does not tell the number.
        metrics: `rollout/resumed` answers, `rollout/open` ones after the step, and as `tokens/generated` those that
            this step wrote.

    Raises:
        HocketError: on a step, for an episode of several turns that is cut, for questions with a hint, a prefix or
            options, and for scenarios that cannot be kept.
    """

    samples: int = 8
    pieces: int = 8

    def __post_init__(self) -> None:
        if self.samples < 1 or self.pieces < 1:
            raise ValueError(f"samples and pieces must be at least 1, not {self.samples} and {self.pieces}")

    def init(self) -> State:
        return {"groups": []}

    async def collect_with(
        self,
        state: State,
        asked: Sequence[Assignment],
        *,
        play: Play,
        score: Grade,
        ledger: LedgerView,
        key: Key,
        more: More | None = None,
    ) -> tuple[Experience, State]:
        """The groups whose last answer has ended, in the order in which they were begun."""
        begun = [_restored(kept) for kept in state["groups"]]
        going = [one for group in begun for one in group if one.open]
        wanted = [self._further(Assignment(one.said.scenario, decoding=asked[0].decoding), one.said) for one in going]
        open_ = OccurrenceIds(group[0].said.scenario.id for group in begun)
        asked = [replace(_plain(one), scenario=open_.of(one.scenario)) for one in asked]
        wanted += [self._further(one) for one in asked]
        played = await groups(play, wanted)
        for one, asking, (said,) in zip(going, wanted, played, strict=False):
            one.said, one.open = joined(one.said, said), _cut(said, asking, asked[0].decoding)
        for first, asking, samples in zip(asked, wanted[len(going) :], played[len(going) :], strict=True):
            begun.append([_Answer(said, _cut(said, asking, first.decoding)) for said in samples])
        left = [group for group in begun if any(one.open for one in group)]
        ended = [one.said for group in begun if not any(one.open for one in group) for one in group]
        if ended:
            await score(ended)
        metrics = {
            "rollout/resumed": float(len(going)),
            "rollout/open": float(sum(one.open for group in left for one in group)),
            "tokens/generated": float(sum(one.length for group in played for one in group))
            - sum(len(asking.prefix) for asking in wanted),
        }
        return Experience(ended, metrics=metrics), {"groups": [_kept(group) for group in left]}

    def _further(self, asking: Assignment, said: Trajectory | None = None) -> Assignment:
        """What goes on with an answer, or begins all of a group."""
        begun = () if said is None else tuple(said.turns[0].action.tolist())
        most = asking.decoding.max_tokens
        room = min(-(-most // self.pieces), most - len(begun))
        if said is None:
            return continued(asking, begun, first=asking.first, samples=self.samples, more=room)
        return continued(asking, begun, first=said.sample, more=room)


def joined(before: Trajectory, after: Trajectory) -> Trajectory:
    """`after`, which begins with the tokens of `before` as imposed ones: they are again as they were written.

    Raises:
        HocketError: when it begins with others.
    """
    old, new = before.turns[0], after.turns[0] if after.turns else None
    if new is None or after.failure is not None:
        return before if after.failure is None else after  # A full context leaves it as it is.
    size = len(old)
    if not np.array_equal(new.action[:size], old.action):
        raise HocketError(
            f"an answer to {after.scenario.id!r} does not go on as it began; its player imposes no prefix"
        )
    forced = np.zeros(size, np.bool_) if old.forced is None else old.forced
    new.forced = None if new.forced is None else np.concatenate([forced, new.forced[size:]])
    for name in ("logp", "version"):
        was, now = getattr(old, name), getattr(new, name)
        setattr(new, name, None if was is None or now is None else np.concatenate([was, now[size:]]))
    return after


def _plain(asking: Assignment) -> Assignment:
    if asking.hint is not None or asking.prefix or asking.options or asking.replay is not None:
        raise HocketError("a question with a hint, a prefix or options cannot be asked again in a later step as it was")
    return asking


def _cut(said: Trajectory, asking: Assignment, usual: Decoding) -> bool:
    """Whether an answer ended at the budget of its step, before the length that the run allows."""
    if said.failure is not None or not said.truncated or asking.decoding.max_tokens >= usual.max_tokens:
        return False
    if len(said.turns) > 1:
        raise HocketError(
            f"an episode of {len(said.turns)} turns was cut, and PartialRollouts goes on with single answers; take "
            "another rollout"
        )
    return said.length == asking.decoding.max_tokens


def _kept(group: Sequence[_Answer]) -> State:
    answers = [{"open": one.open, "sample": one.said.sample, **written(one.said)} for one in group]
    failures = [one.said.failure for one in group]
    return {"scenario": told_of(group[0].said.scenario), "answers": answers, "failures": failures}


def _restored(kept: State) -> list[_Answer]:
    scenario, found = Scenario(**kept["scenario"]), list[_Answer]()
    for told, failure in zip(kept["answers"], kept["failures"], strict=True):
        said = restored(told, scenario)
        said.sample, said.failure = told["sample"], failure
        found.append(_Answer(said, told["open"]))
    return found


@dataclass(frozen=True)
class SpreadLength(Shaping):
    """Adds `weight` times a score of the length's place within its group: Kimi k1.5 (arXiv 2501.12599, section 2.3.3).

    The shortest right answer gets 1/2 and the longest -1/2; wrong answers are never rewarded for being short. Answers
    are compared with all of their group, right or wrong.

    Attributes:
        weight: of the score; the report gives none, 0.5 keeps every right answer above every wrong one.
        warmup: share of the run before which nothing is added, since it slows training at first.
        least: an answer is right when its return before is at least this.
    """

    weight: float = 0.5
    warmup: float = 0.25
    least: float = RIGHT

    def __post_init__(self) -> None:
        if self.weight < 0 or not 0 <= self.warmup <= 1:
            raise ValueError(f"weight must be at least 0 and warmup in [0, 1], not {self.weight} and {self.warmup}")

    def __call__(self, batch: Batch) -> Batch:
        if batch.progress < self.warmup:
            return batch
        used, groups = counted_trajectories(batch), GroupBy("scenario")(batch)
        score = torch.zeros(batch.trajectories, dtype=torch.float64)
        solved, length = right(batch, self.least), batch.lengths()
        score[used] = spread_length(length[used], solved[used], groups.index[used], groups.size)
        return added(batch, Level.TRAJECTORY, self.weight * score)


KIMI_K1_5 = GRPO.but(
    name="kimi-k1-5",
    title="Kimi k1.5: mirror descent by regression, length reward, sampling by failure",
    source="Kimi Team, arXiv:2501.12599",
    catalogue_ids=("kimi-k1-5",),
    axes=("objective", "reward", "rollout", "data", "system"),
    formula="L = 1/N sum_i 1/(2 tau) (R_i - mean_g R - tau log pi(y_i)/pi_old(y_i))^2,  "
    "R += 1/2 (1/2 - (l - min l)/(max l - min l)), at most 0 if wrong",
    conventions={
        **GRPO.conventions,
        **CENTRED,
        "aggregation": "log-ratios summed over a trajectory, mean over trajectories",
        "clipping side": "nothing is clipped",
        "KL": "tau = 0.1 is our choice; the report gives none",
        "log Z": "replaced by the group's mean reward",
        "length reward": "weight 0.5, after the first quarter of the run (the report gives neither)",
        "prompts": "all of a finite task and 256 of an endless one (curriculum.pool), asked in proportion to "
        "1 - success",
        "updates per batch": "2: in the first the policies are equal and tau plays no part",
    },
    curriculum=ByFailure(),
    shaping=(SpreadLength(),),
    objective=AdvantageRegression(temperature=0.1),
    **{"credit.scale": None, "update.epochs": 2},
)


KIMI_K1_5_LONG = KIMI_K1_5.but(
    name="kimi-k1-5-long",
    title="Kimi k1.5 with answers written over several steps, easy problems first",
    source="Kimi Team, arXiv:2501.12599, sections 2.3.4 and 2.6.2",
    conventions={
        **KIMI_K1_5.conventions,
        "partial rollouts": "an eighth of decoding.max_tokens of an answer per step (rollout.pieces; the report gives "
        "no number); all of an answer's tokens are learnt from once its group is whole",
        "easy to hard": "thirds of the pool by `difficulty`, 160 scenarios each, then by failure; ours",
    },
    task="worked-sums?size=256",
    curriculum=EasyToHard(),
    rollout=PartialRollouts(),
)


LONG2SHORT_DPO = ONLINE_DPO.but(
    name="long2short-dpo",
    title="Kimi k1.5, long2short: DPO for the shortest right answer",
    source="Kimi Team, arXiv:2501.12599, section 2.4",
    conventions={
        **ONLINE_DPO.conventions,
        "pairs": "the shortest right sample against all wrong ones and right ones 1.5 times as long (credit.factor)",
        "group of one": "no pair",
        "constant group": "no pair where nobody is right; where all are, pairs by length",
        "data": "the policy's own samples; the report pairs those of a long-thinking model",
    },
    credit=ShortestAgainstLonger(),
)
