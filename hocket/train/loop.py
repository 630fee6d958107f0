"""One training step, from the selection of scenarios to updated weights. Read this file to understand the library.

    Curriculum -> [ Rollout <-> Reward ] -> Annotate -> Credit -> Objective -> Update -> weights

`RunContext` holds everything that a step reads or changes. The learners, the ledger, `asked` and the memory of hooks
and rewards change from step to step; a checkpoint holds exactly these.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from hocket.agents.workflows.cast import recast
from hocket.core.annotators import Annotator
from hocket.core.batch import Batch
from hocket.core.columns import Column
from hocket.core.keys import Key
from hocket.core.occurrences import OccurrenceIds
from hocket.core.outcomes import SAMPLED, StepResult, all_trajectories, total_reward, usable
from hocket.core.packing import pack
from hocket.core.signals import counted_trajectories, returns
from hocket.core.statistics import measure_batch, measure_samples, measurements
from hocket.curriculum.random_order import Shuffled
from hocket.curriculum.remembering import RememberingCurriculum
from hocket.rewards import remembering
from hocket.rewards.judging import Judge, counting
from hocket.rewards.score import grade
from hocket.rollout.remembering import RememberingRollout
from hocket.stages import Curriculum, Hook, Metrics, Player, Policy, Reward, Split, Task
from hocket.train.annotate import annotated
from hocket.train.describe import described
from hocket.train.embedders import Embedder
from hocket.train.evaluate import evaluate
from hocket.train.hooks import Hooks, named
from hocket.train.journal import Journal
from hocket.train.kinds import Measure, kind_of, measure_of
from hocket.train.learner import Learner
from hocket.train.ledger import Ledger, SampleOutcome
from hocket.train.step_messages import first_step_messages, messages
from hocket.train.step_metrics import credit_metrics, engine_metrics, finite_mean, sampling_metrics
from hocket.types import Assignment, Decoding, Experience, Trajectory


@dataclass
class RunContext:
    """Everything that a training step reads or changes.

    Attributes:
        task: the source of scenarios. player: samples trajectories. rewards: score them; those with memory hold their
            current memory.
        learners: the trained policies by name; the first one's recipe selects scenarios and samples them.
        decoding: how training samples are drawn. key: the run's root key.
        ledger: history per scenario. journal: results from outside the library, by key. asked: the number of scenarios
            drawn so far.
        rewards_by_phase: the rewards of each phase of the run; `rewards` are those of the current phase.
        overlap: how many updates the sampling weights lag behind the learner's; see `hocket.train.overlap`.
        hooks: calls the hooks and holds their memory.
        judge: a model that stages question. embedder: computes embeddings of texts, if a stage reads them.
        needs_reward: whether the task cannot verify answers, so that only rewards tell right from wrong.
    """

    task: Task
    player: Player
    rewards: Sequence[Reward]
    learners: Mapping[str, Learner]
    decoding: Decoding
    key: Key
    ledger: Ledger
    journal: Journal | None = None
    asked: int = 0
    rewards_by_phase: Sequence[Sequence[Reward]] = ()
    overlap: int = 0
    hooks: Hooks = field(default_factory=Hooks)
    judge: Judge | None = None
    embedder: Embedder | None = None
    needs_reward: bool = False

    def __post_init__(self) -> None:
        self.rewards = remembering.recalled(self.rewards)

    @property
    def lead(self) -> Learner:
        return next(iter(self.learners.values()))

    @property
    def measure(self) -> Measure:
        """The number that evaluation averages in the current phase."""
        judged = bool(self.rewards) or not self.needs_reward
        return measure_of(self.lead.recipe, kind_of(self.task), judged=judged)

    @property
    def largest(self) -> int:
        """The number of parameters of the largest policy."""
        modules = [learner.policy.module for learner in self.learners.values()]
        return max(sum(tensor.numel() for tensor in module.parameters()) for module in modules)

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each named score."""
        return {reward.name: reward.weight for reward in self.rewards}

    # ------------------------------------------------------------ interface for hooks

    @property
    def active(self) -> dict[str, Hook]:
        """The hooks of the first learner's recipe, then the rewards that are hooks, by name."""
        return named([*self.lead.recipe.hooks, *(reward for reward in self.rewards if isinstance(reward, Hook))])

    @property
    def method(self) -> str:
        return self.lead.recipe.name

    @property
    def trained(self) -> dict[str, Policy]:
        return {name: learner.policy for name, learner in self.learners.items() if not learner.frozen}

    async def evaluate(self, n: int, *, key: Key, split: Split = "eval") -> float:
        """The mean success on the first `n` scenarios of a split, one greedy sample each."""
        measured = await evaluate(self.task, self.player, (), n=n, decoding=self.decoding, key=key, split=split)
        return measured.success

    def learn(
        self, result: StepResult, trajectories: Sequence[Trajectory], policy: str, *, step: int, key: Key
    ) -> None:
        """Updates `policy` alone from trajectories, after the regular updates; adds metrics and credit to `result`."""
        learner = self.learners[policy]
        agreement = learner.agreement
        batch, metrics = learn(replace(self, learners={policy: learner}), trajectories, key, step, everyone=True)
        learner.agreement = agreement  # Samples of older weights disagree by design, so they are not compared.
        prefix = f"{policy}/" if len(self.learners) > 1 else ""
        result.metrics |= {prefix + name: value for name, value in metrics.items()}
        if result.batch is not None and batch is not None:
            result.batch = joined(result.batch, batch, policy)

    def begin_phase(self, number: int, learners: Mapping[str, Learner]) -> None:
        """Ends the current phase and enters another one (numbered from 0) with its learners and rewards."""
        self.hooks.end_phase(self)
        self.enter_phase(number, learners)

    def enter_phase(self, number: int, learners: Mapping[str, Learner]) -> None:
        """Sets the learners and rewards of a phase, also after a resume."""
        self.learners = learners
        if self.rewards_by_phase:
            self.rewards = remembering.recalled(self.rewards_by_phase[number], self.rewards)


