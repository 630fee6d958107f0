"""The protocol's requests in JSON as types, which check them. What means nothing here is not read."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

AtLeastZero = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, lt=1)]
Count = Annotated[int, Meta(ge=1)]
Stop = Annotated[str, Meta(min_length=1)]

MOST_SAMPLES = 4096
"""Samples of one prompt in one request."""


class AnyBody(Struct):
    """Nothing of it is read."""


class SessionBody(Struct):
    """Of which session."""

    session_id: str


class ModelBody(Struct):
    """Of which training model."""

    model_id: str


class FutureBody(Struct):
    """Of which request."""

    request_id: str


class CheckpointBody(Struct):
    """Of which checkpoint."""

    tinker_path: str


class LoraConfig(Struct):
    """The shape of an adapter."""

    rank: Count = 32
    seed: int | None = None
    train_attn: bool = True
    train_mlp: bool = True


class OptimizerConfig(Struct):
    """Which optimiser; AdamW is the only one."""

    type: Literal["adamw"] = "adamw"


class CreateModel(Struct):
    """A training model with a fresh adapter; `model_seq_id` counts those of a session."""

    session_id: str
    model_seq_id: int
    base_model: str
    lora_config: LoraConfig | None = None
    optimizer_config: OptimizerConfig | None = None


class AdamParams(Struct):
    """Of one step; `grad_clip_norm` 0 does not clip."""

    learning_rate: AtLeastZero = 1e-4
    beta1: Share = 0.9
    beta2: Share = 0.95
    eps: AtLeastZero = 1e-12
    weight_decay: AtLeastZero = 0.0
    grad_clip_norm: AtLeastZero = 0.0


class OptimStep(Struct):
    """A step from the gathered gradient; `seq_id` counts the requests of a model."""

    model_id: str
    seq_id: int
    adam_params: AdamParams


class SaveWeights(Struct):
    """A checkpoint to go on from, under the name `path`."""

    model_id: str
    seq_id: int
    path: str | None = None
    overwrite: bool = False
    user_metadata: dict[str, Any] | None = None


class SaveWeightsForSampler(Struct):
    """Weights to sample from: on disk under the name `path`, else in memory."""

    model_id: str
    seq_id: int
    path: str | None = None
    sampling_session_seq_id: int | None = None
    user_metadata: dict[str, Any] | None = None


class LoadWeights(Struct):
    """A checkpoint into the model `model_id`, or into a new one of the session `session_id`."""

    path: str
    optimizer: bool
    model_id: str | None = None
    seq_id: int | None = None
    session_id: str | None = None
    model_seq_id: int | None = None


class CreateSamplingSession(Struct):
    """A sampler of the base, or of a checkpoint."""

    session_id: str
    sampling_session_seq_id: int
    base_model: str | None = None
    model_path: str | None = None


class SamplingParams(Struct):
    """How samples are drawn; `top_k` below 1 is all."""

    max_tokens: Count | None = None
    seed: int | None = None
    stop: Stop | list[Stop | int] | None = None
    temperature: AtLeastZero = 1.0
    top_k: int = -1
    top_p: Annotated[float, Meta(gt=0, le=1)] = 1.0


class InputChunk(Struct):
    """A part of an input; those that are text have tokens."""

    type: str = "encoded_text"
    tokens: list[int] = []


class ModelInput(Struct):
    """What is read."""

    chunks: list[InputChunk]


class SampleBody(Struct):
    """Samples of one prompt; `seq_id` counts the requests of a sampler."""

    sampling_session_id: str
    prompt: ModelInput
    num_samples: Annotated[int, Meta(ge=1, le=MOST_SAMPLES)] = 1
    seq_id: int | None = None
    sampling_params: SamplingParams = field(default_factory=SamplingParams)
    prompt_logprobs: bool | None = None
    topk_prompt_logprobs: Annotated[int, Meta(ge=0)] = 0
    prompt_logprobs_last_n: Annotated[int, Meta(ge=0)] | None = None
    topk_sample_logprobs: int = 0
    prompt_alt_tokens_k: int = 0
    target_prompt_logprobs: Any = None
