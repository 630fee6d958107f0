"""Tinker's protocol buffers to examples and back. The schema is that of the public client, package `tinker`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.apps.serve.refusals import Refusal
from hocket.apps.serve.tinker.bodies import ModelInput
from hocket.core.errors import ConfigurationError
from hocket.engine.requests import Sample
from hocket.train.token_losses import (
    ClippedRatio,
    ClippedSequenceRatio,
    ClippedWeight,
    CrossEntropy,
    ImportanceSampling,
    QuadraticPenalty,
    TokenLoss,
)
from hocket.train.training_engine import PassOutcome, TokenExample

LOSSES: Mapping[str, tuple[type[Any], Mapping[str, str]]] = {
    "cross_entropy": (CrossEntropy, {}),
    "importance_sampling": (ImportanceSampling, {}),
    "ppo": (ClippedRatio, {"clip_low_threshold": "low", "clip_high_threshold": "high"}),
    "cispo": (ClippedWeight, {"clip_low_threshold": "low", "clip_high_threshold": "high"}),
    "gspo": (ClippedSequenceRatio, {"clip_low_threshold": "low", "clip_high_threshold": "high"}),
    "dro": (QuadraticPenalty, {"beta": "beta"}),
}
"""Losses by the protocol's names, each with its settings."""

_EMPTY = -99999.0
"""The log-prob of an empty cell in the protocol's matrices."""


class TrainingPass(NamedTuple):
    """A request for a pass: whose, its number, and what is learnt from.

    Attributes:
        model: its id. number: the place in the order of the model's requests.
        forward_only: whether no gradient is asked.
    """

    model: str
    number: int
    examples: list[TokenExample]
    loss: TokenLoss
    forward_only: bool


def read_pass(body: bytes) -> TrainingPass:
    """A request `forward_backward`.

    Raises:
        Refusal: when it cannot be read, or asks for a loss or an input that is not served.
        ConfigurationError: when an example is broken.
    """
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    from tinker.proto import tinker_public_pb2 as schema

    message = schema.ForwardBackwardRequest()
    try:
        message.ParseFromString(body)
    except DecodeError:
        raise Refusal(400, "the body is no ForwardBackwardRequest", code="invalid_body") from None
    settings: dict[str, float | str] = dict(message.loss_fn_config)
    for name, value in message.loss_fn_config_v2.items():
        settings[name] = value.text if value.HasField("text") else value.number
    loss = loss_named(message.loss_fn, settings)
    examples = [_example(datum, schema, loss.reads) for datum in message.data]
    return TrainingPass(message.model_id, message.seq_id, examples, loss, message.forward_only)


def loss_named(name: str, settings: Mapping[str, float | str]) -> TokenLoss:
    """A loss by the protocol's name and settings.

    Raises:
        Refusal: for an unknown loss or setting, or a value out of range.
    """
    if name not in LOSSES:
        raise Refusal(422, f"the loss {name!r} is not served here; choose one of {', '.join(LOSSES)}", code="bad_loss")
    kind, names = LOSSES[name]
    stray = next((setting for setting in settings if setting not in names), None)
    if stray is not None:
        known = ", ".join(names) or "none"
        raise Refusal(422, f"the loss {name!r} has no setting {stray!r}; its settings: {known}", code="bad_loss")
    try:
        loss: TokenLoss = kind(**{names[setting]: float(value) for setting, value in settings.items()})
    except ValueError as error:
        raise Refusal(422, f"the loss {name!r}: {error}", code="bad_loss") from None
    return loss


def tokens_of(asked: ModelInput) -> tuple[int, ...]:
    """The token ids of an input in JSON.

    Raises:
        Refusal: when a part of it is no text.
    """
    other = next((chunk.type for chunk in asked.chunks if chunk.type != "encoded_text"), None)
    if other is not None:
        raise Refusal(422, f"inputs are text here, not {other!r}", code="bad_input")
    return tuple(token for chunk in asked.chunks for token in chunk.tokens)


