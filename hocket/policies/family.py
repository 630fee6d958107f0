"""Decoders of a known form, part by part: norms, rotary positions, grouped queries, feed-forward.

Sampler and learner compute their layers by the functions here, from the model's own modules, so that both follow the
weights and adapters, and by the same kernels, so that a token's numbers are the same in both to the last bit. What a
decoder is made of stands in its form, see `hocket.policies.forms`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from hocket.policies.experts import Experts, Routing, best_of, expert_gate, rowwise_sigmoid
from hocket.policies.form_reading import known_form, layers_in
from hocket.policies.forms import ExpertsForm, FeedForm, LayerForm, NormForm, normed, weight_of
from hocket.policies.fused_operations import OPENINGS, add_norm, gated_gelu, gated_sigmoid, gated_silu
from hocket.policies.kernels import ScoreBounds, products
from hocket.policies.kernels.products import LayerStack, LayerWeights
from hocket.policies.latent import Group, LatentProjection, NarrowOutput, inner_groups
from hocket.policies.lora import base_of
from hocket.policies.lowrank import JoinedLinear, LowRank, MixedLinear, Owners, low_rank
from hocket.policies.recurrence import mixer_of
from hocket.policies.shaping import HeadNorms, by_head, moved_heads, shaping_of
from hocket.policies.vision import vision_of

Precision = Literal["fp32", "bf16"]
"""What the layers multiply in: activations between them are of this type too. The residual stream, norms, softmax,
logits, the weights themselves and their gradients' sums stay in fp32 either way."""

_SMALL = 2**20
"""Weights up to which fp32 layers are joined: there the calls cost more than the copy."""

Checkpointing = bool | Literal["host"]
"""Whether the backward pass computes layers again from the states between them, and whether the host's memory holds
these."""

CHECKPOINTING: tuple[Checkpointing, ...] = (False, True, "host")
"""The ways, each holding less and taking longer than the one before."""

FEED_TOKENS = 8192
"""Tokens up to which a feed-forward part that is computed again is computed at once."""

Map = Callable[[Tensor], Tensor]
Run = Callable[[Tensor, Tensor | None], tuple[Tensor, Tensor]]
Visit = Callable[[int, Run, Tensor, Tensor | None], tuple[Tensor, Tensor]]
"""From a layer's number, what runs it, and the residual stream with what is to be added, to the same behind it."""

Attend = Callable[[int, Tensor], Tensor]
"""From a layer's number and its queries, keys and values `[M, (H + 2 S) D]` to what attention mixed, `[M, H D]`; from
what a recurrent layer projects to what it mixes."""


def linear(layers: Sequence[Any], scale: Tensor | None, precision: Precision) -> Map:
    """Linear layers on one input as one function of `scale * x`, outputs side by side, adapters that are on included.

    What is made here belongs to the weights of the moment: the function serves a forward pass, or as many as the
    weights stand still for.
    """
    base = joined(layers, scale, precision)
    adapters = low_rank(layers, scale, dtype_of(layers, precision))
    return base if adapters is None else AdaptedLayers(base, adapters)


class AdaptedLayers:
    """Layers with their adapters.

    Attributes:
        copies: see `JoinedLinear`.
    """

    def __init__(self, base: JoinedLinear, adapters: LowRank) -> None:
        self._base, self._own = base, adapters
        self.copies = base.copies

    def __call__(self, x: Tensor) -> Tensor:
        """`[.., N]` of x `[.., H]`."""
        return self._own.scaled(self._base(x, self._own(x, self._base.bias)), self._base.bias)


def joined(layers: Sequence[Any], scale: Tensor | None, precision: Precision) -> JoinedLinear:
    """The layers without their adapters."""
    large = precision == "fp32" and sum(base_of(layer).weight.numel() for layer in layers) > _SMALL
    return JoinedLinear(layers, scale, dtype_of(layers, precision), large=large)


def dtype_of(layers: Sequence[Any], precision: Precision) -> torch.dtype:
    """What layers multiply in."""
    dtype: torch.dtype = base_of(layers[0]).weight.dtype
    return torch.bfloat16 if precision == "bf16" else dtype


