"""Log-probs from a language model's last hidden states, without keeping `[tokens, vocabulary]`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from hocket.core.divergences import Divergence
from hocket.policies.fused_operations import ALIKE, product
from hocket.policies.masking import masked
from hocket.policies.operations import functions_for

LOGIT_BUDGET = 2**23
"""Logits held at once; above it they are made in parts, which the backward pass makes again."""
DEVICE_LOGIT_BUDGET = 2**28
"""The same on an accelerator, where short products leave most of it idle; a gigabyte in fp32."""

Head = Callable[[Tensor], Tensor]


def finished(logits: Tensor) -> Tensor:
    """The head of features that are logits already."""
    return logits


class TokenScores(NamedTuple):
    """What the head says at K places, each `[K]` fp32; what was not asked is None."""

    logp: Tensor
    entropy: Tensor | None
    kl: Tensor | None
    divergence: Tensor | None = None


def read_head(
    head: Head,
    features: Tensor,
    action: Tensor,
    temperature: Tensor,
    *,
    entropy: bool = False,
    reference: tuple[Head, Tensor] | None = None,
    kl: bool = True,
    divergence: Divergence | None = None,
    allowed: Tensor | None = None,
) -> TokenScores:
    """Log-prob of `action` `[K]` and, if asked, entropy and KL(policy || reference) at each of K places, in nats.

    Args:
        head: from features to logits `[K, V]`.
        features: `[K, H]`.
        temperature: `[K]`; every distribution is softmax(logits / temperature).
        reference: the other policy's head and features, which get no gradient.
        kl: whether that KL is wanted where there is a reference.
        divergence: a divergence from the reference that is wanted, between the distributions over what is allowed.
        allowed: `[K, V]` bool; of anything else the policy's probability and gradient are 0. None allows everything.
    """
    width = head(features[:1]).shape[-1] if len(features) else 1
    step = max(1, (LOGIT_BUDGET if features.device.type == "cpu" else DEVICE_LOGIT_BUDGET) // width)
    if head is finished and torch.is_grad_enabled():
        step = max(step, len(features))  # They exist as a whole, and parts of them would share their gradient's place.
    if (
        len(features) > step
        and reference is None
        and allowed is None
        and type(head) is nn.Linear
        and features.dtype is torch.float32
    ):
        wanted = (features, head.weight, head.bias, action, temperature, entropy, max(ALIKE, step))
        logp, spread = _TokenLogprobsInParts.apply(*wanted)  # type: ignore[no-untyped-call]
        return TokenScores(logp, spread, None)
    parts = []
    for start in range(0, max(len(features), 1), step):
        piece = slice(start, start + step)
        other = None if reference is None else (reference[0], reference[1][piece])
        only = None if allowed is None else allowed[piece]
        arguments = (head, features[piece], action[piece], temperature[piece], entropy, other, kl, divergence, only)
        if len(features) <= step or not torch.is_grad_enabled():
            parts.append(_read(*arguments))
        else:
            parts.append(checkpoint(_read, *arguments, use_reentrant=False, preserve_rng_state=False))
    return TokenScores(
        torch.cat([part[0] for part in parts]),
        _joined([part[1] for part in parts]),
        _joined([part[2] for part in parts]),
        _joined([part[3] for part in parts]),
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
    kl: bool,
    divergence: Divergence | None,
    allowed: Tensor | None,
) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]:
    logits = rowwise(head, features).float()
    if allowed is not None:
        logits = masked(logits, allowed)
    elif reference is None:
        chosen, spread = _TokenLogprobs.apply(logits, action, temperature, entropy)  # type: ignore[no-untyped-call]
        return chosen, spread, None, None
    logits = logits / temperature[:, None]
    if not entropy and reference is None:
        return logits.gather(1, action[:, None]).squeeze(1) - torch.logsumexp(logits, 1), None, None, None
    logp = torch.log_softmax(logits, 1)
    chosen = logp.gather(1, action[:, None]).squeeze(1)
    # A logit of -inf has probability 0 and adds nothing.
    finite = logp.masked_fill(torch.isneginf(logp), 0.0)
    spread = -(logp.exp() * finite).sum(1) if entropy else None
    if reference is None:
        return chosen, spread, None, None
    with torch.no_grad():
        logits = rowwise(*reference).float()
        other = torch.log_softmax(logits / temperature[:, None], 1)
    exact_kl = (logp.exp() * (finite - other.masked_fill(torch.isneginf(other), 0.0))).sum(1) if kl else None
    if divergence is not None and allowed is not None:
        other = torch.log_softmax(masked(logits, allowed) / temperature[:, None], 1)
    return chosen, spread, exact_kl, None if divergence is None else divergence(logp, other)


def rowwise(head: Head, features: Tensor) -> Tensor:
    """Logits `[K, V]`; each row's depend on that row alone, to the last bit."""
    if len(features) >= ALIKE or features.device.type != "cpu":
        return head(features)
    return head(F.pad(features, (0, 0, 0, ALIKE - len(features))))[: len(features)]


