"""From a configuration to the parts of a run: task, policies, players, rewards, learners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from hocket.casting import Cast
from hocket.errors import ConfigurationError
from hocket.keys import Key
from hocket.recipe import Recipe
from hocket.recipes import find as find_recipe
from hocket.rewards import load_rewards
from hocket.rollout import Demonstrations, Preferences
from hocket.stages import Player, Policy, Reward, Task
from hocket.train.config import Config, RoleSettings
from hocket.train.journal import Journal
from hocket.train.learner import Learner
from hocket.train.ledger import Ledger
from hocket.train.loop import Parts
from hocket.types import Trajectory, before_training
from hocket.workflows import SingleTurn, TextPlayer, Workflow
from hocket.workflows.team import Labeller

if TYPE_CHECKING:
    from hocket.policies.causal_lm import CausalLM
    from hocket.policies.family import Precision
    from hocket.policies.shared import Bases

TASK_REWARD = "task"
"""Among `--reward` flags, names the task's own verifiers, so that they can stand beside others."""

POLICY = "policy"
"""The name of the only policy, when roles do not name others."""


def build_parts(
    config: Config,
    task: Task,
    *,
    rewards: Sequence[Reward] = (),
    workflow: Any = None,
    weights: Mapping[str, Path] | None = None,
    journal: Journal | None = None,
    precision: Precision = "fp32",
) -> Parts:
    """Builds all parts. `weights` maps policies to checkpoint folders to read instead of the configured models."""
    key = Key.of(config.seed)
    text = task.kind == "text"
    policies, player = (
        _text(config, task, _flow(config, task, workflow), journal, precision) if text else _control(config, task, key)
    )
    parts = Parts(
        task=task,
        player=player,
        rewards=_rewards(config, task, rewards, workflow),
        learners={},
        decoding=config.decoding,
        key=key,
        ledger=Ledger(),
        journal=journal,
        overlap=config.overlap,
    )
    parts.learners = build_learners(config, policies, config.phases[0][0])
    seat_references(config, parts)
    for hook in [*parts.active.values(), *(hook for phase, _ in config.phases[1:] for hook in phase.hooks)]:
        hook.check(parts)
    # Only now: the learners' references are copies of the configured models, not of what training made of them.
    for name, folder in (weights or {}).items():
        policies[name].load(folder)
    return parts


def build_learners(config: Config, policies: Mapping[str, Policy], recipe: Recipe) -> dict[str, Learner]:
    """One learner per policy; a role may name a recipe of its own."""
    own = _of_policies(config)
    learners = {}
    for name, policy in policies.items():
        settings = own.get(name, RoleSettings())
        chosen = find_recipe(settings.recipe) if settings.recipe else recipe
        if chosen.needs_latents and not getattr(policy, "latents", False):
            raise ConfigurationError(
                f"recipe {chosen.name} trains a policy with latent thoughts (hocket.policies.latent.LatentLM), which "
                f"{name!r} is not; build it in Python, or choose grpo-kl"
            )
        learners[name] = Learner(policy, chosen, total_steps=config.total_steps, frozen=settings.frozen)
    if all(learner.frozen for learner in learners.values()):
        raise ConfigurationError("every policy is frozen, so nothing would be learnt; leave one role unfrozen")
    return learners


def seat_references(config: Config, parts: Parts) -> None:
    """Gives the player the learners' references to sample from, where the rollout asks for them.

    Raises:
        ConfigurationError: when what samples is not in this process, or a policy that plays has no reference.
    """
    recipe, player = parts.lead.recipe, parts.player
    if not recipe.plays_reference:
        return
    away = "overlap" if config.overlap else f"engine.kind {config.engine.kind}"
    if config.overlap or config.engine.kind != "local":
        raise ConfigurationError(
            f"recipe {recipe.name} samples from the policy as it was before training, which {away} does not hold; "
            "leave overlap at 0 and engine.kind local"
        )
    without = next((name for name, learner in parts.learners.items() if learner.reference is None), None)
    if without is not None:
        raise ConfigurationError(
            f"recipe {recipe.name} samples from all policies as they were before training, but the recipe of "
            f"{without!r} keeps no reference; give it the same recipe"
        )
    references = {name: cast(Policy, learner.reference) for name, learner in parts.learners.items()}
    if isinstance(player, TextPlayer):
        parts.player = _with_references(player, references, config)
    else:
        cast(Any, player).reference = references[parts.lead.policy.name]