async def train_step(parts: RunContext, step: int) -> StepResult:
    """Step `step` (counted from 1): collects experience, computes credit and updates the weights of every learner."""
    key = parts.key.derive("step", step)
    started = time.perf_counter()

    await parts.hooks.before(parts, step)
    engine_counts: Callable[[], dict[str, int]] = getattr(parts.player, "counts", dict)
    counts_before = engine_counts()
    experience, problems = await collect(parts, key, step)
    result = learn_from(parts, step, experience, problems, rollout=time.perf_counter() - started)
    result.metrics |= engine_metrics(counts_before, engine_counts())
    await parts.hooks.after(parts, step, result)
    parts.ledger.note(step, outcomes(parts, experience))
    remember(parts, experience)
    result.metrics["time/step"] = time.perf_counter() - started
    return result


# ---------------------------------------------------------------- scenarios, rollout, rewards


@dataclass(frozen=True)
class Playing:
    """The `play` function of a rollout: a player with the step's key."""

    player: Player
    key: Key

    @property
    def tokenizer(self) -> object:
        return self.player

    async def __call__(self, assignments: Sequence[Assignment]) -> list[Trajectory]:
        return await self.player.play(assignments, key=self.key)


FURTHER = 2**16
"""How many further scenarios the rollout of a separately collected group may draw."""


