"""The configuration of a run: defaults < recipe < config file < flags, and later flags win.

A task suggests settings too (response length, steps); they count as defaults. Keys are dotted. A key that begins with a
slot of the recipe (`objective.low`) means that slot.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from hocket.components import field_types, from_plain, has_path, is_component, is_default, replaced, to_plain
from hocket.core.aliases import OLD_SLOTS, present, present_pairs
from hocket.errors import ConfigurationError, nearest
from hocket.policies.settings import LoraSettings
from hocket.recipe import Recipe
from hocket.recipes import GRPO, find
from hocket.stages import Task
from hocket.types import Decoding
from hocket.workflows.episode import Limits

Pairs = Sequence[tuple[str, Any]]
"""Dotted keys and values, in the order in which they are applied."""


@dataclass(frozen=True)
class EvaluationSettings:
    """When and on how many unseen scenarios greedy success is measured.

    Attributes:
        n: scenarios before training and after. every: steps between evaluations on the way; 0 for none.
        between: scenarios of those.
    """

    n: int = 1000
    every: int = 25
    between: int = 200

    def __post_init__(self) -> None:
        if self.n < 1 or self.between < 1:
            raise ValueError("n and between must be at least 1")


@dataclass(frozen=True)
class CheckpointSettings:
    """A checkpoint is due every `seconds` or `steps`, whichever comes first; best and last are kept."""

    seconds: float = 60.0
    steps: int = 25


@dataclass(frozen=True)
class MemorySettings:
    """What the learner holds at once; None is chosen at the start, by measurement where memory is short.

    Attributes:
        token_budget: tokens per forward and backward pass (micro-batch), long sequences counted with their attention.
        checkpointing: whether layers' activations are made again in the backward pass instead of held.
    """

    token_budget: int | None = None
    checkpointing: bool | None = None

    def __post_init__(self) -> None:
        if self.token_budget is not None and self.token_budget < 1:
            raise ValueError(f"token_budget must be at least 1, not {self.token_budget}")


@dataclass(frozen=True)
class RoleSettings:
    """How one role of a workflow is cast.

    Attributes:
        policy: the policy that plays it; roles that name the same one share weights.
        model: its weights, the run's model when None. recipe: its recipe, the run's when None.
        frozen: it acts but does not learn.
        endpoint: the address of an OpenAI-compatible server that plays it, up to and with `/v1`; it does not learn, and
            `model` is the server's name for it.
        tokenizer: asks the endpoint by exact token ids, as this model folder's tokenizer and template give them; by
            messages when None.
        key_variable: the environment variable that holds the endpoint's API key.
    """

    policy: str | None = None
    model: str | None = None
    recipe: str | None = None
    frozen: bool = False
    endpoint: str | None = None
    tokenizer: str | None = None
    key_variable: str | None = None


ENGINES = ("local", "vllm", "vllm-server")
"""Kinds of engines for the run's own policies."""


@dataclass(frozen=True)
class EngineSettings:
    """What the run's own policies are sampled with; `--engine KIND` sets the kind alone.

    Attributes:
        kind: `local` samples in this process, `vllm` with vLLM in a child process, `vllm-server` from a vLLM server.
        max_rows: continuations decoded together, or asked for at the same time.
        python: interpreter of an environment with vLLM (`vllm`); None takes the environment variable
            HOCKET_VLLM_PYTHON, else the run's own.
        dtype: what vLLM computes in (`vllm`); None follows the policy. memory: GiB for keys and values.
        compiled: vLLM compiles the model and captures CUDA graphs at its start.
        url: the server's address up to and with `/v1`. model: its name for the model; None where it has only one.
        folder: where weights are handed over, readable for the server too; None takes shared memory.
        processed: the server was started with `--logprobs-mode processed_logprobs`.
        journal: keeps every answer of the server, so that a resumed run hears the same; megabytes per step.
        tolerance: the largest gap in nats between vLLM's log-probs and the policy's after a handover of weights; None
            takes 1e-3 in fp32 and 0.5 in bf16.
    """

    kind: str = "local"
    max_rows: int = 256
    python: str | None = None
    dtype: Literal["float32", "bfloat16"] | None = None
    memory: float = 1.0
    compiled: bool = False
    url: str | None = None
    model: str | None = None
    folder: str | None = None
    processed: bool = False
    journal: bool = False
    tolerance: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in ENGINES:
            raise ValueError(f"kind = {self.kind!r}{nearest(self.kind, ENGINES)}")
        if self.max_rows < 1:
            raise ValueError(f"max_rows must be at least 1, not {self.max_rows}")
        if self.memory <= 0:
            raise ValueError(f"memory must be above 0 GiB, not {self.memory}")
        if self.tolerance is not None and self.tolerance <= 0:
            raise ValueError(f"tolerance must be above 0, not {self.tolerance}")


