"""What a run will hold in memory, from a model's configuration alone: no weight is read.

The parts are counted from the modules of the model (made without memory, on torch's `meta` device) and from what the
sampler and the learner keep of a token. `tests/train/test_footprint.py` compares the sum with measured peaks.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import torch

from hocket.core.errors import ConfigurationError
from hocket.policies.activation_cache import MAX_BYTES, WORTH
from hocket.policies.family import CHECKPOINTING, FEED_TOKENS, Checkpointing
from hocket.policies.forms import expected
from hocket.policies.heads import DEVICE_LOGIT_BUDGET, LOGIT_BUDGET
from hocket.policies.lora_targets import Coverage, coverage
from hocket.policies.sequences import ATTENTION_LENGTH, TOKEN_BUDGET
from hocket.policies.settings import LoraSettings
from hocket.policies.shapes import LayerSize, ModelSize, model_size
from hocket.train.oom_retry import LEAST_BUDGET

GIB = 2**30
PAGES = 4 * GIB
"""The most that the sampler of a processor keeps of keys and values."""

PROGRAM = {"cpu": 0.47 * GIB, "cuda": 0.6 * GIB}
"""The interpreter with its libraries; on an accelerator its context."""

LOGITS = {"cpu": LOGIT_BUDGET, "cuda": DEVICE_LOGIT_BUDGET}
"""Logits that are held at once where the head is a plain product."""

JOINED = 2**20
"""Matrices of an input that together have at most so many weights are joined, see `hocket.policies.family`."""

SHARE = 0.92
"""Of the memory there is, what a plan may fill; the rest is lost between allocations."""


@dataclass(frozen=True)
class TrainingPlan:
    """How a model is trained.

    Attributes:
        lora: the adapter; None trains all weights. precision: of products, `fp32` or `bf16`.
        weights: what the weights are stored in. optimiser: see `hocket.train.optimisers`.
        prompts, samples: prompts of a step and answers to each. context: tokens of a sequence, prompt and answer.
        prompt: tokens of them that are the prompt. reference: whether a copy of the weights is kept, for KL.
        checkpointing: whether activations are computed again in the backward pass, see `LanguageModel`.
        rows: sequences sampled together; 0 where nothing is sampled.
        host: whether the optimiser's state is in the memory of the host. device: `cpu` or `cuda`.
    """

    lora: LoraSettings | None = None
    precision: str = "fp32"
    weights: str = "fp32"
    optimiser: str = "adamw"
    prompts: int = 16
    samples: int = 8
    context: int = 512
    prompt: int = 64
    reference: bool = False
    checkpointing: Checkpointing = False
    token_budget: float = TOKEN_BUDGET
    rows: int = 256
    host: bool = False
    device: str = "cpu"


@dataclass(frozen=True)
class Footprint:
    """Bytes of the parts of a run."""

    program: float
    weights: float
    copies: float
    gradients: float
    optimiser: float
    reference: float
    sampling: float
    activations: float

    @property
    def total(self) -> float:
        return float(sum(dataclasses.asdict(self).values()))


@dataclass(frozen=True)
class ModelOutline:
    """A model without its weights.

    Attributes:
        size: of its layers. coverage: the reach of the adapter; None without one.
        fast: whether sampler and learner run its layers themselves, see `hocket.policies.family`.
        fused: whether attention keeps no scores for the backward pass.
        inside, outside: weights of the layers' matrices, and the others. adapter: those of the adapter.
        stacked: those of `inside` that are stacks of matrices, as experts are; codes leave these in bf16.
        largest: weights of the layers' largest matrix.
    """

    size: ModelSize
    coverage: Coverage | None
    fast: bool
    fused: bool
    inside: int
    outside: int
    stacked: int
    adapter: int
    largest: int


def outlined(config: Any, lora: LoraSettings | None = None) -> ModelOutline:
    """The outline of the model with a `transformers` configuration.

    Raises:
        ConfigurationError: when no causal language model has such a configuration, or a target of `lora` is in none.
    """
    from transformers import AutoModelForCausalLM

    from hocket.core.keys import Key
    from hocket.policies.lora import add_adapter

    try:
        with torch.device("meta"):
            module = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    except (ValueError, KeyError) as error:
        raise ConfigurationError(
            f"{config.model_type!r} is no causal language model that transformers has: {str(error).splitlines()[0]}"
        ) from error
    if lora is not None:
        add_adapter(module, lora, Key.of(0))
    fast = getattr(module, "padded_because", None) is None and expected(config)
    counts = {"inside": 0, "outside": 0, "stacked": 0, "adapter": 0}
    for name, weight in module.named_parameters():
        layered = weight.ndim >= 2 and any(part.isdigit() for part in name.split("."))
        part = "adapter" if ".lora_" in name else "inside" if layered else "outside"
        counts[part] += weight.numel()
        counts["stacked"] += weight.numel() * (part == "inside" and weight.ndim > 2)
    matrices = (w for name, w in module.named_parameters() if w.ndim == 2 and any(map(str.isdigit, name.split("."))))
    largest = max((weight.numel() for weight in matrices), default=0)
    reach = None if lora is None else coverage(module)
    fused = fast or module._supports_sdpa
    return ModelOutline(model_size(config), reach, fast, fused, **counts, largest=largest)


def footprint(outline: ModelOutline, plan: TrainingPlan) -> Footprint:
    """What a run of `plan` holds at its peak."""
    inside, outside, adapter = outline.inside, outline.outside, outline.adapter
    trained = adapter if plan.lora is not None else inside + outside
    frozen = plan.lora is not None
    stacked = outline.stacked if plan.weights in ("int8", "nf4") else 0
    stored = (inside - stacked) * WEIGHT_BYTES[plan.weights] + 2 * stacked
    stored += outside * (2 if frozen and plan.weights != "fp32" else 4)
    weights = stored + 4 * adapter
    halved = plan.weights == "bf16" and not frozen
    gradients = 2 * inside + 4 * outside if halved else 4 * trained
    masters = 4 * inside if halved and plan.optimiser.endswith("+masters") else 0
    state = STATE_BYTES[plan.optimiser.partition("+")[0]] * trained + masters
    # Matrices that are computed with in another type than they are stored in are copied, for sampler and learner.
    copies = 2.0 * inside * (plan.precision == "bf16" and plan.weights == "fp32")
    if plan.precision == "fp32" and outline.fast:
        copies = 4.0 * sum(_joined(layer) for layer in outline.size.layers)
    if plan.weights in ("int8", "nf4"):
        copies += 4 * outline.largest
    return Footprint(
        PROGRAM[plan.device],
        weights,
        copies,
        gradients,
        0.0 if plan.host and plan.device != "cpu" else state,
        stored if plan.reference and not frozen else 0.0,
        _sampled(outline, plan),
        _activations(outline, plan),
    )


WEIGHT_BYTES = {"fp32": 4.0, "bf16": 2.0, "int8": 1.0 + 4 / 64, "nf4": 0.5 + 4 / 64}
"""Bytes of a weight of a layer's matrix."""

