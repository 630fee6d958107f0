"""The addresses of Tinker's API, in front of a `TinkerService`."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hocket.apps.serve.addresses import addressed, is_loopback
from hocket.apps.serve.bounds import Bounds
from hocket.apps.serve.event_loop import across
from hocket.apps.serve.refusals import Refusal
from hocket.apps.serve.tinker import wire
from hocket.apps.serve.tinker.service import Failed, RequestAnswer, TinkerService
from hocket.core.errors import HocketError

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

_LOG = logging.getLogger("hocket.apps.serve")

POLL_SECONDS = 20.0
"""How long a question for a result may wait; the client gives it 45."""

Handler = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Answers a request in JSON. Runs in the service's loop."""

_CONFIG = {"parallel_fwdbwd_chunks": False, "proto_compress_fwdbwd": False, "use_pyqwest_transport": False}
"""Requests come in their order, plain, over the client's default transport."""


def build_app(
    service: TinkerService, loop: asyncio.AbstractEventLoop, bounds: Bounds, *, keys: Sequence[str] = ()
) -> Starlette:
    """The application. Without `keys` it answers to this machine's own names alone."""
    from starlette.applications import Starlette
    from starlette.routing import Route

    house = _House(service, loop, bounds, [key.encode() for key in keys])
    posts: dict[str, Handler] = {
        "client/config": lambda fields: _CONFIG,
        "client/dynamic_config": lambda fields: {"sample_cancel_enabled": True},
        "telemetry": lambda fields: {"status": "accepted"},
        "create_session": lambda fields: {"type": "create_session", "session_id": service.open_session()},
        "session_heartbeat": lambda fields: service.heartbeat(fields["session_id"]),
        "create_model": lambda fields: _future(_create(service, fields)),
        "unload_model": lambda fields: _future(service.unload(fields["model_id"])),
        "get_info": lambda fields: service.info(fields["model_id"]),
        "weights_info": lambda fields: service.weights_info(fields["tinker_path"]),
        "optim_step": lambda fields: _future(_step(service, fields)),
        "save_weights": lambda fields: _future(_save(service, fields)),
        "save_weights_for_sampler": lambda fields: _future(_save_for_sampler(service, fields)),
        "load_weights": lambda fields: _future(_load(service, fields)),
        "create_sampling_session": lambda fields: _open_sampler(service, fields),
        "asample": lambda fields: _sample(service, fields),
        "cancel_future": lambda fields: service.cancel(fields["request_id"]),
    }
    reads: dict[str, Handler] = {
        "healthz": lambda fields: {"status": "ok"},
        "get_server_capabilities": lambda fields: {
            "supported_models": [
                {
                    "model_name": service.name,
                    "max_context_length": service.context,
                    "trainable": True,
                    "sampleable": True,
                }
            ]
        },
        "samplers/{name}": lambda fields: service.sampler_info(fields["name"]),
        "training_runs/{name}": lambda fields: service.training_run(fields["name"]),
        "training_runs/{name}/checkpoints": lambda fields: {"checkpoints": service.checkpoints(fields["name"])},
    }
    routes = [
        *(Route(f"/api/v1/{path}", house.plain(handler), methods=["POST"]) for path, handler in posts.items()),
        *(Route(f"/api/v1/{path}", house.plain(handler), methods=["GET"]) for path, handler in reads.items()),
        Route(
            "/api/v1/sessions/{name}/finish",
            house.plain(lambda fields: service.finish(fields["name"])),
            methods=["POST"],
        ),
        Route("/api/v1/forward_backward", house.careful(house.train), methods=["POST"]),
        Route("/api/v1/retrieve_future", house.careful(house.retrieve), methods=["POST"]),
    ]
    return Starlette(routes=routes)


