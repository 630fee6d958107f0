"""From a configuration to the parts of a run: task, policies, players, rewards, learners."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.recipe import Recipe, lost_memory
from hocket.recipes import find as find_recipe
from hocket.rewards.functions import load_rewards
from hocket.rewards.judging import Judge
from hocket.rewards.remembering import RememberingReward, restored
from hocket.stages import Hook, Policy, Reward, Task
from hocket.train.checkpoint import REFERENCE, Checkpoints
from hocket.train.embedders import Embedder
from hocket.train.examples import replayed
from hocket.train.journal import Journal
from hocket.train.judges import asking, with_judge
from hocket.train.kinds import kind_of
from hocket.train.learner import Learner
from hocket.train.ledger import Ledger
from hocket.train.loop import RunContext
from hocket.train.roles import settings_by_policy
from hocket.train.scorer_rewards import is_scorer, scorer_reward, with_words_of
from hocket.train.searching import check_embedder
from hocket.train.sequential import refuse_ahead
from hocket.train.settings import Config, RoleSettings
from hocket.train.store_step import check_store
from hocket.train.teachers import seat_teachers

if TYPE_CHECKING:
    from hocket.policies.family import Precision

TASK_REWARD = "task"
"""The name of the task's own verifiers among `--reward` flags."""


def build_parts(
    config: Config,
    task: Task,
    *,
    rewards: Sequence[Reward] = (),
    workflow: Any = None,
    weights: Mapping[str, Path] | None = None,
    journal: Journal | None = None,
    precision: Precision = "fp32",
    judge: Judge | None = None,
    embedder: Embedder | None = None,
) -> RunContext:
    """Builds all parts. `weights` maps policies to checkpoint folders that replace the configured models.

    Stages and rewards that can use a judge get `judge`; without one they use their rules.

    Raises:
        ConfigurationError: when parts do not fit together, or no part uses the judge or the embedder.
    """
    check_store(config, task)
    key = Key.of(config.seed)
    policies, player = kind_of(task, config).build(
        config, task, workflow=workflow, journal=journal, precision=precision
    )
    kind_rewards = kind_of(task, config).rewards(config, task, workflow)
    check_embedder(config, getattr(player, "workflow", None))
    specs = filter(is_scorer, config.reward)
    scorers = {spec: scorer_reward(spec, config, precision, journal, kind_rewards) for spec in specs}
    unjudged = _rewards(config, task, rewards, workflow, scorers)
    words = policies.values() if kind_of(task, config).textual else ()
    by_phase = with_judge(tuple(tuple(with_words_of(reward, words) for reward in phase) for phase in unjudged), judge)
    check_rewards(config, [*itertools.chain(*by_phase)])
    stages = [*(stage for recipe, _ in config.phases for stage in recipe.stages), *itertools.chain(*by_phase)]
    if judge is not None and not any(asking(stages)):
        raise ConfigurationError(f"judge = {config.judge!r}: {config.method} asks no judge; drop it")
    parts = RunContext(
        task=task,
        player=player,
        rewards=by_phase[0],
        rewards_by_phase=by_phase,
        learners={},
        decoding=config.decoding,
        key=key,
        ledger=Ledger(),
        journal=journal,
        overlap=config.behind,
        judge=judge,
        embedder=embedder,
        needs_reward=kind_of(task, config).needs_reward(config, task, workflow),
    )
    parts.learners = build_learners(config, policies, config.phases[0][0], judge, journal=journal)
    for name, folder in ({} if weights else kind_of(task, config).begins(config, policies)).items():
        for policy in (policies[name], parts.learners[name].reference):
            if policy is not None:
                policy.load(folder)
    seat_references(config, parts)
    later: list[Any] = [hook for phase, _ in config.phases[1:] for hook in phase.hooks]
    later += [reward for paid in by_phase[1:] for reward in paid if isinstance(reward, Hook)]
    for hook in [*parts.active.values(), *later]:
        hook.check(parts)
    # At this point, because the learners' references are copies of the configured models, not of trained weights.
    for name, folder in (weights or {}).items():
        policies[name].load(folder)
    return parts


def check_rewards(config: Config, rewards: Sequence[Reward]) -> None:
    """Refuses rewards whose memory would be lost.

    Raises:
        ConfigurationError: naming the reward and the remedy.
    """
    for reward in rewards:
        if (reason := lost_memory("rewards", reward)) is not None:
            raise ConfigurationError(f"reward {reward.name}: {reason}")
        if isinstance(reward, RememberingReward):
            refuse_ahead(config, reward, f"(reward {reward.name})")