def groups(layer: Any, form: LayerForm) -> tuple[Group, ...]:
    """The linear layers of a decoder layer by their input.

    Queries, keys and values, or what a recurrence reads; attention's output; what opens the feed-forward part; what
    closes it. Of routed experts these two are the shared one's, if there is one, and its gate comes after them, or the
    router of experts that have norms of their own. The last two are those of the layer's own input, if it has one.
    """
    attention, feed = getattr(layer, form.attention_name), layer.get_submodule(form.feed_name)
    first, between = _folded(layer, form.norms[0]), before_feed(layer, form)
    inner: Sequence[Group] = (
        inner_groups(attention, form.attention, first)
        if form.recurrence is None
        else [([getattr(attention, name) for name in form.inner], first)]
    )
    parts = [*inner, ([getattr(attention, form.output)], None)]
    dense: FeedForm | None
    if isinstance(form.feed, FeedForm):
        dense = form.feed
    else:
        dense, shared = form.feed.shared_form, form.feed.shared
        feed_gate = form.feed.shared_gate
        gates: list[Group] = [] if feed_gate is None else [([getattr(feed, feed_gate)], between)]
        if form.feed.apart is not None:
            router = getattr(feed, form.feed.router)
            gates = [([router.proj], router.scale * router.scalar_root_size)]
        feed = None if shared is None else getattr(layer if form.feed.beside else feed, shared)
    if dense is not None:
        parts.append(([getattr(feed, name) for name in dense.opening], between))
        parts.append(([getattr(feed, dense.closing)], None))
    parts += [] if isinstance(form.feed, FeedForm) else gates
    if form.side is not None:
        parts += [([getattr(layer, name)], None) for name in (form.side.opening, form.side.closing)]
    return tuple(parts)


def before_feed(layer: Any, form: LayerForm) -> Tensor | None:
    """The weight of the RMSNorm before the feed-forward part."""
    return _folded(layer, form.norms[0] if form.parallel else form.norms[2])


def _folded(layer: Any, norm: NormForm | None) -> Tensor | None:
    """The weight of a norm that the linear layers after it take over."""
    return None if norm is None or norm.kind != "rms" else weight_of(norm, getattr(layer, norm.name))


