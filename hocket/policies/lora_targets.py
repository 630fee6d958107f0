"""What an adapter stands around: linear layers, and weights that are no layer's, as those of experts and routers."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from hocket.core.errors import ConfigurationError, nearest
from hocket.policies.stored_weights import stored_sizes

ALL_LINEAR = "all-linear"
"""The target that is every linear layer but the head."""

WARNED = 0.1
"""Below this share of the layers' weights an adapter's reach is a warning."""

NAMED = 5
"""So many of the largest groups of weights without an adapter are named, each of at least `LEAST` of all weights."""
LEAST = 0.01

_STATE_SPACES = frozenset({"falcon_h1", "mamba", "mamba2", "falcon_mamba", "nemotron_h"})
_REFUSED = ("out_proj", "conv1d")
"""What `peft` refuses in these, as their kernels read the weights past the layer."""


@dataclass(frozen=True)
class Targets:
    """Names for peft: of modules, with those left out of them, and of parameters of other modules."""

    modules: str | list[str]
    parameters: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()


@dataclass(frozen=True)
class Coverage:
    """How much of a model an adapter acts on.

    Attributes:
        reached, total: weights with an adapter, and all. in_layers: of the decoder layers.
        reached_in_layers: of these, the ones with an adapter. trained: the adapter's own weights.
        left_out: weights without one by name, layer numbers left out, the largest first.
    """

    reached: int
    total: int
    reached_in_layers: int
    in_layers: int
    trained: int
    left_out: Mapping[str, int]

    @property
    def share(self) -> float:
        return self.reached / max(1, self.total)

    @property
    def small(self) -> bool:
        """Whether hardly anything of the layers is reached."""
        return self.reached_in_layers < WARNED * self.in_layers

    def sentence(self) -> str:
        """The share that is reached, and the largest parts that are not."""
        largest = [(name, size) for name, size in self.left_out.items() if size >= LEAST * self.total][:NAMED]
        named = ", ".join(f"{name} ({size / self.total:.0%})" for name, size in largest)
        rest = f"; left out: {named}" if named else ""
        return f"the adapter ({_count(self.trained)} weights) acts on {self.share:.0%} of {_count(self.total)}{rest}"

    def advice(self) -> str:
        """For an adapter of small reach: what to type."""
        share = self.reached_in_layers / max(1, self.in_layers)
        missing = next((name for name in self.left_out if "embed" not in name and "head" not in name), "NAME")
        pattern = "*experts*" if "experts" in missing else f"*{missing}"
        return (
            f"LoRA acts on {share:.1%} of the layers' weights, and the others stay as they are; add the largest part "
            f"with --lora.targets \"['{ALL_LINEAR}', '{pattern}']\""
        )

    def to_json(self) -> dict[str, Any]:
        """For `summary.json`."""
        return {
            "share": round(self.share, 4),
            "share_of_layers": round(self.reached_in_layers / max(1, self.in_layers), 4),
            "trained": self.trained,
            "left_out": {name: size for name, size in self.left_out.items() if size >= LEAST * self.total},
        }


def targets_of(model: nn.Module, names: Sequence[str] | None) -> Targets:
    """What `names` mean in `model`: names, ends of names, patterns with `*`, and `all-linear`; None is the last.

    Raises:
        ConfigurationError: when a name is of nothing that can have an adapter.
    """
    kind = getattr(getattr(model, "config", None), "model_type", None)
    excluded = (*(_REFUSED if kind in _STATE_SPACES else ()), *_routers(model))
    if names is None:
        return Targets(ALL_LINEAR, excluded=excluded)
    linear, others = _linear_layers(model), _other_weights(model)
    chosen: list[str] = []
    parameters: list[str] = []
    plain = True
    for name in names:
        if name == ALL_LINEAR:
            head = {module for module in linear if _is_head(model, module)}
            chosen, plain = [*chosen, *(module for module in linear if module not in head)], False
            continue
        modules = _matching(name, linear)
        weights = [] if modules and "*" not in name else _matching(name, others)
        if not modules and not weights:
            ends = {path.rpartition(".")[2] for path in (*linear, *others)}
            raise ConfigurationError(
                f"lora.targets = {list(names)!r}: no linear layer and no weight is called {name!r}"
                f"{nearest(name, [ALL_LINEAR, *ends])}"
            )
        plain = plain and "*" not in name and not weights
        chosen, parameters = [*chosen, *modules], [*parameters, *weights]
    layers = list(names) if plain else list(dict.fromkeys(chosen))
    return Targets(layers, tuple(dict.fromkeys(parameters)), () if plain else excluded)


def _matching(name: str, candidates: Iterable[str]) -> list[str]:
    """The candidates that are `name`, end with it, or match it as a pattern."""
    if "*" in name:
        return [path for path in candidates if fnmatch.fnmatchcase(path, name)]
    return [path for path in candidates if path == name or path.endswith(f".{name}")]


def _linear_layers(model: nn.Module) -> list[str]:
    from transformers.pytorch_utils import Conv1D

    routers = set(_routers(model))
    modules = model.named_modules()
    return [name for name, module in modules if isinstance(module, (nn.Linear, Conv1D)) and name not in routers]


def _routers(model: nn.Module) -> list[str]:
    """Linear layers whose output is not a product alone, as of routers that also choose; no adapter adds to these."""
    return [
        name
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and type(module) is not nn.Linear and type(module).__name__.endswith(_CHOOSING)
    ]


_CHOOSING = ("Router", "GroupedLinear")
"""Ends of the names of classes of such layers."""


def _other_weights(model: nn.Module) -> list[str]:
    """Matrices, and stacks of them, that belong to modules which are no linear layers, and no embeddings."""
    linear = set(_linear_layers(model))
    return [
        f"{owner}.{name}"
        for owner, module in model.named_modules()
        if owner not in linear and not isinstance(module, nn.Embedding)
        for name, weight in module.named_parameters(recurse=False)
        if weight.ndim in (2, 3) and "bias" not in name
    ]


def _is_head(model: Any, name: str) -> bool:
    head = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    return head is not None and bool(model.get_submodule(name) is head)


def coverage(model: nn.Module) -> Coverage:
    """The reach of the adapter in `model`."""
    reached = {name for name, _ in adapted_weights(model)}
    total = in_layers = reached_sum = reached_inside = trained = 0
    left_out: dict[str, int] = {}
    for name, size, _ in stored_sizes(model):
        if ".lora_" in name:
            trained += size
            continue
        base, inside = plain_name(name), bool(re.search(r"\.\d+\.", name))
        total, in_layers = total + size, in_layers + size * inside
        if base in reached:
            reached_sum, reached_inside = reached_sum + size, reached_inside + size * inside
        else:
            group = _group(base)
            left_out[group] = left_out.get(group, 0) + size
    ordered = dict(sorted(left_out.items(), key=lambda item: -item[1]))
    return Coverage(reached_sum, total, reached_inside, in_layers, trained, ordered)


def adapted_weights(model: nn.Module) -> list[tuple[str, Any]]:
    """The weights with an adapter, by their names in the plain model, with the layer that peft put around each."""
    return [
        (f"{plain_name(name)}.{getattr(module, 'parameter_name', 'weight')}", module)
        for name, module in model.named_modules()
        if hasattr(module, "lora_A")
    ]


def plain_name(name: str) -> str:
    """A name of the adapted model as the plain model has it."""
    return re.sub(r"\.base_layer(?=\.|$)", "", name)


def _group(name: str) -> str:
    """The name of a weight without its layer, and `norms and biases` for small ones."""
    inner = re.sub(r"^.*?\.\d+\.", "", name)
    inner = re.sub(r"\.\d+\.", ".*.", inner)
    return re.sub(r"^(model\.)+", "", inner).removesuffix(".weight")


def _count(number: int) -> str:
    for size, unit in ((10**9, "B"), (10**6, "M"), (10**3, "K")):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return str(number)
