"""One training step, from what is asked to changed weights. Read this file to understand the library.

    Curriculum -> [ Rollout <-> Reward ] -> Annotate -> Credit -> Objective -> Update -> weights

`RunContext` is everything a step touches; what changes from step to step is the learners, the ledger, `asked` and what
hooks and rewards remember, and a checkpoint holds exactly these.
"""

from __future__ import annotations

import math
import re
import shlex
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from hocket.agents.workflows.cast import recast
from hocket.agents.workflows.episode import CLOCKS
from hocket.core import sums
from hocket.core.annotators import Annotator
from hocket.core.batch import Batch
from hocket.core.columns import LIMIT, Column
from hocket.core.gradient_norms import GRADIENT_NORM, note_norms
from hocket.core.keys import Key
from hocket.core.occurrences import Occurrences
from hocket.core.outcomes import StepResult, total_reward, usable
from hocket.core.packing import pack
from hocket.core.signals import counted_trajectories, returns
from hocket.core.unlikeness import UNLIKENESS, note_unlikeness
from hocket.curriculum.remembering import RememberingCurriculum
from hocket.curriculum.shuffled import Shuffled
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
from hocket.train.ledger import Ledger, Told
from hocket.train.team_metrics import team_metrics
from hocket.types import Assignment, Decoding, Experience, Trajectory


@dataclass
class RunContext:
    """Everything a training step touches.

    Attributes:
        task: where scenarios come from. player: acts them out. rewards: score what happened, those with memory by
            what they remember now.
        learners: the trained policies by name; the first one's recipe decides what is asked and how it is rolled out.
        decoding: how training samples are drawn. key: the run's root key.
        ledger: history per scenario. journal: outside results by key. asked: scenarios asked for so far.
        rewards_by_phase: of each phase of the run, of which `rewards` are those of the present one.
        overlap: how many updates older than the learner's the weights are that sample; see `hocket.train.overlap`.
        hooks: calls the hooks and holds what they remember.
        judge: whom stages ask, where the run has one. embedder: fills vectors of texts, where a stage reads them.
        needs_reward: nothing tells right from wrong unless some reward does.
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
        """What evaluation averages in the present phase."""
        judged = bool(self.rewards) or not self.needs_reward
        return measure_of(self.lead.recipe, kind_of(self.task), judged=judged)

    @property
    def largest(self) -> int:
        """Parameters of the largest policy."""
        modules = [learner.policy.module for learner in self.learners.values()]
        return max(sum(tensor.numel() for tensor in module.parameters()) for module in modules)

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each named score."""
        return {reward.name: reward.weight for reward in self.rewards}

    # ------------------------------------------------------------ what hooks see and ask for

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
        """The success on the first `n` scenarios of a split of the task, greedily, once each."""
        measured = await evaluate(self.task, self.player, (), n=n, decoding=self.decoding, key=key, split=split)
        return measured.success

    def learn(
        self, result: StepResult, trajectories: Sequence[Trajectory], policy: str, *, step: int, key: Key
    ) -> None:
        """One update of `policy` alone from trajectories, after the others' one; metrics and credit join `result`."""
        learner = self.learners[policy]
        alone, of_step = replace(self, learners={policy: learner}), learner.agreement
        batch, learnt = learn(alone, trajectories, key, step, everyone=True)
        learner.agreement = of_step  # What is settled late was sampled by older weights, which is no news.
        prefix = f"{policy}/" if len(self.learners) > 1 else ""
        result.metrics |= {prefix + name: value for name, value in learnt.items()}
        if result.batch is not None and batch is not None:
            result.batch = joined(result.batch, batch, policy)

    def begin_phase(self, number: int, learners: Mapping[str, Learner]) -> None:
        """Goes on with the learners and the rewards of another phase (numbered from 0)."""
        self.hooks.end_phase(self)
        self.enter_phase(number, learners)

    def enter_phase(self, number: int, learners: Mapping[str, Learner]) -> None:
        """Stands in a phase, as after a resume."""
        self.learners = learners
        if self.rewards_by_phase:
            self.rewards = remembering.recalled(self.rewards_by_phase[number], self.rewards)


