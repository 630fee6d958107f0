"""The policy of a generator of picture tokens: log-probs of tokens, given the blocks before and what is asked for."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Self

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

from hocket.core.batch import Batch, Level
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.generative.ar_grpo.codes import CHANNELS, CODES, Layout, Order
from hocket.policies.turns import of_whole_turns
from hocket.stages import Policy
from hocket.types import Evaluation, Quantity

ROW = np.dtype([("labels", "<i4", (2,)), ("guidance", "<f8")])
"""A token's observation: the labels of both digits, and the scale of guidance; the tokens before it are actions."""
LABELS = 21
"""Nothing, and each of ten digits drawn thinly and boldly: 1 + 2 d + bold."""
BLOCK = 32
"""Pictures in every pass, the last one filled up: products of one shape give a row the same bits in any company."""

GIVES = frozenset({Quantity.LOGP, Quantity.ENTROPY, Quantity.KL_EXACT})
_CHUNK = 4096
"""Decisions in one forward and backward pass."""
_WIDTH, _LAYERS, _HEADS = 48, 2, 4


class TokenNetwork(nn.Module):
    """A transformer over the places of a picture's tokens; a place reads those of its own block and of those before."""

    def __init__(self, order: Order, key: Key) -> None:
        super().__init__()
        self.layout = Layout(order)
        generator, width = key.torch(), _WIDTH

        def drawn(*size: int, std: float) -> nn.Parameter:
            return nn.Parameter(torch.randn(*size, generator=generator) * std)

        self.register_buffer("books", torch.zeros(self.layout.books, CODES, CHANNELS))
        self.place = drawn(self.layout.length, width, std=0.1)
        self.label = drawn(LABELS, width, std=0.1)
        self.other = drawn(LABELS, width, std=0.1)
        self.read = drawn(width, CHANNELS, std=0.5)
        self.qkv = nn.ParameterList([drawn(3 * width, width, std=width**-0.5) for _ in range(_LAYERS)])
        self.mix = nn.ParameterList([drawn(width, width, std=0.02) for _ in range(_LAYERS)])
        self.wide = nn.ParameterList([drawn(4 * width, width, std=width**-0.5) for _ in range(_LAYERS)])
        self.narrow = nn.ParameterList([drawn(width, 4 * width, std=0.01) for _ in range(_LAYERS)])
        self.write = nn.Parameter(torch.zeros(self.layout.books, CODES, width))
        block = self.layout.block
        self.register_buffer("hidden", block[None, :] > block[:, None], persistent=False)

    books: Tensor
    hidden: Tensor

    def forward(self, tokens: Tensor, labels: Tensor) -> Tensor:
        """Logits `[B, L, K]` of tokens `[B, L]`, of which each reads the blocks before its own; labels `[B, 2]`."""
        layout, (rows, length) = self.layout, tokens.shape
        near, across = labels[:, layout.side], labels[:, 1 - layout.side]
        x = functional.linear(layout.context(tokens, self.books), self.read) + self.place
        x = x + self.label[near] + self.other[across]
        for qkv, mix, wide, narrow in zip(self.qkv, self.mix, self.wide, self.narrow, strict=True):
            parts = functional.linear(_normed(x), qkv).reshape(rows, length, 3, _HEADS, -1).permute(2, 0, 3, 1, 4)
            scores = parts[0] @ parts[1].transpose(-1, -2) / parts.shape[-1] ** 0.5
            read = scores.masked_fill(self.hidden, -torch.inf).softmax(-1) @ parts[2]
            x = x + functional.linear(read.transpose(1, 2).reshape(rows, length, -1), mix)
            x = x + functional.linear(functional.gelu(functional.linear(_normed(x), wide)), narrow)
        pieces = torch.split(_normed(x), torch.bincount(layout.book).tolist(), 1)
        return torch.cat([functional.linear(part, head) for part, head in zip(pieces, self.write, strict=True)], 1)


def _normed(x: Tensor) -> Tensor:
    return functional.layer_norm(x, x.shape[-1:])


