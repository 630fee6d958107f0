"""A scorer that pays in a run and is refitted in it: `--reward "model:JUDGE?every=10"`, as in iterative GRPO.

The policy leaves the answers that a reward model was trained on, and learns to please it where it knows nothing. So
every few steps the model is trained further, on pairs of the policy's own new answers, which a dearer judgement (the
task's verifiers, or a function) puts in order, and on a share of earlier pairs, lest it forget (DeepSeekMath,
arXiv:2402.03300, section 4.1.4, which replays a tenth).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from hocket.core import sums
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.outcomes import StepResult, total_reward, usable
from hocket.core.packing import pack
from hocket.recipe import Recipe
from hocket.recipes import find
from hocket.rewards.score import RewardJournal, grade
from hocket.stages import Hook, HookContext, Metrics, Reward, State
from hocket.train.learner import Learner
from hocket.train.model_reward import ScorerReward
from hocket.types import Scenario, Score, Trajectory, Turn

GOLD = "gold"
"""The score by which the answers of a pair were put in order."""


class ScoredAnswer(NamedTuple):
    """What a scorer reads: token ids before the last turn's own, and those."""

    context: NDArray[Any]
    tokens: NDArray[Any]


@dataclass(frozen=True)
class Pair:
    """Two answers to a scenario, the better one first, and when they were sampled."""

    scenario: str
    step: int
    better: ScoredAnswer
    worse: ScoredAnswer


@dataclass
class Refits:
    """What refitting remembers: the scorer's learner, pairs sampled since the last refit, and earlier ones."""

    learner: Learner
    fresh: list[Pair] = field(default_factory=list)
    earlier: list[Pair] = field(default_factory=list)


