"""Completions and embeddings, through the official client and plain HTTP."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import openai
import pytest
from serve_cases import EchoBackend, error_of, events, hosted, nano_backend, post

from hocket.apps.serve.bounds import Bounds
from hocket.apps.serve.current import CurrentBackend
from hocket.apps.serve.host import ApplicationHost
from hocket.train.searching import mean_states


@pytest.fixture(scope="module")
def backend() -> Iterator[CurrentBackend]:
    with nano_backend(bounds=Bounds(tokens=64)) as found:
        yield found


@pytest.fixture(scope="module")
def host(backend: CurrentBackend) -> Iterator[ApplicationHost]:
    with hosted(backend) as found:
        yield found


@pytest.fixture(scope="module")
def client(host: ApplicationHost) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{host.address}/v1", api_key="none", max_retries=0)


def prompt_of(backend: CurrentBackend, question: str) -> tuple[str, list[int]]:
    """A question as the chat template shows it, as text and token ids."""
    chat = backend._served["base"].chat
    tokens = chat.opening([{"role": "user", "content": question}])
    return chat.render(tokens), list(tokens)


@pytest.fixture(scope="module")
def question(backend: CurrentBackend) -> tuple[str, list[int]]:
    return prompt_of(backend, "What is 2 + 2?")


def test_a_completion_of_the_templates_text_says_what_chat_says(client: Any, question: tuple[str, list[int]]) -> None:
    text, tokens = question
    settings: dict[str, Any] = {"model": "base", "temperature": 0, "max_tokens": 40}
    talk = client.chat.completions.create(**settings, messages=[{"role": "user", "content": "What is 2 + 2?"}])
    for prompt in (text, tokens, [text], [tokens]):
        found = client.completions.create(**settings, prompt=prompt)
        (choice,) = found.choices
        assert choice.text == talk.choices[0].message.content
        assert choice.finish_reason == "stop"
        assert found.object == "text_completion"
        assert found.id.startswith("cmpl-")
        assert found.usage == talk.usage
        assert choice.logprobs is None
    echoed = client.completions.create(**settings, prompt=tokens, echo=True)
    assert echoed.choices[0].text == text + talk.choices[0].message.content


def test_several_prompts_and_samples_are_numbered_by_prompt(client: Any, backend: CurrentBackend) -> None:
    prompts = [prompt_of(backend, f"What is {number} + 2?")[0] for number in (5, 70)]
    settings: dict[str, Any] = {"model": "base", "seed": 3, "max_tokens": 24}
    both = client.completions.create(**settings, prompt=prompts, n=2, echo=True)
    assert [choice.index for choice in both.choices] == [0, 1, 2, 3]
    assert [choice.text.startswith(prompts[choice.index // 2]) for choice in both.choices] == [True] * 4
    alone = client.completions.create(**settings, prompt=prompts[0], n=2)
    assert [choice.text for choice in alone.choices] == [c.text.removeprefix(prompts[0]) for c in both.choices[:2]]
    shortest = client.completions.create(model="base", prompt=prompts[0], temperature=0)
    assert shortest.usage.completion_tokens <= 16  # OpenAI's default.


@pytest.mark.parametrize("more", [{}, {"logprobs": 2}, {"logprobs": 0, "n": 2}, {"stop": "</"}, {"echo": True}])
def test_streams_give_whole_completions(client: Any, question: tuple[str, list[int]], more: dict[str, Any]) -> None:
    text, _ = question
    settings: dict[str, Any] = {"model": "base", "prompt": text, "seed": 5, "max_tokens": 30, **more}
    whole = client.completions.create(**settings)
    parts = list(client.completions.create(**settings, stream=True, stream_options={"include_usage": True}))
    assert parts[-1].usage == whole.usage
    for choice in whole.choices:
        own = [part for event in parts for part in event.choices if part.index == choice.index]
        assert "".join(part.text for part in own) == choice.text
        assert [part.finish_reason for part in own if part.finish_reason] == [choice.finish_reason]
        assert (choice.logprobs is not None) is ("logprobs" in more)
        for name in ("tokens", "token_logprobs", "text_offset", "top_logprobs") if choice.logprobs else ():
            column = [value for part in own if part.logprobs for value in getattr(part.logprobs, name) or ()]
            assert column == (getattr(choice.logprobs, name) or [])


def test_log_probs_of_a_completion(client: Any, question: tuple[str, list[int]]) -> None:
    found = client.completions.create(model="base", prompt=question[0], temperature=0, max_tokens=30, logprobs=3)
    (choice,) = found.choices
    scores = choice.logprobs
    assert "".join(scores.tokens) == choice.text
    assert scores.text_offset == [len("".join(scores.tokens[:place])) for place in range(len(scores.tokens))]
    for token, logp, likely in zip(scores.tokens, scores.token_logprobs, scores.top_logprobs, strict=True):
        assert logp <= 0
        assert max(likely.values()) == pytest.approx(likely[token])
        assert likely[token] == pytest.approx(logp, abs=1e-5)


REFUSED = {
    "suffix": ({"suffix": "x"}, "suffix"),
    "best of more": ({"best_of": 4}, "best_of"),
    "echo with log-probs": ({"echo": True, "logprobs": 1}, "echo"),
    "no prompt": ({"prompt": None}, "prompt"),
    "an empty prompt": ({"prompt": ""}, "prompt"),
    "texts and ids": ({"prompt": ["a", 1]}, "prompt"),
    "an unknown token": ({"prompt": [10**6]}, "prompt"),
    "too many": ({"prompt": ["a"] * 129}, "prompt"),
    "a long prompt": ({"prompt": [1] * 5000}, "prompt"),
    "alternatives of a part": ({"logprobs": 2, "top_p": 0.5}, "logprobs"),
    "a penalty": ({"presence_penalty": 1}, "presence_penalty"),
    "another model": ({"model": "gpt-4"}, "model"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_completions_refuse(host: ApplicationHost, case: str) -> None:
    changes, param = REFUSED[case]
    response = post(host, {"model": "base", "prompt": "a", **changes}, "/v1/completions")
    assert response.status_code == (404 if param == "model" else 400)
    assert error_of(response)["param"] == param


def test_embeddings_are_unit_vectors_of_mean_states(client: Any, backend: CurrentBackend) -> None:
    texts = ["What is 2 + 2?", "What is 2 + 3?", "<answer>4</answer>"]
    states = mean_states(backend._served["base"].policy, texts)
    expected = states / np.linalg.norm(states, axis=1, keepdims=True)
    for form in ({}, {"encoding_format": "float"}):  # The client's own default is base64.
        found = client.embeddings.create(model="base", input=texts, **form)
        assert [one.index for one in found.data] == [0, 1, 2]
        np.testing.assert_allclose([one.embedding for one in found.data], expected, atol=1e-6)
        assert found.usage.prompt_tokens == found.usage.total_tokens > 10
    (alone,) = client.embeddings.create(model="base", input=texts[1], encoding_format="float").data
    np.testing.assert_allclose(alone.embedding, expected[1], atol=1e-6)
    assert math.hypot(*alone.embedding) == pytest.approx(1)
    assert expected[0] @ expected[1] > expected[0] @ expected[2]


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"input": []}, "input"),
        ({"input": ["a", ""]}, "input"),
        ({"input": [1, 2]}, "input"),
        ({"input": "word " * 5000}, "input"),
        ({"dimensions": 7}, "dimensions"),
        ({"encoding_format": "int8"}, "encoding_format"),
        ({"model": "gpt-4"}, "model"),
    ],
)
def test_what_embeddings_refuse(host: ApplicationHost, changes: dict[str, Any], param: str) -> None:
    response = post(host, {"model": "base", "input": "a", **changes}, "/v1/embeddings")
    assert response.status_code == (404 if param == "model" else 400)
    assert str(error_of(response)["param"]).startswith(param)


def test_policies_without_states_are_refused(
    backend: CurrentBackend, host: ApplicationHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = dataclasses.replace(backend._served["base"], name="other", policy=SimpleNamespace())  # type: ignore
    monkeypatch.setitem(backend._served, "other", without)
    response = post(host, {"model": "other", "input": "a"}, "/v1/embeddings")
    assert (response.status_code, error_of(response)["code"]) == (400, "no_embeddings")
    assert "no hidden states" in error_of(response)["message"]


def test_agents_in_training_have_chat_alone() -> None:
    with hosted(EchoBackend(), episodes=True) as host:
        for address in ("/v1/completions", "/v1/embeddings", "/e/known/v1/completions"):
            assert error_of(post(host, {"model": "echo", "prompt": "a", "input": "a"}, address))["code"] == "not_found"


def test_a_stream_ends_as_chats_do(host: ApplicationHost, question: tuple[str, list[int]]) -> None:
    response = post(host, {"model": "base", "prompt": question[0], "stream": True, "seed": 1}, "/v1/completions")
    assert {event["object"] for event in events(response)} == {"text_completion"}
