"""Text2Grad: PPO on rewards that a written critique gives to parts of the answer (Wang et al., arXiv:2505.22338).

`SpanRewards` aligns the critique's quoted words with the answer's tokens and pays each token its span's score, besides
the KL charge per token; value and GAE are PPO's.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, ClassVar, Literal

import torch

from hocket.core.batch import Batch, Level
from hocket.core.columns import FEEDBACK, PROMPT, TEXT, TOKEN_TEXTS, Column, InfoColumn
from hocket.core.signals import token_texts
from hocket.credit.gae import GAE
from hocket.methods.base.ppo import PPO_RLHF
from hocket.rewards.judging import Judge, said
from hocket.rewards.shaping import KLInReward, added
from hocket.stages import Shaping

CRITIQUE = InfoColumn("critique", "What a workflow says about parts of the answer, a list of (quoted words, score).")


CRITIC = (
    "Criticise the answer below. Quote its good and bad parts, word by word and in order, as a JSON list of pairs "
    '[["words of the answer", score], ...] with score 1 for a good part and -1 for a bad one. Write the list alone.'
)


Span = tuple[str, float]
"""A quoted stretch of an answer, and the score it gets."""


Spread = Literal["each", "shared"]


def placed(text: str, spans: Sequence[Span]) -> list[tuple[int, int, float] | None]:
    """Where each span stands in `text`: (start, end, score), or None for words that are not there.

    Spans are looked for in order, each after the one before, so a word quoted twice means its first two occurrences.
    A span that is not found after the last one is looked for from the start, at a place no other span has.
    """
    found: list[tuple[int, int, float] | None] = []
    taken: list[tuple[int, int]] = []
    after = 0
    for words, score in spans:
        start = _free(text, words, after, taken)
        if start < 0:
            start = _free(text, words, 0, taken)
        if start < 0 or not words:
            found.append(None)
            continue
        end = start + len(words)
        found.append((start, end, score))
        taken.append((start, end))
        after = end
    return found


def _free(text: str, words: str, start: int, taken: Sequence[tuple[int, int]]) -> int:
    """The first occurrence of `words` from `start` on that overlaps none of `taken`; -1 if there is none."""
    at = text.find(words, start) if words else -1
    while at >= 0 and any(at < end and begin < at + len(words) for begin, end in taken):
        at = text.find(words, at + 1)
    return at


def span_rewards(texts: Sequence[str], spans: Sequence[Span], spread: Spread = "each") -> list[float]:
    """The reward of each token whose texts are `pieces`; a token that no span touches has exactly 0.

    `each` gives a span's score to every token it touches, `shared` an even part of it, so that the sum over tokens is
    the sum of the scores of the spans found. A token touched by two spans gets both.
    """
    ends = list(accumulate(len(piece) for piece in texts))
    rewards = [0.0] * len(texts)
    for place in placed("".join(texts), spans):
        if place is None:
            continue
        start, end, score = place
        touched = [n for n, last in enumerate(ends) if last > start and last - len(texts[n]) < end and texts[n]]
        for number in touched:
            rewards[number] += score / len(touched) if spread == "shared" else score
    return rewards


def spans_of(critique: Any) -> list[Span]:
    """The spans of a critique: a list of [words, score], or JSON text that holds one, alone, as `spans` or among words.

    What is not a pair of words and a finite number is left out, as is a critique that is no JSON.
    """
    if isinstance(critique, str):
        critique = _json(critique)
    if isinstance(critique, Mapping):
        critique = critique.get("spans")
    found: list[Span] = []
    for item in critique if isinstance(critique, (list, tuple)) else ():
        if isinstance(item, (list, tuple)) and len(item) == 2 and isinstance(item[0], str):
            score = item[1]
            if isinstance(score, (int, float)) and not isinstance(score, bool) and math.isfinite(score):
                found.append((item[0], float(score)))
    return found


def _json(text: str) -> Any:
    """The JSON that a text is, or the list in it from the first bracket to the last; None if there is none."""
    within = re.search(r"\[.*\]", text, re.DOTALL)
    for candidate in (text, within[0] if within else ""):
        with suppress(ValueError, RecursionError):
            return json.loads(candidate)
    return None


@dataclass(frozen=True)
class SpanRewards(Shaping):
    """`r_t += score` of the critique's span that token t belongs to: Text2Grad (arXiv 2505.22338).

    A critique is a list of (quoted words, score): the column `critique` of `Batch.info` where a workflow gives one,
    else the words that the score `name` came with (`Score.feedback`, as JSON), else what the judge answers. Spans are
    aligned in order with the answer's own tokens, whose texts are the column `pieces`. Without a critique nothing
    changes.

    Attributes:
        name: of the score whose words are the critique. weight: multiplies every score.
        spread: `each` token of a span gets its score, or a `shared` part of it.
    """

    name: str = "critique"
    weight: float = 1.0
    spread: Spread = "each"
    judge: Judge | None = None

    asks_judge: ClassVar[bool] = True
    reads: ClassVar[frozenset[Column]] = frozenset({TOKEN_TEXTS})

    def __post_init__(self) -> None:
        if self.spread not in ("each", "shared"):
            raise ValueError(f"spread must be 'each' or 'shared', not {self.spread!r}")

    def __call__(self, batch: Batch) -> Batch:
        texts = token_texts(batch, "SpanRewards")
        critiques = self._critiques(batch)
        rewards = [
            reward
            for row, critique in zip(texts, critiques, strict=True)
            for reward in span_rewards(row, spans_of(critique), self.spread)
        ]
        return added(batch, Level.DECISION, self.weight * torch.tensor(rewards, dtype=torch.float64))

    def _critiques(self, batch: Batch) -> list[Any]:
        """What is said about each trajectory, None where nothing is."""
        given = CRITIQUE.rows(batch)
        words = FEEDBACK.rows(batch)
        critiques = [
            own if own is not None else (spoken or {}).get(self.name) for own, spoken in zip(given, words, strict=True)
        ]
        if self.judge is None:
            return critiques
        texts, prompts = TEXT.read(batch, "SpanRewards"), PROMPT.rows(batch)
        left = [place for place, critique in enumerate(critiques) if critique is None]
        asked = [f"{CRITIC}\n\nQuestion:\n{prompts[place] or ''}\n\nAnswer:\n{texts[place] or ''}" for place in left]
        for place, critique in zip(left, said(self.judge, asked, longest=512), strict=True):
            critiques[place] = critique
        return critiques


TEXT2GRAD = PPO_RLHF.but(
    name="text2grad",
    title="Text2Grad: rewards of spans from written critiques",
    source="Wang et al., Text2Grad: Reinforcement Learning from Natural Language Feedback, arXiv:2505.22338",
    catalogue_ids=("text2grad",),
    axes=("reward", "credit"),
    formula="r_t = score of the critique's span that holds token t - beta log(pi_t/ref_t);  PPO with GAE",
    conventions={
        **PPO_RLHF.conventions,
        "critique": "the column critique, or the words of a score named critique, else what --judge answers "
        "(`CRITIC`): JSON [[words, score], ...]",
        "alignment": "spans in order, each after the one before; every token a span touches gets its score",
        "KL": "k1 in the reward at every decision not imposed, coefficient 0.02; the code's full KL is left out",
        "other rewards": "added as they are",
    },
    note="without --judge a workflow or a score must give critiques, else none are given; critiques of a taught judge "
    "(task marked-sums) pay spans, but their scores are often wrong, and that it learns by them was not measured",
    shaping=(SpanRewards(), KLInReward(coefficient=0.02, estimator="k1")),
    credit=GAE(gamma=1.0, lam=0.95, whiten=True),
)
