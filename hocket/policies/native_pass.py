"""The forward pass of `transformers` itself, for architectures without a form: in two parts, trunk and head.

What a model can do is tried once on a few tokens, and where a trial disagrees with the plain pass the plain way is
used: fused attention, a head of its own that reads the trunk's last states (so that logits are made in parts), and rows
padded on the left.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from hocket.policies.heads import Head
from hocket.policies.shapes import text_config
from hocket.policies.support import trunk_of
from hocket.policies.vision import embedding_inputs

_PROBE = 12
"""Tokens that a trial reads."""
_EXACT, _NARROW = 1e-4, 5e-2
"""How far two passes may differ, relative to the spread of the logits, in fp32 and in bf16."""
_ERRORS = (RuntimeError, TypeError, ValueError, AttributeError, KeyError, IndexError, NotImplementedError)
"""What a model that cannot do something raises."""


@dataclass(frozen=True)
class CacheTraits:
    """How a model samples.

    Attributes:
        name: what its cache is called, as an argument and in what it returns.
        plain: whether that holds the keys and values of every token, and nothing else.
        pads: whether rows may be padded on the left: what the model says of them is what it says of each alone. Tried
            with one row of padding, on its context and on two tokens after it.
    """

    name: str
    plain: bool = False
    pads: bool = False


@dataclass
class _Trials:
    """The results of a model's trials; None where there was none yet.

    Attributes:
        attention: whether the kind of attention is chosen. split: whether trunk and head can be called apart.
        linear: whether the head is its output embeddings and nothing else.
    """

    attention: bool = False
    split: bool | None = None
    linear: bool = False
    cache: CacheTraits | None = None


_trials: WeakKeyDictionary[nn.Module, _Trials] = WeakKeyDictionary()


def native_head(model: Any) -> Head | None:
    """From the trunk's last states to logits, with scales and caps of the architecture.

    None where it is no function of them alone; finished logits are read then.
    """
    trials = _tried(model)
    if trials.split is None:
        try:
            with torch.no_grad():
                trials.split, trials.linear = _try_head(model)
        except _ERRORS:
            trials.split = False
    if not trials.split:
        return None
    head: Head = model.get_output_embeddings() if trials.linear else NativeHead(model)
    return head


def native_states(model: Any, ids: Tensor, *, gradient_checkpointing: bool = False) -> Tensor:
    """The trunk's last states `[B, S, H]` of ids `[B, S]` padded on the right.

    A causal model's earlier positions cannot see what stands right of them, and rows start at position 0, so that
    neither a mask nor position numbers are needed.
    """
    _tried(model)
    with _checkpointed(model, gradient_checkpointing):
        states: Tensor = trunk_of(model)(use_cache=False, **embedding_inputs(model, ids)).last_hidden_state
    return states


def native_logits(
    model: Any, ids: Tensor, *, hidden: bool = False, gradient_checkpointing: bool = False
) -> tuple[Tensor, Tensor | None]:
    """Finished logits `[B, S, V]` and, where `hidden`, the last states; otherwise as `native_states`."""
    _tried(model)
    with _checkpointed(model, gradient_checkpointing):
        out = model(use_cache=False, output_hidden_states=hidden, **embedding_inputs(model, ids))
    return out.logits, out.hidden_states[-1] if hidden else None


def cache_traits(model: Any) -> CacheTraits:
    """What is known of a model's cache, tried once."""
    trials = _tried(model)
    if trials.cache is None:
        with torch.no_grad():
            trials.cache = _try_cache(model)
    return trials.cache


def steady_length(model: Any) -> int | None:
    """The length up to which positions are turned alike in every batch; None without a limit.

    Beyond it some rotary embeddings change with the longest row of a batch.
    """
    config = text_config(model.config)
    rotary = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    kind = rotary.get("rope_type", rotary.get("type"))
    if kind not in ("dynamic", "longrope"):
        return None
    limit = rotary.get("original_max_position_embeddings") or getattr(config, "original_max_position_embeddings", None)
    return int(limit or config.max_position_embeddings)


def padding_inputs(model: Any, lengths: Tensor, width: int, last: int) -> dict[str, Any]:
    """What a model is called with besides ids where rows of `lengths` `[B]` stand right-aligned in `width` columns.

    The mask over all columns, and the positions of the `last` ones if the model takes positions. Nothing where no row
    is padded.
    """
    if int(lengths.min()) == width:
        return {}
    empty = (width - lengths)[:, None]
    columns = torch.arange(width, device=lengths.device)[None]
    inputs = {"attention_mask": (columns >= empty).long()}
    if "position_ids" in inspect.signature(model.forward).parameters:
        inputs["position_ids"] = (columns[:, width - last :] - empty).clamp_min(0)
    return inputs


