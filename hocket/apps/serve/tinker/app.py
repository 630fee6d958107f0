"""The addresses of Tinker's API, in front of a `TinkerService`."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from hocket.apps.serve.addresses import addressed, is_loopback
from hocket.apps.serve.bounds import Bounds
from hocket.apps.serve.event_loop import across
from hocket.apps.serve.refusals import Refusal
from hocket.apps.serve.tinker import bodies, wire
from hocket.apps.serve.tinker.service import Failed, RequestAnswer, TinkerService
from hocket.apps.serve.wire import read_request
from hocket.core.errors import HocketError

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

Body = TypeVar("Body")

_LOG = logging.getLogger("hocket.apps.serve")

POLL_SECONDS = 20.0
"""How long a question for a result may wait; the client gives it 45."""

_CONFIG = {"parallel_fwdbwd_chunks": False, "proto_compress_fwdbwd": False, "use_pyqwest_transport": False}
"""Requests come in their order, plain, over the client's default transport."""


def build_app(
    service: TinkerService, loop: asyncio.AbstractEventLoop, bounds: Bounds, *, keys: Sequence[str] = ()
) -> Starlette:
    """The application. Without `keys` it answers to this machine's own names alone."""
    from starlette.applications import Starlette
    from starlette.routing import Route

    house = _House(service, loop, bounds, [key.encode() for key in keys])
    posts = [
        house.post("client/config", bodies.AnyBody, lambda body: _CONFIG),
        house.post("client/dynamic_config", bodies.AnyBody, lambda body: {"sample_cancel_enabled": True}),
        house.post("telemetry", bodies.AnyBody, lambda body: {"status": "accepted"}),
        house.post("create_session", bodies.AnyBody, lambda body: service.open_session()),
        house.post("session_heartbeat", bodies.SessionBody, lambda body: service.heartbeat(body.session_id)),
        house.post("create_model", bodies.CreateModel, lambda body: _future(service.create(body))),
        house.post("unload_model", bodies.ModelBody, lambda body: _future(service.unload(body.model_id))),
        house.post("get_info", bodies.ModelBody, lambda body: service.info(body.model_id)),
        house.post("weights_info", bodies.CheckpointBody, lambda body: service.weights_info(body.tinker_path)),
        house.post("optim_step", bodies.OptimStep, lambda body: _future(service.step(body))),
        house.post("save_weights", bodies.SaveWeights, lambda body: _future(service.save(body))),
        house.post(
            "save_weights_for_sampler",
            bodies.SaveWeightsForSampler,
            lambda body: _future(service.save_for_sampler(body)),
        ),
        house.post("load_weights", bodies.LoadWeights, lambda body: _future(service.load(body))),
        house.post("create_sampling_session", bodies.CreateSamplingSession, service.open_sampler),
        house.post("asample", bodies.SampleBody, service.sample),
        house.post("cancel_future", bodies.FutureBody, lambda body: service.cancel(body.request_id)),
    ]
    reads: dict[str, Callable[[str], Mapping[str, Any]]] = {
        "healthz": lambda name: {"status": "ok"},
        "get_server_capabilities": lambda name: service.capabilities(),
        "samplers/{name}": service.sampler_info,
        "training_runs/{name}": service.training_run,
        "training_runs/{name}/checkpoints": lambda name: {"checkpoints": service.checkpoints(name)},
    }
    routes = [
        *posts,
        *(Route(f"/api/v1/{path}", house.named(handler), methods=["GET"]) for path, handler in reads.items()),
        Route("/api/v1/sessions/{name}/finish", house.named(service.finish), methods=["POST"]),
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

    def post(self, path: str, kind: type[Body], handler: Callable[[Body], Mapping[str, Any]]) -> Route:
        """An address whose requests are such bodies, and whose answers are JSON."""
        from starlette.routing import Route

        async def answered(request: Request) -> Response:
            body = read_request(await self._body(request), kind)
            return await self._as_json(lambda: handler(body))

        return Route(f"/api/v1/{path}", self.careful(answered), methods=["POST"])

    def named(self, handler: Callable[[str], Mapping[str, Any]]) -> Callable[[Request], Awaitable[Response]]:
        """An address that is asked about the name in it."""

        async def answered(request: Request) -> Response:
            return await self._as_json(lambda: handler(request.path_params.get("name", "")))

        return self.careful(answered)

    async def _as_json(self, work: Callable[[], Mapping[str, Any]]) -> Response:
        """What comes of work in the service's loop, as JSON."""

        async def inside() -> Mapping[str, Any]:
            return work()

        return _json(await across(self._loop, inside))

    async def train(self, request: Request) -> Response:
        body = await self._body(request)
        return await self._as_json(lambda: _future(self._service.train(wire.read_pass(body))))

    async def retrieve(self, request: Request) -> Response:
        from starlette.responses import Response

        name = read_request(await self._body(request), bodies.FutureBody).request_id

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
            except (HocketError, ValueError) as error:
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


def _future(request: str) -> Mapping[str, Any]:
    return {"request_id": request}


def _json(document: Mapping[str, Any], status: int = 200) -> Response:
    from starlette.responses import Response

    return Response(json.dumps(document), status, media_type="application/json")