def build_learners(
    config: Config,
    policies: Mapping[str, Policy],
    recipe: Recipe,
    judge: Judge | None = None,
    *,
    some: bool = False,
    journal: Journal | None = None,
) -> dict[str, Learner]:
    """One learner per policy, of all policies or of `some`; a role may name its own recipe.

    `journal` stores what a teacher behind a server answers.
    """
    by_policy = settings_by_policy(config)
    learners = {}
    for name, policy in policies.items():
        settings = by_policy.get(name, RoleSettings())
        chosen = find_recipe(settings.recipe) if settings.recipe else recipe
        learners[name] = Learner(
            policy,
            with_judge(chosen, judge),
            total_steps=config.total_steps,
            frozen=settings.frozen,
            leaves=config.leaves,
            optimiser=config.optimiser,
            key=Key.of(config.seed).derive("optimiser", name),
        )
    seat_teachers(config, learners, journal, some=some)
    if not some and all(learner.frozen for learner in learners.values()):
        raise ConfigurationError("every policy is frozen, so nothing would be learnt; leave one role unfrozen")
    return learners


def take_up(config: Config, parts: RunContext, checkpoint: Path) -> None:
    """Enters the phase of a checkpoint with the memory of its stages and its references; weights are already loaded.

    Used for measurements: optimisers keep their initial state.
    """
    state = Checkpoints(checkpoint.parent).load(checkpoint)
    phase, folders = int(state["progress"]["phase"]), Checkpoints.policies(checkpoint)
    if phase:
        policies = {name: learner.policy for name, learner in parts.learners.items()}
        learners = build_learners(config, policies, config.phases[phase][0], parts.judge, journal=parts.journal)
        parts.enter_phase(phase, learners)
        seat_references(config, parts)
    parts.rewards = restored(parts.rewards, state.get("rewards", {}))
    for name, learner in parts.learners.items():
        learner.memory = state["learners"][name]["memory"]
        if learner.reference is not None and name + REFERENCE in folders:
            learner.reference.load(folders[name + REFERENCE])


def seat_references(config: Config, parts: RunContext) -> None:
    """Gives the player the learners' references, if the rollout samples from them.

    Raises:
        ConfigurationError: when another process samples, or a policy in play has no reference.
    """
    recipe, player = parts.lead.recipe, parts.player
    if not recipe.plays_reference:
        return
    away = "overlap" if config.behind else f"engine.kind {config.engine.kind}"
    if config.behind or config.engine.kind != "local":
        raise ConfigurationError(
            f"recipe {recipe.name} samples from the policy before training, which {away} does not hold; "
            "leave overlap at 0 and engine.kind local"
        )
    without = next((name for name, learner in parts.learners.items() if learner.reference is None), None)
    if without is not None:
        raise ConfigurationError(
            f"recipe {recipe.name} samples from all policies as they were before training, but the recipe of "
            f"{without!r} keeps no reference; give it the same recipe"
        )
    references = {name: cast(Policy, learner.reference) for name, learner in parts.learners.items()}
    parts.player = kind_of(parts.task, config).with_references(config, player, references)


def _rewards(
    config: Config, task: Task, objects: Sequence[Reward], workflow: Any, scorers: Mapping[str, Reward]
) -> tuple[tuple[Reward, ...], ...]:
    """The rewards of each phase: those from Python and from flags, else those of its recipe, else the task's own.

    `scorers` are the scorers that flags name.
    """
    loaded = iter(load_rewards([spec for spec in config.reward if spec != TASK_REWARD and spec not in scorers]))
    kind = kind_of(task, config)
    kind_rewards = kind.rewards(config, task, workflow)
    named: list[Reward] = []
    for spec in config.reward:
        named += kind_rewards if spec == TASK_REWARD else [scorers[spec] if spec in scorers else next(loaded)]
    phases = tuple((*objects, *named) or recipe.rewards or tuple(kind_rewards) for recipe, _ in config.phases)
    recorded = (replayed(recipe) is not None for recipe, _ in config.phases)
    unpaid = any(not (phase or is_recorded) for phase, is_recorded in zip(phases, recorded, strict=True))
    if unpaid and kind.needs_reward(config, task, workflow):
        raise ConfigurationError(
            f"task {task.name} has neither answers nor a reward, so nothing can be learnt; add an answer to its "
            "scenarios or a reward with --reward FILE.py:FUNCTION"
        )
    return phases
