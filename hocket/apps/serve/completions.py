"""From the growth of answers to OpenAI's documents: one for all, or a stream of events."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Literal, cast

from msgspec import UNSET

from hocket.apps.serve.backend import Job
from hocket.apps.serve.spelling import Delta
from hocket.apps.serve.wire import (
    CallDelta,
    ChatRequest,
    Choice,
    ChoiceDelta,
    Chunk,
    Completion,
    CompletionRequest,
    FinishReason,
    Logprobs,
    Said,
    SaidDelta,
    TextChoice,
    TextCompletion,
    TextLogprobs,
    TokenLogprob,
    ToolCall,
    Usage,
)


def _deltas(job: Job) -> AsyncGenerator[Delta, None]:
    return cast(AsyncGenerator[Delta, None], job.deltas)


@dataclass
class _Answer:
    """One whole answer."""

    text: str = ""
    entries: list[TokenLogprob] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    finish: FinishReason = "length"


async def _answers(job: Job, count: int) -> tuple[list[_Answer], Usage]:
    answers, written = [_Answer() for _ in range(count)], 0
    async with aclosing(_deltas(job)) as deltas:
        async for delta in deltas:
            answer = answers[delta.index]
            answer.text += delta.text
            answer.entries += delta.entries
            answer.calls += delta.calls
            answer.finish = delta.finish or answer.finish
            written += delta.tokens
    return answers, _usage(job, written)


async def collected(job: Job, request: ChatRequest, created: int) -> Completion:
    """The whole answers."""
    answers, usage = await _answers(job, request.choices)
    choices = [
        Choice(
            index=number,
            message=Said(
                answer.text or None if answer.calls else answer.text, tool_calls=answer.calls if answer.calls else UNSET
            ),
            finish_reason=answer.finish,
            logprobs=Logprobs(answer.entries) if request.logprobs else None,
        )
        for number, answer in enumerate(answers)
    ]
    return Completion(job.id, created, job.model, job.weights, choices, usage)


async def collected_texts(job: Job, request: CompletionRequest, created: int) -> TextCompletion:
    """The whole completions."""
    answers, usage = await _answers(job, request.choices)
    choices = []
    for number, answer in enumerate(answers):
        before = _echo(job, request, number)
        scores = _text_logprobs(answer.entries, request, len(before))
        asked_before = job.scores[number // (request.n or 1)] if job.scores else UNSET
        choices.append(TextChoice(number, before + answer.text, scores, _text_finish(answer.finish), asked_before))
    return TextCompletion(job.id, created, job.model, job.weights, choices, usage)


async def streamed_texts(job: Job, request: CompletionRequest, created: int) -> AsyncGenerator[TextCompletion, None]:
    """The completions as events, piece by piece, and the usage if asked for."""

    def event(*choices: TextChoice, usage: Usage | None = None) -> TextCompletion:
        counts = usage if request.tells_usage else UNSET
        return TextCompletion(job.id, created, job.model, job.weights, list(choices), counts)

    echoes = [_echo(job, request, number) for number in range(request.choices)]
    lengths, written = [len(echo) for echo in echoes], 0
    async with aclosing(_deltas(job)) as deltas:
        for number, echo in enumerate(echoes):
            if echo:
                yield event(TextChoice(number, echo))
        async for delta in deltas:
            written += delta.tokens
            if delta.text or delta.entries or delta.finish:
                scores = _text_logprobs(delta.entries, request, lengths[delta.index])
                yield event(TextChoice(delta.index, delta.text, scores, _text_finish(delta.finish)))
            lengths[delta.index] += sum(len(entry.token) for entry in delta.entries)
    if request.tells_usage:
        yield event(usage=_usage(job, written))


def _echo(job: Job, request: CompletionRequest, number: int) -> str:
    """What stands before the text of a completion: its prompt, where it is to be repeated."""
    return job.prompts[number // (request.n or 1)] if request.echo else ""


def _text_finish(finish: FinishReason | None) -> Literal["stop", "length"] | None:
    return "length" if finish == "length" else None if finish is None else "stop"


def _text_logprobs(entries: Sequence[TokenLogprob], request: CompletionRequest, start: int) -> TextLogprobs | None:
    """Log-probs in the form of completions, for tokens whose text begins at character `start`."""
    if not request.scored:
        return None
    offsets = itertools.accumulate((len(entry.token) for entry in entries[:-1]), initial=start) if entries else ()
    likely = [{rival.token: rival.logprob for rival in entry.top_logprobs} for entry in entries]
    return TextLogprobs(
        tokens=[entry.token for entry in entries],
        token_logprobs=[entry.logprob for entry in entries],
        top_logprobs=likely if request.alternatives else None,
        text_offset=list(offsets),
    )


async def streamed(job: Job, request: ChatRequest, created: int) -> AsyncGenerator[Chunk, None]:
    """The answers as events: who speaks, what is said piece by piece, why it ended, and the usage if asked for."""

    def chunk(*choices: ChoiceDelta, usage: Usage | None = None) -> Chunk:
        counts = usage if request.tells_usage else UNSET
        return Chunk(job.id, created, job.model, job.weights, list(choices), counts)

    written = 0
    async with aclosing(_deltas(job)) as deltas:
        for number in range(request.choices):
            yield chunk(ChoiceDelta(number, SaidDelta(role="assistant", content="")))
        async for delta in deltas:
            written += delta.tokens
            if delta.text or delta.entries:
                message = SaidDelta(content=delta.text)
                scores = Logprobs(list(delta.entries)) if request.logprobs else None
                yield chunk(ChoiceDelta(delta.index, message, logprobs=scores))
            if delta.calls:
                calls = [CallDelta(place, call.id, call.function) for place, call in enumerate(delta.calls)]
                yield chunk(ChoiceDelta(delta.index, SaidDelta(tool_calls=calls)))
            if delta.finish:
                yield chunk(ChoiceDelta(delta.index, SaidDelta(), delta.finish))
    if request.tells_usage:
        yield chunk(usage=_usage(job, written))


def _usage(job: Job, written: int) -> Usage:
    return Usage(job.prompt_tokens, written, job.prompt_tokens + written)
