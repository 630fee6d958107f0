"""A teacher behind a server, as the reference of a policy: it reads the student's tokens and tells how likely they are.

It gives the log-prob of every token and of the likeliest ones beside it, never a whole distribution.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from hocket.core.batch import Batch, Level
from hocket.core.divergences import Divergence, TopActions
from hocket.core.errors import ConfigurationError
from hocket.core.evaluating import evaluation
from hocket.core.keys import Key
from hocket.engine.prompt_logprobs import ScoredText, read_scores, scoring_body
from hocket.engine.remote import EngineJournal
from hocket.engine.remote_http import Endpoint
from hocket.engine.requests import ContextFull
from hocket.policies.heads import Head
from hocket.policies.sequences import rows_of
from hocket.stages import Metrics
from hocket.types import Evaluation, Quantity

TOGETHER = 16
"""Sequences of one request."""

REMEMBERED = 2**14
"""Sequences whose scores are kept in memory: a step with several passes asks for each again."""


@dataclass(frozen=True)
class _Question:
    """A sequence, and how many of its first tokens need no score."""

    tokens: tuple[int, ...]
    start: int


class ServedTeacher:
    """A frozen teacher behind an endpoint; a `Policy` as far as a reference is one.

    Sequences are scored in requests of `TOGETHER`, as many at a time as the endpoint allows. Answers are journalled by
    the sequence, so a resumed run asks nothing again.

    Args:
        endpoint: the server and its model.
        name: the policy that it teaches. width: the tokens of its vocabulary. spell: the text of a token.
        journal: stores answers; None asks again.
        divergence: what the student evaluates, if anything; the likeliest tokens that this compares are asked for.

    Raises:
        ConfigurationError: for a divergence over all tokens.
    """

    version = 0
    default_lr = 0.0

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        name: str,
        width: int,
        spell: Callable[[int], str],
        journal: EngineJournal | None = None,
        divergence: Divergence | None = None,
    ) -> None:
        self.endpoint, self.name, self.module = endpoint, name, nn.Module()
        self._width, self._journal = width, journal
        self._spell = lru_cache(maxsize=None)(spell)
        self._top = _count(divergence, endpoint.url, width)
        self._known: OrderedDict[_Question, ScoredText] = OrderedDict()
        self._tokens = self._calls = 0
        self._seconds = 0.0

    @property
    def granularity(self) -> Level:
        return Level.TRAJECTORY

    def require(self, needs: frozenset[Quantity]) -> None:
        """Nothing can be added to it."""

    def chunks(self, batch: Batch, decisions: Tensor) -> list[Tensor]:
        return [decisions] if len(decisions) else []

    def evaluate(
        self,
        batch: Batch,
        needs: Iterable[Quantity],
        decisions: Tensor | None = None,
        *,
        reference: object = None,
    ) -> Evaluation:
        """Log-probs of the recorded tokens, `[T]`.

        Raises:
            ConfigurationError: when more is wanted, or a turn was not sampled at temperature 1.
        """
        if frozenset(needs) - {Quantity.LOGP}:
            raise ConfigurationError(f"the teacher at {self.endpoint.url} tells log-probs alone")
        chosen = torch.arange(batch.decisions) if decisions is None else decisions
        logp = torch.zeros(batch.decisions)
        for scores, place, target in self._scored(batch, chosen):
            logp[target] = torch.from_numpy(scores.logp[place])
        return evaluation({Quantity.LOGP: logp})

    def reading(self, batch: Batch, decisions: Tensor) -> tuple[Head, Tensor]:
        """The likeliest tokens at `decisions` as `[K, 2k]`, ids and log-probs, and a head that makes logits of them.

        What is left of the probability is spread over all other tokens, so that together they have their mass.
        """
        row = torch.empty(batch.decisions, dtype=torch.long)
        row[decisions] = torch.arange(len(decisions))
        features = torch.zeros(len(decisions), 2 * self._top, dtype=torch.float64)
        for scores, place, target in self._scored(batch, decisions):
            columns = np.concatenate([scores.top[place].astype(np.float64), scores.top_logp[place]], 1)
            features[row[target]] = torch.from_numpy(columns)
        return self._head, features

    def _head(self, features: Tensor) -> Tensor:
        top, logp = features[:, : self._top].long(), features[:, self._top :]
        if int(top.max()) >= self._width:
            raise ConfigurationError(
                f"the teacher at {self.endpoint.url} names token {int(top.max())}, and the student has {self._width}; "
                "choose a teacher with the student's tokenizer"
            )
        others = max(1, self._width - self._top)
        rest = torch.log(-torch.expm1(logp.logsumexp(1, keepdim=True).clamp(max=-1e-7)) / others)
        return rest.expand(-1, self._width).scatter(1, top, logp)

    # ------------------------------------------------------------ asking

    def _scored(self, batch: Batch, decisions: Tensor) -> list[tuple[ScoredText, np.ndarray, Tensor]]:
        """For each sequence its scores, the places of the decisions asked in them, and which decisions these are."""
        self._check(batch, decisions)
        rows = rows_of(batch, decisions) if len(decisions) else []
        last = [int(batch.action[row.target[row.position.argmax()]].item()) for row in rows]
        questions = [
            _Question((*row.tokens.tolist(), token), int(row.position.min()) + 1)
            for row, token in zip(rows, last, strict=True)
        ]
        answers = self._answers(questions)
        return [
            (answers[question], row.position + 1 - question.start, torch.from_numpy(row.target))
            for row, question in zip(rows, questions, strict=True)
        ]

    def _answers(self, questions: Sequence[_Question]) -> dict[_Question, ScoredText]:
        began = time.monotonic()
        self._tokens += sum(len(question.tokens) for question in questions)
        known = {question: scores for question in questions if (scores := self._recorded(question)) is not None}
        left = [question for question in dict.fromkeys(questions) if question not in known]
        parts = [left[start : start + TOGETHER] for start in range(0, len(left), TOGETHER)]
        if parts:
            with ThreadPoolExecutor(min(self.endpoint.concurrency, len(parts))) as pool:
                for part, answers in zip(parts, pool.map(self._asked, parts), strict=True):
                    for question, scores in zip(part, answers, strict=True):
                        known[question] = scores
                        if self._journal is not None:
                            self._journal.put(self._entry(question), scores.plain())
        for question, scores in known.items():
            self._known[question] = scores
            self._known.move_to_end(question)
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        self._calls += len(parts)
        self._seconds += time.monotonic() - began
        return known

    def _asked(self, part: Sequence[_Question]) -> list[ScoredText]:
        sequences, starts = [question.tokens for question in part], [question.start for question in part]
        texts = {token: self._spell(token) for tokens in sequences for token in set(tokens)}
        key = Key.of(0).derive("teacher", self._entry(part[0]))
        try:
            return self.endpoint.read(
                "/completions",
                scoring_body(self.endpoint.model, sequences, self._top),
                key,
                lambda answer: read_scores(answer, sequences, starts, self._top, texts),
            )
        except ContextFull as full:
            longest = max(map(len, sequences))
            raise ConfigurationError(
                f"a sequence of {longest} tokens is longer than the teacher reads ({full}); lower decoding.max_tokens"
            ) from full

    def _recorded(self, question: _Question) -> ScoredText | None:
        known = self._known.get(question)
        if known is None and self._journal is not None and (plain := self._journal.get(self._entry(question))):
            known = ScoredText.of_plain(plain)
        return known

    def _entry(self, question: _Question) -> str:
        text = json.dumps([question.tokens, question.start, self._top])
        return f"teacher/{self.endpoint.model}/{hashlib.blake2b(text.encode(), digest_size=16).hexdigest()}"

    def _check(self, batch: Batch, decisions: Tensor) -> None:
        if batch.temperature is None or not len(decisions):
            return
        heat = batch.temperature[batch.turn[decisions]]
        if bool((heat != 1).any()):
            raise ConfigurationError(
                f"the teacher at {self.endpoint.url} tells log-probs at temperature 1, and a turn was sampled at "
                f"{float(heat[heat != 1][0]):g}; set decoding.temperature 1"
            )

    # ------------------------------------------------------------ as a reference of a run

    def costs(self) -> Metrics:
        """Since the last call: `teacher/tokens` that it read, and the requests and seconds that took."""
        costs = {
            "teacher/tokens": float(self._tokens),
            "throughput/teacher/calls": float(self._calls),
            "time/teacher": self._seconds,
        }
        self._tokens, self._calls, self._seconds = 0, 0, 0.0
        return costs

    def final_values(self, batch: Batch) -> Tensor:
        return torch.zeros(batch.trajectories)

    def frozen_copy(self) -> ServedTeacher:
        return self

    def save(self, folder: Path) -> None:
        """Writes where it is; its weights are the server's."""
        folder.mkdir(parents=True, exist_ok=True)
        where = {"url": self.endpoint.url, "model": self.endpoint.model}
        (folder / "teacher.json").write_text(json.dumps(where), encoding="utf-8")

    def load(self, folder: Path) -> None:
        """There is nothing to read."""


def _count(divergence: Divergence | None, url: str, width: int) -> int:
    """How many likeliest tokens a divergence compares."""
    if divergence is None:
        return 0
    if not isinstance(divergence, TopActions) or divergence.by != "reference":
        raise ConfigurationError(
            f"teacher = {url!r}: a server gives its likeliest tokens, not all; set objective.divergence to "
            "'{type: hocket.core.divergences.TopActions, count: 20}', or use --recipe on-policy-distillation"
        )
    return min(divergence.count, width)