async def train_step(parts: RunContext, step: int) -> StepResult:
    """Step `step` (from 1): collects experience, gives credit, changes the weights of every learner."""
    key = parts.key.derive("step", step)
    started = time.perf_counter()

    await parts.hooks.before(parts, step)
    counted: Callable[[], dict[str, int]] = getattr(parts.player, "counts", dict)
    before = counted()
    experience, problems = await collect(parts, key, step)
    result = learn_from(parts, step, experience, problems, rollout=time.perf_counter() - started)
    result.metrics |= engine_metrics(before, counted())
    await parts.hooks.after(parts, step, result)
    parts.ledger.note(step, outcomes(parts, experience))
    remember(parts, experience)
    result.metrics["time/step"] = time.perf_counter() - started
    return result


def learn_from(
    parts: RunContext, step: int, experience: Experience, problems: Sequence[str], *, rollout: float
) -> StepResult:
    """Learns from the experience of `step`, which took `rollout` seconds to collect. The ledger is not written."""
    key = parts.key.derive("step", step)
    started = time.perf_counter()
    learnable = [trajectory for trajectory in experience.trajectories if usable(trajectory)]
    left_out = [trajectory for trajectory in experience.trajectories if not usable(trajectory)]
    metrics = {**sampling_metrics(experience, parts.weights), **experience.metrics}
    with counting() as asked:
        batch, learnt = learn(parts, learnable, key, step)
    metrics |= learnt
    if parts.judge is not None:
        metrics |= {name: metrics.get(name, 0.0) + value for name, value in asked.metrics().items()}
    metrics |= {"time/rollout": rollout, "time/update": time.perf_counter() - started}
    metrics["throughput/tokens"] = metrics["tokens/generated"] / max(rollout, 1e-9)
    said = [*problems, *asked.problems, *messages(experience, parts)]
    said += [*unmet(parts, experience), *idle_roles(parts, experience)] if step == 1 else ()
    return StepResult(metrics, learnable, batch, experience.discarded + left_out, said, experience)


def outcomes(parts: RunContext, experience: Experience) -> list[Told]:
    """What the ledger is told of every sample of the policies' own, in order."""
    own = [one for one in everything(experience) if one.source == "own"]
    if UNLIKENESS in parts.lead.recipe.reads:
        note_unlikeness(own)
    return [
        Told(one.scenario.id, total_reward(one, parts.weights), GRADIENT_NORM.get(one), UNLIKENESS.get(one))
        for one in own
    ]


def everything(experience: Experience) -> list[Trajectory]:
    """What a step collected, kept and then discarded."""
    return experience.trajectories + experience.discarded


def remember(parts: RunContext, experience: Experience) -> None:
    """Has curriculum and rewards remember, once, what a step brought."""
    sampled = everything(experience)
    lead, curriculum = parts.lead, parts.lead.recipe.curriculum
    if isinstance(curriculum, RememberingCurriculum):
        own = [one for one in sampled if one.source == "own"]
        lead.memory = {**lead.memory, "curriculum": curriculum.after(lead.memory["curriculum"], own, parts.weights)}
    parts.rewards = remembering.after(parts.rewards, [one for one in sampled if one.source in SAMPLED])


