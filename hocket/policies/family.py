"""The common decoder family, part by part: RMSNorm, rotary positions, grouped queries, gated feed-forward.

Sampler and learner compute its layers by the functions here, from the model's own modules, so that both follow the
weights and adapters, and by the same kernels, so that a token's numbers are the same in both to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from hocket.policies.fused_operations import add_norm, gated
from hocket.policies.lora import base_of
from hocket.policies.lowrank import JoinedLinear, LowRank, MixedLinear, Owners, low_rank

FAMILY = frozenset({"llama", "mistral", "qwen2", "qwen3"})
STATIC_ROTARY = frozenset({"default", "linear", "llama3", "yarn"})
"""Rotary embeddings whose angles depend on the position alone."""

Precision = Literal["fp32", "bf16"]
"""What the layers multiply in: activations between them are of this type too. The residual stream, norms, softmax,
logits, the weights themselves and their gradients' sums stay in fp32 either way."""

_SMALL = 2**20
"""Weights up to which fp32 layers are joined: there the calls cost more than the copy."""

Map = Callable[[Tensor], Tensor]
Run = Callable[[Tensor, Tensor | None], tuple[Tensor, Tensor]]
Visit = Callable[[int, Run, Tensor, Tensor | None], tuple[Tensor, Tensor]]
"""From a layer's number, what runs it, and the residual stream with what is to be added, to the same behind it."""

Attend = Callable[[int, Tensor], Tensor]
"""From a layer's number and its queries, keys and values `[M, (H + 2 S) D]` to what attention mixed, `[M, H D]`."""


def supports(model: Any, longest: int) -> bool:
    """Whether the family's arithmetic is exactly what `model` computes on sequences of up to `longest` tokens."""
    if getattr(model, "padded_because", None):  # An adapter that is no low-rank product of linear layers.
        return False
    config = model.config
    rope = getattr(config, "rope_parameters", None) or {}
    window = getattr(config, "sliding_window", None)
    windowed = window is not None and getattr(config, "use_sliding_window", True) and longest > window
    return config.model_type in FAMILY and rope.get("rope_type", "default") in STATIC_ROTARY and not windowed


def linear(layers: Sequence[Any], scale: Tensor | None, precision: Precision) -> Map:
    """Linear layers on one input as one function of `scale * x`, outputs side by side, adapters that are on included.

    What is made here belongs to the weights of the moment: the function serves a forward pass, or as many as the
    weights stand still for.
    """
    base = joined(layers, scale, precision)
    own = low_rank(layers, scale, dtype_of(layers, precision))
    return base if own is None else AdaptedLayers(base, own)


class AdaptedLayers:
    """Layers with their adapters.

    Attributes:
        copies: see `JoinedLinear`.
    """

    def __init__(self, base: JoinedLinear, own: LowRank) -> None:
        self._base, self._own = base, own
        self.copies = base.copies

    def __call__(self, x: Tensor) -> Tensor:
        """`[.., N]` of x `[.., H]`."""
        return self._base(x, self._own(x, self._base.bias))


def joined(layers: Sequence[Any], scale: Tensor | None, precision: Precision) -> JoinedLinear:
    """The layers without their adapters."""
    large = precision == "fp32" and sum(base_of(layer).weight.numel() for layer in layers) > _SMALL
    return JoinedLinear(layers, scale, dtype_of(layers, precision), large=large)


def dtype_of(layers: Sequence[Any], precision: Precision) -> torch.dtype:
    """What layers multiply in."""
    own: torch.dtype = base_of(layers[0]).weight.dtype
    return torch.bfloat16 if precision == "bf16" else own


def groups(layer: Any) -> tuple[tuple[list[Any], Tensor | None], ...]:
    """The linear layers of a decoder layer by their input, each with the weight of the norm before them.

    Queries, keys and values; attention's output; gate and up; down.
    """
    attention, mlp = layer.self_attn, layer.mlp
    return (
        ([attention.q_proj, attention.k_proj, attention.v_proj], layer.input_layernorm.weight),
        ([attention.o_proj], None),
        ([mlp.gate_proj, mlp.up_proj], layer.post_attention_layernorm.weight),
        ([mlp.down_proj], None),
    )


class Layer:
    """One decoder layer as four linear maps around norms, attention and gate; holds no weights of its own.

    Attributes:
        qkv, gate_up: from normalised states (without the norm's weight) to queries, keys and values `[.., heads * D]`,
            and to gate and up `[.., 2 F]`. output, down: back to the width of the states.
        gate: from gate and up `[.., 2 F]` to `[.., F]`.
        scale: of attention's scores.
        turn: weights `[heads + shared, D]` of the norms of queries and keys, or None. turn_epsilon: theirs.
        epsilons: of the norms before attention and feed-forward.
        dtype: of activations.
        copies: of whole matrices, made for this layer of the weights of the moment.
    """

    def __init__(self, layer: Any, heads: int, shared: int, precision: Precision, maps: Sequence[Map]) -> None:
        """`maps` are those of `groups(layer)`."""
        attention = layer.self_attn
        before, after = layer.input_layernorm, layer.post_attention_layernorm
        self.qkv, self.output, self.gate_up, self.down = maps
        self.copies: list[Tensor] = [copy for one in maps for copy in getattr(one, "copies", ())]
        self.gate = _gate(layer.mlp.act_fn)
        self.scale = float(attention.scaling)
        self.epsilons = float(before.variance_epsilon), float(after.variance_epsilon)
        self.dtype = torch.bfloat16 if precision == "bf16" else before.weight.dtype
        self.turn: Tensor | None = None
        self.turn_epsilon = 0.0
        if hasattr(attention, "q_norm"):
            q, k = attention.q_norm.weight, attention.k_norm.weight
            self.turn = torch.cat((q.expand(heads, -1), k.expand(shared, -1)))
            self.turn_epsilon = float(attention.q_norm.variance_epsilon)


