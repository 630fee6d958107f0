"""Text: language models that answer, talk and play workflows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from hocket.agents.workflows.chat import Chat
from hocket.agents.workflows.episode import Limits
from hocket.agents.workflows.fitting import Fit
from hocket.agents.workflows.library import checked_workflow
from hocket.agents.workflows.library import find as find_workflow
from hocket.agents.workflows.player import TextPlayer
from hocket.agents.workflows.rewording import Worded
from hocket.agents.workflows.single import SingleTurn
from hocket.agents.workflows.team import Actor, Labeller
from hocket.agents.workflows.workflow import Workflow
from hocket.core.columns import ANSWER
from hocket.core.components import has_path
from hocket.core.errors import ConfigurationError
from hocket.core.texts import Texts, problem
from hocket.engine.barrier import Barrier
from hocket.engine.mute import MuteEngine
from hocket.policies.denoising.names import SAMPLER
from hocket.recipe import Recipe
from hocket.recipes import find as find_recipe
from hocket.stages import Player, Policy, Reward, Task
from hocket.tasks.lessons import ADAPTED, PREFIX, RATE, READING, WHOLE, LessonTask
from hocket.tasks.text import TextTask
from hocket.train.journal import Journal
from hocket.train.kinds.kind import ACCURACY, Kind
from hocket.train.kinds.mask_filler import MASKED
from hocket.train.kinds.pictures import described_model, is_masked
from hocket.train.kinds.pipelines import PIPELINES, is_pipeline
from hocket.train.models import configured_models, is_shipped, is_shipped_reader, load_policy, load_scorer, model_path
from hocket.train.roles import policy_of, refuse_strays, settings_by_policy
from hocket.train.searching import seat_searches
from hocket.train.settings import Config, RoleSettings
from hocket.train.suggestions import is_open, lengths_of
from hocket.types import Trajectory, before_training

if TYPE_CHECKING:
    from hocket.engine.requests import Engine
    from hocket.policies.family import Precision
    from hocket.policies.language_model import LanguageModel


class Text(Kind):
    """Decisions are tokens: one policy or a team, in the roles of a workflow."""

    name = "text"
    measure = ACCURACY
    textual = True

    def played_by(self, config: Config, task: Task) -> Kind:
        """Masked-diffusion language models fill in their answers, and pipelines draw."""
        data = described_model(config)
        if is_masked(data):
            return MASKED
        if data.get("model_type") == SAMPLER:
            raise ConfigurationError(
                f"model = {config.model!r} makes pictures, and task {task.name} is in words; use --task drawn-digits"
            )
        if is_pipeline(config):
            return PIPELINES
        return self

    def build(
        self, config: Config, task: Task, *, workflow: Any, journal: Journal | None, precision: Precision
    ) -> tuple[Mapping[str, Policy], Player]:
        self.check_network(config, task)
        self.check_rollouts(config, task)
        if config.decoding.guidance != 1.0:
            raise ConfigurationError(
                f"decoding.guidance = {config.decoding.guidance:g}: {config.model} writes tokens one after the other "
                "and has no guidance; leave it at 1"
            )
        flow = _worded(workflow_of(config, task, workflow), config.texts)
        policies, actors = _seated(config, flow, journal, precision)
        seat_searches(config, flow, policies)
        limits = config.limits.over(getattr(flow, "limits", None) or Limits())
        verifier, fit = getattr(task, "verify", None), getattr(task, "fit", None) or Fit()
        player = TextPlayer(flow, actors, limits, verifier=verifier, labeller=_labeller(task), fit=fit, journal=journal)
        return cast(dict[str, Policy], policies), player

    def suggest(self, config: Config, recipe: Recipe) -> Mapping[str, Any]:
        """Settings that are lengths in tokens follow the longest response; the rate of lessons follows the model."""
        settings: dict[str, Any] = {**lengths_of(recipe, config.decoding.max_tokens)}
        if config.task.startswith(PREFIX) and has_path(recipe, "update.lr") and is_open(recipe, "update.lr"):
            other = WHOLE if config.lora is None else ADAPTED
            reader = is_shipped_reader(config.model, config.runs)
            settings["update.lr"] = READING if reader else RATE if is_shipped(config.model, config.runs) else other
        return settings

    def models(self, config: Config) -> list[Any]:
        return configured_models(config)

    def describe(self, config: Config) -> str:
        return config.model

    def rewards(self, config: Config, task: Task, workflow: Any) -> tuple[Reward, ...]:
        """None where the workflow scores by itself."""
        return () if workflow_of(config, task, workflow).scores else tuple(task.rewards)

    def needs_reward(self, config: Config, task: Task, workflow: Any) -> bool:
        return isinstance(workflow_of(config, task, workflow), SingleTurn)

    def remarks(self, config: Config, task: Task, workflow: Any) -> Sequence[str]:
        """What the task has to say; a teacher that is missing; tools of the task that its workflow leaves aside."""
        if isinstance(task, LessonTask):
            return (task.remark(config.total_steps),)
        remarks = tuple(task.remarks) if isinstance(task, TextTask) else ()
        untaught = () if config.teacher is not None else config.phases
        alone = next((recipe for recipe, _ in untaught if recipe.learns_from_teacher), None)
        if alone is not None:
            return (
                *remarks,
                f"{alone.name} learns from a teacher and none is named (--teacher MODEL), so it is compared with the "
                "policy before training",
            )
        usual, flow = getattr(task, "workflow", None), workflow_of(config, task, workflow)
        if usual is None or not usual.tools_of or flow.tools_of:
            return remarks
        name = getattr(flow, "name", type(flow).__name__)
        return (
            *remarks,
            f"workflow {name} leaves aside the tools of task {task.name}, which the task's own workflow has; choose "
            "--workflow tool-use, or give the workflow tools",
        )

    def with_references(self, config: Config, player: Player, references: Mapping[str, Policy]) -> Player:
        return _with_references(cast(TextPlayer, player), references, config)


TEXT = Text()


def workflow_of(config: Config, task: Task, given: Any) -> Workflow:
    """What plays: the run's workflow, else the recipe's, else the task's own, else one answer of one policy."""
    usual, named = getattr(task, "workflow", None), config.workflow or (None if given else config.phases[0][0].workflow)
    if given is None and named is None:
        return usual or SingleTurn()
    flow = find_workflow(str(named)) if given is None else checked_workflow(given, type(given).__name__)
    flow = flow if usual is None else flow.around(usual)
    return flow if usual is None or not usual.tools_of else flow.equipped(usual.tools_of)


