"""The settings of a run, as values. `hocket.train.config` builds them from names and plain data."""

from __future__ import annotations

import datetime
import functools
import math
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, is_dataclass
from typing import Any, Literal, TypeVar

import yaml

from hocket.agents.workflows.episode import Limits
from hocket.core.aliases import present
from hocket.core.components import field_types, from_plain, is_component, replaced_all, to_plain
from hocket.core.errors import ConfigurationError, nearest
from hocket.policies.settings import LoraSettings, NetworkSettings, TowerSettings
from hocket.policies.templates import TemplateSettings
from hocket.recipe import Recipe
from hocket.recipes import find
from hocket.recipes import find as find_recipe
from hocket.types import Decoding

PLACES = r"local|auto|ray://[^/\s]+:\d+"
"""The pattern of values of `cluster`."""

ORDERS = ("start", "arrival")
"""The orders in which groups of several samplers are learnt from."""


DRAFTED = 15
"""The most tokens of a draft, which ends with a page."""

MOST = 2**20
"""The most responses of one step, and scenarios of one evaluation."""


@dataclass(frozen=True)
class EvaluationSettings:
    """When and on how many unseen scenarios greedy success is measured.

    Attributes:
        n: scenarios before and after training. every: steps between evaluations during training; 0 for none.
        between: scenarios of an evaluation during training.
    """

    n: int = 1000
    every: int = 25
    between: int = 200

    def __post_init__(self) -> None:
        if self.n < 1 or self.between < 1:
            raise ValueError("n and between must be at least 1")
        if self.n > MOST:
            raise ValueError(f"n must be at most {MOST:,}, not {self.n:,}: evaluations pause training")
        if self.every < 0:
            raise ValueError(f"every must be at least 0, not {self.every}")


@dataclass(frozen=True)
class CheckpointSettings:
    """A checkpoint is due every `seconds` or `steps`, whichever comes first; best and last are kept."""

    seconds: float = 60.0
    steps: int = 25

    def __post_init__(self) -> None:
        if self.seconds < 0:
            raise ValueError(f"seconds must be at least 0, not {self.seconds}")
        if self.steps < 1:
            raise ValueError(f"steps must be at least 1, not {self.steps}")


@dataclass(frozen=True)
class MemorySettings:
    """The memory use of the learner. None is chosen at the start, by measurement if memory is short.

    Attributes:
        token_budget: tokens per forward and backward pass (micro-batch); long sequences count more, for attention.
        checkpointing: whether activations are recomputed in the backward pass instead of stored; with `host` the
            states between layers, from which that begins, are in the host's memory when the model is on an accelerator.
    """

    token_budget: int | None = None
    checkpointing: bool | Literal["host"] | None = None

    def __post_init__(self) -> None:
        if self.token_budget is not None and self.token_budget < 1:
            raise ValueError(f"token_budget must be at least 1, not {self.token_budget}")


@dataclass(frozen=True)
class OptimiserSettings:
    """How the state of the optimiser is held; rates and decays are the recipe's.

    Attributes:
        kind: `adamw`; `adamw8bit` holds the moments in a byte a number, in blocks of 256; `muon` makes steps of
            orthogonal matrices in the layers and of AdamW elsewhere, with one moment in place of two.
        rounding: of weights in bf16: `stochastic` rounds every step at random by a key of the run, so that updates are
            exact on average; `masters` keeps them in fp32 beside, 4 bytes a weight.
        host: the state is in the memory of the host when the model is on an accelerator.
    """

    kind: Literal["adamw", "adamw8bit", "muon"] = "adamw"
    rounding: Literal["stochastic", "masters"] = "stochastic"
    host: bool = False