@dataclass(frozen=True)
class Phase:
    """`steps` steps of one recipe, given by name or `FILE.py:NAME`, before the next phase begins from its weights.

    `configure` puts the recipe itself in its place, with the settings of the run that it has.
    """

    recipe: str | Recipe
    steps: int

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"the steps of a phase must be at least 1, not {self.steps}")


@dataclass(frozen=True, kw_only=True)
class Config:
    """Everything a run depends on; saved whole as `config.yaml`, which reloads to an equal value.

    Attributes:
        task, model, workflow, reward: see `hocket train --help`. recipe: the method.
        steps: training steps; None takes the task's suggestion. plan: phases that replace `recipe` and `steps`.
        decoding: how training samples are drawn. chat_template: a file, for tokenizers without one.
        limits: what one episode may spend; a workflow's own where these are the usual ones.
        threads: None measures at the start. engine: what policies are sampled with.
        precision: what matrix products of language models are made in; `auto` decides at the start.
        device: where language models are: `cpu`, `cuda` or `cuda:N`; `auto` takes an accelerator where there is one.
        memory: what the learner holds at once.
        overlap: 1 samples the next step's batch in a second process while this step's is learnt from, so that samples
            are one update old; 0 does one after the other.
    """

    task: str = "sums"
    model: str = "nano"
    recipe: Recipe = GRPO
    reward: tuple[str, ...] = ()
    workflow: str | None = None
    steps: int | None = None
    seed: int = 0
    run: str | None = None
    runs: str = "runs"
    decoding: Decoding = field(default_factory=Decoding)
    limits: Limits = Limits()
    evaluation: EvaluationSettings = EvaluationSettings()
    checkpoint: CheckpointSettings = CheckpointSettings()
    chat_template: str | None = None
    lora: LoraSettings | None = None
    roles: Mapping[str, RoleSettings] = field(default_factory=dict)
    plan: tuple[Phase, ...] = ()
    track: tuple[str, ...] = ()
    threads: int | None = None
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    device: str = "auto"
    memory: MemorySettings = MemorySettings()
    overlap: int = 0
    engine: EngineSettings = EngineSettings()

    def __post_init__(self) -> None:
        if self.steps is not None and self.steps < 0:
            raise ValueError(f"steps must be at least 0, not {self.steps}")
        if self.threads is not None and self.threads < 1:
            raise ValueError(f"threads must be at least 1, not {self.threads}")
        if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", self.device):
            raise ValueError(f"device = {self.device!r}: choose auto, cpu, cuda or cuda:N")
        if self.overlap not in (0, 1):
            raise ValueError(f"overlap must be 0 or 1, not {self.overlap}")
        if self.decoding.max_tokens < 1:
            raise ValueError(f"decoding.max_tokens must be at least 1, not {self.decoding.max_tokens}")
        if self.decoding.temperature < 0:
            raise ValueError(f"decoding.temperature must be above 0, not {self.decoding.temperature}")
        if self.decoding.truncates:
            raise ValueError(
                "learning needs the log-probs of what was sampled from: drop decoding.top_k, top_p, min_p and banned"
            )
        if self.decoding.greedy:
            raise ValueError(
                "decoding.temperature is 0, and greedy samples of one prompt are all alike; set it above 0"
            )

    @property
    def phases(self) -> tuple[tuple[Recipe, int], ...]:
        """Recipes and their steps, in order."""
        if self.plan:
            return tuple((as_recipe(phase.recipe), phase.steps) for phase in self.plan)
        return ((self.recipe, self.steps or 0),)

    @property
    def method(self) -> str:
        """The recipe's name, or those of the phases."""
        return " then ".join(recipe.name for recipe, _ in self.phases)

    @property
    def total_steps(self) -> int:
        return sum(steps for _, steps in self.phases)


SLOTS = (
    "cast",
    "curriculum",
    "rollout",
    "rewards",
    "combine",
    "shaping",
    "credit",
    "correction",
    "objective",
    "regularisers",
    "update",
    "hooks",
)


