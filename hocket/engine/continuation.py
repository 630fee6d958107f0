"""Responses that engines outside this process write in parts, each part under other weights.

Such an engine knows no responses that have begun. So the beginning goes to it as context, under a seed of its own, and
is put before what comes back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hocket.engine.requests import Request, ResponseStart, Sample
from hocket.engine.stops import StopStrings


def remainder(request: Request, limit: int) -> Request:
    """The rest of a request, for at most `limit` response tokens in all, with what was written as its context."""
    if request.begun is None:
        return replace(request, decoding=replace(request.decoding, max_tokens=limit))
    count = len(request.begun.tokens)
    return replace(
        request,
        tokens=(*request.tokens, *request.begun.tokens.tolist()),
        prefix=request.prefix[count:],
        begun=None,
        key=request.key.derive("begun", count),
        decoding=replace(request.decoding, max_tokens=limit - count),
    )


def lengthened(
    begun: ResponseStart | None, tokens: Sequence[int], logp: Sequence[float], version: int
) -> ResponseStart | None:
    """The beginning of a response after another part, which `version` wrote; None if nothing is written."""
    if not tokens:
        return begun
    part = ResponseStart(
        np.array(tokens, np.int64), np.array(logp, np.float32), np.full(len(tokens), version, np.int64)
    )
    if begun is None:
        return part
    return ResponseStart(
        np.concatenate((begun.tokens, part.tokens)),
        np.concatenate((begun.logp, part.logp)),
        np.concatenate((begun.version, part.version)),
    )


def joined(request: Request, rest: Sample, stops: StopStrings) -> Sample:
    """The response: what it began with, and the sample of its `remainder`.

    An engine does not find a stop string that lies across the beginning of its part. The response then ends where the
    string does.
    """
    begun = request.begun
    if begun is None:
        return rest
    assert rest.logp is not None
    text = lengthened(begun, rest.tokens.tolist(), rest.logp.tolist(), rest.version)
    assert text is not None
    end = _crossing(text.tokens.tolist(), len(begun.tokens), request, stops)
    versions = text.version[:end]
    return Sample(
        tokens=text.tokens[:end],
        logp=text.logp[:end],
        finish=rest.finish if end is None else "stop",
        version=int(versions[-1]),
        forced=np.arange(len(versions)) < len(request.prefix),
        versions=versions if (versions != versions[0]).any() else None,
    )


def _crossing(tokens: list[int], start: int, request: Request, stops: StopStrings) -> int | None:
    """The number of tokens at which a stop string ends that began before token `start`; None if there is none."""
    wanted = request.decoding.stop
    reach = start + 4 * max(map(len, wanted), default=0) + 4
    for end in range(start + 1, min(len(tokens), reach) + 1 if wanted else 0):
        if stops.completed(tokens[:end], wanted, len(request.prefix)):
            return end
    return None
