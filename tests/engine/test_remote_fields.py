"""How servers are asked to draw, what strict ones refuse, and answers that were broken off."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny_models
from remote_server import Said, Server, chat_answer, token_answer

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.notices import listening
from hocket.engine.dialects import DIALECTS
from hocket.engine.remote import RemoteEngine
from hocket.engine.remote_fields import refused_fields
from hocket.engine.remote_http import Endpoint, EndpointError, Unfinished
from hocket.engine.remote_wire import read_text, read_tokens, text_body, tokens_body
from hocket.engine.requests import ContextFull, Request
from hocket.engine.server_engine import ServerEngine, ServerSettings
from hocket.types import Decoding

NEUTRAL = {"top_p": 1.0, "top_k": -1, "min_p": 0.0}
UNPUNISHED = {"presence_penalty": 0.0, "frequency_penalty": 0.0, "repetition_penalty": 1.0}


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def request(number: int = 0, **decoding: Any) -> Request:
    way = Decoding(**({"max_tokens": 8} | decoding))
    return Request((5, 6, 7), way, Key.of(number), messages=({"role": "user", "content": "q"},))


def endpoint(server: Server, **more: Any) -> Endpoint:
    return Endpoint(server.url, "m", **({"retries": 0, "timeout": 5.0, "backoff": 0.001} | more))


def engine(server: Server, **more: Any) -> RemoteEngine:
    return RemoteEngine(endpoint(server, **more), encode=lambda text: [1] * len(text))


# ---------------------------------------------------------------- what is asked


@pytest.mark.parametrize(
    ("decoding", "drawn"),
    [
        ({}, {"temperature": 1.0, **NEUTRAL}),
        ({"temperature": 0.0}, {"temperature": 0.0, **NEUTRAL}),
        ({"temperature": 0.0, "top_k": 4, "top_p": 0.5}, {"temperature": 0.0, **NEUTRAL}),
        ({"top_p": 0.5}, {"temperature": 1.0, "top_p": 0.5, "top_k": -1, "min_p": 0.0}),
        ({"temperature": 0.3, "top_k": 4, "min_p": 0.1}, {"temperature": 0.3, "top_p": 1.0, "top_k": 4, "min_p": 0.1}),
    ],
)
def test_every_setting_is_stated_so_that_a_model_s_own_never_counts(
    decoding: dict[str, Any], drawn: dict[str, float]
) -> None:
    ships = {"temperature": 0.7, "top_p": 0.8, "top_k": 20, "min_p": 0.05, "repetition_penalty": 1.05}  # As Qwen2.5's.
    for body in (text_body(request(**decoding), "m"), tokens_body(request(**decoding), "m", [2])):
        used = ships | {name: value for name, value in body.items() if name in ships}
        assert used == drawn | {"repetition_penalty": 1.0}
        assert {name: body[name] for name in UNPUNISHED} == UNPUNISHED
        assert body["max_tokens"] == 8


# ---------------------------------------------------------------- what is refused

REFUSALS: list[tuple[Any, set[str]]] = [
    # OpenAI, older and newer; its reasoning models.
    (
        {"error": {"message": "Unrecognized request arguments supplied: min_p, top_k", "param": None}},
        {"min_p", "top_k"},
    ),
    ({"error": {"message": "Unknown parameter: 'top_k'.", "param": "top_k", "code": "unknown_parameter"}}, {"top_k"}),
    (
        {
            "error": {
                "message": "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) "
                "value is supported.",
                "param": "temperature",
                "code": "unsupported_value",
            }
        },
        {"temperature"},
    ),
    (
        {
            "error": {
                "message": "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
                "'max_completion_tokens' instead.",
                "param": "max_tokens",
            }
        },
        {"max_tokens"},
    ),
    ({"error": {"message": "max_tokens is too large: 90000. This model supports at most 16384.", "param": ""}}, set()),
    # pydantic, as in Mistral's API and in vLLM with extras forbidden; both repeat what was sent.
    (
        {
            "detail": [
                {"type": "extra_forbidden", "loc": ["body", "top_k"], "msg": "Extra inputs", "input": {"seed": 1}}
            ]
        },
        {"top_k"},
    ),
    (
        {
            "object": "error",
            "message": "[{'type': 'extra_forbidden', 'loc': ('body', 'min_p'), 'msg': 'Extra inputs are not "
            "permitted', 'input': {'seed': 7, 'top_p': 1.0}}]",
            "code": 400,
        },
        {"min_p"},
    ),
    ({"message": {"detail": [{"loc": ["body", "repetition_penalty"], "msg": "no"}]}}, {"repetition_penalty"}),
    # Others.
    ({"error": {"message": "property 'top_k' is unsupported"}}, {"top_k"}),
    ([{"error": {"code": 400, "message": 'Invalid JSON payload. Unknown name "topK": Cannot find field.'}}], {"top_k"}),
    ({"error": "Argument not supported on this model: presencePenalty"}, {"presence_penalty"}),
    ({"error": {"message": "`temperature` and `top_p` cannot both be given"}}, {"top_p"}),
    ({"error": "unknown field `min_p`, expected one of `model`, `temperature`, `top_p`, `seed`"}, {"min_p"}),
    ({"error": {"message": "Unknown parameter: 'min_p'. Did you mean 'top_p'?"}}, {"min_p"}),
    ({"message": "min_p is not known. Supported parameters: temperature, top_p, seed"}, {"min_p"}),
    ({"message": "These parameters are not supported: top_k, min_p"}, {"top_k", "min_p"}),
    ({"error": "Input validation error: `top_p` must be > 0.0 and < 1.0"}, {"top_p"}),
    (
        {
            "error": {
                "message": "Provider returned error",
                "metadata": {"raw": '{"error":{"message":"Unsupported parameter: \'temperature\'"}}'},
            }
        },
        {"temperature"},
    ),
    ({"error": {"message": "messages: roles must alternate"}}, set()),
    ({"error": {"message": "no such setting top_kay, stop_p or atop_p"}}, set()),
]


@pytest.mark.parametrize(("document", "fields"), REFUSALS)
def test_refused_fields_are_read_from_the_errors_of_many_servers(document: Any, fields: set[str]) -> None:
    asked: list[Any] = []

    def reply(path: str, body: Any) -> Said:
        asked.append(set(body))
        return chat_answer("fine") if len(asked) > 1 else Said(document, 422 if "detail" in str(document) else 400)

    heard: list[str] = []
    with Server(reply).running() as server, listening(heard.append):
        if not fields:
            # What names no field may be about one that is no OpenAI field.
            (sample,) = engine(server).sample([request()])
            assert asked[0] - asked[1] == {"top_k", "min_p", "repetition_penalty"}
            return
        (sample,) = engine(server).sample([request()])
    assert (sample.text, sample.finish) == ("fine", "stop")
    assert asked[0] - asked[1] == fields
    assert asked[1] - asked[0] == ({"max_completion_tokens"} if fields == {"max_tokens"} else set())
    assert len(heard) == (0 if fields == {"max_tokens"} else 1)
    assert all(name in heard[0] for name in fields - {"max_tokens"})


def strict(path: str, body: Any) -> Said:
    """A server that names one unknown field at a time."""
    known = {"model", "messages", "max_tokens", "seed", "top_p", "presence_penalty", "frequency_penalty"}
    unknown = [name for name in body if name not in known]
    return Said({"error": {"message": f"Unknown parameter: '{unknown[0]}'."}}, 400) if unknown else chat_answer("4")


def test_a_strict_server_is_asked_without_what_it_refuses_and_it_is_said_once() -> None:
    heard: list[str] = []
    with Server(strict).running() as server, listening(heard.append):
        asking = engine(server)
        assert [sample.text for sample in asking.sample([request()])] == ["4"]
        assert len(server.asked) == 5  # temperature, top_k, min_p and repetition_penalty, one by one.
        asking.sample([request(1), request(2)])
        assert len(server.asked) == 7
    assert heard == [
        f"{server.url} refuses min_p, repetition_penalty, temperature, top_k: requests omit it from now on, and the "
        "server's own setting holds"
    ]


def test_without_a_listener_it_is_a_warning() -> None:
    with Server(strict).running() as server, pytest.warns(RuntimeWarning, match="refuses min_p, repetition_penalty"):
        engine(server).sample([request()])


def test_a_server_that_refuses_without_a_reason_may_be_strict() -> None:
    def mute(path: str, body: Any) -> Said:
        return Said({"error": "bad request"}, 400) if "top_k" in body else chat_answer("4")

    heard: list[str] = []
    with Server(mute).running() as server, listening(heard.append):
        asking = engine(server)
        asking.sample([request()])
        asking.sample([request(1)])
        assert [("top_k" in one.body) for one in server.asked] == [True, False, False]
    assert len(heard) == 1


def test_a_question_that_is_wrong_itself_is_refused_in_the_servers_words() -> None:
    heard: list[str] = []
    with (
        Server(lambda path, body: Said({"error": {"message": "roles must alternate"}}, 400)).running() as server,
        listening(heard.append),
        pytest.raises(EndpointError, match=r"refuses the question \(HTTP 400\): roles must alternate"),
    ):
        endpoint(server).ask("/chat/completions", text_body(request(), "m"), Key.of(0))
    assert heard == []


def test_a_cut_that_was_asked_for_is_not_dropped_by_a_guess() -> None:
    with (
        Server(lambda path, body: Said({"error": "no"}, 400)).running() as server,
        pytest.raises(EndpointError, match="HTTP 400"),
    ):
        endpoint(server).ask("/chat/completions", text_body(request(top_k=5), "m"), Key.of(0))
    assert [one.body["top_k"] for one in server.asked] == [5, 5, 5]


def test_neutral_penalties_are_left_out_where_no_field_is_named() -> None:
    def reply(path: str, body: Any) -> Said:
        punished = "presence_penalty" in body or "top_k" in body
        return (
            Said({"error": {"message": "Penalty is not enabled for this model"}}, 400) if punished else chat_answer("4")
        )

    with Server(reply).running() as server, listening(lambda sentence: None):
        assert endpoint(server).ask("/chat/completions", text_body(request(), "m"), Key.of(0)) == chat_answer("4").value
    assert server.asked[-1].body["temperature"] == 1.0


FULL = [
    [{"error": {"code": 400, "message": "The input token count (1200000) exceeds the maximum number of tokens"}}],
    {"error": {"message": "prompt is too long: 210000 tokens > 200000 maximum"}},
    {"error": {"message": "the request exceeds the available context size", "type": "exceed_context_size_error"}},
    {"error": {"message": "Requested tokens (5000) exceed context window of 4096"}},
    {"error": "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens"},
]


@pytest.mark.parametrize("document", FULL)
def test_a_full_context_is_known_from_the_words_of_many_servers(document: Any) -> None:
    with Server(lambda path, body: Said(document, 400)).running() as server, pytest.raises(ContextFull):
        endpoint(server).ask("/chat/completions", text_body(request(), "m"), Key.of(0))
    assert len(server.asked) == 1


def test_the_sampler_that_is_learnt_from_never_draws_otherwise(tmp_path: Path) -> None:
    policy = tiny_models.policy()

    def reply(path: str, body: Any) -> Said:
        if path != "/v1/completions":
            return Said({"results": []})
        return (
            Said({"error": {"message": "Unknown parameter: 'top_k'"}}, 400)
            if "top_k" in body
            else token_answer("", [], [])
        )

    with Server(reply).running() as server, warnings.catch_warnings():
        warnings.simplefilter("error")
        settings = ServerSettings(dtype="float32", folder=tmp_path / "handed")
        asking = ServerEngine([endpoint(server)], policy, dialect=DIALECTS["vllm-server"], settings=settings, stops=[1])
        with pytest.raises(
            ConfigurationError, match=r"without top_k it would draw by settings of its own.*learnt from"
        ):
            asking.sample([request()])


def test_names_are_read_whole() -> None:
    body = {"top_p": 1.0, "top_k": -1}
    assert refused_fields(None, "top_p_max is wrong", body) == frozenset()
    assert refused_fields(None, "top_p is wrong", body) == {"top_p"}
    assert refused_fields(None, "min_p is wrong", body) == frozenset(), "it was not sent"


# ---------------------------------------------------------------- how answers end

BROKEN: list[Any] = ["abort", "error", "content_filter", "tool_calls", "cancelled", "", None, 3, "stopped?"]


def answer(reason: Any) -> dict[str, Any]:
    choice = {"text": "The", "token_ids": [5], "logprobs": {"token_logprobs": [-0.1]}, "message": {"content": "The"}}
    return {"choices": [{**choice, "finish_reason": reason}]}


@pytest.mark.parametrize("read", [read_text, read_tokens])
@pytest.mark.parametrize("reason", BROKEN)
def test_what_is_no_end_is_not_taken_for_one(read: Callable[[Any], Any], reason: Any) -> None:
    with pytest.raises(Unfinished, match="no finish_reason" if reason is None else re.escape(repr(str(reason)))):
        read(answer(reason))


@pytest.mark.parametrize("read", [read_text, read_tokens])
def test_words_for_the_two_ends(read: Callable[[Any], Any]) -> None:
    for reason, end in (("stop", "stop"), ("STOP", "stop"), ("eos_token", "stop"), ("end_turn", "stop")):
        assert read(answer(reason))["finish"] == end
    for reason in ("length", "MAX_TOKENS", "model_length"):
        assert read(answer(reason))["finish"] == "length"


def test_a_missing_reason_is_no_end() -> None:
    whole = answer("stop")
    del whole["choices"][0]["finish_reason"]
    with pytest.raises(Unfinished, match="does not say why"):
        read_text(whole)


@pytest.mark.parametrize("reason", ["abort", None])
def test_an_answer_that_was_broken_off_is_asked_for_again(reason: Any) -> None:
    said = [Said(answer(reason)), Said(answer(reason)), chat_answer("whole")]
    with Server(lambda path, body: said.pop(0)).running() as server:
        (sample,) = engine(server, retries=2).sample([request()])
        assert (sample.text, len(server.asked)) == ("whole", 3)


def test_one_that_is_always_broken_off_fails_in_words_and_others_go_on() -> None:
    def reply(path: str, body: Any) -> Said:
        return Said(answer("abort")) if body["seed"] == Key.of(1).word >> 33 else chat_answer("whole")

    with Server(reply).running() as server:
        asking = engine(server, retries=1)
        assert asking.sample([request()])[0].text == "whole"
        with pytest.raises(EndpointError, match=r"failed 2 times: the server truncated the answer: .*'abort'"):
            asking.sample([request(1)])
