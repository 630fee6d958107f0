"""Low-rank adapters through `peft`, added in place, drawn from a key, merged without touching the model."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.policies.lora_targets import adapted_weights, plain_name, targets_of
from hocket.policies.settings import LoraSettings
from hocket.policies.stored_weights import CodedLinear

ADAPTER = "default"


def add_adapter(model: Any, settings: LoraSettings, key: Key) -> None:
    """Puts a trainable adapter into `model` and freezes everything else.

    Raises:
        ConfigurationError: when `peft` is not installed, or a target is in no layer.
    """
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError as error:
        raise ConfigurationError("LoRA needs the package peft: pip install 'hocket[lora]'") from error
    from transformers.initialization import no_init_weights
    from transformers.pytorch_utils import Conv1D

    if settings.dora and any(isinstance(module, CodedLinear) for module in model.modules()):
        raise ConfigurationError("lora.dora needs the norms of fp32 weights; set weights = fp32, or drop lora.dora")
    if settings.dropout:
        raise ConfigurationError(f"lora.dropout = {settings.dropout}: sampler and learner would differ; set it to 0")
    targets = targets_of(model, settings.targets)
    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        target_modules=targets.modules,
        target_parameters=list(targets.parameters) or None,
        exclude_modules=list(targets.excluded) or None,
        lora_dropout=0.0,
        use_rslora=settings.rslora,
        use_dora=settings.dora,
        task_type="CAUSAL_LM",
        fan_in_fan_out=any(isinstance(module, Conv1D) for module in model.modules()),
    )
    try:
        # The weights are drawn below, from the key. Of experts that a model has not, peft warns for nothing.
        with no_init_weights(), warnings.catch_warnings(), _any_parameter(model):
            warnings.filterwarnings(
                "ignore", message="The following (rank|alpha)_pattern keys", category=RuntimeWarning
            )
            inject_adapter_in_model(config, model, adapter_name=ADAPTER)
    except ValueError as error:
        raise ConfigurationError(f"lora.targets = {settings.targets!r}: {str(error).splitlines()[0]}") from error
    generator = key.torch()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(is_adapters(name))
            if "lora_A" in name:
                bound = parameter.shape[1] ** -0.5
                drawn = torch.rand(parameter.shape, generator=generator) * (2 * bound) - bound
                parameter.copy_(drawn)
            elif "lora_B" in name:
                parameter.zero_()
    for layer in adapted_layers(model):
        if ADAPTER in layer.lora_variant:  # DoRA's magnitudes are the norms of the weights without an update.
            layer.lora_variant[ADAPTER].init(layer, ADAPTER)
    model.padded_because = not_joined(model)


@contextmanager
def _any_parameter(model: nn.Module) -> Iterator[None]:
    """Inside, a model has a parameter: peft asks one where it is, and where all weights are codes there is none."""
    bare = next(model.parameters(), None) is None
    if bare:
        model.register_parameter("anchor", nn.Parameter(torch.zeros(0), requires_grad=False))
    try:
        yield
    finally:
        if bare:
            del model.anchor


def not_joined(model: nn.Module) -> str | None:
    """Why the adapter of `model` cannot be computed by `hocket.policies.lowrank`; None where it can.

    The forward pass of `transformers` then does, of sequences padded to one length.
    """
    stacks = [layer.parameter_name for layer in adapted_layers(model) if hasattr(layer, "parameter_name")]
    return f"{stacks[0]} is a weight of no linear layer" if stacks else None


def is_adapters(name: str) -> bool:
    """Whether a parameter of this name belongs to an adapter."""
    return ".lora_" in name


def adapted_layers(model: nn.Module) -> list[Any]:
    """The layers that carry an adapter."""
    return [module for module in model.modules() if hasattr(module, "lora_A")]


def acting_parameters(model: nn.Module, adapted: bool) -> Iterator[nn.Parameter]:
    """The weights that a model computes with: all, or all but those of an adapter that takes no part."""
    for name, parameter in model.named_parameters():
        if adapted or not is_adapters(name):
            yield parameter


class Adapter(NamedTuple):
    """What one adapted layer adds: `scaling * x down^T up^T`, `[R, H]` and `[N, R]`.

    Attributes:
        gain: what the layer's sum is multiplied by, `[N]`; DoRA's alone (Liu et al. 2024).
    """

    down: Tensor
    up: Tensor
    scaling: float
    gain: Tensor | None = None


def base_of(layer: Any) -> Any:
    """The layer itself, or what its adapter was put around."""
    return layer.base_layer if hasattr(layer, "lora_A") else layer


def active_adapter(layer: Any) -> Adapter | None:
    """A layer's adapter, unless it has none or it is switched off."""
    if not hasattr(layer, "lora_A") or layer.disable_adapters:
        return None
    down, up, scaling = layer.lora_A[ADAPTER].weight, layer.lora_B[ADAPTER].weight, float(layer.scaling[ADAPTER])
    if ADAPTER not in layer.lora_variant:
        return Adapter(down, up, scaling)
    with torch.no_grad():  # The norm is a constant to the gradient, as in the paper (section 4.3).
        norm = torch.addmm(layer.base_layer.weight.to(up.dtype), up, down, alpha=scaling).norm(dim=1)
    return Adapter(down, up, scaling, layer.lora_magnitude_vector[ADAPTER].weight / norm)


