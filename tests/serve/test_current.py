"""The nano model behind the endpoint: exact tokens and log-probs, batches, limits, and weights that change."""

from __future__ import annotations

import math
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch
from serve_cases import WAIT, error_of, events, hosted, joined, nano_backend, post
from tiny_runs import train
from transformers import AutoModelForCausalLM

from hocket.agents.tools.calculator import CALCULATOR
from hocket.apps.serve.bounds import Bounds
from hocket.apps.serve.current import CurrentBackend
from hocket.apps.serve.host import ApplicationHost
from hocket.core.keys import Key
from hocket.engine.local import LocalEngine
from hocket.engine.requests import Request
from hocket.nano import BASE
from hocket.types import Decoding

QUESTION = [{"role": "user", "content": "What is 12 + 5 - 3?"}]


@pytest.fixture(scope="module")
def backend() -> Iterator[CurrentBackend]:
    with nano_backend() as backend:
        yield backend


@pytest.fixture(scope="module")
def host(backend: CurrentBackend) -> Iterator[ApplicationHost]:
    with hosted(backend) as host:
        yield host


def asked(**more: Any) -> dict[str, Any]:
    return {"model": "base", "messages": QUESTION, "seed": 7, **more}


def test_tokens_are_those_the_engine_samples_at_once(backend: CurrentBackend, host: ApplicationHost):
    served = backend._served["base"]
    context = served.chat.opening(QUESTION)
    key = Key.of(0).derive("serve").derive("seed", 7).derive(0)
    (sample,) = LocalEngine(served.policy).sample([Request(context, Decoding(max_tokens=1024), key)])
    answer = post(host, asked(logprobs=True)).json()
    (choice,) = answer["choices"]
    assert choice["message"]["content"] == served.chat.reply_text(sample.tokens.tolist())
    told = [entry["logprob"] for entry in choice["logprobs"]["content"]]
    assert sample.logp is not None
    assert np.allclose(told, sample.logp[:-1], atol=1e-6)  # The end-of-turn token is no text.
    assert answer["usage"] == {
        "prompt_tokens": len(context),
        "completion_tokens": len(sample.tokens),
        "total_tokens": len(context) + len(sample.tokens),
    }


@pytest.mark.parametrize("settings", [{}, {"temperature": 0}, {"temperature": 1.5}, {"top_p": 0.8}, {"n": 3}])
def test_streams_say_what_whole_answers_say(host: ApplicationHost, settings: dict[str, Any]):
    whole = post(host, asked(logprobs=True, **settings)).json()["choices"]
    chunks = events(post(host, asked(logprobs=True, stream=True, **settings)))
    for choice in whole:
        assert joined(chunks, choice["index"]) == choice["message"]["content"]
        mine = [one for chunk in chunks for one in chunk["choices"] if one["index"] == choice["index"]]
        entries = [entry for one in mine for entry in ((one["logprobs"] or {}).get("content") or [])]
        assert entries == choice["logprobs"]["content"]
        assert [one["finish_reason"] for one in mine if one["finish_reason"]] == [choice["finish_reason"]]


def test_seeds_name_answers_and_requests_without_one_differ(host: ApplicationHost):
    def text(**more: Any) -> str:
        found = post(host, asked(temperature=2, max_tokens=12, **more)).json()["choices"][0]["message"]["content"]
        return str(found)

    assert text() == text()
    assert text() != text(seed=8)
    assert text(seed=None) != text(seed=None)


def test_alternatives_are_the_models_own(backend: CurrentBackend, host: ApplicationHost):
    choice = post(host, asked(logprobs=True, top_logprobs=5, temperature=0.7)).json()["choices"][0]
    chat = backend._served["base"].chat
    context = chat.opening(QUESTION)
    said = chat.encode(choice["message"]["content"])
    model = AutoModelForCausalLM.from_pretrained(str(BASE), dtype=torch.float64)
    with torch.no_grad():
        logits = model(torch.tensor([[*context, *said]])).logits[0]
    logp = torch.log_softmax(logits / 0.7, -1)
    for place, entry in enumerate(choice["logprobs"]["content"]):
        row = logp[len(context) - 1 + place]
        assert math.isclose(entry["logprob"], row[said[place]].item(), abs_tol=1e-4)
        best = row.topk(5)
        assert [top["token"] for top in entry["top_logprobs"]] == [chat.render([token]) for token in best.indices]
        assert np.allclose([top["logprob"] for top in entry["top_logprobs"]], best.values, atol=1e-3)