class Layer:
    """One decoder layer as linear maps around norms, attention and gate; holds no weights of its own.

    Attributes:
        qkv, opening: from normalised states (without an RMSNorm's weight) to queries, keys and values
            `[.., heads * D]`, and to gate and up `[.., 2 F]`. output, down: back to the width of the states.
        gate: from gate and up `[.., 2 F]` to `[.., F]`.
        shared: key and value heads. scale: of attention's scores. bounds: theirs. rotary: name of the table of angles.
        turn: weights `[heads + shared, D]` of the norms of queries and keys, or None. turn_epsilon: theirs.
        shaping: what is done to queries, keys and values besides, see `hocket.policies.shaping`; None for nothing.
        head_norms: of queries, keys and values, where values have one; keys and values may be another layer's.
        gated: whether queries have gates beside them. recurrence: what takes attention's place, or None.
        before: what stands before attention and before feed-forward. bare: whether their outputs are added as they are.
        dtype: of activations.
        copies: of whole matrices, made for this layer of the weights of the moment.
    """

    def __init__(self, layer: Any, form: LayerForm, precision: Precision, maps: Sequence[Map]) -> None:
        """`maps` are those of `groups(layer, form)`."""
        attention, shape = getattr(layer, form.attention_name), form.attention
        self.form = form
        self.recurrence = None if form.recurrence is None else mixer_of(form.recurrence, attention)
        attends = form.recurrence is None
        inner = 1 if shape.latent is None or not attends else len(shape.inner) - 1
        self.output, *rest = maps[inner:]
        self._side: tuple[Map, Map] | None = None
        if form.side is not None:
            *rest, opening, closing = rest
            self._side = opening, closing
        self._scalar: Tensor | None = getattr(layer, form.scalar) if form.scalar else None
        self.qkv = maps[0]
        if shape.latent is not None and attends:
            self.qkv = LatentProjection(shape, shape.latent, maps[:inner])
            self.output = NarrowOutput(shape, shape.latent, self.output)
        self.copies: list[Tensor] = [copy for part in maps for copy in getattr(part, "copies", ())]
        self.shared, self.scale = shape.shared, shape.scale
        weight = base_of(getattr(attention, form.output)).weight
        self.dtype = torch.bfloat16 if precision == "bf16" else weight.dtype
        self.experts: Experts | None = None
        dense = layer.get_submodule(form.feed_name)
        self._apart: list[tuple[NormForm, Any]] = []
        if isinstance(form.feed, ExpertsForm):
            if (norms := form.feed.apart) is not None:
                self._apart = [(norm, getattr(layer, norm.name)) for norm in (norms.after_shared, norms.after)]
            self.experts = _experts(dense, form.feed, before_feed(layer, form), self.dtype, rest[2:])
            self.copies += self.experts.copies
            holder = layer if form.feed.beside else dense
            dense = None if form.feed.shared is None else getattr(holder, form.feed.shared)
        shape_of_feed = form.feed if isinstance(form.feed, FeedForm) else form.feed.shared_form
        if shape_of_feed is not None:
            self.gate_up, self.down = rest[:2]
            self.gate: Map = gated_silu
            if shape_of_feed.activation:
                self.gate = _gate(getattr(dense, shape_of_feed.activation), shape_of_feed.gated)
        self._shares = shape_of_feed is not None
        self._shared_gate = rest[2] if len(rest) > 2 and not self._apart else None
        self.before = PreNorm(layer, form.norms[0]), PreNorm(layer, form.norms[2])
        after = [*form.norms[1::2], *([] if form.side is None else [form.side.norm])]
        self._after = [(norm, None if norm is None else getattr(layer, norm.name)) for norm in after]
        self.bounds = ScoreBounds(shape.window, shape.cap, attention.sinks if shape.sinks and attends else None)
        self.rotary = None if shape.late else shape.rotary
        self.shaping = shaping_of(shape, attention) if attends else None
        self.head_norms = HeadNorms(shape, attention) if shape.value_norm is not None and attends else None
        self.gated = shape.gated and attends
        self.bare = form.norms[1] is form.norms[3] is None and form.residual == 1 and not form.parallel
        self.bare = self.bare and not form.ends
        self.turn: Tensor | None = None
        self.turn_epsilon = 0.0
        if shape.norms is not None and by_head(shape) and attends:
            weights = [weight_of(norm, getattr(attention, norm.name)) for norm in shape.norms]
            counts = shape.heads, shape.shared
            ones = torch.ones(shape.size, dtype=weight.dtype, device=weight.device)
            rows = [
                (ones if weight is None else weight).expand(count, -1)
                for weight, count in zip(weights, counts, strict=True)
            ]
            self.turn = moved_heads(shape, torch.cat(rows))
            self.turn_epsilon = shape.norms[0].epsilon

    @property
    def epsilons(self) -> tuple[float, float]:
        """Of the norms before attention and feed-forward."""
        return self.before[0].epsilon, self.before[1].epsilon

    @property
    def late(self) -> str | None:
        """The table of angles that `shaping` asks for."""
        return self.form.attention.rotary

    def apart(self, projected: Tensor) -> tuple[Tensor, Tensor | None]:
        """Queries, keys and values, and the gates of what attention will mix, `[M, H D]`, if there are any."""
        if not self.gated:
            return projected, None
        shape = self.form.attention
        if shape.behind:
            behind = shape.heads * shape.size
            return projected[:, :-behind].contiguous(), projected[:, -behind:]
        both, rest = torch.split(projected, [2 * shape.heads * shape.size, 2 * shape.shared * shape.size], -1)
        queries, gates = both.reshape(len(both), shape.heads, 2, shape.size).unbind(2)
        return torch.cat((queries.flatten(1), rest), -1), gates.flatten(1)

    @property
    def weights(self) -> LayerWeights | None:
        """What the kernels take to compute the layer, but for a feed-forward part that is not theirs; None without."""
        recomputed = (
            self.recurrence is not None or self.gated or self.shaping is not None or self.head_norms is not None
        )
        if recomputed or not self.bare or self.dtype is not torch.float32:
            return None
        opening = OPENINGS.get(self.gate) if self.experts is None else None
        maps = self.qkv, self.output, *((self.gate_up, self.down) if opening is not None else ())
        matrices = tuple(pair for pair in (map.single for map in maps if isinstance(map, JoinedLinear)) if pair)
        if len(matrices) < len(maps) or not all(norm.rms for norm in self.before):
            return None
        epsilons = *self.epsilons, self.turn_epsilon
        return LayerWeights(matrices, self.turn, epsilons, self.scale, self.bounds, opening, self.rotary)

    def feed(self, number: int, normal: Tensor, steps: LayerSteps) -> Tensor:
        """The feed-forward part's output; `number` is the layer's."""
        if self.experts is None:
            return steps.output(self.down, self.gate(steps.product(self.gate_up, normal)))
        form = self.form.feed
        assert isinstance(form, ExpertsForm)
        routed = self.experts(normal, lambda routing: steps.routed(number, routing, form), steps.live)
        if not self._shares:
            return routed
        shared = self.down(self.gate(self.gate_up(normal)))
        if self._shared_gate is not None:
            shared = rowwise_sigmoid(self._shared_gate(normal)) * shared
        if self._apart:
            shared, routed = (_after(*norm, x) for norm, x in zip(self._apart, (shared, routed), strict=True))
        return routed + shared if form.share == 1 else (routed + shared) * form.share

    def ended(self, x: Tensor, delta: Tensor, aside: Tensor | None, steps: LayerSteps) -> tuple[Tensor, Tensor]:
        """The residual stream and what is added to it, of those behind the feed-forward part; `aside` is the input."""
        if self._side is not None and aside is not None:
            opening, closing = self._side
            x = x + delta
            opened = steps.product(opening, x.to(self.dtype))
            delta = self.added(2, steps.output(closing, gated_gelu(torch.cat((opened, aside.to(opened.dtype)), -1))))
        return (x, delta) if self._scalar is None else (x * self._scalar, delta * self._scalar)

    def added(self, place: int, x: Tensor) -> Tensor:
        """What attention (0), feed-forward (1) or the layer's own input (2) adds, of their output."""
        norm, module = self._after[place]
        x = x if norm is None else _after(norm, module, x)
        return x if self.form.residual == 1 else x * self.form.residual


