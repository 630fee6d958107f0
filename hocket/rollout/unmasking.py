"""Plays scenarios in words with a masked-diffusion language model: answers are filled in, a few tokens a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key, uniforms
from hocket.core.masked_states import MaskedState
from hocket.rollout.mask_filling import Unmasking
from hocket.types import Assignment, Trajectory, Turn, before_training

HOLE = "_"
"""A masked token in the text of a turn."""


class MaskedModel(Protocol):
    """Who fills in masks: `hocket.policies.masked_lm.MaskedLM`, whose attributes these are."""

    name: str
    version: int
    tokenizer: Any
    mask: int
    end: int
    length: int
    positions: int
    unprompted: bool

    def logits(self, states: Sequence[MaskedState]) -> Tensor:
        """Logits at the places of states, one after the other, `[sum K, V]`."""


@dataclass
class FilledAnswer:
    """An answer that is being filled in.

    Attributes:
        assignment, number: what it is a sample of. tokens: prompt and answer, `[S]`. prompt: tokens of the prompt.
        key: of its draws. counts: tokens to commit at each step. turns: of the steps made.
    """

    assignment: Assignment
    number: int
    tokens: NDArray[np.int64]
    prompt: int
    key: Key
    counts: list[int]
    turns: list[Turn] = field(default_factory=list)

    @property
    def manner(self) -> Unmasking:
        return self.assignment.option(Unmasking) or Unmasking()


class UnmaskingPlayer:
    """A `Player` for masked language models; at temperature 0 every committed token is the likeliest.

    A sample depends on its own key alone. Its turns are the steps, or the probes of its likelihood; the last turn's
    text is the answer up to its end, the text of an earlier one what stood there, with `HOLE` for masks.
    """

    def __init__(self, policy: MaskedModel) -> None:
        self.policy = policy
        self.reference: MaskedModel | None = None

    @property
    def context_length(self) -> int:
        """Tokens that the model reads at most."""
        return self.policy.positions + 1

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of token ids."""
        return str(self.policy.tokenizer.decode(list(tokens)))

    async def play(self, assignments: Sequence[Assignment], *, key: Key) -> list[Trajectory]:
        """Every sample of every assignment, in assignment order, then sample order.

        Raises:
            ConfigurationError: for a decoding or an order of commits that this model cannot have.
        """
        answers = [answer for assignment in assignments for answer in self._begun(assignment, key)]
        for actor in dict.fromkeys(answer.assignment.actor for answer in answers):
            mine = [answer for answer in answers if answer.assignment.actor == actor]
            policy = self.policy if actor == "policy" else self._reference()
            for step in range(max((len(answer.counts) for answer in mine), default=0)):
                self._commit(policy, [answer for answer in mine if step < len(answer.counts)], step)
        return [self._finished(answer) for answer in answers]

    def _begun(self, assignment: Assignment, key: Key) -> list[FilledAnswer]:
        policy, decoding, manner = self.policy, assignment.decoding, assignment.option(Unmasking) or Unmasking()
        if decoding.truncates or decoding.mask is not None:
            raise ConfigurationError(
                "a masked language model samples from whole distributions; leave decoding.top_k, top_p, min_p and mask "
                "unset"
            )
        if decoding.guidance != 1.0 and not policy.unprompted:
            raise ConfigurationError(
                f"decoding.guidance = {decoding.guidance:g}: policy {policy.name!r} was never trained without prompts, "
                "so there is nothing to guide away from; leave it at 1"
            )
        prompt = prompt_tokens(policy.tokenizer, assignment)
        length = min(decoding.max_tokens, policy.length)
        if not manner.doubling and manner.commits > length:
            raise ConfigurationError(
                f"rollout.commits = {manner.commits}: an answer has {length} places; set it to {length} at most"
            )
        if len(prompt) + length > policy.positions:
            raise ConfigurationError(
                f"scenario {assignment.scenario.id}: its prompt has {len(prompt)} tokens, and the model reads "
                f"{policy.positions} with the answer's {length}; ask shorter questions or set decoding.max_tokens lower"
            )
        begin = np.array([*prompt, *[policy.mask] * length], np.int64)
        return [
            FilledAnswer(
                assignment,
                number,
                begin.copy(),
                len(prompt),
                key.derive(assignment.scenario.id, assignment.source, number),
                manner.counts(length),
            )
            for number in range(assignment.first, assignment.first + assignment.samples)
        ]

    @torch.inference_mode()
    def _commit(self, policy: MaskedModel, answers: Sequence[FilledAnswer], step: int) -> None:
        """One step of every answer."""
        open_places = [np.flatnonzero(answer.tokens == policy.mask) for answer in answers]
        states = [
            MaskedState(answer.tokens.copy(), answer.prompt, places[places >= answer.prompt], _guidance(answer))
            for answer, places in zip(answers, open_places, strict=True)
        ]
        sizes = [len(state.places) for state in states]
        temperature = torch.tensor([answer.assignment.decoding.temperature or 1.0 for answer in answers])
        logits = policy.logits(states) / temperature.repeat_interleave(torch.tensor(sizes))[:, None]
        for answer, state, rows in zip(answers, states, torch.split(torch.log_softmax(logits, -1), sizes), strict=True):
            token = self._drawn(answer, state, rows, step)
            chosen = commit_first(answer, rows, token, step, policy.end)
            places, chosen_tokens = state.places[chosen.numpy()], token[chosen]
            answer.tokens[places] = chosen_tokens.numpy()
            taken = MaskedState(state.tokens, state.prompt, places, state.guidance)
            logp = rows[chosen].gather(1, chosen_tokens[:, None])[:, 0].numpy()
            answer.turns.append(self._turn(answer, taken, chosen_tokens.numpy(), logp))

    def _drawn(self, answer: FilledAnswer, state: MaskedState, rows: Tensor, step: int) -> Tensor:
        """A token for every open place, `[K]`."""
        if answer.assignment.decoding.greedy:
            return rows.argmax(-1)
        counters = (step * len(state.tokens) + state.places).astype(np.uint64)
        drawn = torch.from_numpy(uniforms(np.full(len(counters), answer.key.word, np.uint64), counters))
        mass = rows.double().exp().cumsum(-1)
        return (drawn[:, None] * mass[:, -1:] >= mass).sum(-1).clamp(max=rows.shape[-1] - 1)

    def _turn(
        self, answer: FilledAnswer, state: MaskedState, tokens: NDArray[np.int64], logp: NDArray[Any] | None
    ) -> Turn:
        assignment, name = answer.assignment, self.policy.name
        return Turn(
            agent="writer",
            policy=name if assignment.actor == "policy" else before_training(name),
            observation=state.row(),
            action=tokens,
            logp=logp,
            version=np.full(len(tokens), self.policy.version, np.int64),
            text=self._shown(answer),
            prompt=assignment.scenario.messages,
            decoding=assignment.decoding,
        )

    def _shown(self, answer: FilledAnswer) -> str:
        """The answer up to its end, with holes."""
        policy, held = self.policy, answer.tokens[answer.prompt :].tolist()
        ends = [place for place, token in enumerate(held) if token == policy.end]
        if ends and policy.mask not in held[: ends[0]]:
            held = held[: ends[0]]
        parts = [HOLE if token == policy.mask else self.decode([token]) for token in held]
        return "".join(parts) if policy.mask in held else str(policy.tokenizer.decode(held, skip_special_tokens=True))

    def _finished(self, answer: FilledAnswer) -> Trajectory:
        ended = bool((answer.tokens[answer.prompt :] == self.policy.end).any())
        turns = answer.turns if answer.manner.likelihood == "path" else self._probes(answer)
        turns[-1].finish = "stop" if ended else "length"
        return Trajectory(answer.assignment.scenario, turns, sample=answer.number, source=answer.assignment.source)

    def _probes(self, answer: FilledAnswer) -> list[Turn]:
        """The looks at a final answer that its likelihood is made of; the learner evaluates their log-probs."""
        places = np.arange(answer.prompt, len(answer.tokens))
        rng = answer.key.derive("probe").numpy()
        if answer.manner.likelihood == "one-pass":
            tokens = answer.tokens.copy()
            tokens[: answer.prompt][rng.random(answer.prompt) < answer.manner.hide] = self.policy.mask
            return [self._probe(answer, tokens, places)]
        # Masked by a share that neither half is empty of, where there are two places.
        first = rng.permutation(places)[: int(rng.integers(1, max(2, len(places))))]
        halves = (np.sort(first), np.setdiff1d(places, first))
        return [self._probe(answer, answer.tokens.copy(), half) for half in halves if len(half)]

    def _probe(self, answer: FilledAnswer, tokens: NDArray[np.int64], places: NDArray[np.int64]) -> Turn:
        chosen_tokens = answer.tokens[places]
        tokens[places] = self.policy.mask
        return self._turn(answer, MaskedState(tokens, answer.prompt, places, _guidance(answer)), chosen_tokens, None)

    def _reference(self) -> MaskedModel:
        if self.reference is None:
            raise HocketError("the rollout samples from the policy as it was before training, which was not given")
        return self.reference


