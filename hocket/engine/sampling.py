"""Draws of the next token of many rows at once, each from its own stream of uniforms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hocket.core.keys import uniforms
from hocket.engine.requests import Request


@dataclass(frozen=True)
class Plan:
    """The sampling settings of R rows, as columns.

    Attributes:
        words: names of the uniform streams, `[R]`.
        temperature: `[R, 1]`, 1 for greedy rows; None if all are 1.
        greedy: `[R]` bool; None if no row is greedy.
        banned: `[R, V]` bool; None if no token is banned.
        top_k, top_p, min_p: `[R, 1]`; None if no row uses it.
    """

    words: NDArray[np.uint64]
    temperature: Tensor | None
    greedy: Tensor | None
    banned: Tensor | None
    top_k: Tensor | None
    top_p: Tensor | None
    min_p: Tensor | None

    @staticmethod
    def of(requests: Sequence[Request], vocabulary: int, device: torch.device) -> Plan:
        """The plan of a list of requests, one row each."""
        ways = [request.decoding for request in requests]

        def column(values: Sequence[float], neutral: float) -> Tensor | None:
            if all(value == neutral for value in values):
                return None
            return torch.tensor(values, device=device)[:, None]

        banned = None
        if any(way.banned for way in ways):
            banned = torch.zeros(len(ways), vocabulary, dtype=torch.bool)
            for row, way in enumerate(ways):
                banned[row, list(way.banned)] = True
            banned = banned.to(device)
        greedy = torch.tensor([way.greedy for way in ways], device=device)
        return Plan(
            words=np.array([request.key.word for request in requests], np.uint64),
            temperature=column([way.temperature or 1.0 for way in ways], 1.0),
            greedy=greedy if bool(greedy.any()) else None,
            banned=banned,
            top_k=column([vocabulary if way.top_k is None or way.greedy else way.top_k for way in ways], vocabulary),
            top_p=column([1.0 if way.greedy else way.top_p for way in ways], 1.0),
            min_p=column([0.0 if way.greedy else way.min_p for way in ways], 0.0),
        )

    def rows(self, chosen: Tensor) -> Plan:
        """The plan of some of the rows, in the order of `chosen` `[R']`."""

        def taken(column: Tensor | None) -> Tensor | None:
            return None if column is None else column[chosen]

        return Plan(
            self.words[chosen.cpu().numpy()],
            *(taken(c) for c in (self.temperature, self.greedy, self.banned, self.top_k, self.top_p, self.min_p)),
        )


def draw(
    logits: Tensor, plan: Plan, counter: int | NDArray[np.uint64], forced: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Token number `counter` of each row and its log-prob, both `[R]`.

    The token is the first whose cumulative probability, in vocabulary order and float64, reaches the row's uniform.
    The log-prob is that of the distribution drawn from: softmax(logits / temperature), renormalised after banned
    tokens, top-k, top-p and min-p. Greedy rows take the largest allowed logit, at its log-prob at temperature 1.

    Args:
        logits: `[R, V]`.
        plan: of the same rows.
        counter: the index of the uniform in each stream; one number, or one for each row `[R]`.
        forced: imposed tokens `[R]`, -1 where the row is sampled; their log-probs are those without truncation.
    """
    scores = logits.float()
    plain = torch.log_softmax(scores if plan.temperature is None else scores / plan.temperature, 1)
    logp = _cut(plain, plan)
    cumulative = torch.cumsum(logp.exp(), 1, dtype=torch.float64)
    uniform = torch.from_numpy(uniforms(plan.words, counter)).to(logits.device)[:, None]
    # The first entry that reaches a positive threshold has a positive probability.
    token = torch.searchsorted(cumulative, uniform * cumulative[:, -1:]).squeeze(1)
    if plan.greedy is not None:
        allowed = scores if plan.banned is None else scores.masked_fill(plan.banned, -torch.inf)
        token = torch.where(plan.greedy, allowed.argmax(1), token)
        logp = torch.where(plan.greedy[:, None], plain, logp)
    if forced is not None:
        token = torch.where(forced >= 0, forced, token)
        logp = torch.where(forced[:, None] >= 0, plain, logp)
    return token, logp.gather(1, token[:, None]).squeeze(1)


def _cut(logp: Tensor, plan: Plan) -> Tensor:
    """Log-probs after banned tokens, top-k, top-p and min-p, in this order, renormalised; `[R, V]`."""
    if plan.banned is None and plan.top_k is None and plan.top_p is None and plan.min_p is None:
        return logp
    if plan.banned is not None:
        left = torch.log_softmax(logp.masked_fill(plan.banned, -torch.inf), 1)
        # Other rows keep their bits, so that no row depends on the bans of another.
        logp = torch.where(plan.banned.any(1, keepdim=True), left, logp)
    if plan.top_k is None and plan.top_p is None and plan.min_p is None:
        return logp
    ranked, order = logp.sort(dim=1, descending=True, stable=True)
    keep = torch.ones_like(ranked, dtype=torch.bool)
    cuts = torch.zeros_like(ranked[:, :1], dtype=torch.bool)
    if plan.top_k is not None:
        keep &= torch.arange(ranked.shape[1], device=logp.device) < plan.top_k
        cuts |= plan.top_k < ranked.shape[1]
    if plan.top_p is not None:
        probability = torch.softmax(ranked.masked_fill(~keep, -torch.inf), 1)
        # A token stays while those ranked above it have not yet reached top_p.
        keep &= (torch.cumsum(probability, 1) - probability < plan.top_p) | (plan.top_p >= 1)
        cuts |= plan.top_p < 1
    if plan.min_p is not None:
        keep &= ranked >= ranked[:, :1] + plan.min_p.log()
        cuts |= plan.min_p > 0
    keep[:, 0] = True
    mask = torch.zeros_like(keep).scatter(1, order, keep)
    left = torch.log_softmax(logp.masked_fill(~mask, -torch.inf), 1)
    return torch.where(cuts, left, logp)