def written_pass(outcome: PassOutcome) -> bytes:
    """A `ForwardBackwardOutput`."""
    from tinker.proto import tinker_public_pb2 as schema

    message = schema.ForwardBackwardOutput(loss_fn_output_type="ArrayRecord", metrics={"loss:sum": outcome.loss})
    record = message.loss_fn_outputs.add(num_datums=len(outcome.logp))
    ends = np.cumsum([0, *(4 * len(part) for part in outcome.logp)], dtype=np.int64)
    record.fields["logprobs"].CopyFrom(
        schema.BatchedTensor(
            data=np.concatenate(outcome.logp).astype(np.float32).tobytes(),
            offsets=ends.tobytes(),
            dtype=schema.DTYPE_FLOAT32,
        )
    )
    return bytes(message.SerializeToString())


def written_samples(
    samples: Sequence[Sample],
    prompt: NDArray[np.float32] | None,
    top: tuple[NDArray[np.int32], NDArray[np.float32]] | None,
) -> bytes:
    """A `SampleResponse`, with log-probs `[P]` of the prompt where asked, NaN where not computed, and its likeliest."""
    from tinker.proto import tinker_public_pb2 as schema

    reasons = {"stop": schema.STOP_REASON_STOP, "length": schema.STOP_REASON_LENGTH}
    message = schema.SampleResponse()
    for sample in samples:
        assert sample.logp is not None
        message.sequences.add(
            stop_reason=reasons[sample.finish],
            tokens=sample.tokens.astype(np.int32).tobytes(),
            logprobs=sample.logp.astype(np.float32).tobytes(),
        )
    if prompt is not None:
        message.prompt_logprobs = prompt.astype(np.float32).tobytes()
    if top is not None:
        ids, logp = top
        empty_ids, empty = np.zeros_like(ids[:1]), np.full_like(logp[:1], _EMPTY)
        message.topk_prompt_logprobs.CopyFrom(
            schema.TopkLogprobs(
                token_ids=np.concatenate([empty_ids, ids]).astype(np.int32).tobytes(),
                logprobs=np.concatenate([empty, logp]).astype(np.float32).tobytes(),
                k=ids.shape[1],
                length=len(ids) + 1,
            )
        )
    return bytes(message.SerializeToString())


def _example(datum: Any, schema: Any, reads: Sequence[str]) -> TokenExample:
    tokens: list[NDArray[np.int64]] = []
    for chunk in datum.model_input:
        if chunk.WhichOneof("chunk") != "encoded_text":
            raise Refusal(422, "inputs are text here, not pictures or sound", code="bad_input")
        tokens.append(np.frombuffer(chunk.encoded_text.tokens, np.int32).astype(np.int64))
    read = {name: _array(tensor, schema) for name, tensor in datum.loss_fn_inputs.items()}
    by_token = next((name for name in read if name.startswith("clip_")), None)
    if by_token is not None:
        raise Refusal(422, f"{by_token} is one number here: put it into loss_fn_config", code="bad_input")
    targets = read.pop("target_tokens", None)
    if targets is None:
        raise ConfigurationError("an example has no target_tokens")
    if targets.dtype == np.float32:
        raise Refusal(422, "target_tokens are whole numbers", code="bad_input")
    columns = {name: column.astype(np.float32) for name, column in read.items()}
    if "weights" in reads:
        columns.setdefault("weights", np.ones(len(targets), np.float32))
    return TokenExample(np.concatenate(tokens or [np.zeros(0, np.int64)]), targets.astype(np.int64), columns)


def _array(tensor: Any, schema: Any) -> NDArray[Any]:
    if tensor.HasField("sparse_csr"):
        raise Refusal(422, "sparse tensors are not served here: targets are one token each", code="bad_input")
    kinds = {schema.DTYPE_FLOAT32: np.float32, schema.DTYPE_INT64: np.int64, schema.DTYPE_INT32: np.int32}
    if tensor.dtype not in kinds:
        raise Refusal(422, "tensors are float32 or int64", code="bad_input")
    flat = np.frombuffer(tensor.dense, kinds[tensor.dtype])
    shape = list(tensor.shape) or [len(flat)]
    if int(np.prod(shape)) != len(flat):
        raise Refusal(422, f"a tensor of shape {shape} holds {len(flat)} numbers", code="bad_input")
    return flat.reshape(shape)
