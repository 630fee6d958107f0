"""A teacher of another tokenizer: it reads answers in its own tokens and is compared over spans of text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from hocket.core.batch import Batch, Level
from hocket.core.columns import PROMPT
from hocket.core.divergences import Divergence
from hocket.core.errors import ConfigurationError
from hocket.core.span_divergences import LEAST, SpanDivergence
from hocket.policies import heads
from hocket.policies.causal_lm import CausalLM
from hocket.policies.heads import Head, read_head, rowwise
from hocket.policies.sequences import Row, targets
from hocket.policies.text_spans import ends_of, spans_of
from hocket.stages import Policy
from hocket.types import Evaluation, Quantity

ADVICE = "choose a teacher with the student's tokenizer, or use --recipe gold, which compares two vocabularies"


@dataclass(frozen=True)
class _Answer:
    """An answer as both read it.

    Attributes:
        decisions: the student's tokens as decisions, `[K]`.
        prompt, tokens: what the teacher reads, `[P]` and `[L]`. spans: by the student's places and the teacher's.
    """

    decisions: NDArray[np.int64]
    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    spans: list[tuple[list[int], list[int]]]


class OtherVocabulary:
    """A language model with other tokens as the reference of a policy.

    It reads the scenario's prompt by its own chat template and the answer's text by its own tokenizer.

    Args:
        teacher: the model. chat: its chat template (`hocket.agents.workflows.chat.Chat`).
        student: the policy's tokenizer. stops: tokens that end the policy's answers; the first one closes a turn.
    """

    version = 0
    default_lr = 0.0

    def __init__(self, teacher: CausalLM, chat: Any, student: Any, stops: Sequence[int]) -> None:
        self.name, self.teacher, self.module = teacher.name, teacher, teacher.module
        self._chat, self._student, self._stops = chat, student, tuple(stops)
        self._read = lru_cache(2**12)(self._translated)
        self._shared = lru_cache(2)(self._shared_tokens)

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
        reference: Policy | None = None,
    ) -> Evaluation:
        """Refused: it has no log-probs of the student's tokens."""
        raise ConfigurationError(f"the teacher of {self.name!r} reads other tokens; {ADVICE}")

    def check(self, divergence: Divergence | None) -> None:
        """Refuses divergences that need one vocabulary."""
        if not isinstance(divergence, SpanDivergence):
            raise ConfigurationError(f"the teacher of {self.name!r} reads other tokens; {ADVICE}")

    def apart(
        self, divergence: Divergence, reading: tuple[Head, Tensor], logp: Tensor, batch: Batch, decisions: Tensor
    ) -> Tensor:
        """The divergence of each span at the student's decision that closes it, `[K]`; 0 at all others.

        A span counts K / G of an answer of K decisions and G spans, so that the mean over decisions is that over spans.
        """
        assert isinstance(divergence, SpanDivergence)
        head, features = reading
        answers = self._answers(batch, decisions, ends=divergence.ends)
        place = torch.full((batch.decisions,), -1, dtype=torch.long)
        place[decisions] = torch.arange(len(decisions))
        groups = [
            (place[torch.from_numpy(answer.decisions[mine])], number, theirs, len(answer.decisions) / len(answer.spans))
            for number, answer in enumerate(answers)
            for mine, theirs in answer.spans
        ]
        groups = [group for group in groups if bool((group[0] >= 0).all())]
        apart = torch.zeros(len(decisions), dtype=features.dtype, device=features.device)
        if not groups:
            return apart + 0.0 * logp.sum()
        other_features, other_logp, starts = self._teacher_reading(answers, batch)
        last = torch.stack([group[0][-1] for group in groups]).to(features.device)
        other_last = torch.tensor([starts[number] + theirs[-1] for _, number, theirs, _ in groups])
        heat = self._heat(batch, decisions)[last.cpu()].to(features.device)
        shared = self._shared(divergence.ends, features.device)
        by_span = spans_apart(
            divergence,
            (head, features[last]),
            _earlier(logp, [group[0][:-1] for group in groups]),
            (self.teacher.head, other_features[other_last.to(other_features.device)]),
            _earlier(other_logp, [starts[number] + torch.tensor(theirs[:-1]) for _, number, theirs, _ in groups]),
            heat,
            shared,
            texts_apart(
                divergence,
                ((logp[mine], other_logp[starts[number] + torch.tensor(theirs)]) for mine, number, theirs, _ in groups),
                (
                    (int(batch.action[decisions[mine[-1]]]), answers[number].tokens[theirs[-1]])
                    for mine, number, theirs, _ in groups
                ),
                shared,
            ),
        )
        weight = torch.tensor([group[3] for group in groups], dtype=by_span.dtype, device=by_span.device)
        return apart.to(by_span.dtype).index_add(0, last, by_span * weight)

    # ------------------------------------------------------------ the same text in other tokens

    def _answers(self, batch: Batch, decisions: Tensor, *, ends: bool) -> list[_Answer]:
        prompts = PROMPT.read(batch, "a teacher of another vocabulary")
        turns = torch.unique(batch.turn[decisions])
        if bool((batch.parent[turns] >= 0).any()):
            raise ConfigurationError(
                "a teacher of another vocabulary reads answers of one turn, and these have several; choose a teacher "
                "with the student's tokenizer"
            )
        occurrences = batch.occurrences
        trajectory = torch.zeros(batch.decisions, dtype=torch.long)
        trajectory[occurrences.decision.flip(0)] = occurrences.trajectory.flip(0)
        actions, answers = batch.action.cpu().numpy(), []
        for turn in turns.tolist():
            mine = torch.nonzero(batch.turn == turn).flatten()
            prompt = str(prompts[int(trajectory[mine[0]])])
            answer = self._read(prompt, tuple(actions[mine.numpy()].tolist()), ends)
            if answer[2]:
                answers.append(_Answer(mine.numpy(), *answer))
        return answers

    def _translated(
        self, prompt: str, tokens: tuple[int, ...], ends: bool
    ) -> tuple[tuple[int, ...], tuple[int, ...], list[tuple[list[int], list[int]]]]:
        ended = tokens[-1] in self._stops
        words = tokens[:-1] if ended else tokens
        messages = [{"role": "user", "content": prompt}]
        text = _decoded(self._student, words)
        translated = tuple(self._chat.encode(text)) if text else ()
        spans = spans_of(
            ends_of(lambda part: _decoded(self._student, part), words, 0.25),
            ends_of(lambda part: _decoded(self.teacher.tokenizer, part), translated, 0.75),
        )
        if ended and ends:
            spans = [*spans, ([len(words)], [len(translated)])]
            translated = (*translated, self._chat.end_of_turn)
        return tuple(self._chat.opening(messages)), translated, spans

    def _teacher_reading(self, answers: Sequence[_Answer], batch: Batch) -> tuple[Tensor, Tensor, list[int]]:
        """Features and log-probs at the teacher's tokens of all answers, `[L..]`, and where each answer begins."""
        starts = np.cumsum([0, *(len(answer.tokens) for answer in answers)]).tolist()
        rows = [
            Row(
                np.array([*answer.prompt, *answer.tokens[:-1]], np.int64),
                len(answer.prompt) - 1 + np.arange(len(answer.tokens)),
                start + np.arange(len(answer.tokens)),
            )
            for answer, start in zip(answers, starts, strict=False)
        ]
        self.teacher.check_lengths(rows)
        first = torch.tensor([int(answer.decisions[0]) for answer in answers])
        by_answer = self._heat(batch, first)
        heat = by_answer.repeat_interleave(torch.tensor([len(answer.tokens) for answer in answers]))
        actions = torch.tensor([token for answer in answers for token in answer.tokens])
        order, features, logp = torch.empty(starts[-1], dtype=torch.long), list[Tensor](), list[Tensor]()
        with torch.no_grad(), self.teacher.applied(), self.teacher.residence.around():
            for part in self.teacher.parts(rows):
                target, read = targets(part), self.teacher.features(part)[0]
                order[target] = sum(len(piece) for piece in features) + torch.arange(len(target))
                features.append(read)
                taken, warm = actions[target].to(read.device), heat[target].to(read.device)
                logp.append(read_head(self.teacher.head, read, taken, warm).logp)
        order = order.to(features[0].device)
        return torch.cat(features)[order], torch.cat(logp)[order], starts

    @staticmethod
    def _heat(batch: Batch, decisions: Tensor) -> Tensor:
        if batch.temperature is None:
            return torch.ones(len(decisions))
        return batch.temperature[batch.turn[decisions]].float()

    def _shared_tokens(self, ends: bool, device: torch.device) -> tuple[Tensor, Tensor]:
        """The tokens that both vocabularies spell alike; with `ends`, also what ends an answer, however it is spelt."""
        mine, theirs = self._student.get_vocab(), self.teacher.tokenizer.get_vocab()
        pairs = {token: mine[text] for text, token in theirs.items() if text in mine}
        if ends:
            stop, other = self._stops[0], self._chat.end_of_turn
            pairs = {token: mate for token, mate in pairs.items() if token != other and mate != stop} | {other: stop}
        both = sorted(pairs.items())
        columns = torch.tensor([pair[1] for pair in both]), torch.tensor([pair[0] for pair in both])
        return columns[0].long().to(device), columns[1].long().to(device)

    # ------------------------------------------------------------ as a reference of a run

    def final_values(self, batch: Batch) -> Tensor:
        return torch.zeros(batch.trajectories)

    def frozen_copy(self) -> OtherVocabulary:
        return self

    def save(self, folder: Path) -> None:
        """Writes the teacher."""
        self.teacher.save(folder)

    def load(self, folder: Path) -> None:
        """Reads the teacher."""
        self.teacher.load(folder)