class PreNorm:
    """What stands before a part: a norm, whose weight is left to the products after it, or nothing.

    Attributes:
        epsilon: the norm's. rms: whether it is an RMSNorm.
    """

    def __init__(self, layer: Any, form: NormForm | None) -> None:
        self._form, self._module = form, None if form is None else getattr(layer, form.name)
        self.rms = form is not None and form.kind == "rms"
        self.epsilon = 0.0 if form is None else form.epsilon

    def __call__(self, x: Tensor, delta: Tensor | None, dtype: torch.dtype, steps: LayerSteps) -> tuple[Tensor, Tensor]:
        """`x + delta`, and that sum normalised in `dtype`."""
        if self.rms:
            return steps.norm(x, delta, self.epsilon, dtype)
        if delta is not None:
            x = x + delta
        return x, (x if self._form is None else normed(self._form, self._module, x)).to(dtype)


Norm = Callable[[Tensor, Tensor | None, float, torch.dtype], tuple[Tensor, Tensor]]


def finished(form: NormForm, module: Any, norm: Norm, x: Tensor, delta: Tensor | None) -> Tensor:
    """`x + delta` after a norm, its weight included."""
    if form.kind == "centred":
        return normed(form, module, x if delta is None else x + delta)
    _, normal = norm(x, delta, form.epsilon, x.dtype)
    return _weighed(form, module, normal)


def _after(form: NormForm, module: Any, x: Tensor) -> Tensor:
    """A norm behind a part, over its output in fp32."""
    wide = x if x.dtype is torch.float64 else x.float()
    return finished(form, module, STEPS.norm, wide, None).to(x.dtype)


def _weighed(form: NormForm, module: Any, normal: Tensor) -> Tensor:
    weight = weight_of(form, module)
    return normal if weight is None else normal * weight


def _experts(feed: Any, form: ExpertsForm, scale: Tensor | None, dtype: torch.dtype, more: Sequence[Map]) -> Experts:
    module = getattr(feed, form.experts)
    gate = _gate(getattr(module, form.activation), True) if form.activation else expert_gate(module)
    router = getattr(feed, form.router)
    if form.apart is not None:
        scale = weight_of(form.apart.before, getattr(feed, form.apart.before.name))
        routes = partial(best_of, more[0], router.config.top_k_experts, dtype)
        made = Experts(form, routes, module, gate, scale, dtype)
        made.factors = router.per_expert_scale
        return made
    if form.bias is not None:
        router = partial(router, **{form.bias: getattr(feed, form.bias)})
    if form.batched:
        router = partial(_of_one, router)
    return Experts(form, router, module, gate, scale, dtype)


def _of_one(router: Callable[[Tensor], Any], x: Tensor) -> Any:
    """Of states `[M, H]` as those of one sequence."""
    return router(x[None])