STATE_BYTES = {"adamw": 8.0, "adamw8bit": 2.0 + 8 / 256, "muon": 4.0, "sgd": 0.0}
"""Bytes of the optimiser for a trained weight."""


def _joined(layer: LayerSize) -> int:
    """Weights of a layer that are joined into small matrices, which are copies; those of experts stay apart."""
    attention = layer.heads * layer.key + layer.shared * (layer.key + layer.value)
    matrices = (attention, layer.heads * layer.value, *(() if layer.chosen else (2 * layer.inner, layer.inner)))
    return sum(layer.hidden * width for width in matrices if layer.hidden * width <= JOINED)


def _sampled(outline: ModelOutline, plan: TrainingPlan) -> float:
    """Keys and values while sampling: of each prompt once where pages are shared, and the numbers of one step."""
    rows = min(plan.rows, plan.prompts * plan.samples)
    size = outline.size
    if outline.fast:
        groups = math.ceil(rows / plan.samples)
        answers = size.cached(plan.context) - size.cached(plan.prompt)
        narrow = 2.0 if plan.precision == "bf16" else 4.0
        held = narrow * (rows * answers + groups * size.cached(plan.prompt))
        held = min(held, PAGES) if plan.device == "cpu" else held
    else:
        held = 2 * 4.0 * rows * size.cached(plan.context)  # Of the batch, and what later contexts go on from.
    return held + 3 * 4.0 * rows * size.vocabulary


def _activations(outline: ModelOutline, plan: TrainingPlan) -> float:
    """What a forward and backward pass over as many tokens as are read together keeps."""
    size, narrow = outline.size, 2.0 if plan.precision == "bf16" else 4.0
    group = plan.samples * (plan.context - plan.prompt) + plan.prompt * (1 if outline.fast else plan.samples)
    every = float(plan.prompts * group)
    read = min(every, max(plan.context, plan.token_budget / (1 + plan.context / ATTENTION_LENGTH)))
    if outline.fast and plan.checkpointing:
        return _checkpointed(outline, plan, read, spared=read >= every)
    recorded = every * sum(_recorded(layer, narrow) for layer in size.layers)
    records = outline.fast and plan.lora is None and plan.device == "cpu" and not plan.checkpointing
    records = records and outline.inside >= WORTH and recorded <= MAX_BYTES
    layers = [_kept(layer, outline, narrow, plan.context, records) for layer in size.layers]
    held = max(layers) + 4.0 * size.hidden * len(layers) if plan.checkpointing else sum(layers)
    # Gradients on the way back, and what adapters add; of the pass of transformers the first fit into what is freed.
    passing = (2 if outline.fast else 0) + (0 if plan.lora is None else 1 if outline.fast else 2)
    return read * (held + passing * max(layers)) + _logits(outline, plan, read) + recorded * records