def _with_references(player: TextPlayer, references: Mapping[str, Policy], config: Config) -> TextPlayer:
    """The player with a seat for each role's reference; engines of an earlier phase serve on, with the new weights."""
    from hocket.engine.local import LocalEngine
    from hocket.policies.causal_lm import CausalLM

    engines: dict[str, LocalEngine] = {}
    seats = {}
    for role, seat in player.seats.items():
        if not seat.learns:
            continue
        reference, name = cast(CausalLM, references[seat.policy]), seat.policy
        local = cast(LocalEngine, seat.engine)
        reference.end_of_turn = local.policy.end_of_turn
        if name not in engines:
            earlier = player.references.get(role)
            engines[name] = (
                cast(LocalEngine, earlier.engine)
                if earlier is not None
                else LocalEngine(reference, max_rows=config.engine.max_rows, lobby=local.lobby)
            )
            engines[name].policy = reference
        seats[role] = replace(seat, policy=before_training(name), engine=engines[name])
    return replace(player, references=seats)


def _of_policies(config: Config) -> dict[str, RoleSettings]:
    """The settings of each policy that some role names or needs."""
    seating = config.phases[0][0].cast
    return {_policy_of(role, settings, seating): settings for role, settings in config.roles.items()}


def _policy_of(role: str, settings: RoleSettings, seating: Cast) -> str:
    """Roles share one policy unless they name another, bring a model or recipe of their own, are frozen, or the
    recipe's cast gives each its own."""
    if settings.policy:
        return settings.policy
    own = settings.model or settings.recipe or settings.frozen
    return role if own else seating.policy(role) or POLICY


def _flow(config: Config, task: Task, given: Any) -> Workflow:
    """What plays: the run's workflow, else the recipe's, else the task's own, else one answer of one policy."""
    from hocket.workflows.library import checked_workflow
    from hocket.workflows.library import find as find_workflow

    named = config.workflow or (None if given else config.phases[0][0].workflow)
    if given is None and named is None:
        return getattr(task, "workflow", None) or SingleTurn()
    return find_workflow(str(named)) if given is None else checked_workflow(given, type(given).__name__)


def _text(
    config: Config, task: Task, flow: Workflow, journal: Journal | None, precision: Precision
) -> tuple[dict[str, Policy], Player]:
    from hocket.engine.lobby import Lobby
    from hocket.engine.requests import Engine
    from hocket.policies.shared import Bases
    from hocket.train.endpoints import outside_seat
    from hocket.train.engines import Engines
    from hocket.workflows import Chat, Limits, Seat

    unknown = [role for role in config.roles if role not in flow.roles]
    if unknown:
        raise ConfigurationError(f"roles.{unknown[0]}: the workflow has the roles {', '.join(flow.roles)}")
    policies: dict[str, CausalLM] = {}
    engines: dict[str, Engine] = {}
    lobby = Lobby()  # One for all engines: each runs when every live workflow waits, on whichever of them.
    making, bases, own = Engines(config, lobby, journal), Bases(), _of_policies(config)
    seating = config.phases[0][0].cast
    seats = {}
    for role in flow.roles:
        settings = config.roles.get(role, RoleSettings())
        if settings.endpoint is not None:
            seats[role] = outside_seat(
                role,
                settings,
                tokenizer=model_path(config.model),
                chat_template=config.chat_template,
                journal=journal,
                lobby=lobby,
            )
            continue
        _refuse_strays(role, settings)
        name = _policy_of(role, settings, seating)
        if name not in policies:
            policies[name] = load_policy(config, name, settings.model, precision, bases)
            # A frozen policy stays its base, so that no adapter is computed for it.
            policies[name].adapted &= not own.get(name, settings).frozen
            engines[name] = making.of(policies[name])
        seats[role] = Seat(policy=name, engine=engines[name], chat=Chat(policies[name].tokenizer))
    taken = next((role for role, seat in seats.items() if not seat.learns and role in policies), None)
    if taken is not None:
        raise ConfigurationError(f"roles.{taken} is played by an endpoint, so no policy can be called {taken!r}")
    limits = config.limits.over(getattr(flow, "limits", None) or Limits())
    player = TextPlayer(flow, seats, limits, verifier=getattr(task, "verify", None), labeller=_labeller(task))
    return cast(dict[str, Policy], policies), player


