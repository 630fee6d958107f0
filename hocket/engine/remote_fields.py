"""The sampling fields of a request to an OpenAI-compatible server, and those that the server refuses.

Every setting is sent, also at its neutral value: `vllm serve`, SGLang and llama.cpp fill in missing ones, from the
model's `generation_config.json` or from their defaults. Strict servers refuse unknown fields, and some models refuse
settings that their makers fix. Their errors name the field, in one of the forms read here.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

from hocket.engine.requests import Request

EXTENSIONS = ("top_k", "min_p", "repetition_penalty")
"""Fields beyond OpenAI's."""

NEUTRAL: Mapping[str, float] = {
    "top_p": 1.0,
    "top_k": -1,
    "min_p": 0.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
}
"""The values that leave the distribution unchanged."""

OPTIONAL = ("temperature", "seed", *NEUTRAL)
"""Fields that a request can omit."""

LONGEST, LONGEST_NOW = "max_tokens", "max_completion_tokens"
"""The limit of an answer, and its other name, which some models require."""


def drawing(request: Request, longest: int) -> dict[str, Any]:
    """The sampling fields of a request for at most `longest` tokens."""
    decoding = request.decoding
    body: dict[str, Any] = {
        "temperature": decoding.temperature,
        LONGEST: longest,
        # 31 bits of the key, for servers that support seeds.
        "seed": request.key.word >> 33,
        **NEUTRAL,
    }
    if decoding.stop:
        body["stop"] = list(decoding.stop)
    if decoding.greedy:
        return body
    cut = {"top_p": decoding.top_p, "min_p": decoding.min_p}
    return body | cut | ({} if decoding.top_k is None else {"top_k": decoding.top_k})


class RefusedFields:
    """The fields that a server has refused so far; safe between threads."""

    def __init__(self) -> None:
        self.fields: frozenset[str] = frozenset()
        self._lock = threading.Lock()

    def add(self, fields: frozenset[str]) -> frozenset[str]:
        """Adds fields; returns those that are new."""
        with self._lock:
            new = fields - self.fields
            self.fields |= fields
        return new


def without(body: Mapping[str, Any], refused: frozenset[str]) -> dict[str, Any]:
    """A request without the refused fields; the limit gets its other name if its first one is refused."""
    names = {LONGEST: LONGEST_NOW} if LONGEST in refused else {}
    return {names.get(name, name): value for name, value in body.items() if name not in refused or name in names}


def refused_fields(document: Any, words: str, body: Mapping[str, Any]) -> frozenset[str]:
    """The fields of a request that a server refuses, according to its error.

    The error's field `param` or its list of places (`loc`) names them, else its text, or that of another server that it
    quotes. Of several fields the neutral ones are dropped first: the others may be accepted then.
    """
    sent = [name for name in (*OPTIONAL, LONGEST) if name in body]
    texts, handed = " ".join(_places(document)), " ".join(_handed_on(document))
    fields = _named(texts, sent) or _named(_BEHIND.split(words)[0], sent) or _named(_BEHIND.split(handed)[0], sent)
    if LONGEST_NOW not in f"{texts} {words} {handed}":
        fields -= {LONGEST}  # Its value is out of bounds; the field is known.
    return _neutral(body, fields) or fields


def doubtful_fields(body: Mapping[str, Any], left_out: Set[str]) -> frozenset[str]:
    """The fields to drop when a server refuses a request and names no field: neutral ones, `EXTENSIONS` first."""
    return _neutral(body, EXTENSIONS) - left_out or _neutral(body, NEUTRAL) - left_out


def _neutral(body: Mapping[str, Any], names: Iterable[str]) -> frozenset[str]:
    return frozenset(name for name in names if name in NEUTRAL and body.get(name) == NEUTRAL[name])


_BEHIND = re.compile(
    r"""["']input["']\s*:|\bexpected one of\b|\bdid you mean\b"""
    r"|(?<!not )(?<!un)\b(?:supported|allowed|permitted|valid|accepted|available|known) "
    r"(?:fields|parameters|params|arguments|options|keys|values)\b",
    re.IGNORECASE,
)
"""After these words some servers repeat the whole request, or list the fields that they know."""


def _handed_on(document: Any) -> Iterator[str]:
    """The error text of a server behind the one that answered."""
    inner = document.get("error", document) if isinstance(document, Mapping) else None
    metadata = inner.get("metadata") if isinstance(inner, Mapping) else None
    if isinstance(metadata, Mapping) and isinstance(metadata.get("raw"), str):
        yield metadata["raw"]


def _named(text: str, names: list[str]) -> frozenset[str]:
    """Those of `names` that a text mentions; `topK` and `top-k` are `top_k`."""
    forms = {name: name.replace("_", "[_ -]?") for name in names}
    return frozenset(
        name for name, form in forms.items() if re.search(rf"(?<![A-Za-z0-9_-]){form}(?![A-Za-z0-9_-])", text, re.I)
    )


def _places(document: Any) -> Iterator[str]:
    """The fields that an error lists."""
    if isinstance(document, list):
        for item in document:
            yield from _places(item)
    elif isinstance(document, Mapping):
        if isinstance(document.get("param"), str):
            yield document["param"]
        if isinstance(document.get("loc"), list):
            yield from map(str, document["loc"])
        for name in ("error", "detail", "errors", "message"):
            if isinstance(document.get(name), (list, Mapping)):
                yield from _places(document[name])
