"""Heads on a language model's last hidden states: the value, and log-probs without keeping `[tokens, vocabulary]`."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

LOGIT_BUDGET = 2**24
"""Logits held at once; above it they are made in parts, which the backward pass makes again."""

Head = Callable[[Tensor], Tensor]


class ValueHead(nn.Module):
    """A linear value of a hidden state, zero at first so that it does not disturb the start of training."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, hidden: Tensor) -> Tensor:
        """Values `[...]` of hidden states `[..., H]`, in fp32."""
        return (hidden.float() * self.weight).sum(-1) + self.bias


class Reading(NamedTuple):
    """What the head says at K places, each `[K]` fp32; what was not asked is None."""

    logp: Tensor
    entropy: Tensor | None
    kl: Tensor | None


def read_head(
    head: Head,
    features: Tensor,
    action: Tensor,
    temperature: Tensor,
    *,
    entropy: bool = False,
    reference: tuple[Head, Tensor] | None = None,
) -> Reading:
    """Log-prob of `action` `[K]` and, if asked, entropy and KL(policy || reference) at each of K places, in nats.

    Args:
        head: from features to logits `[K, V]`.
        features: `[K, H]`.
        temperature: `[K]`; every distribution is softmax(logits / temperature).
        reference: the other policy's head and features, which get no gradient.
    """
    width = head(features[:1]).shape[-1] if len(features) else 1
    step = max(1, LOGIT_BUDGET // width)
    parts = []
    for start in range(0, max(len(features), 1), step):
        piece = slice(start, start + step)
        other = None if reference is None else (reference[0], reference[1][piece])
        arguments = (head, features[piece], action[piece], temperature[piece], entropy, other)
        if len(features) <= step or not torch.is_grad_enabled():
            parts.append(_read(*arguments))
        else:
            parts.append(checkpoint(_read, *arguments, use_reentrant=False, preserve_rng_state=False))
    return Reading(
        torch.cat([part[0] for part in parts]),
        _joined([part[1] for part in parts]),
        _joined([part[2] for part in parts]),
    )


def _joined(parts: list[Tensor | None]) -> Tensor | None:
    known = [part for part in parts if part is not None]
    return torch.cat(known) if known else None


def _read(
    head: Head,
    features: Tensor,
    action: Tensor,
    temperature: Tensor,
    entropy: bool,
    reference: tuple[Head, Tensor] | None,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    logits = head(features).float() / temperature[:, None]
    if not entropy and reference is None:
        return logits.gather(1, action[:, None]).squeeze(1) - torch.logsumexp(logits, 1), None, None
    logp = torch.log_softmax(logits, 1)
    chosen = logp.gather(1, action[:, None]).squeeze(1)
    # A logit of -inf has probability 0 and adds nothing.
    finite = logp.masked_fill(torch.isneginf(logp), 0.0)
    spread = -(logp.exp() * finite).sum(1) if entropy else None
    if reference is None:
        return chosen, spread, None
    with torch.no_grad():
        other = torch.log_softmax(reference[0](reference[1]).float() / temperature[:, None], 1)
    return chosen, spread, (logp.exp() * (finite - other.masked_fill(torch.isneginf(other), 0.0))).sum(1)