def configure(pairs: Pairs, task: Task) -> Config:
    """The configuration that `pairs` describe for a task, the task's suggestions beneath them.

    Raises:
        ConfigurationError: for an unknown key (with the nearest), a wrong type, or stages that do not fit together.
    """
    chosen = [value for key, value in pairs if key == "recipe"]
    settings = [(key, value) for key, value in pairs if key != "recipe"]
    config = Config(recipe=as_recipe(chosen[-1]) if chosen else GRPO)
    suggested = task.suggest(config.recipe)
    run = [(key, value) for key, value in [*suggested.items(), *settings] if not _of_recipe(key)]
    config = _applied(config, run)
    method = [(key, value) for key, value in settings if _of_recipe(key)]
    if config.plan:
        return _planned(config, method, task)
    given = chosen[-1] if chosen else "grpo"
    return _applied(config, [*_suggested(config, given, task), *method])


def settled(config: Config, task: Task) -> Config:
    """`config` with the number of steps the task suggests where none was set."""
    if config.steps is not None or config.plan:
        return config
    return dataclasses.replace(config, steps=int(task.suggest(config.recipe).get("steps", 0)))


def _planned(config: Config, method: Pairs, task: Task) -> Config:
    """Each phase with the settings that its recipe has; the last one's recipe is the run's."""
    phases = []
    unused = {key for key, _ in method}
    for phase in config.plan:
        recipe = as_recipe(phase.recipe)
        having = [one for one in present_pairs(method, recipe) if has_path(recipe, one[1].removeprefix("recipe."))]
        fitting = [(key, value) for _, key, value in having]
        unused -= {given for given, _, _ in having}
        suggested = _suggested(config, phase.recipe, task)
        base = dataclasses.replace(config, recipe=recipe)
        phases.append(dataclasses.replace(phase, recipe=_applied(base, [*suggested, *fitting]).recipe))
    if unused:
        raise ConfigurationError(f"no recipe of the plan has the setting {min(unused)!r}; see `hocket recipes NAME`")
    recipe = as_recipe(phases[-1].recipe)
    return dataclasses.replace(config, recipe=recipe, plan=tuple(phases), steps=sum(phase.steps for phase in phases))


def lengthened(config: Config, steps: int) -> Config:
    """The same run with another number of steps; of a plan, the last phase changes.

    Raises:
        ConfigurationError: when no step would be left for the last phase.
    """
    if not config.plan:
        return dataclasses.replace(config, steps=steps)
    last = config.plan[-1]
    left = last.steps + steps - config.total_steps
    if left < 1:
        earlier = config.total_steps - last.steps
        raise ConfigurationError(f"steps = {steps}: the phases before the last one take {earlier} already; set more")
    return dataclasses.replace(config, steps=steps, plan=(*config.plan[:-1], dataclasses.replace(last, steps=left)))


def _suggested(config: Config, given: Any, task: Task) -> Pairs:
    """What the task suggests for the settings of the recipe `given`, as a name, an object or in plain form.

    One written out in full, as in a saved run, has had the suggestions already, and what a user's own recipe sets
    stays as it is.
    """
    if isinstance(given, Mapping):
        return []
    recipe = as_recipe(given)
    suggested = task.suggest(recipe)
    found = _fitting(recipe, {**_lengths(config), **suggested} if task.kind == "text" else suggested)
    named = isinstance(given, str) and ".py:" not in given
    return found if named else [(key, value) for key, value in found if is_default(recipe, key)]


def _of_recipe(key: str) -> bool:
    return key.split(".")[0] in ("recipe", *SLOTS, *OLD_SLOTS)