def learn(
    parts: RunContext, trajectories: Sequence[Trajectory], key: Key, step: int, *, everyone: bool = False
) -> tuple[Batch | None, Metrics]:
    """Annotate, credit, objective and update for every learner; returns the credited batch and the metrics.

    Credit is computed over the joint experience by each learner's recipe, and each learns from its own decisions; whom
    a hook withholds, not yet, unless `everyone` is to learn.
    """
    if not trajectories:
        return None, {}
    batch = pack(trajectories)
    reads: frozenset[Column] = frozenset().union(*(learner.recipe.reads for learner in parts.learners.values()))
    told = described(trajectories, task=parts.task, player=parts.player, ledger=parts.ledger, reads=reads)
    batch = batch.but(info=told | dict(batch.info))
    trained = [name for name, learner in parts.learners.items() if not learner.frozen]
    learning = parts.lead.recipe.cast.learning(trained, step)
    learning -= frozenset() if everyone else parts.hooks.withheld(parts)
    for name, learner in parts.learners.items():
        batch = learner.annotate(batch, later=name in learning and Column.BEHAVIOUR not in reads)
    note_norms(batch, trajectories)
    if parts.embedder is not None:
        batch = parts.embedder.fill(batch, trajectories, [learner.policy for learner in parts.learners.values()])
    metrics: Metrics = {}
    credited = batch
    away = {name: one for name, one in parts.learners.items() if name in learning and one.elsewhere is not None}
    begun = {name: learner.compute_credit(batch, parts.weights, step) for name, learner in away.items()}
    for name, learner in away.items():
        learner.begin(begun[name], key.derive("update", name), step)  # They learn while others do.
    moving = [column for column in reads if isinstance(column, Annotator) and column.moving]
    for name in _order(list(parts.learners), key.derive("order")) if moving else parts.learners:
        learner = parts.learners[name]
        assessed = begun[name] if name in begun else learner.compute_credit(batch, parts.weights, step)
        idle = {f"idle/{stage}": 1.0 for stage in learner.idle}
        learnt: Metrics = {}
        if name in learning:
            learnt = learner.learn(assessed, key.derive("update", name), step)
            assessed = learner.completed(assessed)
            batch = annotated(batch, moving, learner.policy)
        found = credit_metrics(assessed.of_policy(name)) | idle
        if learner.recipe.shaping:
            found["reward/shaped"] = _mean(returns(assessed)[counted_trajectories(assessed)].tolist())
        found |= learnt
        learner.end_activation_cache()
        prefix = f"{name}/" if len(parts.learners) > 1 else ""
        metrics |= {prefix + measure: value for measure, value in found.items()}
        credited = joined(credited, assessed, name)
    return credited, metrics


def _order(names: list[str], key: Key) -> list[str]:
    """The names in an order drawn by the key."""
    return [names[place] for place in key.numpy().permutation(len(names)).tolist()]


def joined(batch: Batch, assessed: Batch, policy: str) -> Batch:
    """`batch` with the credit that `assessed` gives to one policy's decisions."""
    names = batch.names["policy"]
    if len(names) == 1:
        return assessed
    seen, given = batch.occurrences, assessed.occurrences
    mine = batch.policy[batch.turn[seen.decision]] == (names.index(policy) if policy in names else -1)
    return batch.but(scores=assessed.scores).credited(
        advantage=torch.where(mine, given.advantage, seen.advantage.to(given.advantage.dtype)),
        weight=torch.where(mine, given.weight, seen.weight.to(given.weight.dtype)),
    )


@dataclass(frozen=True)
class Playing:
    """What a rollout plays with: a player under the step's key, and its words where it has any."""

    player: Player
    key: Key

    @property
    def tokenizer(self) -> object:
        return self.player

    async def __call__(self, assignments: Sequence[Assignment]) -> list[Trajectory]:
        return await self.player.play(assignments, key=self.key)


FURTHER = 2**16
"""How many scenarios a group that is collected alone may ask for beyond its own."""