async def collect(parts: RunContext, key: Key, step: int = 1, group: int | None = None) -> tuple[Experience, list[str]]:
    """Draws the scenarios of `step`, samples and scores them; returns the experience and the problems with rewards.

    With `group` it collects that group alone, for the scenario that is number `parts.asked` of the run. Further
    scenarios of its rollout have numbers in a range of that group, far from all others.

    A scenario that is drawn several times in a step counts as a different scenario each time
    (`hocket.core.occurrences`).
    """
    recipe = parts.lead.recipe
    problems: list[str] = []
    for learner in parts.learners.values():
        learner.begin_activation_cache()

    occurrences, place = OccurrenceIds(), 0 if group is None else group % recipe.curriculum.prompts
    before = 0 if group is None else _asked_before(parts, recipe.curriculum, place)

    def more(count: int) -> list[Assignment]:
        arguments = parts.task, parts.asked, count, parts.ledger, parts.key.derive("curriculum")
        if isinstance(recipe.curriculum, RememberingCurriculum):
            scenarios, memory = recipe.curriculum.ask_with(parts.lead.memory["curriculum"], *arguments)
            parts.lead.memory = {**parts.lead.memory, "curriculum": memory}
        else:
            scenarios = recipe.curriculum(*arguments)
        parts.asked += count
        marked = [occurrences.of(scenario, before) for scenario in scenarios]
        plain = [Assignment(scenario, decoding=parts.decoding) for scenario in marked]
        return [parts.hooks.assign(parts, assignment, step) for assignment in plain]

    async def score(trajectories: Sequence[Trajectory]) -> None:
        problems.extend(await grade(trajectories, parts.rewards, key=key.derive("score"), journal=parts.journal))

    player = parts.hooks.seat(recast(parts.player, recipe.cast, step), parts, step)
    with counting() as judging:
        assignments = more(recipe.curriculum.prompts if group is None else 1)
        if group is not None:
            parts.asked = FURTHER * (FURTHER + group)
            before = 2 * recipe.curriculum.prompts + FURTHER * place  # Above all numbers of the first assignments.
        arguments: dict[str, Any] = {
            "play": Playing(player, key.derive("play")),
            "score": score,
            "ledger": parts.ledger,
            "key": key.derive("rollout") if group is None else key.derive("rollout", group),
            "more": more,
        }
        rollout = recipe.rollout.at(step)
        if isinstance(rollout, RememberingRollout):
            experience, memory = await rollout.collect_with(parts.lead.memory["rollout"], assignments, **arguments)
            parts.lead.memory = {**parts.lead.memory, "rollout": memory}
        else:
            experience = await rollout.collect(assignments, **arguments)
    if parts.judge is not None:
        experience = replace(experience, metrics={**experience.metrics, **judging.metrics()})
    return experience, [*problems, *judging.problems]


def _asked_before(parts: RunContext, curriculum: Curriculum, place: int) -> int:
    """How often other groups may have drawn the scenario at `place` of a step earlier in the same step."""
    passes = curriculum.again(parts.task, parts.asked - place, parts.asked)
    if not isinstance(curriculum, Shuffled):
        return passes
    # Several numbers of a task may refer to the same scenario, as in a mixture of files or in a user's task.
    first, key = parts.asked - place, parts.key.derive("curriculum")
    *earlier, last = (scenario.id for scenario in curriculum(parts.task, first, place + 1, parts.ledger, key))
    return passes + earlier.count(last)


# ---------------------------------------------------------------- annotate, credit, learn


def learn_from(
    parts: RunContext, step: int, experience: Experience, problems: Sequence[str], *, rollout: float
) -> StepResult:
    """Updates the learners from the experience of `step`, whose rollout took `rollout` seconds. Skips the ledger."""
    key = parts.key.derive("step", step)
    started = time.perf_counter()
    learnable = [trajectory for trajectory in experience.trajectories if usable(trajectory)]
    unusable = [trajectory for trajectory in experience.trajectories if not usable(trajectory)]
    metrics = {**sampling_metrics(experience, parts.weights), **experience.metrics}
    with counting() as judging:
        batch, update_metrics = learn(parts, learnable, key, step)
    metrics |= update_metrics
    if parts.judge is not None:
        metrics |= {name: metrics.get(name, 0.0) + value for name, value in judging.metrics().items()}
    metrics |= {"time/rollout": rollout, "time/update": time.perf_counter() - started}
    metrics["throughput/tokens"] = metrics["tokens/generated"] / max(rollout, 1e-9)
    sentences = [*problems, *judging.problems]
    sentences += messages(experience, parts.learners, parts.weights, overlap=parts.overlap)
    sentences += first_step_messages(experience, parts.learners, parts.player) if step == 1 else ()
    return StepResult(metrics, learnable, batch, experience.discarded + unusable, sentences, experience)


def learn(
    parts: RunContext, trajectories: Sequence[Trajectory], key: Key, step: int, *, everyone: bool = False
) -> tuple[Batch | None, Metrics]:
    """Annotates, computes credit and updates every learner; returns the batch with credit, and the metrics.

    Each learner's recipe computes credit over the joint experience, and each learner learns from its own decisions.
    Learners that a hook withholds are skipped, unless `everyone` is set.
    """
    if not trajectories:
        return None, {}
    reads: frozenset[Column] = frozenset().union(*(learner.recipe.reads for learner in parts.learners.values()))
    trained = [name for name, learner in parts.learners.items() if not learner.frozen]
    learning = parts.lead.recipe.cast.learning(trained, step)
    learning -= frozenset() if everyone else parts.hooks.withheld(parts)

    batch = pack(trajectories)
    info = described(trajectories, task=parts.task, player=parts.player, ledger=parts.ledger, reads=reads)
    batch = batch.but(info=info | dict(batch.info))
    for name, learner in parts.learners.items():
        batch = learner.annotate(batch, later=name in learning and Column.BEHAVIOUR not in reads)
    measure_batch(parts.lead.recipe.statistics, batch, trajectories)
    if parts.embedder is not None:
        batch = parts.embedder.fill(batch, trajectories, [learner.policy for learner in parts.learners.values()])

    members = parts.learners.items()
    remote = {name: learner for name, learner in members if name in learning and learner.elsewhere is not None}
    begun = {name: learner.compute_credit(batch, parts.weights, step) for name, learner in remote.items()}
    for name, learner in remote.items():
        learner.begin(begun[name], key.derive("update", name), step)  # Other processes learn at the same time.

    moving = [column for column in reads if isinstance(column, Annotator) and column.moving]
    metrics: Metrics = {}
    credited = batch
    for name in _drawn_order(list(parts.learners), key.derive("order")) if moving else parts.learners:
        learner = parts.learners[name]
        assessed = begun[name] if name in begun else learner.compute_credit(batch, parts.weights, step)
        idle = {f"idle/{stage}": 1.0 for stage in learner.idle}
        update_metrics: Metrics = {}
        if name in learning:
            update_metrics = learner.learn(assessed, key.derive("update", name), step)
            assessed = learner.completed(assessed)
            batch = annotated(batch, moving, learner.policy)
        own_metrics = credit_metrics(assessed.of_policy(name)) | idle
        if learner.recipe.shaping:
            own_metrics["reward/shaped"] = finite_mean(returns(assessed)[counted_trajectories(assessed)].tolist())
        own_metrics |= update_metrics
        learner.end_activation_cache()
        prefix = f"{name}/" if len(parts.learners) > 1 else ""
        metrics |= {prefix + metric: value for metric, value in own_metrics.items()}
        credited = joined(credited, assessed, name)
    return credited, metrics


def _drawn_order(names: list[str], key: Key) -> list[str]:
    """The names in a random order."""
    return [names[place] for place in key.numpy().permutation(len(names)).tolist()]


def joined(batch: Batch, assessed: Batch, policy: str) -> Batch:
    """`batch` with the credit of `assessed` for one policy's decisions."""
    names = batch.names["policy"]
    if len(names) == 1:
        return assessed
    old, new = batch.occurrences, assessed.occurrences
    of_policy = batch.policy[batch.turn[old.decision]] == (names.index(policy) if policy in names else -1)
    return batch.but(scores=assessed.scores).credited(
        advantage=torch.where(of_policy, new.advantage, old.advantage.to(new.advantage.dtype)),
        weight=torch.where(of_policy, new.weight, old.weight.to(new.weight.dtype)),
    )


# ---------------------------------------------------------------- ledger and memory


def outcomes(parts: RunContext, experience: Experience) -> list[SampleOutcome]:
    """The outcomes that the ledger records: one per sample of the policies themselves, in order."""
    samples = [trajectory for trajectory in all_trajectories(experience) if trajectory.source == "own"]
    statistics = parts.lead.recipe.statistics
    measure_samples(statistics, samples)
    return [
        SampleOutcome(sample.scenario.id, total_reward(sample, parts.weights), measurements(statistics, sample))
        for sample in samples
    ]


def remember(parts: RunContext, experience: Experience) -> None:
    """Updates the memory of the curriculum and the rewards, once per step, from the experience."""
    collected = all_trajectories(experience)
    lead, curriculum = parts.lead, parts.lead.recipe.curriculum
    if isinstance(curriculum, RememberingCurriculum):
        samples = [trajectory for trajectory in collected if trajectory.source == "own"]
        memory = curriculum.after(lead.memory["curriculum"], samples, parts.weights)
        lead.memory = {**lead.memory, "curriculum": memory}
    sampled = [trajectory for trajectory in collected if trajectory.source in SAMPLED]
    parts.rewards = remembering.after(parts.rewards, sampled)