def _lengths(config: Config) -> dict[str, Any]:
    """Recipe settings that are lengths in tokens follow the longest response, unless they are set themselves."""
    longest = config.decoding.max_tokens
    return {"objective.horizon": longest, "shaping.0.limit": longest, "shaping.0.buffer": max(1, longest // 5)}


def _fitting(recipe: Recipe, suggestions: Mapping[str, Any]) -> Pairs:
    """The suggestions this recipe has a setting for: one without a critic has no `credit.lam`."""
    repeated = () if not recipe.objective.on_policy_only else ("update.epochs", "update.minibatches")
    return [
        (key, value)
        for key, value in suggestions.items()
        if key.split(".")[0] in SLOTS and has_path(recipe, key) and key not in repeated
    ]


def as_recipe(value: Any) -> Recipe:
    """A recipe from its name, `FILE.py:NAME`, plain form, or itself."""
    if isinstance(value, Recipe):
        return value
    if isinstance(value, Mapping):
        built = from_plain({"type": "hocket.recipe.Recipe", **present(value)}, Recipe, "recipe")
        assert isinstance(built, Recipe)
        return built
    if not isinstance(value, str):
        raise ConfigurationError(f"recipe = {value!r}: name a recipe (see `hocket recipes`) or FILE.py:NAME")
    return find(value)


def _applied(config: Config, pairs: Pairs) -> Config:
    edits: dict[str, Any] = {}
    for _, key, value in present_pairs(pairs, config.recipe):
        head = key.split(".")[0]
        if head == "recipe" and "." in key:
            edits[key.partition(".")[2]] = value
        elif head in SLOTS:
            edits[key] = value
        else:
            config = _set(config, key, value)
    return dataclasses.replace(config, recipe=config.recipe.but(edits)) if edits else config


def _set(config: Config, key: str, value: Any) -> Config:
    head, _, rest = key.partition(".")
    known = field_types(Config)
    if head not in known:
        raise ConfigurationError(f"there is no setting {key!r}{nearest(head, [*known, *SLOTS])}")
    if head == "roles":
        return _set_role(config, rest, value)
    if head == "plan" and not rest:
        return dataclasses.replace(config, plan=_phases(value))
    if head == "engine" and not rest and isinstance(value, str):
        key = "engine.kind"  # `--engine vllm`
    if head == "lora" and (rest or value is True):
        config = dataclasses.replace(config, lora=config.lora or LoraSettings())
        return config if not rest else _checked(config, key, value)
    return _checked(config, key, value)


def _phases(value: Any) -> tuple[Phase, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise ConfigurationError(f"plan = {value!r}: write a list of phases, each {{recipe: NAME, steps: N}}")
    phases = []
    for number, item in enumerate(value):
        where = f"plan.{number}"
        if isinstance(item, Mapping) and not {"recipe", "steps"} <= item.keys():
            raise ConfigurationError(f"{where}: a phase needs a recipe and steps, as in {{recipe: sft, steps: 20}}")
        phase = from_plain(present(item) if isinstance(item, Mapping) else item, Phase, where)
        if not isinstance(phase, Phase):
            raise ConfigurationError(f"{where} = {item!r}: write {{recipe: NAME, steps: N}}")
        phases.append(phase)
    return tuple(phases)


def _set_role(config: Config, rest: str, value: Any) -> Config:
    name, _, setting = rest.partition(".")
    if isinstance(value, Mapping) and not setting:
        for inner, item in value.items():
            config = config if inner == "type" else _set_role(config, f"{name}.{inner}", item)
        return config
    if not name or not setting:
        raise ConfigurationError("write --roles.NAME.SETTING VALUE, for example --roles.worker.frozen true")
    role = replaced(config.roles.get(name, RoleSettings()), setting, value, f"roles.{name}")
    return dataclasses.replace(config, roles={**config.roles, name: role})


def _checked(config: Config, key: str, value: Any) -> Config:
    if isinstance(value, str) and field_types(Config).get(key) == tuple[str, ...]:
        value = (value,)  # `--track tensorboard` is a list of one
    changed = replaced(config, key, value)
    assert isinstance(changed, Config)
    return changed


# ---------------------------------------------------------------- files


def read_pairs(path: Path) -> list[tuple[str, Any]]:
    """The settings of a YAML file as dotted pairs. A mapping with `type` is one value; any other is descended into."""
    if not path.is_file():
        raise ConfigurationError(f"there is no configuration file {path}")
    try:
        data = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{path} is not valid YAML: {_yaml_problem(error)}") from None
    if data is None:
        return []
    if not isinstance(data, Mapping):
        raise ConfigurationError(f"{path} must hold keys and values, not {type(data).__name__}")
    return list(_flat(present(data), ""))


def _yaml_problem(error: yaml.YAMLError) -> str:
    """What is wrong and on which line."""
    mark, what = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    if mark is None or what is None:
        return " ".join(str(error).split())
    return f"line {mark.line + 1}, column {mark.column + 1}: {what}"


def _flat(data: Mapping[str, Any], prefix: str) -> Iterable[tuple[str, Any]]:
    for name, value in data.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping) and value and "type" not in value and key != "recipe":
            yield from _flat(value, f"{key}.")
        else:
            yield key, value


def dump(config: Config) -> str:
    """The whole configuration as YAML, which `read_pairs` and `configure` turn back into an equal one."""
    plain = to_plain(config)
    del plain["type"]
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=110)


def differences(left: Config, right: Config) -> list[str]:
    """Dotted keys in which two configurations differ."""
    return sorted(_differing(left, right, ""))


def _differing(left: Any, right: Any, prefix: str) -> Iterable[str]:
    if left == right:
        return
    if is_component(left) and type(left) is type(right):
        for item in dataclasses.fields(left):
            inner = f"{prefix}.{item.name}" if prefix else item.name
            yield from _differing(getattr(left, item.name), getattr(right, item.name), inner)
    else:
        yield prefix