async def collect(parts: RunContext, key: Key, step: int = 1, group: int | None = None) -> tuple[Experience, list[str]]:
    """Seats the cast of `step`, asks the curriculum, rolls out and scores; also what went wrong with rewards.

    With `group` it collects that one group alone, for the scenario that is number `parts.asked` of the run; what a
    rollout asks for besides has numbers of that group's own, far from all others.

    A scenario that is asked several times in a step is another one each time (`hocket.core.occurrences`).
    """
    recipe = parts.lead.recipe
    problems: list[str] = []
    for learner in parts.learners.values():
        learner.begin_activation_cache()

    seen, place = Occurrences(), 0 if group is None else group % recipe.curriculum.prompts
    before = 0 if group is None else _asked_before(parts, recipe.curriculum, place)

    def more(count: int) -> list[Assignment]:
        told = parts.task, parts.asked, count, parts.ledger, parts.key.derive("curriculum")
        if isinstance(recipe.curriculum, RememberingCurriculum):
            asked, after = recipe.curriculum.ask_with(parts.lead.memory["curriculum"], *told)
            parts.lead.memory = {**parts.lead.memory, "curriculum": after}
        else:
            asked = recipe.curriculum(*told)
        parts.asked += count
        plain = [Assignment(seen.of(scenario, before), decoding=parts.decoding) for scenario in asked]
        return [parts.hooks.assign(parts, assignment, step) for assignment in plain]

    async def score(trajectories: Sequence[Trajectory]) -> None:
        problems.extend(await grade(trajectories, parts.rewards, key=key.derive("score"), journal=parts.journal))

    player = parts.hooks.seat(recast(parts.player, recipe.cast, step), parts, step)
    with counting() as asked:
        assignments = more(recipe.curriculum.prompts if group is None else 1)
        if group is not None:
            parts.asked = FURTHER * (FURTHER + group)
            before = 2 * recipe.curriculum.prompts + FURTHER * place  # More than what asks first can be numbered.
        told: dict[str, Any] = {
            "play": Playing(player, key.derive("play")),
            "score": score,
            "ledger": parts.ledger,
            "key": key.derive("rollout") if group is None else key.derive("rollout", group),
            "more": more,
        }
        rollout = recipe.rollout.at(step)
        if isinstance(rollout, RememberingRollout):
            experience, after = await rollout.collect_with(parts.lead.memory["rollout"], assignments, **told)
            parts.lead.memory = {**parts.lead.memory, "rollout": after}
        else:
            experience = await rollout.collect(assignments, **told)
    if parts.judge is not None:
        experience = replace(experience, metrics={**experience.metrics, **asked.metrics()})
    return experience, [*problems, *asked.problems]


def _asked_before(parts: RunContext, curriculum: Curriculum, place: int) -> int:
    """How often the scenario that is number `place` of its step may have been asked in it before, by other groups."""
    passes = curriculum.again(parts.task, parts.asked - place, parts.asked)
    if not isinstance(curriculum, Shuffled):
        return passes
    # Several numbers of a task may be one scenario: those of a mixture of files are, and a user's task may have more.
    told = parts.ledger, parts.key.derive("curriculum")
    *earlier, own = (one.id for one in curriculum(parts.task, parts.asked - place, place + 1, *told))
    return passes + earlier.count(own)


SAMPLED = ("own", "helped", "baseline", "branch")
"""Sources of trajectories that the policies sampled."""


def sampling_metrics(experience: Experience, weights: Mapping[str, float]) -> Metrics:
    """What was sampled: rewards before shaping, lengths, truncations, failures."""
    found = everything(experience)
    own = [trajectory for trajectory in found if trajectory.source == "own"] or found
    kept = [
        trajectory
        for trajectory in experience.trajectories
        if trajectory.source not in ("baseline", "branch", "replay")
    ]
    whole = [trajectory for trajectory in own if trajectory.failure is None]
    metrics = {
        "reward/mean": _mean([total_reward(trajectory, weights) for trajectory in kept]),
        "groups/total": float(len({trajectory.scenario.id for trajectory in found})),
        "tokens/generated": float(generated(t for t in found if t.source in SAMPLED)),
        "length/mean": _mean([float(trajectory.length) for trajectory in whole]),
        "truncated/share": _mean([float(trajectory.truncated) for trajectory in whole]),
        "episodes/failed": float(sum(trajectory.failure is not None for trajectory in own)),
    }
    if broken := _broken(t for t in found if t.source in SAMPLED):
        metrics["sampling/nan"] = broken
    judged = [trajectory for trajectory in whole if trajectory.scores]
    if judged:
        unrewarded = [math.isnan(total_reward(trajectory, weights)) for trajectory in judged]
        metrics["unrewarded/share"] = sum(unrewarded) / len(unrewarded)
    names = {name for trajectory in whole for name in trajectory.scores}
    for name in sorted(names) if len(names) > 1 else []:
        alone = {other: float(other == name) for other in names}
        told = [t for t in kept if name in t.scores and t.scores[name].value is not None]
        metrics[f"reward/{name}"] = _mean([total_reward(t, alone) for t in told])
    return metrics | team_metrics(whole, weights)


