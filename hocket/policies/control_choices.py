"""Actions of several independent choices, such as those of a MultiDiscrete space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from hocket.policies.control_heads import NEVER, Categorical
from hocket.policies.control_parts import Links


@dataclass(frozen=True)
class Choices:
    """An `ActionForm` of several choices that are drawn independently; actions are `[B, parts]` long.

    Attributes:
        sizes: the number of options of each choice.
    """

    sizes: tuple[int, ...]

    @property
    def draws(self) -> int:
        return len(self.sizes)

    def actor(self, link: Links) -> nn.Module:
        return link(sum(self.sizes), "actor", 0)

    def head(self, outputs: Tensor, actor: nn.Module, allowed: Tensor | None, taken: Tensor | None) -> Product:
        logits = outputs if allowed is None else outputs.masked_fill(~allowed, NEVER)
        return Product(tuple(Categorical(part) for part in torch.split(logits, list(self.sizes), -1)))

    def config(self) -> Mapping[str, Any]:
        return {"choices": list(self.sizes)}


@dataclass(frozen=True)
class Product:
    """Independent categoricals side by side. Actions are `[B, parts]` long; log-probs, entropies and KLs add up."""

    parts: tuple[Categorical, ...]

    def tempered(self, temperature: Tensor) -> Product:
        return Product(tuple(part.tempered(temperature) for part in self.parts))

    def logp(self, action: Tensor) -> Tensor:
        return torch.stack([part.logp(action[:, place]) for place, part in enumerate(self.parts)]).sum(0)

    def entropy(self) -> Tensor:
        return torch.stack([part.entropy() for part in self.parts]).sum(0)

    def kl(self, other: Product) -> Tensor:
        pairs = zip(self.parts, other.parts, strict=True)
        return torch.stack([part.kl(theirs) for part, theirs in pairs]).sum(0)

    def mode(self) -> Tensor:
        return torch.stack([part.mode() for part in self.parts], 1)

    def draw(self, uniforms: Tensor) -> Tensor:
        drawn = [part.draw(uniforms[:, place, None]) for place, part in enumerate(self.parts)]
        return torch.stack(drawn, 1)