@dataclass(frozen=True)
class RoleSettings:
    """Which policy plays a role of a workflow, and how that policy is trained.

    Attributes:
        policy: the name of the policy; roles with the same policy share weights.
        model: its weights, the run's model when None. recipe: its recipe, the run's when None.
        frozen: it acts but does not learn.
        endpoint: the address of an OpenAI-compatible server that plays the role, including `/v1`. Such a role does not
            learn; `model` is the server's name of its model.
        tokenizer: a model folder whose tokenizer and template turn prompts into the token ids that the endpoint
            receives; None sends messages.
        key_variable: the environment variable that holds the endpoint's API key.
        learners: how many processes train its policy, as a separate group in parallel with the others; None uses the
            run's `learners`.
    """

    policy: str | None = None
    model: str | None = None
    recipe: str | None = None
    frozen: bool = False
    endpoint: str | None = None
    tokenizer: str | None = None
    key_variable: str | None = None
    learners: int | None = None

    def __post_init__(self) -> None:
        if self.learners is not None and self.learners < 1:
            raise ValueError(f"learners must be at least 1, not {self.learners}")


ENGINES = ("local", "vllm", "vllm-server", "sglang-server")
"""Kinds of engines for the run's own policies."""


@dataclass(frozen=True)
class EngineSettings:
    """The engine that samples from the run's policies; `--engine KIND` sets only the kind.

    Attributes:
        kind: `local` samples in this process, `vllm` with vLLM in a child process, `vllm-server` and `sglang-server`
            from servers.
        max_rows: how many responses are decoded, or requested, at the same time.
        drafts: the most next tokens that are drafted by n-gram lookup in a response's own text and read with its last
            one (`local`); the samples stay the same. 0 drafts none.
        python: interpreter of an environment with vLLM (`vllm`); None takes the environment variable
            HOCKET_VLLM_PYTHON, else the run's interpreter.
        dtype: the precision of vLLM or of the servers; None takes the policy's.
        memory: GiB for keys and values (`vllm`).
        compiled: vLLM compiles the model and captures CUDA graphs at its start.
        arguments: further arguments of `vllm.LLM` (`vllm`), by name.
        devices: the CUDA devices that vLLM sees (`vllm`); none leaves it those that the run sees.
        merged: an adapter is merged into the weights before they are handed over, which are otherwise left alone.
        sleep: vLLM or the servers free their device while the policy learns.
        transfer: how weights are handed over: as `files` in shared memory, or by `handles` to memory of the CUDA device
            that both sides use.
        url: the servers' addresses, including `/v1`, separated by commas. model: their name of the model; None if they
            serve only one.
        folder: the folder for the transfer of weights, which the servers can read; None takes shared memory.
        timeout: seconds that a server has for an answer.
        processed: vLLM servers were started with `--logprobs-mode processed_logprobs`.
        journal: records every response of the servers, so that a resumed run gets the same; megabytes per step.
        tolerance: the largest gap in nats between the engine's log-probs and the policy's after a transfer of weights;
            None takes 1e-3 in fp32 and 0.5 in bf16.
    """

    kind: str = "local"
    max_rows: int = 256
    drafts: int = 0
    python: str | None = None
    dtype: Literal["float32", "bfloat16"] | None = None
    memory: float = 1.0
    compiled: bool = False
    arguments: Mapping[str, Any] = field(default_factory=dict)
    devices: tuple[int, ...] = ()
    merged: bool = False
    sleep: bool = False
    transfer: Literal["files", "handles"] = "files"
    url: str | None = None
    model: str | None = None
    folder: str | None = None
    timeout: float = 600.0
    processed: bool = False
    journal: bool = False
    tolerance: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in ENGINES:
            raise ValueError(f"kind = {self.kind!r}{nearest(self.kind, ENGINES)}")
        if self.max_rows < 1:
            raise ValueError(f"max_rows must be at least 1, not {self.max_rows}")
        if not 0 <= self.drafts <= DRAFTED:
            raise ValueError(f"drafts must be between 0 and {DRAFTED}, not {self.drafts}")
        if self.drafts and self.kind != "local":
            raise ValueError(f"drafts = {self.drafts} is for the engine 'local'; leave it at 0 with {self.kind!r}")
        if self.timeout <= 0:
            raise ValueError(f"timeout must be above 0 seconds, not {self.timeout}")
        if self.memory <= 0:
            raise ValueError(f"memory must be above 0 GiB, not {self.memory}")
        if self.tolerance is not None and self.tolerance <= 0:
            raise ValueError(f"tolerance must be above 0, not {self.tolerance}")