class TokenPainter:
    """Decisions are the tokens of a picture `[L]`; a turn is a picture.

    With a guidance s other than 1 the distribution is the softmax of `l_0 + s (l - l_0)`, l_0 the logits without
    labels; sampler and learner use it alike.
    """

    granularity = Level.TRAJECTORY
    default_lr = 4e-4

    def __init__(self, name: str, order: Order, key: Key) -> None:
        self.name, self.version, self.order = name, 0, order
        self.module = TokenNetwork(order, key)

    @classmethod
    def shipped(cls, name: str, order: Order) -> Self:
        """The generator that comes with the library, stopped early on purpose."""
        policy = cls(name, order, Key.of(0))
        policy.module.load_state_dict(load_file(Path(__file__).with_name(f"{order}.safetensors")))
        return policy

    @property
    def layout(self) -> Layout:
        return self.module.layout

    def logits(self, tokens: Tensor, labels: Tensor, guidance: Tensor) -> Tensor:
        """Logits `[B, L, K]` for tokens `[B, L]`, labels `[B, 2]` and scales `[B]`; no row depends on another."""
        result = self._blocks(tokens, labels)
        guided = torch.nonzero(guidance != 1.0).flatten()
        if not len(guided):
            return result
        free = self._blocks(tokens[guided], torch.zeros_like(labels[guided]))
        scale = guidance[guided].to(result.dtype)[:, None, None]
        return result.index_copy(0, guided, free + scale * (result[guided] - free))

    def _blocks(self, tokens: Tensor, labels: Tensor) -> Tensor:
        parts = []
        for start in range(0, len(tokens), BLOCK):
            count = len(tokens[start : start + BLOCK])
            held = [functional.pad(part[start : start + BLOCK], (0, 0, 0, BLOCK - count)) for part in (tokens, labels)]
            parts.append(self.module(*held)[:count])
        return torch.cat(parts)

    # ------------------------------------------------------------ learning

    def require(self, needs: frozenset[Quantity]) -> None:
        """Raises `ConfigurationError` for what it does not give."""
        if missing := sorted(quantity.value for quantity in needs - GIVES):
            raise ConfigurationError(
                f"policy {self.name!r} draws picture tokens, without {missing[0]}; use ar-grpo, var-grpo or grpo"
            )

    def chunks(self, batch: Batch, decisions: Tensor) -> list[Tensor]:
        return of_whole_turns(batch.turn[decisions], decisions, _CHUNK) if len(decisions) else []

    def evaluate(
        self,
        batch: Batch,
        needs: Iterable[Quantity],
        decisions: Tensor | None = None,
        *,
        reference: Policy | None = None,
    ) -> Evaluation:
        """See `Policy.evaluate`.

        Raises:
            ValueError: for `KL_EXACT` without a `TokenPainter` as reference.
        """
        wanted, places = frozenset(needs), torch.arange(batch.decisions) if decisions is None else decisions
        turns, row = torch.unique(batch.turn[places], return_inverse=True)
        starts = torch.searchsorted(batch.turn, turns)
        tokens = batch.action[starts[:, None] + torch.arange(self.layout.length)].long()
        rows = [batch.observation[turn][0] for turn in turns.tolist()]
        labels = torch.from_numpy(np.array([row["labels"] for row in rows], np.int64).reshape(-1, 2))
        guidance = torch.tensor([float(row["guidance"]) for row in rows], dtype=torch.float64)
        read = tokens, labels, guidance
        at = row, places - starts[row]
        heat = torch.ones(len(turns)) if batch.temperature is None else batch.temperature[turns]

        def scattered(values: Tensor) -> Tensor:
            return values.new_zeros(batch.decisions).index_put((places,), values)

        def distribution(policy: TokenPainter) -> Tensor:
            return torch.log_softmax(policy.logits(*read) / heat[:, None, None], -1)[at]

        logp = distribution(self)
        entropy = scattered(-(logp.exp() * logp).sum(-1)) if Quantity.ENTROPY in wanted else None
        kl = None
        if Quantity.KL_EXACT in wanted:
            if not isinstance(reference, TokenPainter):
                raise ValueError("an exact KL needs a generator of picture tokens as reference")
            with torch.no_grad():
                other = distribution(reference)
            kl = scattered((logp.exp() * (logp - other)).sum(-1))
        return Evaluation(scattered(logp.gather(1, batch.action[places].long()[:, None])[:, 0]), entropy, kl_exact=kl)

    def final_values(self, batch: Batch) -> Tensor:
        return torch.zeros(batch.trajectories)

    def frozen_copy(self) -> Self:
        other = copy.copy(self)
        other.module = copy.deepcopy(self.module).requires_grad_(False)
        return other

    def save(self, folder: Path) -> None:
        weights = {name: weight.detach().contiguous() for name, weight in self.module.state_dict().items()}
        save_file(weights, folder / "model.safetensors")
        text = json.dumps({"model_type": "hocket-picture-tokens", "order": self.order})
        (folder / "config.json").write_text(text + "\n", encoding="utf-8")

    def load(self, folder: Path) -> None:
        file = folder / "model.safetensors"
        try:
            self.module.load_state_dict(load_file(file))
        except (OSError, RuntimeError, SafetensorError) as error:
            raise ConfigurationError(f"{file} does not fit this generator: {str(error).splitlines()[0]}") from error