def _kept(layer: LayerSize, outline: ModelOutline, narrow: float, length: int, replayed: bool) -> float:
    """Bytes that a layer keeps of a token for the backward pass; of a replayed pass no turned queries."""
    attention = (layer.heads + layer.shared) * (layer.key + layer.value)
    if outline.fast:
        more = 0 if replayed else attention
        # Experts are run over copies of the rows sent to them, and what each gives a token is kept to be weighed.
        return _recorded(layer, narrow) + narrow * (layer.inner + more + 2 * layer.chosen * layer.hidden)
    scores = 0 if outline.fused else 3 * 4.0 * layer.heads * min(length, layer.window or length)
    return 4.0 * (8 * layer.hidden + 2 * attention + 4 * layer.inner) + scores


def _recorded(layer: LayerSize, narrow: float) -> float:
    """Of the layer's inputs, queries, keys, values, what attention mixed, gate and up: bytes a token."""
    attention = (layer.heads + layer.shared) * (layer.key + layer.value)
    return narrow * (2 * layer.hidden + attention + 2 * layer.inner)


def _checkpointed(outline: ModelOutline, plan: TrainingPlan, read: float, *, spared: bool) -> float:
    """The same of a pass that keeps the states between layers, and computes one layer at a time again.

    With `spared` the pass is the only one of an update: gradients of layers come to be as their states go, so only the
    larger of the two is held beside the work on a layer. `footprint` counts the gradients.
    """
    size, narrow = outline.size, 2.0 if plan.precision == "bf16" else 4.0
    state = 4.0 * size.hidden * read
    away = plan.checkpointing == "host" and plan.device != "cpu"
    states = state * (2 if away else len(size.layers))
    if spared and not away:
        trained = outline.adapter if plan.lora is not None else outline.inside
        states = max(state, states - trained * (2 if plan.weights == "bf16" and plan.lora is None else 4))
    work = max(_worked(layer, plan, narrow, read) for layer in size.layers)
    # States that the head reads, and their gradients; it is done before the last layer is computed again.
    return states + max(work, 2 * state + _logits(outline, plan, read))


def _worked(layer: LayerSize, plan: TrainingPlan, narrow: float, read: float) -> float:
    """Bytes of the backward pass through one layer that is computed again: at its attention, or where it feeds."""
    hidden, mixed = layer.hidden, layer.heads * layer.value
    keys, values = layer.shared * layer.key, layer.shared * layer.value
    turned = layer.heads * layer.key + keys
    projected = turned + values
    saved = narrow * (hidden + projected + turned + mixed)
    if plan.lora is not None:
        saved += narrow * projected  # What the adapter adds.
    # The gradients of the states and of what was mixed, those of what was projected in fp32, and these in their type.
    more = narrow * projected
    if plan.device != "cpu":
        more = max(more, 4.0 * (keys + values))
    attention = saved + 4.0 * hidden + narrow * mixed + 4.0 * projected + more
    # Inputs and outputs with their gradients; gate, up and their product with theirs, of as many as are fed at once.
    fed = saved + 4.0 * hidden + narrow * 4 * hidden
    inner = narrow * (6 * layer.inner + 2 * layer.chosen * hidden)
    return max(attention * read, fed * read + inner * (read if layer.chosen else min(read, FEED_TOKENS)))


def _logits(outline: ModelOutline, plan: TrainingPlan, tokens: float) -> float:
    held = min(tokens * outline.size.vocabulary, LOGITS[plan.device])
    return 4.0 * (2 if outline.fast else 3) * held


def adapted_plan(outline: ModelOutline, plan: TrainingPlan, room: float) -> TrainingPlan | None:
    """The plan as it fits into `room` bytes: fewer rows sampled together, smaller passes, checkpointing; or None."""
    rows = min(plan.rows, plan.prompts * plan.samples)
    while True:
        for checkpointing in CHECKPOINTING if plan.device != "cpu" else CHECKPOINTING[:2]:
            budget = plan.token_budget
            while budget >= LEAST_BUDGET:
                less = dataclasses.replace(plan, rows=rows, token_budget=budget, checkpointing=checkpointing)
                if footprint(outline, less).total <= SHARE * room:
                    return less
                budget /= 2
        if rows <= plan.samples:
            return None
        rows = max(plan.samples, rows // 2)


def least_plan(plan: TrainingPlan, context: int) -> TrainingPlan:
    """The plan for sequences of `context` tokens with all that makes it smaller: one group, one sequence a pass."""
    prompt = plan.prompt * context // max(1, plan.context)
    return dataclasses.replace(
        plan,
        context=context,
        prompt=prompt,
        rows=min(plan.rows, plan.samples),
        token_budget=1,
        checkpointing=True if plan.device == "cpu" else "host",
    )


def longest_context(outline: ModelOutline, plan: TrainingPlan, room: float) -> int:
    """The most tokens a sequence can have within `room` bytes, by `least_plan`; 0 when not even 16 fit."""

    def fits(context: int) -> bool:
        return footprint(outline, least_plan(plan, context)).total <= SHARE * room

    low, high = 0, outline.size.context or 2**20
    if fits(high):
        return high
    while high - low > 16:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low // 16 * 16