def _gate(activation: nn.Module) -> Map:
    if activation(torch.tensor([-1.5, 2.0])).equal(F.silu(torch.tensor([-1.5, 2.0]))):
        return gated

    def gate(gate_up: Tensor) -> Tensor:
        opened, up = gate_up.chunk(2, -1)
        fed: Tensor = activation(opened) * up
        return fed

    return gate


def layers_of(model: Any, precision: Precision) -> list[Layer]:
    """All layers of a model of the family, with its adapter where that is on."""
    return [layer_of(model, precision, number) for number in range(len(model.model.layers))]


def layer_of(model: Any, precision: Precision, number: int) -> Layer:
    """One of them."""
    return _layer(model, precision, number, [linear(*group, precision) for group in groups(model.model.layers[number])])


Adapters = list[list[LowRank | None]]
"""What an adapter adds in each layer to each of `groups`."""


def adapters_of(model: Any, precision: Precision) -> Adapters:
    """The adapter of a model of the family, for `mixed_layers`; nothing but None where it is off."""
    return [
        [low_rank(layers, scale, dtype_of(layers, precision)) for layers, scale in groups(layer)]
        for layer in model.model.layers
    ]


def mixed_layers(model: Any, precision: Precision, adapters: Sequence[Adapters], owners: Owners) -> list[Layer]:
    """All layers of a model of the family, each row with the adapter of its owner; the model's own one is left out."""

    def maps(number: int, layer: Any) -> list[Map]:
        return [
            MixedLinear(joined(*group, precision), [adapter[number][place] for adapter in adapters], owners)
            for place, group in enumerate(groups(layer))
        ]

    return [_layer(model, precision, number, maps(number, layer)) for number, layer in enumerate(model.model.layers)]


def _layer(model: Any, precision: Precision, number: int, maps: Sequence[Map]) -> Layer:
    heads, shared = model.config.num_attention_heads, model.config.num_key_value_heads
    return Layer(model.model.layers[number], heads, shared, precision, maps)


class LayerSteps:
    """How `run_layers` takes its steps; an activation cache records or replays them instead."""

    def norm(self, x: Tensor, delta: Tensor | None, epsilon: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """See `hocket.policies.fused_operations.add_norm`."""
        return add_norm(x, delta, epsilon, dtype)

    def product(self, linear: Map, x: Tensor) -> Tensor:
        """A product that something nonlinear follows."""
        return linear(x)

    def output(self, linear: Map, x: Tensor) -> Tensor:
        """A product that is added to the residual stream."""
        return linear(x)


STEPS = LayerSteps()


def visited(number: int, run: Run, x: Tensor, delta: Tensor | None) -> tuple[Tensor, Tensor]:
    """A layer whose weights are here is just run."""
    return run(x, delta)


def run_layers(
    model: Any,
    layers: Sequence[Layer],
    x: Tensor,
    attend: Attend,
    *,
    wanted: Tensor | None = None,
    gradient_checkpointing: bool = False,
    steps: LayerSteps = STEPS,
    visit: Visit = visited,
) -> Tensor:
    """Last hidden states (after the final norm) of tokens embedded as `x` `[M, H]`.

    Args:
        attend: attention, which sampler and learner compute over different stores.
        wanted: places whose states are returned, all when None; the last layer then ends for these alone.
        gradient_checkpointing: keeps only the states between layers for the backward pass, which computes the rest
            again.
        steps: how the rest is computed. visit: runs a layer, see `hocket.policies.residence`.
    """
    again, last = gradient_checkpointing and torch.is_grad_enabled(), len(layers) - 1

    def run(number: int, x: Tensor, delta: Tensor | None) -> tuple[Tensor, Tensor]:
        arguments = (layers[number], number, x, delta, attend, wanted if number == last else None, steps)
        if not again:
            return _run_layer(*arguments)
        found: tuple[Tensor, Tensor] = checkpoint(_run_layer, *arguments, use_reentrant=False, preserve_rng_state=False)
        return found

    delta: Tensor | None = None
    for number in range(len(layers)):
        x, delta = visit(number, partial(run, number), x, delta)
    norm = model.model.norm
    _, normal = steps.norm(x, delta, float(norm.variance_epsilon), x.dtype)
    states: Tensor = normal * norm.weight
    return states


def _run_layer(
    layer: Layer, number: int, x: Tensor, delta: Tensor | None, attend: Attend, wanted: Tensor | None, steps: LayerSteps
) -> tuple[Tensor, Tensor]:
    """The residual stream before the feed-forward part's output, and that output."""
    x, normal = steps.norm(x, delta, layer.epsilons[0], layer.dtype)
    mixed = attend(number, steps.product(layer.qkv, normal))
    if wanted is not None:
        x, mixed = x.index_select(0, wanted), mixed.index_select(0, wanted)
    x, normal = steps.norm(x, steps.output(layer.output, mixed), layer.epsilons[1], layer.dtype)
    return x, steps.output(layer.down, layer.gate(steps.product(layer.gate_up, normal)))


def head_size(model: Any) -> int:
    """D."""
    config = model.config
    return int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)


def angles(model: Any, positions: int) -> tuple[Tensor, Tensor]:
    """Cosines, and sines with the sign of the rotated half, for positions below `positions`; each `[S, D]`."""
    device, half = model.device, head_size(model) // 2
    places = torch.arange(positions, device=device)[None]
    with torch.no_grad():
        cosine, sine = model.model.rotary_emb(torch.zeros(1, dtype=model.dtype, device=device), places)
    return cosine[0], torch.cat((-sine[0, :, :half], sine[0, :, half:]), -1)