def _gate(activation: Map, gated: bool) -> Map:
    probe = torch.tensor([-1.5, 2.0])
    weights = activation.parameters() if isinstance(activation, nn.Module) else iter(())
    probe = probe.to(next(weights, probe))
    answer = activation(probe)
    if answer.allclose(F.gelu(probe, approximate="tanh"), atol=1e-6):
        return gated_gelu if gated else lambda x: gated_gelu(torch.cat((x, torch.ones_like(x)), -1))
    if not gated:
        return activation
    if answer.equal(F.silu(probe)):
        return gated_silu

    def gate(gate_up: Tensor) -> Tensor:
        opened, up = gate_up.chunk(2, -1)
        fed: Tensor = activation(opened) * up
        return fed

    return gate


def layers_of(model: Any, precision: Precision) -> list[Layer]:
    """All layers of a model, with its adapter where that is on."""
    return [layer_of(model, precision, number) for number in range(len(model.model.layers))]


def layer_of(model: Any, precision: Precision, number: int) -> Layer:
    """One of them."""
    layer, form = model.model.layers[number], known_form(model).layers[number]
    return Layer(layer, form, precision, [linear(*group, precision) for group in groups(layer, form)])


def stack_of(model: Any, layers: Sequence[Layer]) -> LayerStack | None:
    """The layers as one call, to the same bits; None where the kernels do not make all of it."""
    form = known_form(model)
    weights = [each for each in (layer.weights for layer in layers) if each is not None]
    alike = len(form.shapes) == 1 and form.norm.kind == "rms"
    if len(weights) < len(layers) or not alike or products.address() is None:
        return None
    return LayerStack(weights, form.norm.epsilon, *form.shapes[0])


def last_states(model: Any, normal: Tensor) -> Tensor:
    """Last hidden states, of those that a `LayerStack` gives."""
    norm = known_form(model).norm
    return _weighed(norm, getattr(model.model, norm.name), normal)


Adapters = list[list[LowRank | None]]
"""What an adapter adds in each layer to each of `groups`."""


def adapters_of(model: Any, precision: Precision) -> Adapters:
    """The adapter of a model, for `mixed_layers`; nothing but None where it is off."""
    return [
        [low_rank(layers, scale, dtype_of(layers, precision)) for layers, scale in groups(layer, form)]
        for layer, form in layers_in(model)
    ]


def mixed_layers(model: Any, precision: Precision, adapters: Sequence[Adapters], owners: Owners) -> list[Layer]:
    """All layers of a model, each row with the adapter of its owner; the model's own one is left out."""

    def maps(number: int, layer: Any, form: LayerForm) -> list[Map]:
        return [
            MixedLinear(joined(*group, precision), [adapter[number][place] for adapter in adapters], owners)
            for place, group in enumerate(groups(layer, form))
        ]

    return [
        Layer(layer, form, precision, maps(number, layer, form))
        for number, (layer, form) in enumerate(layers_in(model))
    ]


class LayerSteps:
    """How `run_layers` takes its steps; an activation cache records or replays them instead.

    Attributes:
        sums: whether `attended` wants to hear of these. fused: whether layers may be computed as a whole but for their
            experts.
        live: how many rows are tokens, where those behind them only fill a place; None for all.
    """

    sums = False
    fused = True
    live: int | None = None

    def norm(self, x: Tensor, delta: Tensor | None, epsilon: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """See `hocket.policies.fused_operations.add_norm`."""
        return add_norm(x, delta, epsilon, dtype)

    def product(self, linear: Map, x: Tensor) -> Tensor:
        """A product that something nonlinear follows."""
        return linear(x)

    def output(self, linear: Map, x: Tensor) -> Tensor:
        """A product that is added to the residual stream."""
        return linear(x)

    def routed(self, number: int, routing: Routing, form: ExpertsForm) -> Routing:
        """Where a layer's tokens go, after its router has chosen."""
        return routing

    def attended(self, mixed: Tensor, sums: Tensor) -> None:
        """Hears what attention mixed, and log-sums of its scores."""


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
    gradient_checkpointing: Checkpointing = False,
    steps: LayerSteps = STEPS,
    visit: Visit = visited,
    inputs: Sequence[Tensor] | None = None,
) -> Tensor:
    """Last hidden states (after the final norm) of tokens embedded as `x` `[M, H]`.

    Args:
        attend: attention, which sampler and learner compute over different stores.
        wanted: places whose states are returned, all when None; the last layer then ends for these alone.
        gradient_checkpointing: keeps only the states between layers for the backward pass, which computes the rest
            again, feed-forward parts of many tokens in parts.
        steps: how the rest is computed. visit: runs a layer, see `hocket.policies.residence`.
        inputs: of each layer, see `hocket.policies.layer_inputs`.
    """
    again, last = gradient_checkpointing and torch.is_grad_enabled(), len(layers) - 1
    form = known_form(model)
    sources = [layer.attention.source for layer in form.layers]
    lent: dict[int | None, Tensor] = {}

    def run(number: int, x: Tensor, delta: Tensor | None) -> tuple[Tensor, Tensor]:
        only = wanted if number == last else None
        beside = (lent.get(sources[number]), None if inputs is None else inputs[number], number in sources)
        if not again:
            x, delta, keys = _run_layer(layers[number], number, x, delta, attend, only, steps, *beside)
        else:
            x = x if delta is None else x + delta  # One tensor is kept in place of two.
            with away(x.device) if gradient_checkpointing == "host" else nullcontext():
                arguments = (layers[number], number, x, None, attend, only, steps, *beside)
                x, delta, keys = _again(partial(_run_layer, parts=True), *arguments)
        if keys is not None:
            lent[number] = keys
        return x, delta

    delta: Tensor | None = None
    for number in range(len(layers)):
        x, delta = visit(number, partial(run, number), x, delta)
    norm = form.norm
    return finished(norm, getattr(model.model, norm.name), steps.norm, x, delta)