@pytest.mark.parametrize("cut", [{"top_p": 0.9}, {"top_k": 3}, {"min_p": 0.1}])
def test_alternatives_need_the_whole_distribution(host: ApplicationHost, cut: dict[str, Any]):
    refused = post(host, asked(logprobs=True, top_logprobs=2, **cut))
    assert refused.status_code == 400
    assert error_of(refused)["param"] == "top_logprobs"


def test_settings_of_vllm_count_and_neutral_ones_change_nothing(host: ApplicationHost):
    def text(**more: Any) -> str:
        return str(post(host, asked(max_tokens=12, **more)).json()["choices"][0]["message"]["content"])

    hot, likeliest = text(temperature=2), text(temperature=0)
    assert hot != likeliest
    assert text(temperature=2, top_k=1) == text(temperature=2, min_p=1) == likeliest
    neutral = {"top_k": -1, "min_p": 0, "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0}
    assert text(temperature=2, **neutral) == text(temperature=2, top_k=0) == hot
    refused = post(host, asked(repetition_penalty=1.05))
    assert (refused.status_code, error_of(refused)["param"]) == (400, "repetition_penalty")


def test_stop_strings_end_an_answer_before_them(host: ApplicationHost):
    whole = post(host, asked(temperature=0)).json()["choices"][0]["message"]["content"]
    stop = whole[3:6]
    cut = post(host, asked(temperature=0, stop=[stop, "nowhere"])).json()["choices"][0]
    assert cut["message"]["content"] == whole[: whole.index(stop)]
    assert cut["finish_reason"] == "stop"


def test_limits_of_tokens(host: ApplicationHost):
    for name in ("max_tokens", "max_completion_tokens"):
        answer = post(host, asked(**{name: 2})).json()
        assert answer["choices"][0]["finish_reason"] == "length"
        assert answer["usage"]["completion_tokens"] == 2


def test_the_servers_own_limit_of_tokens():
    with nano_backend(bounds=Bounds(tokens=3)) as backend, hosted(backend) as host:
        assert post(host, asked(max_tokens=50)).json()["usage"]["completion_tokens"] == 3
        assert post(host, asked()).json()["usage"]["completion_tokens"] == 3


def test_tools_are_shown_and_their_calls_read(host: ApplicationHost):
    called = post(host, asked(tools=[CALCULATOR], temperature=0)).json()["choices"][0]
    assert called["finish_reason"] == "tool_calls"
    (call,) = called["message"]["tool_calls"]
    assert call["function"]["name"] == "calculator"
    told = [*QUESTION, called["message"], {"role": "tool", "tool_call_id": call["id"], "content": "14"}]
    answer = post(host, {**asked(tools=[CALCULATOR], temperature=0), "messages": told}).json()["choices"][0]
    assert "14" in answer["message"]["content"]
    assert answer["finish_reason"] == "stop"
    streamed = events(post(host, asked(tools=[CALCULATOR], temperature=0, stream=True)))
    deltas = [choice["delta"] for chunk in streamed for choice in chunk["choices"]]
    (calls,) = [delta["tool_calls"] for delta in deltas if "tool_calls" in delta]
    assert calls[0]["function"] == call["function"]


def test_calls_that_arrive_together_are_sampled_together(backend: CurrentBackend, host: ApplicationHost):
    counts = backend._served["base"].engine.counts
    passes, decoded = counts.passes, counts.decoded
    with ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(lambda seed: post(host, asked(seed=seed)).json(), range(32)))
    assert all(answer["choices"][0]["finish_reason"] == "stop" for answer in answers)
    # One after the other they would take a pass per token at least.
    assert counts.passes - passes < (counts.decoded - decoded) / 3
    alone = [post(host, asked(seed=seed)).json()["choices"] for seed in range(3)]
    assert [answer["choices"] for answer in answers[:3]] == alone


def test_a_conversation_that_fills_the_context(host: ApplicationHost):
    refused = post(host, asked() | {"messages": [{"role": "user", "content": "1" * 2000}]})
    assert refused.status_code == 400
    assert error_of(refused)["code"] == "context_length_exceeded"


