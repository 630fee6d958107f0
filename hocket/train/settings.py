"""What a run is configured with: the settings as values; `hocket.train.config` makes them of names and plain data."""

from __future__ import annotations

import datetime
import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from hocket.agents.workflows.episode import Limits
from hocket.core.aliases import present
from hocket.core.components import from_plain
from hocket.core.errors import ConfigurationError, nearest
from hocket.policies.settings import LoraSettings, NetworkSettings
from hocket.policies.templates import TemplateSettings
from hocket.recipe import Recipe
from hocket.recipes import find
from hocket.recipes import find as find_recipe
from hocket.types import Decoding

PLACES = r"local|auto|ray://[^/\s]+:\d+"
"""What `cluster` may be."""

ORDERS = ("start", "arrival")
"""In which groups are learnt from that several processes draw."""


MOST = 2**20
"""Responses of one step, and scenarios of one evaluation."""


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
        if self.n > MOST:
            raise ValueError(f"n must be at most {MOST:,}, not {self.n:,}: an evaluation ends before a step begins")
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
        learners: how many processes learn its policy, a group of its own beside the others' that learns at the same
            time; None leaves it to the run's `learners`.
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
        task, model, workflow, reward, judge, embedder: see `hocket train --help`. recipe: the method.
        teacher: a model, or a run by path or name, that recipes with a reference are held against instead of the policy
            as it was before training; it has the policy's tokenizer.
        texts: a JSON file of texts that the workflow is played with, as best.json of `hocket optimise`.
        steps: training steps; None takes the task's suggestion. plan: phases that replace `recipe` and `steps`.
        decoding: how training samples are drawn. chat_template: a file, for tokenizers without one.
        chat: variables of the chat template, such as `enable_thinking`. date: the day that it writes where it writes
            one, `YYYY-MM-DD`; of a run on text the day on which it began.
        limits: what one episode may spend; a workflow's own where these are the usual ones.
        threads: None measures at the start. engine: what policies are sampled with.
        precision: what matrix products of language models are made in; `auto` decides at the start.
        device: where language models are: `cpu`, `cuda` or `cuda:N`; `auto` takes an accelerator where there is one.
        memory: what the learner holds at once. network: what the networks of control policies are.
        leaves: into how many parts of whole groups a gradient is split and summed in one binary tree, a power of two;
            with the same leaves any number of learners gives the same bits.
        cluster: `local` for processes of this machine, `auto` for the Ray cluster that it is a node of, `ray://HOST:PORT`
            for one elsewhere, None for this process alone.
        learners: how many processes learn together, a divisor of `leaves`; with `roles.NAME.learners` those policies
            that have no number of their own.
        shard: each of them holds its shares of weights, gradients, optimiser and reference, and has a layer's weights
            come when it needs them; the bits are the same.
        samplers: how many processes sample what is learnt from and measured; 0 samples in this one.
        overlap: also called `lag`, how many updates old samples are. 1 samples the next step's batch in a second
            process while this step's is learnt from, more need `samplers`; 0 does one after the other.
        order: of the groups that samplers draw: by `start` every step's come from one version of the weights, and
            results follow from the configuration; by `arrival` a step takes what is ready and no more than `lag` old.
        verify: the share of what samplers draw that another one draws again, to see whether it comes to the same.
        interrupt: in order of `arrival` answers that are being written when new weights come go on with these.
        differences: samplers are sent what changed in the weights since those they hold, without rounding; all weights
            else, and whoever comes late.
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
    roles: Mapping[str, RoleSettings] = field(default_factory=dict)
    plan: tuple[Phase, ...] = ()
    track: tuple[str, ...] = ()
    threads: int | None = None
    precision: Literal["auto", "fp32", "bf16"] = "auto"
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
        if self.order not in ORDERS:
            raise ValueError(f"order = {self.order!r}{nearest(self.order, ORDERS)}")
        if not 0 <= self.verify <= 1:
            raise ValueError(f"verify must be a share from 0 to 1, not {self.verify}")
        for recipe in (self.recipe, *(phase.recipe for phase in self.plan)):
            if isinstance(recipe, Recipe):
                _check_sizes(recipe)
        if self.decoding.max_tokens < 1:
            raise ValueError(f"decoding.max_tokens must be at least 1, not {self.decoding.max_tokens}")
        if not 0 <= self.decoding.temperature < math.inf:
            raise ValueError(f"decoding.temperature must be above 0 and finite, not {self.decoding.temperature}")
        if not (0 < self.decoding.top_p <= 1 and 0 <= self.decoding.min_p <= 1):
            raise ValueError("decoding.top_p and decoding.min_p must be probabilities")
        if self.decoding.truncates:
            raise ValueError(
                "learning needs the log-probs of what was sampled from: drop decoding.top_k, top_p, min_p and banned"
            )
        if self.decoding.greedy:
            raise ValueError(
                "decoding.temperature is 0, and greedy samples of one prompt are all alike; set it above 0"
            )

    @property
    def template(self) -> TemplateSettings:
        """What becomes of the policies' chat templates."""
        return TemplateSettings.of(self.chat_template, self.chat, self.date)

    @property
    def behind(self) -> int:
        """How many updates old samples may be, as hooks and corrections see it: 1 wherever steps do not wait."""
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
        """The number of the phase that `step` (from 1) lies in; later steps belong to the last."""
        ends = 0
        for number, (_, steps) in enumerate(self.phases):
            ends += steps
            if step <= ends:
                return number
        return len(self.phases) - 1

    def phase_end(self, step: int) -> int:
        """The last step of the phase that `step` lies in; the last phase goes on for ever."""
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
    """How many responses a recipe samples in a step, as far as its settings say."""
    return (getattr(recipe.curriculum, "prompts", None) or 1) * (getattr(recipe.rollout, "samples", None) or 1)


def _check_sizes(recipe: Recipe) -> None:
    """Refuses a step that nobody lives to see the end of, and an update that would go uphill."""
    asked = responses_of_a_step(recipe)
    if asked > MOST:
        raise ConfigurationError(
            f"curriculum.prompts times rollout.samples are {asked:,} responses in one step; lower them to {MOST:,} or "
            "fewer"
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
