"""How an OpenAI-compatible server is asked to draw, and which of these fields it refuses.

Every setting is stated, also at its neutral value: `vllm serve`, SGLang and llama.cpp fill in what is left out, from
the model's own `generation_config.json` or from their defaults. Strict servers refuse what they do not know, and some
models what their makers fix; they say which field it is, in one of the forms read here.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

from hocket.engine.requests import Request

EXTENSIONS = ("top_k", "min_p", "repetition_penalty")
"""Fields that are not OpenAI's."""

NEUTRAL: Mapping[str, float] = {
    "top_p": 1.0,
    "top_k": -1,
    "min_p": 0.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
}
"""What leaves the distribution as it is."""

OPTIONAL = ("temperature", "seed", *NEUTRAL)
"""Fields that a question can do without."""

LONGEST, LONGEST_NOW = "max_tokens", "max_completion_tokens"
"""The limit of an answer, and what some models want it called."""


def drawing(request: Request, longest: int) -> dict[str, Any]:
    """The fields of a request that say how to draw at most `longest` tokens."""
    decoding = request.decoding
    body: dict[str, Any] = {
        "temperature": decoding.temperature,
        LONGEST: longest,
        # 31 bits of the key, for servers that keep their word about seeds.
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
        """Takes in fields; those of them that are new."""
        with self._lock:
            new = fields - self.fields
            self.fields |= fields
        return new


def without(body: Mapping[str, Any], refused: frozenset[str]) -> dict[str, Any]:
    """A question without the fields that are refused; the limit goes by its other name."""
    names = {LONGEST: LONGEST_NOW} if LONGEST in refused else {}
    return {names.get(name, name): value for name, value in body.items() if name not in refused or name in names}


def refused_fields(document: Any, words: str, body: Mapping[str, Any]) -> frozenset[str]:
    """Which fields of a question a server refuses, by what its error says.

    By the field `param` of the error or by the places (`loc`) that it lists, else by the names in its words, or in
    those of another server that it hands on. Of several those that are neutral go first: the others may do alone.
    """
    sent = [name for name in (*OPTIONAL, LONGEST) if name in body]
    texts, handed = " ".join(_places(document)), " ".join(_handed_on(document))
    fields = _named(texts, sent) or _named(_BEHIND.split(words)[0], sent) or _named(_BEHIND.split(handed)[0], sent)
    if LONGEST_NOW not in f"{texts} {words} {handed}":
        fields -= {LONGEST}  # It is out of bounds, not unknown.
    return _neutral(body, fields) or fields


def doubtful_fields(body: Mapping[str, Any], left_out: Set[str]) -> frozenset[str]:
    """What a server which refuses a question, and names no field, may not take: what is neutral, `EXTENSIONS` first."""
    return _neutral(body, EXTENSIONS) - left_out or _neutral(body, NEUTRAL) - left_out


def _neutral(body: Mapping[str, Any], names: Iterable[str]) -> frozenset[str]:
    return frozenset(name for name in names if name in NEUTRAL and body.get(name) == NEUTRAL[name])


_BEHIND = re.compile(
    r"""["']input["']\s*:|\bexpected one of\b|\bdid you mean\b"""
    r"|(?<!not )(?<!un)\b(?:supported|allowed|permitted|valid|accepted|available|known) "
    r"(?:fields|parameters|params|arguments|options|keys|values)\b",
    re.IGNORECASE,
)
"""Behind it some repeat the whole question, or list what they do know."""


def _handed_on(document: Any) -> Iterator[str]:
    """The words of a server behind the one that answered."""
    inner = document.get("error", document) if isinstance(document, Mapping) else None
    metadata = inner.get("metadata") if isinstance(inner, Mapping) else None
    if isinstance(metadata, Mapping) and isinstance(metadata.get("raw"), str):
        yield metadata["raw"]


def _named(text: str, names: list[str]) -> frozenset[str]:
    """Those of `names` that a text speaks of; `topK` and `top-k` are `top_k`."""
    forms = {name: name.replace("_", "[_ -]?") for name in names}
    return frozenset(
        name for name, form in forms.items() if re.search(rf"(?<![A-Za-z0-9_-]){form}(?![A-Za-z0-9_-])", text, re.I)
    )


def _places(document: Any) -> Iterator[str]:
    """The fields that an error points to."""
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
