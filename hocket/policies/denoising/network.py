"""A small transformer that predicts velocities of pictures asked for in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key

_STD = 0.05
"""Standard deviation of initial weights."""


@dataclass(frozen=True)
class FlowShape:
    """The shape of a `FlowTransformer`, as its `config.json` holds it.

    Attributes:
        side: of the square picture, in pixels. patch: of a square patch. width, heads, layers: of the transformer.
        words: that prompts consist of. phrases, phrase: phrases of a prompt, and words of a phrase, at most.
        places: the words that name the place of each patch, whose embeddings patches and prompts share.
        steps: denoising steps of a sample. unprompted: whether it was trained without prompts too, as guidance needs.
    """

    side: int
    patch: int
    width: int
    heads: int
    layers: int
    words: tuple[str, ...]
    phrases: int
    phrase: int
    places: tuple[tuple[str, ...], ...]
    steps: int = 10
    unprompted: bool = True

    @property
    def pixels(self) -> int:
        return self.side * self.side

    @staticmethod
    def read(data: Mapping[str, Any]) -> FlowShape:
        """From the output of `plain`."""
        known = {name: data[name] for name in FlowShape.__dataclass_fields__ if name in data}
        known["words"] = tuple(data["words"])
        known["places"] = tuple(tuple(names) for names in data["places"])
        return FlowShape(**known)

    def plain(self) -> dict[str, Any]:
        """As JSON data."""
        return asdict(self)

    def encode(self, prompt: str) -> NDArray[np.int32]:
        """A prompt as word numbers `[phrases, phrase]`, from 1; 0 is no word. Phrases are separated by commas.

        Raises:
            ConfigurationError: for an unknown word, or a prompt that is too long.
        """
        numbers = {word: place for place, word in enumerate(self.words, 1)}
        result = np.zeros((self.phrases, self.phrase), np.int32)
        phrases = [part.split() for part in prompt.split(",") if part.strip()]
        if len(phrases) > self.phrases or any(len(words) > self.phrase for words in phrases):
            raise ConfigurationError(
                f"prompt {prompt!r}: this sampler reads {self.phrases} phrases of {self.phrase} words; ask in those"
            )
        for row, words in enumerate(phrases):
            for place, word in enumerate(words):
                if word not in numbers:
                    known = ", ".join(self.words)
                    raise ConfigurationError(f"prompt {prompt!r}: this sampler knows the words {known}, not {word!r}")
                result[row, place] = numbers[word]
        return result


class FlowTransformer(nn.Module):
    """Velocities of pictures `[B, D]` at noise levels `[B]`, given prompts `[B, phrases, phrase]` (0 is no word).

    Tokens are patches, and phrases as sums of their words' embeddings. Time modulates every layer by one shared
    projection with a bias of each layer's own (PixArt, arXiv 2310.00426).
    """

    def __init__(self, shape: FlowShape, key: Key) -> None:
        super().__init__()
        self.shape = shape
        generator, width = key.torch(), shape.width

        def drawn(*size: int, std: float = _STD) -> nn.Parameter:
            return nn.Parameter(torch.randn(*size, generator=generator) * std)

        def blank(*size: int) -> nn.Parameter:
            return nn.Parameter(torch.zeros(*size))

        patch, tokens = shape.patch**2, (shape.side // shape.patch) ** 2
        self.words = drawn(len(shape.words) + 1, width)
        self.position, self.phrase_position = drawn(tokens, width), drawn(shape.phrases, width)
        self.read, self.write = drawn(width, patch, std=patch**-0.5), blank(patch, width)
        self.time_in, self.time_out = drawn(width, width), drawn(6 * width, width, std=0.01)
        self.time_bias = blank(6 * width)
        std = width**-0.5
        self.qkv = nn.ParameterList([drawn(3 * width, width, std=std) for _ in range(shape.layers)])
        self.mix = nn.ParameterList([drawn(width, width, std=0.02) for _ in range(shape.layers)])
        self.wide = nn.ParameterList([drawn(4 * width, width, std=std) for _ in range(shape.layers)])
        self.narrow = nn.ParameterList([drawn(width, 4 * width, std=0.01) for _ in range(shape.layers)])
        self.modulation = nn.ParameterList([nn.Parameter(_modulation(width)) for _ in range(shape.layers)])
        numbers = [[shape.words.index(word) + 1 for word in names] for names in shape.places]
        self.register_buffer("places", torch.tensor(numbers), persistent=False)
        side, size = shape.side // shape.patch, shape.patch
        order = torch.arange(shape.pixels).reshape(side, size, side, size).transpose(1, 2).reshape(-1)
        self.register_buffer("order", order, persistent=False)
        self.register_buffer("back", order.argsort(), persistent=False)

    places: Tensor
    order: Tensor
    back: Tensor

    def forward(self, state: Tensor, time: Tensor, words: Tensor) -> Tensor:
        rows, shape = len(state), self.shape
        patches = state[:, self.order].reshape(rows, -1, shape.patch**2)
        count = patches.shape[1]
        embedded = self.words * (torch.arange(len(self.words), device=state.device) > 0)[:, None]
        shown = functional.linear(patches, self.read) + self.position + embedded[self.places].sum(1)
        prompt = embedded[words].sum(2) + self.phrase_position
        x = torch.cat([shown, prompt], 1)
        shared = functional.linear(
            functional.silu(functional.linear(_waves(time, shape.width), self.time_in)), self.time_out, self.time_bias
        )
        layers = zip(self.qkv, self.mix, self.wide, self.narrow, self.modulation, strict=True)
        for qkv, mix, wide, narrow, modulation in layers:
            scale, shift, gate, inner_scale, inner_shift, inner_gate = (shared + modulation)[:, None].chunk(6, -1)
            y = functional.layer_norm(x, (shape.width,)) * (1 + scale) + shift
            x = x + gate * functional.linear(self._attended(functional.linear(y, qkv)), mix)
            y = functional.layer_norm(x, (shape.width,)) * (1 + inner_scale) + inner_shift
            x = x + inner_gate * functional.linear(functional.gelu(functional.linear(y, wide)), narrow)
        out = functional.linear(functional.layer_norm(x[:, :count], (shape.width,)), self.write)
        return out.reshape(rows, -1)[:, self.back]

    def _attended(self, qkv: Tensor) -> Tensor:
        rows, tokens, _ = qkv.shape
        q, k, v = qkv.reshape(rows, tokens, 3, self.shape.heads, -1).permute(2, 0, 3, 1, 4)
        weight = torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1)
        mixed: Tensor = (weight @ v).transpose(1, 2).reshape(rows, tokens, -1)
        return mixed


def _modulation(width: int) -> Tensor:
    """Gates begin at 1, scales and shifts at 0."""
    return torch.cat([torch.zeros(2 * width), torch.ones(width), torch.zeros(2 * width), torch.ones(width)])


def _waves(time: Tensor, width: int) -> Tensor:
    """Sines and cosines of noise levels `[B]` in [0, 1], `[B, width]`."""
    rates = torch.exp(torch.arange(width // 2, device=time.device) * (-math.log(1000.0) / (width // 2 - 1)))
    angles = 100.0 * time[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], 1)
