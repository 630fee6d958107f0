"""How likely the tokens of prompts are, and which others would have been likelier."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from hocket.agents.workflows.chat import Tokens
from hocket.apps.serve.wire import PromptToken
from hocket.core.packing import pack
from hocket.types import Scenario, Trajectory, Turn

if TYPE_CHECKING:
    from hocket.policies.causal_lm import CausalLM

PLACES = 64
"""Places whose distributions are held at once."""


class PromptScores(NamedTuple):
    """Of a prompt of P tokens, at temperature 1 in nats, for all of them but the first.

    `logp` and `rank` `[P - 1]` are of its own tokens (1 is the likeliest); `top`, `top_logp` `[P - 1, k]` of others.
    """

    logp: NDArray[np.float32]
    rank: NDArray[np.int64]
    top: NDArray[np.int64]
    top_logp: NDArray[np.float32]


def score_prompts(policy: CausalLM, prompts: Sequence[Tokens], top: int) -> list[PromptScores]:
    """The scores of each prompt, with its `top` likeliest tokens; several prompts are read together."""
    ids = [np.asarray(prompt, np.int64) for prompt in prompts]
    rows = [
        Trajectory(Scenario(f"prompt/{number}"), [Turn("prompt", policy.name, each[:1], each[1:])])
        for number, each in enumerate(ids)
        if len(each) > 1
    ]
    width = int(policy.model.config.vocab_size)
    top = min(top, width)
    lengths = [len(each) - 1 for each in ids if len(each) > 1]
    scores = iter(_split(_read(policy, rows, top), lengths) if rows else ())
    nothing = (
        np.zeros(0, np.float32),
        np.zeros(0, np.int64),
        np.zeros((0, top), np.int64),
        np.zeros((0, top), np.float32),
    )
    return [next(scores) if len(each) > 1 else PromptScores(*nothing) for each in ids]


def _read(policy: CausalLM, rows: list[Trajectory], top: int) -> PromptScores:
    batch = pack(rows)
    distribution, actions = policy.distributions(batch, torch.arange(batch.decisions)), batch.action.long()
    pieces: list[tuple[torch.Tensor, ...]] = []
    for start in range(0, batch.decisions, PLACES):
        places = torch.arange(start, min(start + PLACES, batch.decisions))
        logp = distribution(places)
        mine = logp.gather(1, actions[places][:, None])
        best = logp.topk(top)
        pieces.append((mine.squeeze(1), 1 + (logp > mine).sum(1), best.indices, best.values))
    return PromptScores(*(torch.cat(column).numpy() for column in zip(*pieces, strict=True)))


def _split(scores: PromptScores, lengths: Sequence[int]) -> list[PromptScores]:
    ends = np.cumsum(lengths)[:-1]
    return [PromptScores(*columns) for columns in zip(*(np.split(column, ends) for column in scores), strict=True)]


def scored_tokens(
    scores: PromptScores, prompt: Tokens, spell: Callable[[int], str]
) -> list[dict[str, PromptToken] | None]:
    """The scores in vLLM's form: by token id, None for the prompt's first token."""
    places: list[dict[str, PromptToken] | None] = [None]
    for token, logp, rank, top, likely in zip(prompt[1:], *(column.tolist() for column in scores), strict=True):
        place = {
            str(other): PromptToken(value, n, spell(other))
            for n, (other, value) in enumerate(zip(top, likely, strict=True), 1)
        }
        place.setdefault(str(token), PromptToken(logp, rank, spell(token)))
        places.append(place)
    return places