class _House:
    """Bodies, keys and refusals."""

    def __init__(
        self, service: TinkerService, loop: asyncio.AbstractEventLoop, bounds: Bounds, keys: Sequence[bytes]
    ) -> None:
        self._service, self._loop, self._bounds, self._keys = service, loop, bounds, keys

    def plain(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        """An address whose requests and answers are JSON."""

        async def answered(request: Request) -> Response:
            fields = dict(request.path_params)
            if request.method == "POST":
                fields |= _document(await self._body(request))

            async def inside() -> Mapping[str, Any]:
                return handler(fields)

            return _json(await across(self._loop, inside))

        return self.careful(answered)

    async def train(self, request: Request) -> Response:
        body = await self._body(request)

        async def inside() -> Mapping[str, Any]:
            return _future(self._service.train(wire.read_pass(body)))

        return _json(await across(self._loop, inside))

    async def retrieve(self, request: Request) -> Response:
        from starlette.responses import Response

        name = str(_document(await self._body(request)).get("request_id"))

        async def inside() -> RequestAnswer | None:
            return await self._service.result(name, POLL_SECONDS)

        try:
            answer = await across(self._loop, inside)
        except Failed as failure:
            return _json({"error": str(failure), "category": failure.category})
        if answer is None:
            return _json({"type": "try_again", "request_id": name, "queue_state": "active"}, 408)
        if answer.proto is not None:
            return Response(answer.proto, media_type="application/x-protobuf")
        return _json(answer.document or {})

    def careful(self, endpoint: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        """An address that asks for a key, and tells refusals and mistakes as JSON."""

        async def answered(request: Request) -> Response:
            try:
                self._admit(request)
                return await endpoint(request)
            except Refusal as refusal:
                return _json({"detail": str(refusal)}, refusal.status)
            except KeyError as error:
                return _json({"detail": f"the request lacks the field {error.args[0]!r}"}, 422)
            except (HocketError, ValueError, TypeError) as error:
                return _json({"detail": str(error)}, 422)
            except Exception as error:
                _LOG.exception("a request could not be answered")
                return _json({"detail": f"the server made a mistake: {type(error).__name__}"}, 501)

        return answered

    def _admit(self, request: Request) -> None:
        if not self._keys:
            if not is_loopback(addressed(request.headers.get("host", "")) or ""):
                raise Refusal(403, "without a key this server answers to localhost only", code="wrong_host")
            return
        key_sent = request.headers.get("x-api-key", "").encode()
        right = [hmac.compare_digest(key, key_sent) for key in self._keys]  # All, so that time tells nothing.
        if not any(right):
            raise Refusal(401, "the key is wrong: set TINKER_API_KEY to a key of this server", code="invalid_api_key")

    async def _body(self, request: Request) -> bytes:
        content = bytearray()
        async for part in request.stream():
            content += part
            if len(content) > self._bounds.body_bytes:
                raise Refusal(413, f"a body may have {self._bounds.body_bytes} bytes", code="body_too_large")
        return bytes(content)


# ---------------------------------------------------------------- requests that have several fields


def _create(service: TinkerService, fields: Mapping[str, Any]) -> str:
    lora = fields.get("lora_config") or {}
    if (fields.get("optimizer_config") or {}).get("type", "adamw") != "adamw":
        raise Refusal(422, "the optimiser is AdamW here", code="bad_optimizer")
    parts = {part: bool(lora.get(f"train_{part}", True)) for part in ("attn", "mlp")}
    seed = lora.get("seed")
    return service.create(
        fields["session_id"], int(fields["model_seq_id"]), fields["base_model"], int(lora.get("rank", 32)), seed, parts
    )


def _step(service: TinkerService, fields: Mapping[str, Any]) -> str:
    if "adam_params" not in fields:
        raise Refusal(422, "the optimiser is AdamW here: send adam_params", code="bad_optimizer")
    return service.step(fields["model_id"], int(fields["seq_id"]), fields["adam_params"])


def _save(service: TinkerService, fields: Mapping[str, Any]) -> str:
    name = fields.get("path") or f"step-{fields['seq_id']}"
    return service.save(
        fields["model_id"],
        int(fields["seq_id"]),
        name,
        overwrite=bool(fields.get("overwrite")),
        metadata=fields.get("user_metadata"),
    )


def _save_for_sampler(service: TinkerService, fields: Mapping[str, Any]) -> str:
    return service.save_for_sampler(
        fields["model_id"],
        int(fields["seq_id"]),
        fields.get("path"),
        fields.get("sampling_session_seq_id"),
        fields.get("user_metadata"),
    )


def _load(service: TinkerService, fields: Mapping[str, Any]) -> str:
    optimiser = bool(fields["optimizer"])
    if fields.get("session_id") is not None:
        return service.create_from(
            fields["session_id"], int(fields["model_seq_id"]), fields["path"], optimiser=optimiser
        )
    return service.load(fields["model_id"], int(fields["seq_id"]), fields["path"], optimiser=optimiser)


def _open_sampler(service: TinkerService, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    number = int(fields["sampling_session_seq_id"])
    sampler = service.open_sampler(fields["session_id"], number, fields.get("base_model"), fields.get("model_path"))
    return {"type": "create_sampling_session", "sampling_session_id": sampler}


def _sample(service: TinkerService, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    request, sequences = service.sample(fields)
    return {"request_id": request, "sample_sequence_ids": sequences}


def _future(request: str) -> Mapping[str, Any]:
    return {"request_id": request}


def _document(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body or b"{}")
    except ValueError:
        raise Refusal(400, "the body is no JSON", code="invalid_body") from None
    if not isinstance(document, dict):
        raise Refusal(400, "the body is no JSON object", code="invalid_body")
    return document


def _json(document: Mapping[str, Any], status: int = 200) -> Response:
    from starlette.responses import Response

    return Response(json.dumps(document), status, media_type="application/json")