@pytest.mark.parametrize(
    "tool",
    [
        {"name": "t", "parameters": {"properties": 3}},
        {"name": "t", "parameters": {"properties": None}},
        {"name": "t"},
    ],
)
def test_what_the_template_cannot_show_is_the_callers_mistake(host: ApplicationHost, tool: dict[str, Any]):
    answer = post(host, asked(tools=[{"type": "function", "function": tool}], max_tokens=1))
    assert answer.status_code in (200, 400)
    assert answer.status_code == 200 or error_of(answer)["code"] == "invalid_messages"


def test_unknown_models_are_named(host: ApplicationHost):
    refused = post(host, asked() | {"model": "bas"})
    assert refused.status_code == 404
    assert "did you mean 'base'" in error_of(refused)["message"]
    assert [one["id"] for one in httpx.get(f"{host.address}/v1/models").json()["data"]] == ["base"]


def test_without_keys_only_this_machines_names_are_served(host: ApplicationHost):
    assert post(host, asked(max_tokens=1), host="evil.example").status_code == 403
    assert post(host, asked(max_tokens=1), host=f"localhost:{host.port}").status_code == 200


def test_keys():
    with nano_backend(keys=["one", "zwei"]) as backend, hosted(backend) as host:
        assert post(host, asked(max_tokens=1)).status_code == 401
        assert post(host, asked(max_tokens=1), authorization="Bearer ones").status_code == 401
        assert post(host, asked(max_tokens=1), authorization="Basic one").status_code == 401
        for key in ("one", "zwei"):
            assert post(host, asked(max_tokens=1), authorization=f"Bearer {key}").status_code == 200
        refused = post(host, asked(), host="evil.example", authorization="Bearer one")
        assert refused.status_code == 200  # A key says more than a name.


def test_a_newer_checkpoint_is_loaded_between_answers(tmp_path: Path):
    train(tmp_path, "long", "--reward", _spread(tmp_path), "--update.lr", "0.02", steps=2)
    run = tmp_path / "growing"
    shutil.copytree(tmp_path / "long", run)
    shutil.rmtree(run / "checkpoints")
    changed = threading.Event()
    with nano_backend(run, every=0.05, say=lambda words: changed.set()) as backend, hosted(backend) as host:
        ask = {**asked(temperature=0, logprobs=True), "model": "growing"}
        before = post(host, ask).json()
        assert before["system_fingerprint"] == "untrained"
        shutil.copytree(tmp_path / "long" / "checkpoints", run / "checkpoints")
        assert changed.wait(WAIT)
        after = post(host, ask).json()
        assert after["system_fingerprint"] == "step-000002"
        assert httpx.get(f"{host.address}/health").json()["weights"] == "step-000002"
        assert after["choices"] != before["choices"]
    with nano_backend(run) as backend, hosted(backend) as host:
        assert post(host, ask).json()["choices"] == after["choices"]


def _spread(folder: Path) -> str:
    file = folder / "reward.py"
    file.write_text(
        "def spread(completions, **columns):\n    return [float(sum(map(ord, t)) % 7) for t in completions]\n"
    )
    return f"{file}:spread"


TEAM = """
from hocket.agents.workflows import Outcome, Workflow

class Relay(Workflow):
    roles = ("asker", "answerer")

    async def play(self, scenario, team):
        question = await team.asker(scenario.prompt)
        answer = await team.answerer(question)
        return Outcome(rewards={"short": -float(len(answer.text))})
"""


def test_policies_of_a_team_are_models_of_their_own(tmp_path: Path):
    file = tmp_path / "team.py"
    file.write_text(TEAM)
    train(tmp_path, "team", "--workflow", f"{file}:Relay", "--roles.answerer.policy", "second", steps=1)
    with nano_backend(tmp_path / "team") as backend, hosted(backend) as host:
        assert sorted(backend.models()) == ["policy", "second"]
        for name in backend.models():
            assert post(host, asked(max_tokens=1) | {"model": name}).json()["model"] == name
        assert post(host, asked() | {"model": "team"}).status_code == 404


def test_large_conversations_are_not_kept(backend: CurrentBackend, host: ApplicationHost):
    chat = backend._served["base"].chat
    for number in range(3):
        post(host, asked() | {"messages": [{"role": "user", "content": str(number) * 50_000}]})
    assert sum(map(len, chat._rendered.values())) < 50_000