def _again(function: Callable[..., Any], *arguments: Any) -> Any:
    """What the function returns; the backward pass calls it again in place of keeping what it computes."""
    return checkpoint(function, *arguments, use_reentrant=False, preserve_rng_state=False)


def away(device: torch.device) -> AbstractContextManager[Any]:
    """Inside, what the backward pass reads is held in the host's memory, where the device has another."""
    return nullcontext() if device.type == "cpu" else torch.autograd.graph.save_on_cpu(pin_memory=True)


def _run_layer(
    layer: Layer,
    number: int,
    x: Tensor,
    delta: Tensor | None,
    attend: Attend,
    wanted: Tensor | None,
    steps: LayerSteps,
    borrowed: Tensor | None,
    aside: Tensor | None,
    lends: bool,
    *,
    parts: bool = False,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The residual stream before what the layer adds last, that, and the keys and values that it lends.

    With `parts` the feed-forward part of many tokens is computed, and computed again, in parts.
    """

    def feed(normal: Tensor) -> Tensor:
        # Experts and what records or replays a pass take all tokens at once.
        if not parts or len(normal) <= FEED_TOKENS or layer.experts is not None or type(steps) is not LayerSteps:
            return layer.feed(number, normal, steps)
        return torch.cat([_again(layer.feed, number, part, steps) for part in torch.split(normal, FEED_TOKENS)])

    x, normal = layer.before[0](x, delta, layer.dtype, steps)
    projected, gates = layer.apart(steps.product(layer.qkv, normal))
    lent = None
    if layer.head_norms is not None:
        projected = layer.head_norms(projected, borrowed)
        lent = layer.head_norms.lent(projected) if lends else None
    mixed = attend(number, projected)
    if gates is not None:
        mixed = gated_sigmoid(torch.cat((gates, mixed), -1))
    if wanted is not None:
        x, mixed = x.index_select(0, wanted), mixed.index_select(0, wanted)
        aside = None if aside is None else aside.index_select(0, wanted)
    out = steps.output(layer.output, mixed)
    if layer.bare:
        x, normal = layer.before[1](x, out, layer.dtype, steps)
        return x, feed(normal), lent
    out = layer.added(0, out)
    if layer.form.parallel:
        normal = normal if wanted is None else normal.index_select(0, wanted)
        x, out = layer.ended(x, out + layer.added(1, feed(normal)), aside, steps)
        return x, out, lent
    x, normal = layer.before[1](x, out, layer.dtype, steps)
    x, out = layer.ended(x, layer.added(1, feed(normal)), aside, steps)
    return x, out, lent


def embedded(model: Any, token: Tensor) -> Tensor:
    """Tokens as the first layer reads them."""
    vision, embed = vision_of(model), model.model.embed_tokens
    x: Tensor = embed(token) if vision is None else vision.embedded(embed, token)
    scale = known_form(model).embedding_scale
    return x if scale == 1 else x * scale


def logit_states(model: Any, states: Tensor) -> Tensor:
    """Last hidden states as the head reads them."""
    scale = known_form(model).logit_scale
    return states if scale == 1 else states * scale


def head_of(model: Any) -> Map:
    """From `logit_states` to logits."""
    head: Map = model.lm_head
    cap = known_form(model).logit_cap
    return head if not cap else lambda states: cap * torch.tanh(head(states) / cap)
