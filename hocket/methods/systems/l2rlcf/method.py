"""L2RLCF: components for lifelong learning around one learner, in any combination (Sur et al., arXiv:2212.04603).

An agent meets tasks one after another, and some of them again. The paper's framework lets components that were written
apart act together around one learner, through one interface: before and after a step, and when the task changes. Here
the learner is PPO, the interface that of stages and hooks (`hocket.stages`), and the components are

- `Rehearsal`, experience replay: kept episodes of other tasks in every batch. Their ratios are to the policy that
  sampled them, so that PPO's clip leaves what is still done as it is, and lets through what brings back what was lost.
- `Consolidation`, elastic weights (Kirkpatrick et al., arXiv:1612.00796, in the form that adds up as tasks go by,
  Schwarz et al., arXiv:1805.06370): when the task changes, the weights w* and the diagonal F of Fisher's information of
  the policy are kept, and from then on every update is followed by a pull towards them,

    w <- argmin_x |x - w|^2 / 2 + strength / 2 sum_i F_i (x_i - w*_i)^2 = (w + strength F w*) / (1 + strength F).

- `LifelongMeasures`: how well each task is done on the way, and how much of it was forgotten.

The paper's abstract names no formula; which components, the form of the pull (exact, hence stable however strong, and
no business of the optimiser) and the sequence A, B, A, C are ours. `Performance` holds the measures of lifelong
learning (New et al., arXiv:2201.08278) of a matrix of successes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, ClassVar, cast

import torch
from torch import Tensor

from hocket.core.batch import Batch
from hocket.core.errors import ConfigurationError
from hocket.core.evaluating import policy_decisions
from hocket.core.keys import Key
from hocket.core.outcomes import StepResult
from hocket.curriculum.random_order import Shuffled
from hocket.methods.base.ppo import PPO
from hocket.objectives.entropy import EntropyBonus
from hocket.objectives.value import ValueLoss
from hocket.rollout.groups import groups
from hocket.rollout.remembering import RememberingRollout
from hocket.rollout.replay_store import ReplayStore, ages
from hocket.stages import Curriculum, Grade, Hook, HookContext, LedgerView, More, Play, Policy, State, Task
from hocket.types import Assignment, Decoding, Experience, Quantity, Scenario, Trajectory

KIND = "kind"
"""The metadata of a scenario that say of which task it is."""


def kind(trajectory: Trajectory) -> str:
    """The task that an episode was of."""
    return str(trajectory.scenario.metadata[KIND])


def present(trajectories: Sequence[Trajectory]) -> str:
    """The task that a step is of: that of the last episode which was played in it, whatever came back beside it."""
    return kind([one for one in trajectories if one.source != "replay"][-1])


@dataclass(frozen=True)
class TaskSequence(Curriculum):
    """`every` steps of each task in the order told, over again at the end. Scenario n is of the task's kinds in turn.

    Attributes:
        prompts: scenarios of a step. order: kinds of the task, with `-` between them. every: steps of each.

    Raises:
        ConfigurationError: when the task has no such kind.
    """

    prompts: int = 64
    order: str = "A-B-A-C"
    every: int = 40

    reads_metadata: ClassVar[frozenset[str]] = frozenset({KIND})

    def __post_init__(self) -> None:
        Shuffled(self.prompts)
        if self.every < 1:
            raise ValueError(f"every must be at least 1, not {self.every}")

    def __call__(self, task: Task, asked: int, count: int, ledger: LedgerView, key: Key) -> list[Scenario]:
        kinds: Sequence[str] = getattr(task, "kinds", ())
        order, base = self.order.split("-"), key.derive("offset").word % 2**20
        unknown = next((one for one in order if one not in kinds), None)
        if unknown is not None:
            raise ConfigurationError(
                f"curriculum.order = {self.order!r}: task {task.name} has no kind {unknown!r}; it has "
                f"{', '.join(kinds) or 'none'}"
            )
        places = range(asked, asked + count)
        turns = [order[place // (self.every * self.prompts) % len(order)] for place in places]
        numbers = [len(kinds) * (base + place) + kinds.index(turn) for place, turn in zip(places, turns, strict=True)]
        return [task.scenario("train", number) for number in numbers]


# ---------------------------------------------------------------- components


@dataclass(frozen=True)
class Rehearsal(RememberingRollout):
    """`samples` of every scenario, and beside them `count` kept episodes of tasks other than the present ones.

    Of every task the newest `keep` episodes are kept, as they were sampled. Their ratios are to the policy that sampled
    them, so that a clip leaves what is still done as it is, and lets through what brings back what was lost.

    Attributes:
        samples: of every scenario. keep: episodes of a task. count: kept episodes of a step, as many of each task.
        metrics: `replay/trajectories`, `replay/age` and `replay/oldest`, in steps.
    """

    samples: int = 1
    keep: int = 256
    count: int = 64

    reads_metadata: ClassVar[frozenset[str]] = frozenset({KIND})

    def __post_init__(self) -> None:
        if min(self.samples, self.keep) < 1 or self.count < 0:
            raise ValueError(
                f"samples and keep must be at least 1 and count at least 0, not {self.samples}, {self.keep} and "
                f"{self.count}"
            )

    def init(self) -> State:
        """Nothing kept of any task."""
        return {}

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
        """The fresh samples, then the kept ones."""
        fresh = [
            one for group in await groups(play, [replace(one, samples=self.samples) for one in asked]) for one in group
        ]
        await score(fresh)
        by_kind = {name: [one for one in fresh if kind(one) == name] for name in sorted({*map(kind, fresh), *state})}
        others = [name for name in state if not by_kind[name]]
        draw = key.derive("rehearsal")
        old = [one for name in others for one in self._drawn(state[name], name, self.count // len(others), draw)]
        kept = {name: self._store.add(state.get(name) or self._store.init(), own) for name, own in by_kind.items()}
        return Experience([*fresh, *old], metrics=ages(old)), kept

    @property
    def _store(self) -> ReplayStore:
        return ReplayStore(size=1, scenarios=self.keep)

    def _drawn(self, held: State, name: str, count: int, key: Key) -> list[Trajectory]:
        """Kept episodes of a task; of their scenarios only what they are called and of which task they are."""
        known = list(held["kept"])
        chosen = [known[place] for place in sorted(key.derive(name).numpy().permutation(len(known))[:count].tolist())]
        scenarios = [Scenario(id=one, metadata={KIND: name}) for one in chosen]
        return [one for scenario in scenarios for one in self._store.draw(held, scenario, 1, "all", key)]


@dataclass(frozen=True)
class Consolidation(Hook):
    """Once a task is over, weights that it needs are held fast in proportion to how much it needs them.

    F is the mean over episodes of the squared slope of the log-probability of all that was done in one. Within a task
    it is a running mean over steps, with `decay`; when the task changes it joins that of earlier tasks, and the weights
    are those at the end of the last step before. `consolidation/pull` is how far weights were drawn in a step.

    Attributes:
        strength: of the pull. samples: episodes of a step that F is measured on. decay: of the running mean.
    """

    strength: float = 1.0
    samples: int = 16
    decay: float = 0.9

    reads_metadata: ClassVar[frozenset[str]] = frozenset({KIND})

    def __post_init__(self) -> None:
        if not self.strength >= 0 or self.samples < 1 or not 0 <= self.decay < 1:
            raise ValueError(
                f"strength must be at least 0, samples at least 1 and decay in [0, 1), not {self.strength}, "
                f"{self.samples} and {self.decay}"
            )

    def begin(self, run: HookContext, earlier: State | None) -> Any:
        return earlier or {}

    async def after(self, run: HookContext, step: int, result: StepResult, memory: Any) -> Any:
        if result.batch is None:
            return memory
        now, pulls = present(result.trajectories), []
        found: State = {"kind": now, "policies": {}}
        for name, policy in run.trained.items():
            held = memory.get("policies", {}).get(name, {})
            if held and memory["kind"] != now:
                held = {**held, **_joined(held), "recent": {}}
            measured = importance(policy, result.batch, self.samples)
            recent = _running(held.get("recent", {}), measured, self.decay)
            if "anchor" in held:
                pulls.append(pulled(policy, held["anchor"], held["importance"], self.strength))
            found["policies"][name] = {**held, "recent": recent, "weights": _copies(policy)}
        result.metrics["consolidation/pull"] = fmean(pulls) if pulls else 0.0
        return found


def importance(policy: Policy, batch: Batch, samples: int) -> dict[str, Tensor]:
    """The diagonal of Fisher's information of a policy by weight: the mean squared slope of an episode's log-prob.

    Args:
        samples: the episodes that it is measured on, the first of the batch that the policy had a part in.
    """
    weights = {name: one for name, one in policy.module.named_parameters() if one.requires_grad}
    found = {name: torch.zeros_like(one) for name, one in weights.items()}
    seen = batch.occurrences
    own = torch.isin(seen.decision, policy_decisions(batch, policy.name))
    episodes = torch.unique(seen.trajectory[own])[:samples]
    for episode in episodes:
        chosen = seen.decision[own & (seen.trajectory == episode)]
        logp = policy.evaluate(batch, frozenset({Quantity.LOGP}), chosen).get(Quantity.LOGP)
        slopes = torch.autograd.grad(logp[chosen].sum(), list(weights.values()), allow_unused=True)
        for name, slope in zip(weights, slopes, strict=True):
            if slope is not None:
                found[name] += slope**2 / len(episodes)
    return found


def pulled(policy: Policy, anchor: Mapping[str, Tensor], fisher: Mapping[str, Tensor], strength: float) -> float:
    """Draws the weights of a policy towards `anchor` (see the module), and tells how far they came, as a norm."""
    moved = 0.0
    with torch.no_grad():
        for name, weight in policy.module.named_parameters():
            if name in anchor:
                hold = strength * fisher[name]
                drawn = hold / (1 + hold) * (anchor[name] - weight)
                weight.add_(drawn)
                moved += float(drawn.double().square().sum())
    return float(moved**0.5)


def _copies(policy: Policy) -> dict[str, Tensor]:
    return {name: one.detach().clone() for name, one in policy.module.named_parameters() if one.requires_grad}


def _running(before: Mapping[str, Tensor], now: Mapping[str, Tensor], decay: float) -> dict[str, Tensor]:
    return {name: decay * before[name] + (1 - decay) * one if before else one for name, one in now.items()}


def _joined(held: State) -> State:
    """What is held fast from now on: the weights at the end of the task, and the importance of all tasks so far."""
    before = held.get("importance", {})
    total = {name: one + before[name] if before else one for name, one in held["recent"].items()}
    return {"anchor": held["weights"], "importance": total}


# ---------------------------------------------------------------- measures


@dataclass(frozen=True)
class Performance:
    """How well each task was done on the way: the measures of lifelong learning.

    Attributes:
        trained: the task that was learnt before each row, none before the first.
        rows: the success at each task.
    """

    trained: Sequence[str]
    rows: Sequence[Mapping[str, float]]

    def forgetting(self, task: str) -> float:
        """By how much the last success lies below the best after the task was first learnt; 0 where nothing is lost.

        As Chaudhry et al. (arXiv:1801.10112) have it; there is none of a task not learnt yet.
        """
        seen = self._since(task)
        return max(row[task] for row in seen) - seen[-1][task] if seen else 0.0

    def mean_forgetting(self) -> float:
        """Over the tasks learnt so far but the last; 0 where there is none."""
        earlier = {one for one in self.trained if one} - {self.trained[-1]}
        return fmean(self.forgetting(one) for one in earlier) if earlier else 0.0

    def transfer(self, task: str) -> float:
        """What was gained at a task by learning others before it: its success when it began, less that at first."""
        before = self.trained.index(task) - 1 if task in self.trained else len(self.rows) - 1
        return self.rows[before][task] - self.rows[0][task]

    def relative(self, experts: Mapping[str, float]) -> float:
        """The mean over tasks of the last success as a share of that of an expert who learnt the task alone."""
        return fmean(self.rows[-1][task] / best for task, best in experts.items())

    def _since(self, task: str) -> Sequence[Mapping[str, float]]:
        return self.rows[self.trained.index(task) :] if task in self.trained else ()


@dataclass(frozen=True)
class LifelongMeasures(Hook):
    """Plays `n` held-out scenarios of every task before the first step and after each `every`, and tells what is lost.

    `lifelong/TASK` is the success, `lifelong/forgetting` the mean over earlier tasks (`Performance`).
    """

    every: int = 40
    n: int = 60

    reads_metadata: ClassVar[frozenset[str]] = frozenset({KIND})

    def __post_init__(self) -> None:
        if self.every < 1 or self.n < 1:
            raise ValueError(f"every and n must be at least 1, not {self.every} and {self.n}")

    async def before(self, run: HookContext, step: int, memory: Any) -> Any:
        return memory or {"trained": [""], "rows": [await self._played(run)]}

    async def after(self, run: HookContext, step: int, result: StepResult, memory: Any) -> Any:
        if step % self.every or not result.trajectories:
            return memory
        row = await self._played(run)
        found = Performance([*memory["trained"], present(result.trajectories)], [*memory["rows"], row])
        result.metrics |= {f"lifelong/{name}": success for name, success in row.items()}
        result.metrics["lifelong/forgetting"] = found.mean_forgetting()
        return {"trained": list(found.trained), "rows": [dict(one) for one in found.rows]}

    async def _played(self, run: HookContext) -> dict[str, float]:
        """The greedy success at each task."""
        kinds = cast(Sequence[str], getattr(run.task, "kinds", ()))
        asked = [
            Assignment(run.task.scenario("eval", number), decoding=Decoding(temperature=0.0))
            for number in range(self.n * len(kinds))
        ]
        played = await run.player.play(asked, key=run.key.derive("lifelong"))
        return {name: fmean(run.task.success(one) for one in played if kind(one) == name) for name in kinds}


L2RLCF = PPO.but(
    name="l2rlcf",
    title="Lifelong learning by components around one learner",
    source="Sur et al., L2RLCF, arXiv:2212.04603",
    family="systems",
    catalogue_ids=("l2rlcf",),
    axes=("system", "data", "update"),
    formula=f"{PPO.formula};  on kept episodes of other tasks as well;  "
    "w <- (w + s F w*) / (1 + s F),  F = mean_i (d log pi(tau_i) / dw)^2 over earlier tasks",
    conventions={
        **PPO.conventions,
        "tasks": "40 steps each of A, B, A, C",
        "rehearsal": "beside 64 fresh episodes as many kept ones, evenly of the newest 256 of each other task",
        "consolidation": "the penalty's exact minimiser after every update; F is a running mean within a task and a "
        "sum over tasks",
        "change of task": "told by the scenarios",
        "world": "errands on a grid; the paper's are mini-games of StarCraft II, whose program cannot be run here",
        "entropy": "bonus 0.01",
    },
    task="errands:ABC",
    curriculum=TaskSequence(),
    regularisers=(ValueLoss(coefficient=0.5, aggregate="token-mean"), EntropyBonus(coefficient=0.01)),
    rollout=Rehearsal(),
    hooks=(Consolidation(), LifelongMeasures()),
)

L2RLCF_REHEARSAL = L2RLCF.but(
    name="l2rlcf-rehearsal",
    title="Lifelong learning by rehearsal alone",
    hooks=(LifelongMeasures(),),
)

L2RLCF_CONSOLIDATION = L2RLCF.but(
    name="l2rlcf-consolidation",
    title="Lifelong learning by consolidation alone",
    rollout=PPO.rollout,
    hooks=(Consolidation(), LifelongMeasures()),
)

L2RLCF_ALONE = L2RLCF.but(
    name="l2rlcf-alone",
    title="The learner without components, which forgets",
    rollout=PPO.rollout,
    hooks=(LifelongMeasures(),),
)