def generated(trajectories: Iterable[Trajectory]) -> int:
    """Decisions that were sampled: those of a turn that several trajectories share once, and imposed ones never."""
    turns = {id(turn): turn for trajectory in trajectories for turn in trajectory.turns}
    return sum(len(turn) - (0 if turn.forced is None else int(turn.forced.sum())) for turn in turns.values())


def _broken(trajectories: Iterable[Trajectory]) -> float:
    """The share of turns whose log-probs are no numbers: what sampled them no longer gives probabilities."""
    turns = {id(turn): turn for trajectory in trajectories for turn in trajectory.turns}.values()
    known = [turn.logp for turn in turns if turn.logp is not None and len(turn)]
    return sum(bool(np.isnan(logp).any()) for logp in known) / len(known) if known else 0.0


def engine_metrics(before: Mapping[str, int], after: Mapping[str, int]) -> Metrics:
    """How the engines in this process worked between two counts; nothing where there are none.

    How full they were may depend on how fast tools answered, and what they found computed on where a run was resumed,
    though no token does: so these are named as measures of speed are.
    """
    done = {name: after[name] - before.get(name, 0) for name in after}
    if not done.get("passes"):
        return {}
    context = done["computed"] + done["reused"]
    return {
        "throughput/engine/rows": done["rows"] / done["passes"],
        "throughput/engine/occupancy": done["rows"] / done["places"] if done["places"] else math.nan,
        "throughput/engine/reused": done["reused"] / context if context else math.nan,
        "throughput/engine/evicted": float(done["evicted"]),
        "throughput/engine/preempted": float(done["preempted"]),
    }


def credit_metrics(batch: Batch) -> Metrics:
    """What credit left: groups with signal, sampling entropy, distance from the reference."""
    seen = batch.occurrences
    signal = (seen.weight != 0) & (seen.advantage != 0)
    if seen.pairs is not None:
        signal = seen.weight != 0
    counted = seen.weight != 0
    recorded = batch.logp["behaviour"]
    counted &= recorded.present[seen.decision]  # A scorer has no log-probs.
    behaviour = recorded.values[seen.decision[counted]].double()
    metrics = {
        "groups/with_signal": float(len(set(batch.scenario[seen.trajectory[signal]].tolist()))),
        # The mean of -log-prob over what was sampled estimates the sampling entropy per decision.
        "entropy": float(-behaviour.mean()) if len(behaviour) else math.nan,
    }
    if batch.value is not None and len(values := batch.value[seen.decision[seen.weight != 0]]):
        metrics["value/largest"] = float(values.abs().max())
    if "reference" in batch.logp:
        known = batch.logp["reference"].present[seen.decision[counted]]
        gap = (batch.logp["reference"].values[seen.decision[counted]].double() - behaviour)[known]
        metrics["kl/reference"] = float((gap.exp() - 1 - gap).mean()) if len(gap) else math.nan
    return metrics


