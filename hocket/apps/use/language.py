"""A language model or a scorer in use."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from hocket.agents.workflows.chat import Chat
from hocket.agents.workflows.team import Actor, headed
from hocket.apps.use.trained_policy import Conversation, TrainedPolicy
from hocket.core.errors import ConfigurationError
from hocket.engine.requests import Request, Sample
from hocket.policies.scorer import Scorer
from hocket.types import Decoding, Message, Scenario, Trajectory, Turn


class _SavedModel(TrainedPolicy):
    def _write(self, folder: Path) -> None:
        self.policy.save(folder)


@dataclass(eq=False, repr=False)
class TrainedModel(_SavedModel):
    """A language model. Its greedy answers have the tokens that `hocket eval` samples.

    Attributes:
        actor: its engine and chat template. system: the system message of its role, None without one.
    """

    actor: Actor = field(kw_only=True)
    system: str | None = field(default=None, kw_only=True)

    what = "a language model"
    use = ".generate(prompt) or .chat(messages)"

    def generate(
        self,
        prompt: str | Conversation | Sequence[str | Conversation],
        n: int = 1,
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
        seed: int | None = None,
    ) -> Any:
        """The answer to a prompt as text; with `n > 1` a list of n; for a list of prompts a list of these.

        Args:
            prompt: a text (a user message), a list of messages, or a list of texts or of lists of messages, which are
                answered in one batch. The role's own system message is put before those that have none.
            max_tokens: of an answer; None takes the run's limit.
            temperature: 0 is greedy. None is greedy for one answer, and the temperature of training for several.
            seed: answers with equal seeds are equal; without one every call draws others.

        Raises:
            ConfigurationError: for prompts that the chat template refuses, or settings out of range.
            ContextFull: for a prompt that leaves no room in the model's context.
        """
        if n < 1:
            raise ConfigurationError(f"n = {n}: generate at least one answer")
        prompts, single = _prompts(prompt)
        decoding, key = self._decoding(n, max_tokens, temperature), self._key("generate", seed)
        requests = [
            self._request(messages, decoding, key.derive(number, answer))
            for number, messages in enumerate(prompts)
            for answer in range(n)
        ]
        samples = self.actor.engine.sample(requests)
        texts = [self._text(*pair) for pair in zip(requests, samples, strict=True)]
        groups = [texts[start : start + n] for start in range(0, len(texts), n)]
        answers: list[Any] = [group[0] for group in groups] if n == 1 else groups
        return answers[0] if single else answers

    def chat(self, messages: str | Conversation, **options: Any) -> list[Mapping[str, Any]]:
        """The conversation with the model's answer at its end, to which the next message can be appended.

        `options` are those of `generate` but `n`.
        """
        conversation = _messages(messages)
        answer = self.generate(conversation, **options)
        return [*conversation, {"role": "assistant", "content": answer}]

    def _decoding(self, n: int, max_tokens: int | None, temperature: float | None) -> Decoding:
        usual = replace(self.subject.config.decoding, **self.actor.decoding)
        heat = (0.0 if n == 1 else usual.temperature) if temperature is None else temperature
        limit = usual.max_tokens if max_tokens is None else max_tokens
        if not 0 <= heat < math.inf:
            raise ConfigurationError(f"temperature = {heat}: must be at least 0 and finite")
        if limit < 1:
            raise ConfigurationError(f"max_tokens = {limit}: must be at least 1")
        return replace(usual, temperature=heat, max_tokens=limit)

    def _request(self, messages: tuple[Message, ...], decoding: Decoding, key: Any) -> Request:
        history = headed(messages, self.system)
        return Request(tuple(self.actor.chat.opening(history)), decoding, key, messages=history)

    def _text(self, request: Request, sample: Sample) -> str:
        if sample.text is not None:
            return sample.text
        return self.actor.chat.reply_text(sample.tokens.tolist(), request.tokens)


@dataclass(eq=False, repr=False)
class TrainedScorer(_SavedModel):
    """A scorer, such as a reward model."""

    what = "a scorer"
    use = ".score(texts)"

    def score(self, texts: Any) -> Any:
        """The score of a text, or of each in a list: a float, or an array `[N]`; `[.., K]` of a scorer with K outputs.

        Args:
            texts: one of these, or a list of them. A tuple `(prompt, answer)`, the prompt being a text or a list of
                messages; a list of messages of which the last is the answer: both are put into the chat template, as in
                training. A plain text is read as it is.
        """
        single = not isinstance(texts, list) or (bool(texts) and isinstance(texts[0], Mapping))
        items = [texts] if single else texts
        policy = cast(Scorer, self.policy)
        chat = Chat(policy.tokenizer)
        scores = policy.scores([self._trajectory(number, item, chat) for number, item in enumerate(items)]).numpy()
        scores = scores[:, 0] if policy.outputs == 1 else scores
        return (float(scores[0]) if policy.outputs == 1 else scores[0]) if single else scores

    def _trajectory(self, number: int, item: Any, chat: Chat) -> Trajectory:
        if isinstance(item, str):
            tokens = [int(token) for token in cast(Scorer, self.policy).tokenizer(item)["input_ids"]]
            if not tokens:
                raise ConfigurationError(f"text {number} is empty, so there is nothing to score")
            before, after = tokens[:-1], tokens[-1:]
        else:
            history, answer = self._pair(number, item)
            before, after = [*chat.opening(history)], [*chat.demonstration(answer, history)]
        turn = Turn(
            agent=self.role,
            policy=self.policy.name,
            observation=np.asarray(before, np.int64),
            action=np.asarray(after, np.int64),
        )
        return Trajectory(Scenario(id=str(number)), [turn])

    def _pair(self, number: int, item: Any) -> tuple[tuple[Message, ...], Any]:
        """The messages before an answer, and the answer."""
        if isinstance(item, tuple) and len(item) == 2:
            return _messages(item[0]), item[1]
        if isinstance(item, list) and item and all(isinstance(message, Mapping) for message in item):
            if len(item) > 1 and item[-1].get("role") == "assistant":
                return tuple(item[:-1]), item[-1]
            raise ConfigurationError(f"conversation {number} does not end with an answer of the assistant to score")
        raise ConfigurationError(
            f"text {number} is {type(item).__name__}; give a text, a tuple (prompt, answer) or a list of messages"
        )


def _prompts(prompt: Any) -> tuple[list[tuple[Message, ...]], bool]:
    """The messages of each prompt, and whether there is a single one."""
    if isinstance(prompt, str) or (isinstance(prompt, Sequence) and prompt and isinstance(prompt[0], Mapping)):
        return [_messages(prompt)], True
    if isinstance(prompt, Sequence):
        return [_messages(single) for single in prompt], False
    raise ConfigurationError(f"a prompt is a text or a list of messages, not {type(prompt).__name__}")


def _messages(prompt: str | Conversation) -> tuple[Message, ...]:
    """A text as a user message; messages as they are."""
    if isinstance(prompt, str):
        return ({"role": "user", "content": prompt},)
    messages = tuple(prompt)
    if not messages:
        raise ConfigurationError("a prompt has no messages; give a text or a list of messages")
    for message in messages:
        if not isinstance(message, Mapping) or "role" not in message or "content" not in message:
            raise ConfigurationError(f"{message!r} is no message; write {{'role': 'user', 'content': TEXT}}")
    return messages
