"""Measuring a policy on unseen scenarios."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hocket.core.intervals import wilson
from hocket.core.keys import Key
from hocket.core.notices import say
from hocket.core.occurrences import apart
from hocket.core.signals import RIGHT
from hocket.rewards.score import RewardJournal, grade
from hocket.stages import Metrics, Player, Reward, Split, Task
from hocket.train.kinds import is_share, kind_of
from hocket.train.kinds.kind import Measure
from hocket.train.kinds.ways import GREEDY, SAMPLED, SAMPLED_KEYS, leads_of
from hocket.types import Assignment, Decoding, Trajectory


@dataclass(frozen=True)
class EvaluationResult:
    """Success on `n` unseen scenarios with a 95 % interval: what the kind of task measures, see `Measure`.

    Attributes:
        length: mean decisions per trajectory. traits: shares of answers with each of the task's traits.
        each: the success of each trajectory; none where nothing tells right from wrong.
        recorded: what the recipe's loss tells of unseen recorded responses, by the names of its metrics.
        sampled: the same scenarios played at the temperature of training, where that was measured besides.
        leads: which of both ways the task names, see `hocket.train.kinds.ways`.
        problems: what went wrong with rewards, and answers without a verdict, in sentences.
    """

    success: float
    low: float
    high: float
    n: int
    length: float
    seconds: float
    measure: Measure
    traits: Mapping[str, float] = field(default_factory=dict)
    trajectories: Sequence[Trajectory] = ()
    each: Sequence[float] = ()
    recorded: Metrics = field(default_factory=dict)
    sampled: EvaluationResult | None = None
    leads: str = GREEDY
    problems: Sequence[str] = ()

    def __repr__(self) -> str:
        def number(value: float) -> str:
            return f"{100 * value:.1f} %" if is_share(self.measure.name) else f"{value:.4g}"

        words = f"{self.measure.name} {number(self.success)}"
        if math.isfinite(self.low) and math.isfinite(self.high):
            words += f", 95 % interval {number(self.low)} to {number(self.high)}"
        return f"EvaluationResult({words}, n = {self.n})"

    @property
    def leading(self) -> float:
        """The success by the way of playing that leads, by which checkpoints are compared."""
        return self.sampled.success if self.sampled is not None and self.leads == SAMPLED else self.success

    @property
    def _both(self) -> dict[str, float]:
        if self.sampled is None:
            return {}
        return dict(zip(SAMPLED_KEYS, (self.sampled.success, self.sampled.low, self.sampled.high), strict=True))

    def metrics(self) -> Metrics:
        """In the run's names."""
        name = self.measure.name
        traits = {f"eval/{trait}": share for trait, share in self.traits.items()}
        interval = {f"eval/{name}": self.success, "eval/low": self.low, "eval/high": self.high}
        recorded = {f"eval/{metric}": value for metric, value in {**self.recorded, **self._both}.items()}
        return {**recorded, **interval, "eval/n": float(self.n), "eval/length": self.length, **traits}

    def summary(self) -> dict[str, object]:
        """For `summary.json`."""
        name = self.measure.name
        interval = {name: self.success, "n": self.n, "low": self.low, "high": self.high}
        return {**interval, **self._both, "length": self.length, **self.traits, **self.recorded, name: self.success}


async def evaluate(
    task: Task,
    player: Player,
    rewards: Sequence[Reward],
    *,
    n: int,
    decoding: Decoding,
    key: Key,
    among: int | None = None,
    journal: RewardJournal | None = None,
    split: Split = "eval",
    temperature: float = 0.0,
) -> EvaluationResult:
    """Plays `n` scenarios of a split, `eval` unless another is named (all when there are fewer), greedily, once each.

    With a `temperature` they are sampled by it instead.

    They are the first `n`, or with `among` spread evenly over the first `among`, so that a smaller measurement on the
    way is about the same problems as the large one at the ends: later numbers of a task may well be harder.
    """
    started = time.perf_counter()
    greedy = replace(decoding, temperature=temperature)
    scenarios = apart(task.scenario(split, number) for number in spread(task, n, among, split))
    assignments = [Assignment(scenario, decoding=greedy) for scenario in scenarios]
    played = await player.play(assignments, key=key.derive("evaluate"))
    problems = await grade(played, rewards, key=key.derive("evaluate", "score", *_pictures(played)), journal=journal)
    verdicts = [0.0 if trajectory.failure else task.success(trajectory) for trajectory in played]
    unjudged = sum(not math.isfinite(verdict) for verdict in verdicts)
    if unjudged:
        problems.append(f"{unjudged} of {len(played)} answers had no reward; they count 0")
    success = [verdict if math.isfinite(verdict) else 0.0 for verdict in verdicts]
    measure = kind_of(task).measure
    low, high = measure.interval(success)
    return EvaluationResult(
        success=float(np.mean(success)),
        low=low,
        high=high,
        n=len(played),
        length=float(np.mean([trajectory.length for trajectory in played])),
        seconds=time.perf_counter() - started,
        measure=measure,
        traits=_traits(task, played),
        trajectories=played,
        each=success,
        problems=problems,
    )