def _labeller(task: Task) -> Labeller | None:
    """What reads the final answer out of a text, where the task does."""
    label = getattr(task, "label", None)
    return None if label is None else lambda text, scenario: label(Trajectory(scenario, [], info={"answer": text}))


def load_policy(
    config: Config, name: str, model: str | None = None, precision: Precision = "fp32", bases: Bases | None = None
) -> CausalLM:
    """The language model `name` of a run as configured, before any training; `model` when it has one of its own.

    With adapters, policies loaded by the same `bases` share their frozen weights.
    """
    from hocket.policies.causal_lm import CausalLM
    from hocket.train.machine import device_of
    from hocket.workflows import Chat

    policy = CausalLM.from_pretrained(
        model_path(model or config.model),
        name=name,
        lora=config.lora,
        precision=precision,
        chat_template=config.chat_template,
        bases=bases,
        key=Key.of(config.seed).derive("policy", name),
    )
    policy.module.to(device_of(config))
    policy.end_of_turn = Chat(policy.tokenizer).stops
    return policy


def configured_models(config: Config) -> list[Any]:
    """The `transformers` configurations of the language models that a run on words samples from; reads no weights."""
    from hocket.policies.loading import read_config

    # A workflow may have roles that no setting names, so the run's own model counts always.
    own = {role.model for role in config.roles.values() if role.model is not None and role.endpoint is None}
    return [read_config(model_path(name)) for name in sorted({config.model, *own})]


def _refuse_strays(role: str, settings: RoleSettings) -> None:
    """Settings of an endpoint without one would be ignored."""
    for name in ("tokenizer", "key_variable"):
        if getattr(settings, name) is not None:
            raise ConfigurationError(f"roles.{role}.{name} is for an endpoint; set roles.{role}.endpoint or drop it")


def _control(config: Config, task: Task, key: Key) -> tuple[dict[str, Policy], Player]:
    from hocket.policies.control import ControlPolicy
    from hocket.rollout.vector import VectorPlayer
    from hocket.tasks.gym import GymTask

    if config.model != "nano" or config.lora or config.workflow or config.engine.kind != "local":
        raise ConfigurationError(
            f"--model, --lora, --workflow and --engine are for language models; task {task.name} is control"
        )
    if config.roles:
        raise ConfigurationError(
            f"roles.{next(iter(config.roles))}: task {task.name} is control, where one policy plays alone; drop it and "
            "set the recipe with --recipe"
        )
    world = cast(GymTask, task)
    policy = ControlPolicy.for_task(world, name=POLICY, key=key.derive("policy", POLICY))
    return {POLICY: policy}, VectorPlayer(world, policy)


def model_path(model: str) -> str:
    """`nano` is the shipped base; anything else a folder or a hub name."""
    from hocket.nano import BASE

    return str(BASE) if model == "nano" else model


def _rewards(config: Config, task: Task, given: Sequence[Reward], workflow: Any) -> tuple[Reward, ...]:
    """Rewards given in Python and those of the flags, else the recipe's, else the task's own."""
    loaded = iter(load_rewards([spec for spec in config.reward if spec != TASK_REWARD]))
    flow = _flow(config, task, workflow) if task.kind == "text" else None
    own = () if flow is not None and flow.scores else tuple(task.rewards)
    named = tuple(one for spec in config.reward for one in (own if spec == TASK_REWARD else (next(loaded),)))
    found = (*given, *named) or tuple(config.recipe.rewards) or own
    recorded = all(isinstance(recipe.rollout, (Demonstrations, Preferences)) for recipe, _ in config.phases)
    if not found and task.kind == "text" and not recorded and isinstance(flow, SingleTurn):
        raise ConfigurationError(
            f"task {task.name} has no answers to compare with, so nothing tells good from bad; add an answer to its "
            "scenarios or a reward with --reward FILE.py:FUNCTION"
        )
    return found