@dataclass(frozen=True)
class Phase:
    """`steps` steps of one recipe, a name or `FILE.py:NAME`; the next phase begins from the resulting weights.

    `configure` replaces the name by the recipe, with the run's settings for it.
    """

    recipe: str | Recipe
    steps: int

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"the steps of a phase must be at least 1, not {self.steps}")


SLOTS = (
    "cast",
    "curriculum",
    "rollout",
    "rewards",
    "combine",
    "shaping",
    "store",
    "credit",
    "correction",
    "objective",
    "regularisers",
    "update",
    "hooks",
)
"""The slots of a recipe. A key that begins with one is a setting of the recipe."""

C = TypeVar("C")


def _checked_settings(cls: type[C]) -> type[C]:
    """`Config` with a constructor that checks settings as command-line flags are, and takes dotted and nested keys."""
    plain_init = cls.__init__

    @functools.wraps(plain_init)
    def init(self: Any, **settings: Any) -> None:
        if settings.keys() >= field_types(cls).keys():  # From `dataclasses.replace`.
            plain_init(self, **settings)
            return
        fields, edits = _split(settings)
        plain_init(self, **fields)
        if edits:
            changed = replaced_all(self, edits)
            plain_init(self, **{name: getattr(changed, name) for name in field_types(cls)})

    cls.__init__ = init  # type: ignore[method-assign]
    return cls


