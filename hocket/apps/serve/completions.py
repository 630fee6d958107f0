"""From the growth of answers to OpenAI's documents: one for all, or a stream of events."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import cast

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
    FinishReason,
    Logprobs,
    Said,
    SaidDelta,
    TokenLogprob,
    ToolCall,
    Usage,
)


def _deltas(job: Job) -> AsyncGenerator[Delta, None]:
    return cast(AsyncGenerator[Delta, None], job.deltas)


async def collected(job: Job, asked: ChatRequest, created: int) -> Completion:
    """The whole answers."""
    texts = [""] * asked.choices
    entries: list[list[TokenLogprob]] = [[] for _ in texts]
    calls: list[tuple[ToolCall, ...]] = [()] * asked.choices
    ends: list[FinishReason] = ["length"] * asked.choices
    written = 0
    async with aclosing(_deltas(job)) as deltas:
        async for delta in deltas:
            texts[delta.index] += delta.text
            entries[delta.index] += delta.entries
            calls[delta.index] += delta.calls
            ends[delta.index] = delta.finish or ends[delta.index]
            written += delta.tokens
    choices = [
        Choice(
            index=number,
            message=Said(text or None if called else text, tool_calls=list(called) if called else UNSET),
            finish_reason=end,
            logprobs=Logprobs(found) if asked.logprobs else None,
        )
        for number, (text, called, end, found) in enumerate(zip(texts, calls, ends, entries, strict=True))
    ]
    return Completion(job.id, created, job.model, job.weights, choices, _usage(job, written))


async def streamed(job: Job, asked: ChatRequest, created: int) -> AsyncGenerator[Chunk, None]:
    """The answers as events: who speaks, what is said piece by piece, why it ended, and the usage if asked for."""

    def chunk(*choices: ChoiceDelta, usage: Usage | None = None) -> Chunk:
        told = usage if asked.tells_usage else UNSET
        return Chunk(job.id, created, job.model, job.weights, list(choices), told)

    written = 0
    async with aclosing(_deltas(job)) as deltas:
        for number in range(asked.choices):
            yield chunk(ChoiceDelta(number, SaidDelta(role="assistant", content="")))
        async for delta in deltas:
            written += delta.tokens
            if delta.text or delta.entries:
                said = SaidDelta(content=delta.text)
                told = Logprobs(list(delta.entries)) if asked.logprobs else None
                yield chunk(ChoiceDelta(delta.index, said, logprobs=told))
            if delta.calls:
                calls = [CallDelta(place, call.id, call.function) for place, call in enumerate(delta.calls)]
                yield chunk(ChoiceDelta(delta.index, SaidDelta(tool_calls=calls)))
            if delta.finish:
                yield chunk(ChoiceDelta(delta.index, SaidDelta(), delta.finish))
    if asked.tells_usage:
        yield chunk(usage=_usage(job, written))


def _usage(job: Job, written: int) -> Usage:
    return Usage(job.prompt_tokens, written, job.prompt_tokens + written)
