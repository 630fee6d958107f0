"""The endpoint against its own description: schemathesis looks for requests that are not answered as described."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from serve_cases import EchoTexts, hosted

from hocket.apps.serve.bounds import Bounds
from hocket.apps.serve.schema import openapi

pytestmark = pytest.mark.global_rng

KEY = {"Authorization": "Bearer secret"}
BOUNDS = Bounds(messages=8)


schema = schemathesis.openapi.from_dict(openapi(episodes=True, texts=True, bounds=BOUNDS))


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with hosted(EchoTexts(key="secret"), BOUNDS, episodes=True) as host:
        assert msgspec.json.decode(httpx.get(f"{host.address}/openapi.json").content) == schema.raw_schema
        yield host.address


@schema.parametrize()
@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_every_request_is_answered_as_described(case: schemathesis.Case, address: str) -> None:
    case.call_and_validate(base_url=address, headers=KEY)


def test_the_description_names_the_checked_types_and_bounds():
    document = openapi(episodes=False, texts=False, bounds=Bounds(messages=7))
    chat = {"/health", "/v1/models", "/v1/models/{model}", "/v1/chat/completions"}
    assert set(document["paths"]) == chat
    whole = openapi(episodes=False, texts=True, bounds=Bounds())["paths"]
    assert set(whole) == {*chat, "/v1/completions", "/v1/embeddings"}
    assert document["components"]["schemas"]["ChatRequest"]["properties"]["messages"]["maxItems"] == 7
    assert msgspec.json.decode(msgspec.json.encode(document)) == document