def _split(settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings of `Config`: values of its fields, and edits below them by dotted path."""
    types, fields, edits = field_types(Config), dict[str, Any](), dict[str, Any]()
    for key, value in settings.items():
        head, _, rest = key.partition(".")
        if head not in types and head not in SLOTS:
            raise ConfigurationError(f"there is no setting {key!r}{nearest(head, [*types, *SLOTS])}")
        if head in ("roles", "chat"):
            fields[head] = {**fields.get(head, {}), **(_nested(rest, value) if rest else value)}
        elif key == "recipe":
            fields[key] = as_recipe(value)
        elif key == "plan":
            fields[key] = tuple(from_plain(item, Phase, f"plan.{number}") for number, item in enumerate(value))
        elif isinstance(value, Mapping) and "type" not in value:
            edits |= flat_pairs(value, f"{key}.")
        elif head in SLOTS or rest:
            edits[key] = value
        else:
            fields[key] = from_plain(value, types[key], key)
            if isinstance(types[key], type) and is_dataclass(types[key]) and not is_component(fields[key]):
                raise ConfigurationError(f"{key} = {value!r}: write its settings, as {key}={{NAME: VALUE}}")
    if any(key.startswith("lora.") for key in edits):
        fields.setdefault("lora", LoraSettings())
    if "roles" in fields:
        fields["roles"] = from_plain(fields["roles"], types["roles"], "roles")
    return fields, {f"recipe.{key}" if key.partition(".")[0] in SLOTS else key: value for key, value in edits.items()}


def _nested(path: str, value: Any) -> dict[str, Any]:
    """`value` as the leaf at a dotted path."""
    head, _, rest = path.partition(".")
    return {head: _nested(rest, value) if rest else value}


def flat_pairs(data: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    """Nested settings as dotted pairs."""
    for name, value in data.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping) and value and "type" not in value and key != "recipe":
            yield from flat_pairs(value, f"{key}.")
        else:
            yield key, value


@_checked_settings
@dataclass(frozen=True, kw_only=True)
class Config:
    """Everything a run depends on. It is saved as `config.yaml`, which reloads to an equal value.

    Besides its fields it takes dotted and nested keys, and settings of the recipe: `Config(recipe="ppo",
    evaluation={"n": 100}, **{"update.lr": 1e-4})`. Settings that are left out have the values of the library and of the
    recipe. `hocket.configure` adds what the task suggests.

    Raises:
        ConfigurationError: for an unknown setting (with the nearest), or a value of a wrong type.

    Attributes:
        task, model, workflow, reward, judge, embedder: see `hocket train --help`. recipe: the method.
        teacher: a model, a run by path or name, or a server (`http://HOST:PORT/v1` or `http://HOST:PORT/v1#MODEL`),
            that replaces the policy before training as reference. It must have the policy's tokenizer, except for
            `gold`. `[by=COLUMN,]NAME=WHERE,NAME=WHERE` are several; the scenario's COLUMN (`teacher`) names its own.
        texts: a JSON file of texts for the workflow, such as best.json of `hocket optimise`.
        steps: training steps; None takes the task's suggestion. plan: phases that replace `recipe` and `steps`.
        decoding: how training samples are drawn. chat_template: a file, for tokenizers without one.
        chat: variables of the chat template, such as `enable_thinking`. date: today's date for chat templates that
            contain it, `YYYY-MM-DD`; by default the day on which a run on text began.
        limits: the limits of one episode; the default takes the workflow's limits.
        threads: CPU threads; None measures at the start. engine: the engine that samples from policies.
        precision: the precision of language models' matrix products; `auto` decides at the start.
        weights: what the matrices of the layers are stored in. `bf16` also trains in full; `int8` and `nf4` (4 bits)
            are for frozen weights under an adapter. Others stay in fp32; frozen embeddings and heads are in bf16.
        optimiser: how the optimiser's state is held.
        router_replay: in learning, tokens of a mixture of experts go to the experts that sampling sent them to; the
            metric `routes/differing` is the share that would go elsewhere.
        device: of language models: `cpu`, `cuda` or `cuda:N`; `auto` takes an accelerator if there is one.
        memory: the memory use of the learner. network: the networks of control policies.
        tower: whether what reads pictures or sounds is trained too; metrics `moved/PART` say how far each part moved.
        leaves: into how many parts of whole groups a gradient is split, a power of two. The parts are summed in a
            binary tree, so that with the same leaves any number of learners gives the same bits.
        cluster: `local` for processes of this machine, `auto` for the Ray cluster of this node, `ray://HOST:PORT` for a
            remote one, None for this process alone.
        learners: how many processes train together, a divisor of `leaves`. With `roles.NAME.learners` it holds for the
            policies without a number of their own.
        shard: shards weights, gradients, optimiser and reference over the learners, which gather a layer's weights when
            they need them; the bits are the same.
        samplers: how many processes sample, for training and evaluation; 0 samples in this process.
        overlap: also called `lag`, how many updates old the samples are. 0 alternates sampling and learning, 1 samples
            the next batch in a second process during the update, more need `samplers`.
        order: of the groups that samplers draw. With `start`, all groups of a step come from one version of the
            weights, and results follow from the configuration. With `arrival`, a step takes the groups that are ready
            and at most `lag` updates old.
        verify: the share of groups that a second sampler draws again, to check that both draw the same.
        interrupt: with order `arrival`, unfinished responses continue with new weights as soon as these arrive.
        differences: samplers receive the exact changes of weights since their last version; else, or if they are late,
            all weights.
    """

    task: str = "sums"
    model: str = "nano"
    recipe: Recipe = field(default_factory=lambda: find_recipe("grpo"))
    reward: tuple[str, ...] = ()
    judge: str = "rule"
    embedder: str | None = None
    workflow: str | None = None
    teacher: str | None = None
    texts: str | None = None
    steps: int | None = None
    seed: int = 0
    run: str | None = None
    runs: str = "runs"
    decoding: Decoding = field(default_factory=Decoding)
    limits: Limits = Limits()
    evaluation: EvaluationSettings = EvaluationSettings()
    checkpoint: CheckpointSettings = CheckpointSettings()
    chat_template: str | None = None
    chat: Mapping[str, Any] = field(default_factory=dict)
    date: str | None = None
    lora: LoraSettings | None = None
    tower: TowerSettings = TowerSettings()
    roles: Mapping[str, RoleSettings] = field(default_factory=dict)
    plan: tuple[Phase, ...] = ()
    track: tuple[str, ...] = ()
    threads: int | None = None
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    weights: Literal["fp32", "bf16", "int8", "nf4"] = "fp32"
    optimiser: OptimiserSettings = OptimiserSettings()
    router_replay: bool = False
    device: str = "auto"
    memory: MemorySettings = MemorySettings()
    network: NetworkSettings = NetworkSettings()
    leaves: int = 1
    cluster: str | None = None
    learners: int = 1
    shard: bool = False
    samplers: int = 0
    overlap: int = 0
    order: str = "start"
    verify: float = 0.0
    interrupt: bool = False
    differences: bool = False
    engine: EngineSettings = EngineSettings()

    def __post_init__(self) -> None:
        if self.date is not None and not _is_day(self.date):
            raise ValueError(f"date = {self.date!r}: write a day as YYYY-MM-DD")
        if self.steps is not None and self.steps < 0:
            raise ValueError(f"steps must be at least 0, not {self.steps}")
        if self.threads is not None and self.threads < 1:
            raise ValueError(f"threads must be at least 1, not {self.threads}")
        if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", self.device):
            raise ValueError(f"device = {self.device!r}: choose auto, cpu, cuda or cuda:N")
        self._check_weights()
        if self.tower.lr is not None and (self.shard or self.differences):
            raise ValueError("tower.lr: shares and differences are of language models alone; drop it, or them")
        if self.leaves < 1 or self.leaves & (self.leaves - 1):
            raise ValueError(f"leaves must be a power of two, as 1, 2, 4 or 8, not {self.leaves}")
        if self.cluster is not None and not re.fullmatch(PLACES, self.cluster):
            raise ValueError(f"cluster = {self.cluster!r}: choose local, auto or ray://HOST:PORT")
        if self.learners < 1:
            raise ValueError(f"learners must be at least 1, not {self.learners}")
        if self.samplers < 0:
            raise ValueError(f"samplers must be at least 0, not {self.samplers}")
        if self.overlap < 0:
            raise ValueError(f"overlap must be at least 0, not {self.overlap}")
        if self.router_replay and (self.samplers or self.overlap or self.learners > 1 or self.engine.kind != "local"):
            raise ValueError(
                "router_replay needs sampling and learning in one process: drop it, or the other processes"
            )
        if self.order not in ORDERS:
            raise ValueError(f"order = {self.order!r}{nearest(self.order, ORDERS)}")
        if not 0 <= self.verify <= 1:
            raise ValueError(f"verify must be a share from 0 to 1, not {self.verify}")
        for recipe in (self.recipe, *(phase.recipe for phase in self.plan)):
            if isinstance(recipe, Recipe):
                _check_sizes(recipe)
        if self.decoding.max_tokens < 1:
            raise ValueError(f"decoding.max_tokens must be at least 1, not {self.decoding.max_tokens}")
        if self.decoding.truncates:
            raise ValueError(
                "learning needs the log-probs of what was sampled from: drop decoding.top_k, top_p, min_p and banned"
            )
        if self.decoding.greedy:
            raise ValueError("decoding.temperature is 0, so all samples of a prompt would be equal; set it above 0")

    def plain(self) -> dict[str, Any]:
        """All settings as plain data."""
        data = to_plain(self)
        del data["type"]
        return dict(data)

    def to_yaml(self) -> str:
        """All settings as YAML. `hocket.configure(FILE)` and `hocket train FILE` restore an equal configuration."""
        return yaml.safe_dump(self.plain(), sort_keys=False, allow_unicode=True, width=110)

    def _check_weights(self) -> None:
        if self.weights in ("int8", "nf4") and self.lora is None:
            raise ConfigurationError(
                f"weights = {self.weights!r} cannot be trained in full: their numbers are codes without a gradient; "
                "add an adapter (--lora.rank 16), or choose weights = bf16"
            )
        if self.weights == "bf16" and self.precision == "fp32":
            raise ConfigurationError("weights = 'bf16' needs precision = bf16 (or auto): their products are in bf16")
        if self.shard and (self.weights != "fp32" or self.optimiser != OptimiserSettings()):
            raise ConfigurationError("shard: shares are of fp32 weights and AdamW's state; drop weights and optimiser")
        if self.differences and self.weights != "fp32":
            raise ConfigurationError(
                f"differences: they are of fp32 weights, not of weights = {self.weights!r}; drop one"
            )

    @property
    def template(self) -> TemplateSettings:
        """The settings of the policies' chat templates."""
        return TemplateSettings.of(self.chat_template, self.chat, self.date)

    @property
    def behind(self) -> int:
        """How many updates old the samples may be, for hooks and corrections: at least 1 with order `arrival`."""
        return max(self.overlap, int(self.order == "arrival"))

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

    def phase_of(self, step: int) -> int:
        """The number of the phase of `step` (counted from 1); steps after the end belong to the last phase."""
        ends = 0
        for number, (_, steps) in enumerate(self.phases):
            ends += steps
            if step <= ends:
                return number
        return len(self.phases) - 1

    def phase_end(self, step: int) -> int:
        """The last step of the phase of `step`; the last phase has no end."""
        phase = self.phase_of(step)
        return sys.maxsize if phase == len(self.phases) - 1 else sum(n for _, n in self.phases[: phase + 1])


def _is_day(text: str) -> bool:
    try:
        return datetime.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


_POSITIVE = ("clip_norm", "target_kl")
_NOT_NEGATIVE = ("weight_decay",)


def responses_of_a_step(recipe: Recipe) -> int:
    """How many responses a recipe samples in a step, from its fixed numbers of prompts and samples."""
    return (getattr(recipe.curriculum, "prompts", None) or 1) * (getattr(recipe.rollout, "samples", None) or 1)


def _check_sizes(recipe: Recipe) -> None:
    """Raises an error for steps of too many responses, and for learning rates and the like out of range."""
    responses = responses_of_a_step(recipe)
    if responses > MOST:
        raise ConfigurationError(
            f"curriculum.prompts times rollout.samples are {responses:,} responses in one step; lower them to {MOST:,} "
            "or fewer"
        )
    for name in (*_POSITIVE, *_NOT_NEGATIVE):
        value = getattr(recipe.update, name, None)
        if value is not None and not (value > 0 or (value == 0 and name in _NOT_NEGATIVE)):
            bound = "above" if name in _POSITIVE else "at least"
            raise ConfigurationError(f"update.{name} must be {bound} 0, not {value}")
    lr = getattr(recipe.update, "lr", None)
    if lr is not None and not math.isfinite(lr):
        raise ConfigurationError(f"update.lr must be a finite number, not {lr}")


def as_recipe(value: Any) -> Recipe:
    """A recipe from a name, `FILE.py:NAME` or plain data; a recipe is returned as it is."""
    if isinstance(value, Recipe):
        return value
    if isinstance(value, Mapping):
        built = from_plain({"type": "hocket.recipe.Recipe", **present(value)}, Recipe, "recipe")
        assert isinstance(built, Recipe)
        return built
    if not isinstance(value, str):
        raise ConfigurationError(f"recipe = {value!r}: name a recipe (see `hocket recipes`) or FILE.py:NAME")
    return find(value)