def messages(experience: Experience, parts: RunContext) -> list[str]:
    """What a person should be told about this step, in sentences."""
    found = faults(experience)
    judged = [trajectory for trajectory in everything(experience) if trajectory.scores and not trajectory.failure]
    if judged and not any(usable(trajectory) for trajectory in judged):
        found.append("no reward had an opinion on any sample, so there was nothing to learn from")
    earned = [abs(total_reward(one, parts.weights)) for one in judged]
    largest = max((size for size in earned if not math.isnan(size)), default=0.0)
    if largest > LARGEST_REWARD:
        found.append(
            f"a reward of {largest:g} is beyond what advantages hold ({LARGEST_REWARD:.2g}), so the step may teach "
            "nothing; let rewards be smaller"
        )
    full = [trajectory for trajectory in experience.trajectories if not trajectory.length and LIMIT.get(trajectory)]
    if full:
        found.append(f"{len(full)} of {len(experience.trajectories)} episodes are empty: {LIMIT.get(full[0])}")
    for learner in parts.learners.values():
        seen = learner.agreement
        if seen is None or (parts.overlap and seen.stale):
            continue  # Samples of older weights were asked for, and no gap says anything about numerics.
        cause = seen.cause(AGREEMENT_THRESHOLD)
        if cause:
            found.append(cause)
    return found


LARGEST_REWARD = float(torch.finfo(torch.float32).max)
"""Advantages are of this precision."""

KINDS = 8
"""Kinds of faults of one step that are told one by one."""


def faults(experience: Experience) -> list[str]:
    """How many episodes failed, or were ended by a clock, for each reason; reasons that differ in numbers are one."""
    several, kinds = len(experience.trajectories), dict[tuple[str, str], list[str]]()
    for trajectory in experience.trajectories:
        limit = str(LIMIT.get(trajectory) or "")
        told = [("failed", trajectory.failure)] if trajectory.failure is not None else []
        told += [("were cut short", limit)] if any(name in limit for name in CLOCKS) else []
        for what, why in told:
            kinds.setdefault((what, re.sub(r"\d+", "0", why)), []).append(why)
    most = sorted(kinds.items(), key=lambda kind: -len(kind[1]))
    found = [f"{len(why)} of {several} episodes {what}: {why[0]}" for (what, _), why in most[:KINDS]]
    left = sum(len(why) for _, why in most[KINDS:])
    return found + ([f"{left} of {several} episodes failed or were cut short for other reasons"] if left else [])


def unmet(parts: RunContext, experience: Experience) -> list[str]:
    """What recipes require of experience and this one does not hold, in sentences that say what is left of them."""
    found = []
    for recipe in {learner.recipe.name: learner.recipe for learner in parts.learners.values()}.values():
        lacking = [one.value for one in recipe.requires if not one.met(experience.trajectories)]
        if lacking:
            left = f"what is left of it is {recipe.parent}" if recipe.parent else "it is another method without"
            example = f"; it is for `--task {shlex.quote(recipe.task)}`" if recipe.task else ""
            found.append(f"{recipe.name} requires {' and '.join(lacking)}, and there are none: {left}{example}")
    return found


def idle_roles(parts: RunContext, experience: Experience) -> list[str]:
    """Roles of the workflow that nobody called in any episode, in a sentence; none where no episode ended well."""
    played = [one for one in experience.trajectories if one.failure is None]
    called = {turn.role or turn.agent for one in played for turn in one.turns}
    roles: Sequence[str] = getattr(getattr(parts.player, "workflow", None), "roles", ())
    idle = [role for role in roles if role not in called]
    if not called or not idle:
        return []
    named = f"role {idle[0]} was" if len(idle) == 1 else f"roles {', '.join(idle)} were"
    return [
        f"{named} called in none of {len(played)} episodes, so it learns nothing; ask `team.{idle[0]}` in `play`, "
        "or leave it out of `roles`"
    ]


AGREEMENT_THRESHOLD = 0.05
"""Nats. Twice the 99.9th percentile that bf16 numerics reach, far above fp32's 1e-5."""


def _mean(values: Sequence[float]) -> float:
    finite = [value for value in values if math.isfinite(value)]
    whole = sum(finite)
    return whole / len(finite) if finite and math.isfinite(whole) else sums.mean(finite)