class NativeHead:
    """From last states `[K, H]` to logits `[K, V]` by the model's own forward pass, its trunk answering with states."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def __call__(self, states: Tensor) -> Tensor:
        model, name = self._model, self._model.base_model_prefix
        trunk = model._modules[name]
        model._modules[name] = _Answer(states[None])
        try:
            ids = torch.zeros(1, len(states), dtype=torch.long, device=states.device)
            logits: Tensor = model(input_ids=ids, use_cache=False).logits[0]
        finally:
            model._modules[name] = trunk
        return logits


class _Answer(nn.Module):
    """A trunk that answers every call with the same states; of all else it knows nothing."""

    def __init__(self, states: Tensor) -> None:
        super().__init__()
        self._states = states

    def forward(self, *_: Any, **__: Any) -> _Output:
        return _Output(self._states)


class _Output:
    def __init__(self, states: Tensor) -> None:
        self.last_hidden_state = states

    def __getitem__(self, place: int) -> Tensor | None:
        return self.last_hidden_state if place == 0 else None

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)


# ---------------------------------------------------------------- trials


def _tried(model: Any) -> _Trials:
    trials = _trials.setdefault(model, _Trials())
    if not trials.attention:
        trials.attention = True
        _fuse(model)
    return trials


def _fuse(model: Any) -> None:
    """Has attention computed by torch's fused operator, where the model offers that and it gives the same numbers."""
    before = model.config._attn_implementation
    if before != "eager" or not model._supports_sdpa or not model._can_set_attn_implementation():
        return
    try:
        with torch.no_grad():
            due = trunk_of(model)(input_ids=_tokens(model)[None], use_cache=False).last_hidden_state
            model.set_attn_implementation("sdpa")
            fused = trunk_of(model)(input_ids=_tokens(model)[None], use_cache=False).last_hidden_state
            agrees = _close(fused, due)
    except _ERRORS:
        agrees = False
    if not agrees:
        model.set_attn_implementation(before)


def _try_head(model: Any) -> tuple[bool, bool]:
    """Whether trunk and head can be called apart, and whether the head is a linear layer alone."""
    if model._modules.get(model.base_model_prefix) is None:
        return False, False
    ids = _tokens(model)[None]
    due = model(input_ids=ids, use_cache=False).logits[0]
    states = trunk_of(model)(input_ids=ids, use_cache=False).last_hidden_state[0]
    head = model.get_output_embeddings()
    if isinstance(head, nn.Module) and states.shape[-1] == getattr(head, "in_features", states.shape[-1]):
        plain = head(states)
        if plain.shape == due.shape and _close(plain, due):
            return True, True
    return _close(NativeHead(model)(states), due), False


def _try_cache(model: Any) -> CacheTraits:
    name = "past_key_values"
    try:
        tokens = _tokens(model)
        out = model(input_ids=tokens[None], use_cache=True)
        name = "cache_params" if getattr(out, "cache_params", None) is not None else name
        plain = _is_plain(getattr(out, name, None))
        return CacheTraits(name, plain, _pads(model, tokens, name))
    except _ERRORS:
        return CacheTraits(name)


def _is_plain(cache: Any) -> bool:
    from transformers.cache_utils import DynamicCache, DynamicLayer

    return isinstance(cache, DynamicCache) and all(type(layer) is DynamicLayer for layer in cache.layers)


def _pads(model: Any, tokens: Tensor, name: str) -> bool:
    short, width = len(tokens) // 3, len(tokens) - 2
    rows = torch.stack((tokens[:width], tokens[:width].roll(short)))
    lengths = torch.tensor([width, short], device=tokens.device)
    out = model(input_ids=rows, use_cache=True, **padding_inputs(model, lengths, width, width))
    read = [out.logits[:, -1]]
    for number in range(2):
        more: dict[str, Any] = padding_inputs(model, lengths + number + 1, width + number + 1, 1)
        more[name] = getattr(out, name)
        out = model(input_ids=tokens[width + number].expand(2, 1), use_cache=True, **more)
        read.append(out.logits[:, -1])
    for row, length in enumerate(lengths.tolist()):
        alone = torch.cat((rows[row, width - length :], tokens[width:]))[None]
        due = model(input_ids=alone, use_cache=False).logits[0, length - 1 :]
        if not _close(torch.stack([logits[row] for logits in read]), due):
            return False
    return True


def _tokens(model: Any) -> Tensor:
    config = text_config(model.config)
    count = min(_PROBE, int(getattr(config, "max_position_embeddings", None) or _PROBE))
    return (torch.arange(count, device=model.device) * 7 + 3) % int(config.vocab_size)


def _close(result: Tensor, due: Tensor) -> bool:
    """Whether two results differ by rounding alone, relative to the spread of the numbers."""
    narrow = due.dtype not in (torch.float32, torch.float64) or torch.is_autocast_enabled(due.device.type)
    most = _NARROW if narrow else _EXACT
    return bool((result - due).abs().max() <= most * due.float().std())


# ---------------------------------------------------------------- memory


@contextmanager
def _checkpointed(model: nn.Module, wanted: bool) -> Iterator[None]:
    """Inside, layers keep their inputs alone for the backward pass.

    `transformers` would do so only in training mode, in which dropout acts.
    """
    from transformers.modeling_layers import GradientCheckpointingLayer

    layers: list[Any] = []
    if wanted and torch.is_grad_enabled():
        layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    for layer in layers:
        layer.forward = partial(checkpoint, layer.forward, use_reentrant=False, preserve_rng_state=False)
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward
