"""What a decoder computes, layer by layer, as plain data: read from a model's configuration and checked on its modules.

A form names modules, and says how they are put together; it holds none of them. It is read by structure, so that an
architecture with another name but the same modules is read as well. Every weight must have its place in the form. An
architecture with a part that no form knows has none, and is computed by its own forward pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from hocket.policies.rotary import static_up_to, whole_chunk
from hocket.policies.shapes import text_config

KNOWN = frozenset(
    {
        "afmoe",
        "apertus",
        "arcee",
        "aria_text",
        "cohere",
        "cohere2",
        "cohere2_moe",
        "cwm",
        "deepseek_v2",
        "deepseek_v3",
        "dots1",
        "ernie4_5",
        "ernie4_5_moe",
        "exaone4",
        "exaone_moe",
        "flex_olmo",
        "flint",
        "gemma",
        "gemma2",
        "gemma3_text",
        "gemma4_text",
        "gemma4_unified_text",
        "glm",
        "glm4",
        "glm4_moe",
        "glm4_moe_lite",
        "gpt_oss",
        "granite",
        "granite_swa",
        "granitemoe",
        "granitemoeshared",
        "helium",
        "hunyuan_v1_dense",
        "hunyuan_v1_moe",
        "hy_v3",
        "hyperclovax",
        "internlm3",
        "iquestcoder",
        "jais2",
        "kolibri1",
        "lfm2",
        "lfm2_moe",
        "llama",
        "llama4_text",
        "mellum",
        "minicpm3",
        "minimax_m2",
        "ministral",
        "ministral3",
        "mistral",
        "mixtral",
        "nemotron",
        "olmo",
        "olmo2",
        "olmo3",
        "olmoe",
        "phi",
        "phi3",
        "phimoe",
        "qwen2",
        "qwen2_moe",
        "qwen3",
        "qwen3_5_moe_text",
        "qwen3_5_text",
        "qwen3_moe",
        "qwen3_next",
        "seed_oss",
        "smollm3",
        "solar_open",
        "stablelm",
        "starcoder2",
        "vaultgemma",
        "youtu",
    }
)
"""Architectures whose form is tested against their own forward pass; that of any other is checked on each model."""

READ_AS_TEXT = frozenset({"qwen3_5", "qwen3_5_moe"})
"""Architectures of images and text of which the part for text is read alone."""

Kind = Literal["rms", "centred"]


@dataclass(frozen=True)
class NormForm:
    """A norm.

    Attributes:
        name: of its module. kind: RMSNorm, or LayerNorm, which takes the mean away.
        epsilon: its own.
        offset: whether the weight kept is less by one.
        wide: whether it is over all heads together, where it is one of queries or keys.
    """

    name: str
    kind: Kind
    epsilon: float
    offset: bool = False
    wide: bool = False


@dataclass(frozen=True)
class LatentForm:
    """How queries, keys and values come of narrow states (latent attention, arXiv 2405.04434).

    Attributes:
        down: to the narrow states of queries, and to those of keys and values with the part of keys that turns. Without
            narrow queries the first gives these themselves.
        query_norm, query_up: of narrow queries, if there are any. norm, up: of narrow keys and values.
        still, turning, values: numbers of a head's queries and keys that do not turn, that do, and of its values.
        rank: width of the narrow states of keys and values.
    """

    down: tuple[str, str]
    query_norm: NormForm | None
    query_up: str | None
    norm: NormForm
    up: str
    still: int
    turning: int
    values: int
    rank: int


@dataclass(frozen=True)
class AttentionForm:
    """Attention with grouped queries.

    Attributes:
        projections: queries, keys and values, or all in one. output: back to the width of the states.
        heads, shared, size: query heads, key and value heads, numbers of each. scale: of scores.
        window: how many positions a token sees, its own the last; 0 for all. cap: soft cap of scores, 0 for none.
        sinks: whether each head has one more score, whose weight goes nowhere.
        rotary: name of the table of angles, None for no positions. turned: numbers of a head that turn.
        interleaved: whether neighbours turn together, not halves.
        norms: of queries and of keys, or nothing. late: whether these follow the turn.
        clip: bound of queries, keys and values, 0 for none.
        latent: how these come of narrow states, if they do.
        gated: whether each query has a gate of its head's output beside it, or all gates stand `behind` the values.
        value_norm: of values, by head; queries and keys are then normed with them, before others read them.
        tied: whether values are the keys before their norm. source: the layer whose keys and values are read, None for
            its own; `norms` and `value_norm` are then those of that layer, but for the one of queries.
    """

    projections: tuple[str, ...]
    output: str
    heads: int
    shared: int
    size: int
    scale: float
    window: int = 0
    cap: float = 0.0
    sinks: bool = False
    rotary: str | None = ""
    turned: int = 0
    interleaved: bool = False
    norms: tuple[NormForm, NormForm] | None = None
    late: bool = False
    clip: float = 0.0
    latent: LatentForm | None = None
    gated: bool = False
    behind: bool = False
    value_norm: NormForm | None = None
    tied: bool = False
    source: int | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        """Query heads, key and value heads, numbers of each."""
        return self.heads, self.shared, self.size

    @property
    def inner(self) -> tuple[str, ...]:
        """Names of the linear layers before attention."""
        latent = self.latent
        if latent is None:
            return self.projections
        return (*latent.down, *(() if latent.query_up is None else (latent.query_up,)), latent.up)


@dataclass(frozen=True)
class DeltaForm:
    """Linear attention by the gated delta rule, after a short convolution (arXiv 2412.06464).

    Attributes:
        projections: linear layers whose outputs are queries, keys, values, the gate of outputs, that of what is
            written, and that of what is kept. grouped: whether they are by key head. output: back to the states' width.
        convolution, norm: of queries, keys and values; of each head's output.
        keys, heads: key heads, and value heads. size, values: numbers of a key and of a value.
        taps: tokens that the convolution reads.
    """

    projections: tuple[str, ...]
    output: str
    convolution: str
    norm: NormForm
    grouped: bool
    keys: int
    heads: int
    size: int
    values: int
    taps: int

    @property
    def window(self) -> tuple[int, int]:
        """What is kept of a convolution's inputs: tokens, and numbers of each."""
        return self.taps - 1, 2 * self.keys * self.size + self.heads * self.values

    @property
    def memory(self) -> tuple[int, int, int]:
        """The shape of the state."""
        return self.heads, self.size, self.values


@dataclass(frozen=True)
class ConvolutionForm:
    """A short convolution between two gates, which one linear layer makes beside its input."""

    projections: tuple[str, ...]
    output: str
    convolution: str
    width: int
    taps: int
    memory: None = None

    @property
    def window(self) -> tuple[int, int]:
        """What is kept of a convolution's inputs: tokens, and numbers of each."""
        return self.taps - 1, self.width


RecurrentForm = DeltaForm | ConvolutionForm


@dataclass(frozen=True)
class FeedForm:
    """Feed-forward: `closing(act(gate) * up)`, or `closing(act(opening))` where nothing is gated.

    `activation` is the name of a module; empty for silu without one.
    """

    opening: tuple[str, ...]
    closing: str
    activation: str
    gated: bool


@dataclass(frozen=True)
class ExpertsForm:
    """Routed experts, and one that every token passes, if there is one.

    Attributes:
        router, experts, shared, shared_gate: names of modules. shared_form: of the shared one.
        activation: of the experts, the name of a module of theirs; empty where they have a gate of their own.
        scores: what the router makes of its logits, normalised to 1 over the chosen experts or not, times a factor;
            None where it makes something else.
        floor: added to the sum that they are normalised by.
        bias: name of what is added to scores where experts are chosen, if the router is given it.
        before: whether weights are factors of what experts read, not of their outputs.
        beside: whether the shared one stands beside the module, not in it. share: factor of both outputs' sum.
        batched: whether the router reads states as a batch of sequences.
        apart: norms where the shared one and the experts have their own, see there; the router then reads states whose
            norm has no weight.
    """

    router: str
    experts: str
    activation: str
    shared: str | None = None
    shared_form: FeedForm | None = None
    shared_gate: str | None = None
    scores: Literal["softmax", "sigmoid"] | None = None
    normalised: bool = True
    factor: float = 1.0
    floor: float = 0.0
    bias: str | None = None
    before: bool = False
    beside: bool = False
    share: float = 1.0
    batched: bool = False
    apart: ExpertNorms | None = None


@dataclass(frozen=True)
class ExpertNorms:
    """Norms of experts and a shared one that both read the residual stream (Gemma 4's).

    Attributes:
        before: of what experts read; its states are those of the norm before the shared one, with another weight.
        after_shared, after: of the two outputs, before their sum.
    """

    before: NormForm
    after_shared: NormForm
    after: NormForm


@dataclass(frozen=True)
class SideForm:
    """What a layer adds of an input of its own, see `InputsForm`: `norm(closing(act(opening(x)) * input))`.

    `activation` is the name of a module of the layer's.
    """

    opening: str
    closing: str
    activation: str
    norm: NormForm


@dataclass(frozen=True)
class InputsForm:
    """Inputs of each layer beside the residual stream: `(norm(factor * projection(x)) + table(token)) * share`.

    Attributes:
        table, projection: names of modules of the trunk's; both give the inputs of all layers side by side.
        width: numbers of one layer's input.
    """

    table: str
    projection: str
    norm: NormForm
    factor: float
    share: float
    width: int


@dataclass(frozen=True)
class LayerForm:
    """One decoder layer.

    Attributes:
        attention_name, attention, feed_name, feed: its two parts; `feed_name` is empty where the layer itself holds
            what the second one consists of.
        norms: before and after attention, before and after feed-forward; None where there is none.
        parallel: whether both parts read the same states. residual: factor of what they add.
        recurrence: what stands in the place of attention, if it does; `attention` is then that of other layers.
        side: what is added behind both parts. scalar: name of the number that the states are multiplied by at the end.
    """

    attention_name: str
    attention: AttentionForm
    feed_name: str
    feed: FeedForm | ExpertsForm
    norms: tuple[NormForm | None, NormForm | None, NormForm | None, NormForm | None]
    parallel: bool = False
    residual: float = 1.0
    recurrence: RecurrentForm | None = None
    side: SideForm | None = None
    scalar: str = ""

    @property
    def inner(self) -> tuple[str, ...]:
        """Names of the linear layers before attention, or before what stands in its place."""
        return self.attention.inner if self.recurrence is None else self.recurrence.projections

    @property
    def output(self) -> str:
        """The name of the linear layer after it."""
        return (self.recurrence or self.attention).output

    @property
    def usual(self) -> bool:
        """RMSNorm before each part and nothing after it: what an activation cache records."""
        before, after, between, last = self.norms
        pre = before is not None and between is not None and before.kind == between.kind == "rms"
        attention = self.recurrence is None and self.attention.latent is None and not self.attention.gated
        dense = isinstance(self.feed, FeedForm) and attention
        return pre and after is None and last is None and not self.parallel and dense and not self.ends

    @property
    def ends(self) -> bool:
        """Whether anything comes behind the feed-forward part."""
        return self.side is not None or bool(self.scalar)


@dataclass(frozen=True)
class Form:
    """A whole decoder.

    Attributes:
        layers: in order. norm: the last one. embedding_scale, logit_scale, logit_cap: as they say; a cap of 0 is none.
        longest: tokens up to which angles depend on the position alone.
        inputs: of each layer beside the residual stream, if there are any.
    """

    layers: tuple[LayerForm, ...]
    norm: NormForm
    embedding_scale: float
    logit_scale: float
    logit_cap: float
    longest: int
    inputs: InputsForm | None = None

    @property
    def shapes(self) -> tuple[tuple[int, int, int], ...]:
        """Different ones of attention: query heads, key and value heads, numbers of each."""
        return tuple(dict.fromkeys(layer.attention.shape for layer in self.layers))

    @property
    def tables(self) -> dict[str, int]:
        """Names of the tables of angles, and the numbers of the heads that they turn."""
        attentions = (layer.attention for layer in self.layers)
        return {attention.rotary: attention.size for attention in attentions if attention.rotary is not None}

    @property
    def holders(self) -> dict[int, int]:
        """By number of each layer that attends, that of the layer whose keys and values it reads."""
        sources = {number: layer.attention.source for number, layer in enumerate(self.layers)}
        return {
            number: number if source is None else source
            for number, source in sources.items()
            if number not in self.recurrent
        }

    @property
    def recurrent(self) -> dict[int, RecurrentForm]:
        """The layers that keep a state in place of keys and values, by number."""
        return {number: layer.recurrence for number, layer in enumerate(self.layers) if layer.recurrence is not None}

    @property
    def usual(self) -> bool:
        """Whether every layer is, see there, and attention of one shape."""
        return len(self.shapes) == 1 and all(layer.usual for layer in self.layers)

    @property
    def plain(self) -> bool:
        """Whether attention knows neither bounds nor layers of different kinds, besides being usual."""
        first = self.layers[0].attention
        bounded = first.window or first.cap or first.sinks or first.late or first.clip
        halves = first.turned == first.size and not first.interleaved and first.rotary is not None
        heads = first.norms is None or all(norm.kind == "rms" and not norm.wide for norm in first.norms)
        alike = all(layer.attention == first and layer.residual == 1 for layer in self.layers)
        return self.usual and alike and halves and heads and not bounded and self.norm.kind == "rms"


# ---------------------------------------------------------------- what they say


def turn_order(form: AttentionForm) -> list[int] | None:
    """Which number of a head goes where, so that halves turn; those that do not turn stand in both. None as it is."""
    rest, half = list(range(form.turned, form.size)), form.turned // 2
    pairs = [(2 * i, 2 * i + 1) if form.interleaved else (i, half + i) for i in range(half)]
    middle = len(rest) // 2
    order = [pair[0] for pair in pairs] + rest[:middle] + [pair[1] for pair in pairs] + rest[middle:]
    return None if order == list(range(form.size)) else order


def expected(config: Any) -> bool:
    """Whether a model of this configuration will have a form that serves its whole context, as far as that shows."""
    config = text_config(config) if config.model_type in READ_AS_TEXT else config
    parameters = getattr(config, "rope_parameters", None) or {}
    nested = [table for table in parameters.values() if isinstance(table, dict)] or [parameters]
    longest = min(static_up_to(table.get("rope_type", "default"), config) for table in nested)
    longest = min(longest, whole_chunk(config))
    return config.model_type in KNOWN and longest >= (getattr(config, "max_position_embeddings", None) or 0)


def linears_of(form: LayerForm) -> set[str]:
    """Names of the linear layers that a layer's form knows, within it."""
    names = {f"{form.attention_name}.{name}" for name in (*form.inner, form.output)}
    feed = form.feed
    dense = feed if isinstance(feed, FeedForm) else feed.shared_form
    within = form.feed_name
    if isinstance(feed, ExpertsForm):
        within = str(feed.shared) if feed.beside else f"{form.feed_name}.{feed.shared}"
    names |= set() if dense is None else {f"{within}.{name}" for name in (*dense.opening, dense.closing)}
    names |= set() if form.side is None else {form.side.opening, form.side.closing}
    if isinstance(feed, ExpertsForm) and feed.apart is not None:
        names.add(f"{feed.router}.proj")
    gate = None if isinstance(feed, FeedForm) else feed.shared_gate
    return names if gate is None else names | {f"{form.feed_name}.{gate}"}


def weight_of(form: NormForm, module: Any) -> Tensor | None:
    """What a norm multiplies by."""
    weight: Tensor | None = getattr(module, "weight", None)
    return weight + 1 if weight is not None and form.offset else weight


def normed(form: NormForm, module: Any, x: Tensor) -> Tensor:
    """A norm over the last axis by torch's operators."""
    if form.kind == "centred":
        x = F.layer_norm(x, x.shape[-1:], eps=form.epsilon)
    else:
        x = F.rms_norm(x, x.shape[-1:], eps=form.epsilon)
    weight, bias = weight_of(form, module), getattr(module, "bias", None)
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


def routing_weights(form: ExpertsForm, logits: Tensor, chosen: Tensor) -> Tensor:
    """Weights `[M, K]` of chosen experts, of a router's logits `[M, E]`; each row's bits depend on that row alone."""
    if form.scores == "sigmoid":
        scores = torch.softmax(torch.stack((logits, torch.zeros_like(logits)), -1), -1)[..., 0]
    else:
        scores = torch.softmax(logits, -1)
    weight = scores.gather(1, chosen)
    if form.normalised:
        total = weight[:, :1]
        for place in range(1, weight.shape[1]):
            total = total + weight[:, place, None]
        weight = weight / (total if not form.floor else total + form.floor)
    return weight if form.factor == 1 else weight * form.factor