def _pictures(played: Sequence[Trajectory]) -> list[str]:
    """A digest of the pictures among the outcomes, if any: texts tell all other outcomes apart in a journal."""
    states = [
        attempt.final_state
        for attempt in played
        if attempt.final_state is not None and all(turn.observation.dtype.names for turn in attempt.turns)
    ]
    digest = hashlib.blake2b(b"".join(state.tobytes() for state in states), digest_size=16)
    return [digest.hexdigest()] if states else []


async def evaluate_both(
    task: Task, player: Player, rewards: Sequence[Reward], *, decoding: Decoding, key: Key, **common: Any
) -> EvaluationResult:
    """What `evaluate` finds of greedy play, and of play at the temperature of `decoding` besides."""
    result = await evaluate(task, player, rewards, decoding=decoding, key=key, **common)
    common |= {"temperature": decoding.temperature, "key": key.derive("sampled")}
    sampled = await evaluate(task, player, rewards, decoding=decoding, **common)
    seconds, problems = result.seconds + sampled.seconds, tuple(dict.fromkeys((*result.problems, *sampled.problems)))
    return replace(result, sampled=sampled, leads=leads_of(task) or GREEDY, seconds=seconds, problems=problems)


async def evaluate_samples(
    task: Task, player: Player, rewards: Sequence[Reward], *, n: int, samples: int, decoding: Decoding, key: Key
) -> dict[int, tuple[float, float, float]]:
    """pass@k for k = 1, 2, 4, .. up to `samples`: the estimate and its 95 % interval over scenarios.

    With c successes among m samples, pass@k = 1 - C(m-c, k) / C(m, k), unbiased (Chen et al. 2021, arXiv 2107.03374).
    """
    scenarios = apart(task.scenario("eval", number) for number in range(_count(task, n)))
    assignments = [Assignment(scenario, samples=samples, decoding=decoding) for scenario in scenarios]
    played = await player.play(assignments, key=key.derive("evaluate", "samples"))
    for problem in await grade(played, rewards, key=key.derive("evaluate", "samples", "score")):
        say(f"evaluation: {problem}")
    verdicts = np.array([task.success(trajectory) >= RIGHT for trajectory in played])
    right = verdicts.reshape(len(assignments), samples).sum(1)
    results = {}
    k = 1
    while k <= samples:
        each = [pass_at_k(samples, int(correct), k) for correct in right]
        # A share per scenario varies no more than a coin of the same mean: Wilson's interval is on the safe side.
        results[k] = (float(np.mean(each)), *wilson(math.fsum(each), len(each)))
        k *= 2
    return results


def pass_at_k(samples: int, correct: int, k: int) -> float:
    """The chance that k of `samples` draws without replacement hold one of `correct`."""
    if samples - correct < k:
        return 1.0
    return 1.0 - math.comb(samples - correct, k) / math.comb(samples, k)


def success_of(task: Task, trajectory: Trajectory) -> float:
    """The success of an attempt; 0 if it failed or nothing could judge it."""
    value = 0.0 if trajectory.failure else task.success(trajectory)
    return value if math.isfinite(value) else 0.0


def spread(task: Task, n: int, among: int | None = None, split: Split = "eval") -> list[int]:
    """The numbers of the scenarios that are measured, see `evaluate`."""
    total = _count(task, n if among is None else max(n, among), split)
    return [place * total // min(n, total) for place in range(min(n, total))]


def _count(task: Task, n: int, split: Split = "eval") -> int:
    size = task.size(split)
    return n if size is None else min(n, size)


def _traits(task: Task, played: Sequence[Trajectory]) -> dict[str, float]:
    traits: dict[str, list[float]] = {}
    for trajectory in played:
        for trait, value in task.describe(trajectory).items():
            traits.setdefault(trait, []).append(value)
    return {trait: float(np.mean(values)) for trait, values in traits.items()}