class _TokenLogprobs(Function):
    """Log-probs of chosen tokens and entropies; the backward pass turns the logits into their gradient in place."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, action: Tensor, temperature: Tensor, entropy: bool
    ) -> tuple[Tensor, Tensor | None]:
        logits, temperature, action = logits.contiguous(), temperature.contiguous(), action.contiguous()
        functions = functions_for(logits)
        logp, peaks, totals, spread = functions.token_logprobs(logits, action, temperature, entropy=entropy)
        ctx.save_for_backward(logits, action, temperature, peaks, totals, spread)
        ctx.set_materialize_grads(False)
        return logp, spread

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor | None, for_entropy: Tensor | None) -> tuple[Tensor | None, ...]:
        logits, action, temperature, peaks, totals, spread = ctx.saved_tensors
        gradient = torch.zeros_like(totals) if gradient is None else gradient.contiguous()
        more = None if for_entropy is None else for_entropy.contiguous()
        functions = functions_for(logits)
        functions.token_logprobs_backward(
            logits, action, temperature, peaks, totals, None if more is None else spread, gradient, more
        )
        torch.autograd.graph.increment_version(logits)  # So that a second backward pass is refused, not wrong.
        return logits, None, None, None


class _TokenLogprobsInParts(Function):
    """Head, log-probs and entropies in parts of `step` rows, whose logits the backward pass makes again.

    The weight's gradient is summed in place, so that no second matrix of its size comes to be.
    """

    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        action: Tensor,
        temperature: Tensor,
        entropy: bool,
        step: int,
    ) -> tuple[Tensor, Tensor | None]:
        pieces, functions = [], functions_for(features)
        for part in _parts(len(features), step):
            logits = product(features[part], weight, bias)
            pieces.append(functions.token_logprobs(logits, action[part], temperature[part], entropy=entropy))
            del logits  # Before the next ones come to be.
        logp, peaks = torch.cat([piece[0] for piece in pieces]), torch.cat([piece[1] for piece in pieces])
        totals = torch.cat([piece[2] for piece in pieces])
        spread = _joined([piece[3] for piece in pieces])
        ctx.save_for_backward(features, weight, bias, action, temperature, peaks, totals, spread)
        ctx.step = step
        ctx.set_materialize_grads(False)
        return logp, spread

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor | None, for_entropy: Tensor | None) -> tuple[Tensor | None, ...]:
        features, weight, bias, action, temperature, peaks, totals, spread = ctx.saved_tensors
        gradient = torch.zeros_like(totals) if gradient is None else gradient.contiguous()
        more = None if for_entropy is None else for_entropy.contiguous()
        functions, for_features = functions_for(features), torch.empty_like(features)
        for_weight = torch.zeros_like(weight) if ctx.needs_input_grad[1] else None
        for_bias = None if bias is None else torch.zeros_like(bias)
        for part in _parts(len(features), ctx.step):
            logits = product(features[part], weight, bias)
            functions.token_logprobs_backward(
                logits,
                action[part],
                temperature[part],
                peaks[part],
                totals[part],
                None if more is None else spread[part],
                gradient[part],
                None if more is None else more[part],
            )
            torch.mm(logits, weight, out=for_features[part])
            if for_weight is not None:
                for_weight.addmm_(logits.t(), features[part])
            if for_bias is not None:
                for_bias += logits.sum(0)
            del logits
        return for_features, for_weight, for_bias, *(None,) * 4


def _parts(rows: int, step: int) -> list[slice]:
    return [slice(start, start + step) for start in range(0, rows, step)]