@dataclass(frozen=True)
class RefittedScorer(ScorerReward, Hook):
    """A scorer reward whose one member is trained further on what the policy samples.

    After each step the best and the worst answer to every scenario, by the `gold` rewards, are a pair where these
    differ. After every `every` steps the scorer takes one pass over the new pairs in batches of `batch`, and over as
    many earlier ones as make `old` of all. The share of the new pairs that it ordered rightly before is the metric
    `scorer/accuracy`: held out, since it has not seen them.

    Attributes:
        gold: the rewards that put answers in order. recipe: how the scorer learns, at the `output` that pays.
        every: steps between refits. old: the share of earlier pairs. batch: pairs per update.
        keep: the most earlier pairs that are remembered, the latest.
        total: steps of the run, for the schedule of the learning rate. journal: of the run.

    Raises:
        ConfigurationError: at construction, for several members, or settings out of range.
    """

    gold: tuple[Reward, ...] = ()
    recipe: Recipe = field(default_factory=lambda: find("reward-model"))
    every: int = 10
    old: float = 0.1
    keep: int = 2000
    batch: int = 16
    total: int = 1
    journal: RewardJournal | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        where = f"reward {self.name}"
        if len(self.members) > 1:
            raise ConfigurationError(f"{where}: only a single scorer can be refitted; name one, or drop every")
        if min(self.every, self.keep, self.batch) < 1:
            raise ConfigurationError(f"{where}: every, keep and batch must be at least 1")
        if not 0 <= self.old < 1:
            raise ConfigurationError(f"{where}: old is the share of earlier pairs, in [0, 1), not {self.old}")
        if not self.gold:
            raise ConfigurationError(
                f"{where} is refitted by the task's own rewards, and the task has none; name a function with "
                "gold=FILE.py:FUNCTION"
            )

    # ------------------------------------------------------------ around a step

    def begin(self, run: HookContext, earlier: State | None) -> Refits:
        """A fresh optimiser; the weights are those that the scorer has, or had at the end of an earlier phase."""
        return self._made() if earlier is None else self.restore(earlier, run)

    async def after(self, run: HookContext, step: int, result: StepResult, memory: Refits) -> Refits:
        memory.fresh += await self._pairs(run.key.derive("step", step, GOLD), step, result)
        if step % self.every or not memory.fresh:
            return memory
        result.metrics |= self._refit(memory, run.key.derive("step", step, "refit"), step)
        memory.earlier = [*memory.earlier, *memory.fresh][-self.keep :]
        memory.fresh = []
        return memory

    def _made(self) -> Refits:
        scorer = self.members[0]
        scorer.module.requires_grad_(True)
        return Refits(Learner(scorer, self.recipe.but({"objective.output": self.output}), total_steps=self.total))

    async def _pairs(self, key: Key, step: int, result: StepResult) -> list[Pair]:
        """Of every scenario the best against the worst of the policy's own answers, where the gold tells them apart."""
        collected = [*result.trajectories, *result.discarded]
        samples = [trajectory for trajectory in collected if trajectory.source == "own" and usable(trajectory)]
        judged = [replace(trajectory, scores={}, info=dict(trajectory.info)) for trajectory in samples]
        result.messages += await grade(judged, self.gold, key=key, journal=self.journal)
        weights = {reward.name: reward.weight for reward in self.gold}
        groups: dict[str, list[tuple[float, Trajectory]]] = {}
        for trajectory in judged:
            value = total_reward(trajectory, weights)
            if np.isfinite(value):
                groups.setdefault(trajectory.scenario.id, []).append((value, trajectory))
        pairs = []
        for scenario, members in groups.items():
            (high, best), (low, worst) = max(members, key=_value), min(members, key=_value)
            if high > low:
                pairs.append(Pair(scenario, step, self._read(best), self._read(worst)))
        return pairs

    def _read(self, trajectory: Trajectory) -> ScoredAnswer:
        """The token ids that the scorer reads, up to the end of the last turn."""
        turn = self.read_by(0, [trajectory])[0].turns[-1]
        context = [part for previous in turn.context()[:-1] for part in (previous.observation, previous.action)]
        return ScoredAnswer(np.concatenate([*context, turn.observation]), turn.action)

    def _refit(self, memory: Refits, key: Key, step: int) -> Metrics:
        """One pass over the new pairs and some earlier ones."""
        rng = key.numpy()
        wanted = round(len(memory.fresh) * self.old / (1 - self.old))
        drawn = rng.permutation(len(memory.earlier))[:wanted].tolist()
        pairs = [*memory.fresh, *(memory.earlier[place] for place in drawn)]
        right = self._accuracy(memory.fresh)
        order = rng.permutation(len(pairs)).tolist()
        losses = []
        for first in range(0, len(order), self.batch):
            batch = pack(self._trajectories([pairs[place] for place in order[first : first + self.batch]]))
            assessed = memory.learner.compute_credit(memory.learner.annotate(batch), {GOLD: 1.0}, step)
            losses.append(memory.learner.learn(assessed, key.derive("update", first), step)["loss"])
        return {"scorer/accuracy": right, "scorer/pairs": float(len(pairs)), "scorer/loss": sums.mean(losses)}

    def _accuracy(self, pairs: Sequence[Pair]) -> float:
        """The share of pairs whose better answer gets the higher score."""
        scores = self.members[0].scores(self._trajectories(pairs))[:, self.output]
        return float((scores[0::2] > scores[1::2]).double().mean())

    def _trajectories(self, pairs: Sequence[Pair]) -> list[Trajectory]:
        """Both answers of every pair as decisions of the scorer's, the better one first and scored above the other."""
        policy = self.members[0].name
        return [
            Trajectory(
                Scenario(f"{pair.scenario}@{pair.step}"),
                [Turn(policy, policy, answer.context, answer.tokens)],
                sample=place,
                scores={GOLD: Score(1.0 - place)},
            )
            for pair in pairs
            for place, answer in enumerate((pair.better, pair.worse))
        ]

    # ------------------------------------------------------------ what is kept

    def state(self, memory: Refits, run: HookContext) -> State:
        return {
            "weights": {name: tensor.detach().clone() for name, tensor in self.members[0].module.state_dict().items()},
            "learner": memory.learner.state(),
            "fresh": [_plain(pair) for pair in memory.fresh],
            "earlier": [_plain(pair) for pair in memory.earlier],
        }

    def restore(self, state: State, run: HookContext) -> Refits:
        memory = self._made()
        self.members[0].module.load_state_dict(state["weights"])
        memory.learner.restore(state["learner"])
        memory.fresh = [_pair(row) for row in state["fresh"]]
        memory.earlier = [_pair(row) for row in state["earlier"]]
        return memory


def _value(member: tuple[float, Trajectory]) -> float:
    return member[0]


def _plain(pair: Pair) -> Mapping[str, Any]:
    arrays = [torch.from_numpy(np.ascontiguousarray(ids, np.int64)) for ids in (*pair.better, *pair.worse)]
    return {"scenario": pair.scenario, "step": pair.step, "ids": arrays}


def _pair(plain: Mapping[str, Any]) -> Pair:
    ids = [tensor.numpy() for tensor in plain["ids"]]
    return Pair(plain["scenario"], int(plain["step"]), ScoredAnswer(ids[0], ids[1]), ScoredAnswer(ids[2], ids[3]))