@contextmanager
def without_adapter(model: nn.Module) -> Iterator[None]:
    """Inside, the model computes as if it had no adapter. Which parameters are trained does not change."""
    layers = adapted_layers(model)
    before = [layer._disable_adapters for layer in layers]
    for layer in layers:
        layer._disable_adapters = True
    try:
        yield
    finally:
        for layer, off in zip(layers, before, strict=True):
            layer._disable_adapters = off


def merged_state(model: nn.Module, dtype: torch.dtype | None = None) -> dict[str, Tensor]:
    """The state of the plain model whose weights include the adapter, where that is on.

    With `dtype` each weight is cast as soon as it is merged, so that no second copy in the model's precision exists.
    """
    layers = {name: layer for name, layer in adapted_weights(model) if not layer.disable_adapters}
    state = {}
    with torch.no_grad():
        for name, value in model.state_dict().items():
            plain = plain_name(name)
            if not is_adapters(name):
                weight = _merged(layers[plain], value) if plain in layers else value
                state[plain] = weight.to(dtype) if dtype is not None and weight.is_floating_point() else weight
    return state


def _merged(layer: Any, weight: Tensor) -> Tensor:
    """A layer's weight with its adapter."""
    delta = layer.get_delta_weight(ADAPTER).to(weight.device)
    merged: Tensor = (weight + delta).to(weight.dtype)  # Rounded once where the weight is in bf16.
    if layer.use_dora.get(ADAPTER):
        merged = merged * (layer.lora_magnitude_vector[ADAPTER].weight / torch.linalg.norm(merged, dim=1))[:, None]
    return merged


def save_adapter(model: Any, folder: Path) -> None:
    """Writes the adapter alone in peft's format, loadable onto the base by `PeftModel.from_pretrained`."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    state = {_stored(name): value.contiguous() for name, value in model.state_dict().items() if is_adapters(name)}
    save_file(state, folder / "adapter_model.safetensors")
    model.peft_config[ADAPTER].save_pretrained(str(folder))


def load_adapter(model: nn.Module, folder: Path) -> None:
    """Reads back what `save_adapter` wrote.

    Raises:
        ConfigurationError: when the file is missing or does not fit the adapter.
    """
    from safetensors.torch import load_file

    file = folder / "adapter_model.safetensors"
    if not file.is_file():
        raise ConfigurationError(f"there is no adapter {file}; it was saved without LoRA")
    stored = load_file(file)
    state = {name: value for name, value in model.state_dict().items() if is_adapters(name)}
    shapes = {_stored(name): value.shape for name, value in state.items()}
    if shapes != {name: value.shape for name, value in stored.items()}:
        raise ConfigurationError(f"the adapter {file} has other layers or another rank than this policy's")
    with torch.no_grad():
        for name, value in state.items():
            value.copy_(stored[_stored(name)])


def _stored(name: str) -> str:
    """The name peft stores a parameter under: from the wrapped model's root, without the adapter's name."""
    return "base_model.model." + re.sub(rf"\.{ADAPTER}(?=\.weight$)", "", name)
