"""The run's judge, from what `--judge` names: a frozen policy, an endpoint, an own function, or each stage's rule."""

from __future__ import annotations

import dataclasses
import functools
import math
import numbers
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar, cast

from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key
from hocket.core.user_files import load_object
from hocket.engine.remote_http import Endpoint, only_model
from hocket.engine.remote_wire import read_text, text_body
from hocket.engine.requests import Request
from hocket.recipe import Recipe
from hocket.rewards.judging import Answer, Judge, Question
from hocket.rewards.outside_calls import call_outside
from hocket.rewards.score import RewardJournal
from hocket.stages import Stage, walk
from hocket.train.aio import run_async
from hocket.train.models import model_folder
from hocket.train.settings import Config
from hocket.types import Decoding

if TYPE_CHECKING:
    from hocket.policies.family import Precision

T = TypeVar("T")

RULE = "rule"
KEY_VARIABLE = "HOCKET_JUDGE_KEY"
"""The environment variable with the API key of a judge behind an endpoint; without it no key is sent."""


class PolicyJudge(Judge):
    """A language model that is not trained, read greedily; of choices it names the likeliest, as it tells log-probs.

    Args:
        model: `nano`, `smollm2`, a model folder, a GGUF file, a hub name, or a run, whose newest checkpoint counts.

    Raises:
        ConfigurationError: at construction, when there is no such model.
    """

    def __init__(
        self, model: str, config: Config, journal: RewardJournal | None, precision: Precision = "fp32"
    ) -> None:
        from hocket.agents.workflows.chat import Chat
        from hocket.engine.local import LocalEngine
        from hocket.policies.causal_lm import CausalLM
        from hocket.train.machine import device_of

        super().__init__(model, journal)
        template, where = config.template.lenient, model_folder(model, config.runs)
        policy = CausalLM.from_pretrained(
            where, name="judge", precision=precision, chat_template=template, key=Key.of(0)
        )
        policy.module.requires_grad_(False).to(device_of(config))
        self._chat = Chat(policy.tokenizer)
        policy.end_of_turn = self._chat.stops
        self._engine = LocalEngine(policy, max_rows=config.engine.max_rows)

    def ask(self, questions: Sequence[Question]) -> list[Answer]:
        by_question = [self._requests(question) for question in questions]
        try:
            samples = iter(self._engine.sample([request for requests in by_question for request in requests]))
        finally:
            self._engine.release()
        return [
            self._answer(question, [next(samples) for _ in requests], requests)
            for question, requests in zip(questions, by_question, strict=True)
        ]

    def _requests(self, question: Question) -> list[Request]:
        """One for free words, one per choice with its words imposed, none for a question that is too long."""
        messages = [{"role": "user", "content": question.prompt}]
        opening = self._chat.opening(messages)
        forced = [self._chat.demonstration(choice, messages) for choice in question.choices] or [()]
        room = None if self._engine.context_length is None else self._engine.context_length - len(opening)
        if room is not None and room < max(1, *map(len, forced)):
            return []
        return [
            Request(
                opening,
                Decoding(max_tokens=len(prefix) or question.longest, temperature=0.0),
                Key.of(0).derive("judge", question.prompt, number),
                prefix,
            )
            for number, prefix in enumerate(forced)
        ]

    def _answer(self, question: Question, samples: Sequence[Any], requests: Sequence[Request]) -> Answer:
        if not samples:
            return Answer(None, problem=f"a question leaves no room in its context of {self._engine.context_length}")
        tokens = len(requests[0].tokens) + sum(len(sample.tokens) for sample in samples)
        if not question.choices:
            text = self._chat.reply_text(samples[0].tokens.tolist(), requests[0].tokens)
            return Answer(text, tokens, cut=samples[0].finish == "length")
        logp = tuple(float(sample.logp.sum(dtype="float64")) for sample in samples)
        return Answer(question.choices[logp.index(max(logp))], tokens, logp)


class EndpointJudge(Judge):
    """A model behind an OpenAI-compatible server, `http://HOST:PORT/v1` or `http://HOST:PORT/v1#MODEL`; greedy.

    Raises:
        ConfigurationError: at construction, when nobody answers there, or which model is meant is unclear.
    """

    def __init__(self, address: str, journal: RewardJournal | None) -> None:
        super().__init__(address, journal)
        url, _, model = address.partition("#")
        key = KEY_VARIABLE if os.environ.get(KEY_VARIABLE) else None
        self._endpoint = Endpoint(url, model or only_model(url, key), key_variable=key)

    def ask(self, questions: Sequence[Question]) -> list[Answer]:
        with ThreadPoolExecutor(min(self._endpoint.concurrency, len(questions))) as pool:
            return list(pool.map(self._one, questions))

    def _one(self, question: Question) -> Answer:
        key = Key.of(0).derive("judge", question.prompt)
        messages = ({"role": "user", "content": question.prompt},)
        request = Request((), Decoding(max_tokens=question.longest, temperature=0.0), key, messages=messages)
        try:
            return self._endpoint.read("/chat/completions", text_body(request, self._endpoint.model), key, _read)
        except HocketError as error:
            return Answer(None, problem=str(error))


