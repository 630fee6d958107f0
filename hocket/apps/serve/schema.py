"""The endpoint's own description, an OpenAPI 3.1 document made from the types that check requests."""

from __future__ import annotations

from typing import Any

import msgspec

from hocket import __version__
from hocket.apps.serve import wire
from hocket.apps.serve.bounds import Bounds

_REF = "#/components/schemas/{name}"
_TYPES = (
    wire.ChatRequest,
    wire.Completion,
    wire.Chunk,
    wire.CompletionRequest,
    wire.TextCompletion,
    wire.EmbeddingRequest,
    wire.Embeddings,
    wire.Model,
    wire.Models,
    wire.Health,
    wire.RewardReport,
    wire.ErrorResponse,
)

_TEXT, _IDS = {"type": "string"}, {"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 0}}
_SEVERAL = {"type": "array", "minItems": 1, "maxItems": wire.PROMPTS}
_PROMPT = {"anyOf": [_TEXT, _IDS, {**_SEVERAL, "items": _TEXT}, {**_SEVERAL, "items": _IDS}]}
"""Prompts of one kind, which the types do not say."""

_WORDS = {
    400: "The request is malformed, asks for what there is not, or is too long for the model.",
    401: "A key is missing or wrong.",
    404: "There is no such model or episode.",
    408: "The body came too slowly.",
    410: "The episode has ended.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    429: "Too many requests are worked on.",
    504: "The request took too long.",
}


def openapi(*, episodes: bool, texts: bool, bounds: Bounds) -> dict[str, Any]:
    """The document; with `episodes` their addresses too, with `texts` those of completions and embeddings."""
    schemas, components = msgspec.json.schema_components(_TYPES, ref_template=_REF)
    named = dict(zip((kind.__name__ for kind in _TYPES), schemas, strict=True))
    components["ChatRequest"]["properties"]["messages"]["maxItems"] = bounds.messages
    components["CompletionRequest"]["properties"]["prompt"] = _PROMPT
    paths = {"/health": {"get": _operation("health", "Whether the server runs", named["Health"], (), open_to_all=True)}}
    for prefix, name in (("", ""), ("/e/{episode}", "OfEpisode")) if episodes else (("", ""),):
        inside = [_parameter("episode")] if prefix else []
        paths |= {
            f"{prefix}/v1/models": _path(inside, get=_operation(f"models{name}", "The models", named["Models"], ())),
            f"{prefix}/v1/models/{{model}}": _path(
                [*inside, _parameter("model")], get=_operation(f"model{name}", "A model", named["Model"], (404,))
            ),
            f"{prefix}/v1/chat/completions": _path(inside, post=_completion(name, named)),
        }
        if texts:
            paths |= {
                f"{prefix}/v1/completions": _path(inside, post=_text_completion(name, named)),
                f"{prefix}/v1/embeddings": _path(inside, post=_embedding(name, named)),
            }
    if episodes:
        paths["/e/{episode}/reward"] = _path([_parameter("episode")], post=_report(named))
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "hocket",
            "version": __version__,
            "description": "Chat completions, completions and embeddings of a policy, in OpenAI's form.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}],
    }


def _path(parameters: list[dict[str, Any]], **operations: dict[str, Any]) -> dict[str, Any]:
    return {**({"parameters": parameters} if parameters else {}), **operations}


def _parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def _operation(
    name: str, summary: str, answer: dict[str, Any], refusals: tuple[int, ...], *, open_to_all: bool = False
) -> dict[str, Any]:
    refused = () if open_to_all else (401, 404, 410, *refusals)
    operation = {
        "operationId": name,
        "summary": summary,
        "responses": {
            "200": {"description": "Done.", "content": {"application/json": {"schema": answer}}},
            **{str(status): _refusal(status) for status in sorted(set(refused))},
        },
    }
    return {**operation, "security": []} if open_to_all else operation


def _refusal(status: int) -> dict[str, Any]:
    schema = {"$ref": _REF.format(name="ErrorResponse")}
    return {"description": _WORDS[status], "content": {"application/json": {"schema": schema}}}


_BODY = (400, 408, 413, 415)


def _completion(name: str, named: dict[str, dict[str, Any]]) -> dict[str, Any]:
    operation = _operation(f"complete{name}", "Answers a conversation", named["Completion"], (*_BODY, 429, 504))
    # Each event of a stream holds a `Chunk`; the last one says [DONE].
    operation["responses"]["200"]["content"]["text/event-stream"] = {}
    operation["requestBody"] = _body(named["ChatRequest"])
    return operation


def _text_completion(name: str, named: dict[str, dict[str, Any]]) -> dict[str, Any]:
    operation = _operation(f"text{name}", "Continues prompts", named["TextCompletion"], (*_BODY, 429, 504))
    # Each event of a stream holds a `TextCompletion`; the last one says [DONE].
    operation["responses"]["200"]["content"]["text/event-stream"] = {}
    return operation | {"requestBody": _body(named["CompletionRequest"])}


def _embedding(name: str, named: dict[str, dict[str, Any]]) -> dict[str, Any]:
    operation = _operation(f"embed{name}", "The vectors of texts", named["Embeddings"], (*_BODY, 429, 504))
    return operation | {"requestBody": _body(named["EmbeddingRequest"])}


def _report(named: dict[str, dict[str, Any]]) -> dict[str, Any]:
    answer = {"type": "object", "properties": {"status": {"const": "ok"}}, "required": ["status"]}
    operation = _operation("report", "How the episode came out", answer, _BODY)
    operation["requestBody"] = _body(named["RewardReport"])
    return operation


def _body(schema: dict[str, Any]) -> dict[str, Any]:
    return {"required": True, "content": {"application/json": {"schema": schema}}}