def _worded(flow: Workflow, file: str | None) -> Workflow:
    """The workflow with the texts in a file."""
    if file is None:
        return flow
    texts = Texts.read(file)
    wrong = problem(texts, flow.roles, flow.prompts)
    if wrong is not None:
        raise ConfigurationError(f"texts = {file}: {wrong}")
    return Worded(flow, texts)


def _seated(
    config: Config, flow: Workflow, journal: Journal | None, precision: Precision
) -> tuple[dict[str, LanguageModel], dict[str, Actor]]:
    """The trained policies, and who plays each role of a workflow."""
    from hocket.policies.shared_base import SharedBaseCache
    from hocket.train.endpoints import outside_actor
    from hocket.train.engines import Engines

    unknown = [role for role in config.roles if role not in flow.roles]
    if unknown:
        raise ConfigurationError(f"roles.{unknown[0]}: the workflow has the roles {', '.join(flow.roles)}")
    policies: dict[str, LanguageModel] = {}
    engines: dict[str, Engine] = {}
    barrier = Barrier()  # One for all engines: each runs when every live workflow waits, on whichever of them.
    making, base_cache, by_policy = Engines(config, barrier, journal), SharedBaseCache(), settings_by_policy(config)
    actors = {}
    for role in flow.roles:
        settings = config.roles.get(role, RoleSettings())
        if settings.endpoint is not None:
            base = model_path(config.model)
            template = config.template
            actors[role] = outside_actor(
                role, settings, tokenizer=base, chat_template=template, journal=journal, barrier=barrier
            )
            continue
        refuse_strays(role, settings)
        name = policy_of(role, settings, config.phases[0][0].cast)
        recipe = by_policy.get(name, settings).recipe
        outputs = (find_recipe(recipe) if recipe else config.phases[0][0]).outputs
        if name not in policies and outputs:
            policies[name] = load_scorer(config, name, settings.model, precision, outputs=outputs)
            engines[name] = MuteEngine(name)
        elif name not in policies:
            writer = load_policy(config, name, settings.model, precision, base_cache)
            # A frozen policy stays its base, so that no adapter is computed for it.
            writer.adapted &= not by_policy.get(name, settings).frozen
            policies[name], engines[name] = writer, making.of(writer)
        actors[role] = Actor(policy=name, engine=engines[name], chat=Chat(policies[name].tokenizer))
    taken = next((role for role, actor in actors.items() if not actor.learns and role in policies), None)
    if taken is not None:
        raise ConfigurationError(f"roles.{taken} is played by an endpoint, so no policy can be called {taken!r}")
    return policies, actors


def _labeller(task: Task) -> Labeller | None:
    """What reads the final answer out of a text, where the task does."""
    label = getattr(task, "label", None)
    return None if label is None else lambda text, scenario: label(Trajectory(scenario, [], info={ANSWER.name: text}))


def _with_references(player: TextPlayer, references: Mapping[str, Policy], config: Config) -> TextPlayer:
    """The player with a seat for each role's reference; engines of an earlier phase serve on, with the new weights."""
    from hocket.engine.local import LocalEngine
    from hocket.policies.causal_lm import CausalLM

    engines: dict[str, LocalEngine] = {}
    actors = {}
    for role, actor in player.actors.items():
        if not actor.learns:
            continue
        reference, name = cast(CausalLM, references[actor.policy]), actor.policy
        local = cast(LocalEngine, actor.engine)
        reference.end_of_turn = local.policy.end_of_turn
        if name not in engines:
            earlier = player.references.get(role)
            engines[name] = (
                cast(LocalEngine, earlier.engine)
                if earlier is not None
                else LocalEngine(reference, max_rows=config.engine.max_rows, barrier=local.barrier)
            )
            engines[name].policy = reference
        actors[role] = replace(actor, policy=before_training(name), engine=engines[name])
    return replace(player, references=actors)