def _read(document: Any) -> Answer:
    """An answer of `/chat/completions`, with its token counts if the server reports them."""
    text, usage = read_text(document), document.get("usage")
    spent = usage.get("total_tokens") if isinstance(usage, Mapping) else None
    return Answer(text["text"], spent if isinstance(spent, int) else 0, cut=text["finish"] == "length")


class FunctionJudge(Judge):
    """`FILE.py:FUNCTION`, sync or async: a list of prompts to a list with a text, a number or None for each.

    Args:
        timeout: seconds a call may take.
    """

    def __init__(self, reference: str, journal: RewardJournal | None, *, timeout: float = 600.0) -> None:
        super().__init__(reference, journal)
        self._timeout = timeout
        self._function: Callable[..., Any] = load_object(reference, "judge")
        if not callable(self._function):
            raise ConfigurationError(f"judge {reference} is of type {type(self._function).__name__}; name a function")

    def ask(self, questions: Sequence[Question]) -> list[Answer]:
        call = functools.partial(self._function, [question.prompt for question in questions])
        outcome = run_async(call_outside(call, {}, self._timeout))
        if outcome.timed_out:
            raise HocketError(f"it took longer than {self._timeout:g} s")
        if outcome.error is not None:
            raise HocketError(f"it raised {type(outcome.error).__name__}: {outcome.error}")
        if not isinstance(outcome.value, (list, tuple)) or len(outcome.value) != len(questions):
            raise HocketError(f"it must return a list with an answer for each of the {len(questions)} prompts")
        return [_answer_of(value) for value in outcome.value]


def _answer_of(value: Any) -> Answer:
    if value is None or isinstance(value, str):
        return Answer(value)
    if isinstance(value, numbers.Real):
        number = float(value)
        if not math.isfinite(number):
            return Answer(None, problem=f"it returned {number}; return texts, finite numbers or None")
        return Answer(f"{number:.6f}".rstrip("0").rstrip("."))
    return Answer(None, problem=f"it returned a {type(value).__name__}; return texts, numbers or None")


def judge_of(config: Config, journal: RewardJournal | None, precision: Precision = "fp32") -> Judge | None:
    """The run's judge; None for `rule`.

    Raises:
        ConfigurationError: when there is no such judge.
    """
    named = config.judge
    if named == RULE:
        return None
    if ".py:" in named:
        return FunctionJudge(named, journal)
    if named.startswith(("http://", "https://")):
        return EndpointJudge(named, journal)
    try:
        return PolicyJudge(named, config, journal, precision)
    except ConfigurationError as error:
        forms = "write a model, a run, http://HOST:PORT/v1, FILE.py:FUNCTION or rule"
        raise ConfigurationError(f"judge = {named!r}: {error}; {forms}") from error


# ---------------------------------------------------------------- in the places that ask for one


def asking(stages: Sequence[Stage]) -> Iterator[Stage]:
    """Those of `stages` and their parts that may ask a judge."""
    for stage in stages:
        yield from (part for part in walk(stage) if getattr(part, "asks_judge", False))


def with_judge(stage: T, judge: Judge | None) -> T:
    """A recipe, stage or tuple of them with this judge wherever one may be asked; itself where none is."""
    if isinstance(stage, tuple):
        members = tuple(with_judge(member, judge) for member in stage)
        return stage if all(a is b for a, b in zip(members, stage, strict=True)) else cast(T, members)
    if judge is None or not isinstance(stage, (Stage, Recipe)) or not dataclasses.is_dataclass(stage):
        return stage
    changed: dict[str, Any] = {}
    for place in dataclasses.fields(stage):
        if not place.init:
            continue
        value = getattr(stage, place.name)
        asks = place.name == "judge" and getattr(stage, "asks_judge", False)
        new = judge if asks and value is None else with_judge(value, judge)
        if new is not value:
            changed[place.name] = new
    return cast(T, dataclasses.replace(cast(Any, stage), **changed)) if changed else stage