def prompt_tokens(tokenizer: Any, assignment: Assignment) -> list[int]:
    """The ids of a scenario's messages by the model's chat template, or of their text where it has none."""
    messages = [dict(message) for message in assignment.scenario.messages]
    if getattr(tokenizer, "chat_template", None):
        text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        result = tokenizer(text, add_special_tokens=False)["input_ids"]
    else:
        result = tokenizer("\n".join(str(message["content"]) for message in messages))["input_ids"]
    return [int(token) for token in result]


def _guidance(answer: FilledAnswer) -> float:
    return answer.assignment.decoding.guidance


def commit_first(answer: FilledAnswer, rows: Tensor, token: Tensor, step: int, end: int) -> Tensor:
    """Which open places are committed, as increasing indices of them.

    Args:
        rows: log-probs at the open places, `[K, V]`. token: those drawn there, `[K]`. end: the end token.
    """
    manner, count = answer.manner, answer.counts[step]
    if manner.order == "left":
        return torch.arange(count)
    if manner.order == "random":
        order = answer.key.derive("order", step).numpy().permutation(len(rows))
        return torch.from_numpy(np.sort(order[:count]))
    best, likeliest = rows.max(-1)
    sure = best if manner.order == "distribution" else rows.gather(1, token[:, None])[:, 0]
    shown = likeliest if manner.order == "distribution" else token
    if manner.end_held < 1.0:
        last = max(1, len(answer.counts) - 1)
        factor = manner.end_held + (1.0 - manner.end_held) * step / last
        sure = torch.where(shown == end, sure + float(np.log(max(factor, 1e-12))), sure)
    return torch.topk(sure, count).indices.sort().values