def spans_apart(
    divergence: SpanDivergence,
    policy: tuple[Head, Tensor],
    earlier: Tensor,
    reference: tuple[Head, Tensor],
    other_earlier: Tensor,
    temperature: Tensor,
    shared: tuple[Tensor, Tensor],
    texts: Tensor | None = None,
) -> Tensor:
    """The divergence of G spans, `[G]`, from heads with their features at the spans' last tokens, `[G, H]`.

    Distributions are made for some spans at a time and again in the backward pass.

    Args:
        earlier, other_earlier: the probabilities of the spans' earlier tokens, `[G]`. temperature: `[G]`.
        texts: what takes the place of the divergence, `[G]`, where it is not NaN.
    """
    (head, features), (other_head, other_features) = policy, reference
    width = sum(make(read[:1]).shape[-1] for make, read in (policy, reference))
    step = max(1, (heads.LOGIT_BUDGET if features.device.type == "cpu" else heads.DEVICE_LOGIT_BUDGET) // width)

    def part(features: Tensor, earlier: Tensor, others: Tensor, other_earlier: Tensor, heat: Tensor) -> Tensor:
        mine = _probabilities(head, features, heat) * earlier[:, None]
        with torch.no_grad():
            theirs = _probabilities(other_head, others, heat) * other_earlier[:, None]
        return divergence.between(mine, theirs, shared)

    columns = features, earlier, other_features, other_earlier, temperature
    parts = []
    for start in range(0, len(features), step):
        piece = tuple(column[start : start + step] for column in columns)
        if len(features) <= step or not torch.is_grad_enabled():
            parts.append(part(*piece))
        else:
            parts.append(checkpoint(part, *piece, use_reentrant=False, preserve_rng_state=False))
    apart = torch.cat(parts)
    return apart if texts is None else torch.where(texts.isnan(), apart, texts)


def texts_apart(
    divergence: SpanDivergence,
    logp: Iterable[tuple[Tensor, Tensor]],
    last: Iterable[tuple[int, int]],
    shared: tuple[Tensor, Tensor],
) -> Tensor | None:
    """The divergence of spans by the probabilities of their texts, `[G]`; NaN for one token of both, spelt alike.

    Args:
        logp: of each span's tokens, the policy's and the reference's. last: the last token of each.
        shared: as in `SpanDivergence.between`.

    Returns:
        None where the divergence does not compare texts.
    """
    if divergence.between_texts(torch.zeros(0), torch.zeros(0)) is None:
        return None
    read, ends = list(logp), list(last)
    alike = set(zip(shared[0].tolist(), shared[1].tolist(), strict=True))
    texts = read[0][0].new_full((len(read),), torch.nan)
    several = [n for n, (mine, theirs) in enumerate(read) if max(len(mine), len(theirs)) > 1 or ends[n] not in alike]
    if not several:
        return texts
    first, second = (torch.stack([read[n][side].sum() for n in several]).clamp(max=0.0).exp() for side in (0, 1))
    apart = divergence.between_texts(first, second.to(first))
    assert apart is not None
    return texts.index_put((torch.tensor(several, device=texts.device),), apart)


def _probabilities(head: Head, features: Tensor, temperature: Tensor) -> Tensor:
    logits = rowwise(head, features)
    logits = logits if logits.dtype is torch.float64 else logits.float()
    return torch.softmax(logits / temperature[:, None], -1)


def _earlier(logp: Tensor, places: Sequence[Tensor]) -> Tensor:
    """The probability of the tokens at `places`, of each at least 1e-8, `[G]`."""
    if not any(len(chosen) for chosen in places):
        return torch.ones(len(places), dtype=logp.dtype, device=logp.device)
    flat = torch.cat([chosen.long() for chosen in places]).to(logp.device)
    group = torch.repeat_interleave(torch.arange(len(places)), torch.tensor([len(chosen) for chosen in places]))
    least = float(np.log(LEAST))
    sums = torch.zeros(len(places), dtype=logp.dtype, device=logp.device)
    return sums.index_add(0, group.to(logp.device), logp[flat].clamp(min=least)).exp()


def _decoded(tokenizer: Any, tokens: Sequence[int]) -> str:
    return str(tokenizer.decode(list(tokens), skip_special_tokens=False, clean_up_tokenization_spaces=False))
