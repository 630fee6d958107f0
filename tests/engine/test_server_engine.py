"""A policy trained here and sampled from servers: weights follow, and what servers do wrong is caught.

The fast tests script a server. The slow ones start a real one; set HOCKET_VLLM_PYTHON to the python of an environment
with vLLM.
"""

from __future__ import annotations

import asyncio
import base64
import pickle
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from remote_server import Said, Server, token_answer
from safetensors.torch import load_file
from tiny_runs import TINY
from vllm_server import real, serving
from vllm_stand_in import StandInModel

from hocket import tasks
from hocket.agents.workflows.chat import Chat
from hocket.agents.workflows.player import TextPlayer
from hocket.agents.workflows.single import SingleTurn
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.evaluating import evaluate_detached
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.engine import device_handles, server_engine
from hocket.engine.barrier import Barrier
from hocket.engine.dialects import DIALECTS
from hocket.engine.handover import engine_state, write_base, write_weights
from hocket.engine.remote import RemoteEngine
from hocket.engine.remote_http import Endpoint, EndpointError
from hocket.engine.requests import Request, Sample
from hocket.engine.server_engine import ServerEngine, ServerSettings
from hocket.nano import BASE
from hocket.policies.causal_lm import CausalLM
from hocket.policies.settings import LoraSettings
from hocket.train.config import configure
from hocket.train.engines import Engines
from hocket.train.journal import Journal
from hocket.train.trainer import Trainer
from hocket.types import Decoding, Quantity, Scenario, Trajectory, Turn


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def nano(where: Path = BASE, **more: Any) -> CausalLM:
    return CausalLM.from_pretrained(str(where), **{"name": "policy", "key": Key.of(0)} | more)


ROUNDED = 3e-5
"""Nats between two ways to apply an adapter: in fp32 one pass alone is up to 2.2e-5 from float64, by the processor."""


def adapted(**more: Any) -> CausalLM:
    """Nano with an adapter of rank 4 that does something."""
    policy = nano(lora=LoraSettings(rank=4, targets=("q_proj", "down_proj")), **more)
    moved(policy, 0.02)
    policy.version = 0
    return policy


def moved(policy: CausalLM, by: float = 0.05) -> None:
    """Changes all weights, as a learner's step would."""
    generator = torch.Generator().manual_seed(policy.version)
    with torch.no_grad():
        for parameter in filter(lambda one: one.requires_grad, policy.module.parameters()):
            parameter.add_(by * torch.randn(parameter.shape, generator=generator))
    policy.version += 1


def own_logp(policy: CausalLM, context: Any, tokens: Any) -> np.ndarray:
    turn = Turn("policy", "policy", np.array(context), np.array(tokens))
    batch = pack([Trajectory(Scenario("s"), [turn])])
    now = evaluate_detached(policy, batch, {Quantity.LOGP}, torch.arange(batch.decisions))
    return now.logp.numpy()


def engine(urls: str | list[str], policy: CausalLM, folder: Path, **more: Any) -> ServerEngine:
    where = [urls] if isinstance(urls, str) else urls
    kept = {name: more.pop(name) for name in ("journal",) if name in more}
    patience = {"timeout": more.pop("timeout", 60.0), "retries": 0, "backoff": 0.0, "concurrency": 16}
    return ServerEngine(
        [Endpoint(url, "nano", **patience) for url in where],
        policy,
        dialect=DIALECTS[more.pop("kind", "vllm-server")],
        settings=ServerSettings(**{"dtype": "float32", "folder": folder} | more),
        stops=Chat(policy.tokenizer).stops,
        **kept,
    )


def request(policy: CausalLM, number: int) -> Request:
    context = Chat(policy.tokenizer).opening(({"role": "user", "content": "12+7"},))
    return Request(context, Decoding(max_tokens=24), Key.of(number))


# ---------------------------------------------------------------- a scripted server


LOADING = threading.Lock()
"""transformers loads one model at a time."""


class Scripted:
    """Says always the same, at the log-probs of the weights that it was last given.

    Attributes:
        calls: paths in order. bodies: of the last call of each path. faults: answers to give first, by path.
        stale: keeps its first weights. gate: while it is not set, answers wait; a pause that aborts breaks them off
            after two tokens.
    """

    def __init__(self, *, stale: bool = False, faults: Mapping[str, list[Said]] | None = None) -> None:
        self.policy = nano()
        self.base: dict[str, torch.Tensor] = {}
        self.stale, self.faults = stale, {name: list(said) for name, said in (faults or {}).items()}
        self.calls: list[str] = []
        self.bodies: dict[str, Any] = {}
        self.tokens = [32, 33, 34, 35, 1]
        self.gate, self.waiting = threading.Event(), threading.Semaphore(0)
        self.aborted = False
        self.gate.set()

    def __call__(self, path: str, body: Any) -> Said:
        self.calls.append(path)
        self.bodies[path] = body
        if self.faults.get(path):
            return self.faults[path].pop(0)
        if path.startswith("/pause") or path == "/pause_generation":
            self.aborted = "abort" in path or body.get("mode") == "abort"
            self.gate.set()
        if path == "/collective_rpc":
            assert body["method"] == "reload_weights"
            self._load(body["kwargs"]["weights_path"])
        if path == "/update_weights_from_disk":
            self._load(body["model_path"])
        if path.endswith("/load_lora_adapter"):
            model = StandInModel()
            model._policy, model._base = self.policy, self.base or None
            model.adapt(body["lora_path"], 0)
            self.base = model._base or {}
        if path == "/v1/completions":
            tokens, logp, finish = self._written(body["prompt"], body["max_tokens"])
            return token_answer("", tokens, logp, finish)
        if path == "/generate":
            tokens, logp, finish = self._written(body["input_ids"], body["sampling_params"]["max_new_tokens"])
            places = [[value, token, None] for value, token in zip(logp, tokens, strict=True)]
            meta = {"finish_reason": {"type": finish}, "output_token_logprobs": places}
            return Said({"text": "", "output_ids": tokens, "meta_info": meta})
        return Said({"success": True})

    def _load(self, folder: str) -> None:
        if not self.stale:
            with LOADING:
                self.policy = nano(Path(folder))

    def _written(self, prompt: list[int], longest: int) -> tuple[list[int], list[float], str]:
        before = self.policy
        tokens, finish = self.tokens[:longest], "stop" if longest >= len(self.tokens) else "length"
        if not self.gate.is_set():
            self.waiting.release()
            self.gate.wait(5)
            if self.aborted:
                tokens, finish = tokens[:2], "abort"
        return tokens, own_logp(before, prompt, tokens).tolist(), finish


@contextmanager
def scripted(count: int = 1, **how: Any) -> Iterator[tuple[list[Scripted], list[str]]]:
    """Servers and their addresses."""
    with ExitStack() as stack:
        answers = [Scripted(**how) for _ in range(count)]
        yield answers, [stack.enter_context(Server(one).running()).url for one in answers]


def test_weights_follow_the_policy_once_per_version(tmp_path: Path) -> None:
    policy = nano()
    with scripted() as ((answers,), urls):
        asking = engine(urls, policy, tmp_path)
        for version in range(2):

            async def both() -> list[Sample]:
                return await asyncio.gather(*(asking.submit(request(policy, number)) for number in range(3)))

            for sample in asyncio.run(both()):
                assert sample.version == version
                assert sample.logp is not None
                np.testing.assert_allclose(
                    sample.logp, own_logp(policy, request(policy, 0).tokens, sample.tokens), atol=1e-5
                )
            moved(policy)
    handover = ["/pause?mode=wait", "/collective_rpc", "/reset_prefix_cache", "/resume"]
    assert answers.calls == (handover + ["/v1/completions"] * 4) * 2, "one completion is the comparison"
    assert asking.gap < 1e-5


def test_a_server_that_keeps_old_weights_is_caught(tmp_path: Path) -> None:
    policy = nano()
    with scripted(stale=True) as (_, urls):
        asking = engine(urls, policy, tmp_path)
        asking.sample([request(policy, 0)])
        moved(policy)
        with pytest.raises(ConfigurationError, match=r"differ from the policy's by .* nats \(tolerance 0.001\)"):
            asking.sample([request(policy, 0)])


# ---------------------------------------------------------------- adapters, precision, handles, sleep


@pytest.mark.parametrize("kind", ["vllm-server", "sglang-server"])
def test_an_adapter_goes_as_an_adapter(kind: str, tmp_path: Path) -> None:
    policy = adapted()
    with scripted() as ((answers,), urls):
        asking = engine(urls, policy, tmp_path, kind=kind)
        for version in range(2):
            (sample,) = asking.sample([request(policy, 0)])
            assert sample.version == version
            assert sample.logp is not None
            np.testing.assert_allclose(
                sample.logp, own_logp(policy, request(policy, 0).tokens, sample.tokens), atol=ROUNDED
            )
            moved(policy)
    path = "/v1/completions" if kind == "vllm-server" else "/generate"
    assert not [call for call in answers.calls if "pause" in call or "collective" in call or "disk" in call]
    named = answers.bodies[path]["model" if kind == "vllm-server" else "lora_path"]
    assert named.startswith("policy-")
    assert named.endswith("-1")
    load = next(body for call, body in answers.bodies.items() if call.endswith("/load_lora_adapter"))
    gone = next(body for call, body in answers.bodies.items() if call.endswith("/unload_lora_adapter"))
    assert load["lora_name"] == named
    assert gone["lora_name"] == named[:-1] + "0"
    size = sum(file.stat().st_size for file in tmp_path.rglob("*.safetensors"))
    numbers = sum(one.numel() for one in policy.module.parameters() if one.requires_grad)
    assert size < 4 * numbers + 20_000, "nothing but the adapter is written"


def test_dora_and_those_who_wish_are_merged(tmp_path: Path) -> None:
    dora = nano(lora=LoraSettings(rank=4, dora=True))
    assert engine("http://127.0.0.1:1/v1", dora, tmp_path).rank is None
    policy = adapted()
    with scripted() as ((answers,), urls):
        asking = engine(urls, policy, tmp_path, merged=True)
        asking.sample([request(policy, 0)])
    assert "/collective_rpc" in answers.calls
    assert asking.gap < ROUNDED


def test_weights_are_written_in_the_precision_that_is_served(tmp_path: Path) -> None:
    policy = adapted()
    write_weights(policy, tmp_path / "merged", "bfloat16")
    write_base(policy, tmp_path / "base", "bfloat16")
    state, base = engine_state(policy, "bfloat16"), nano().model.state_dict()
    for folder, expected in (("merged", state), ("base", base)):
        stored = {}
        for file in (tmp_path / folder).glob("*.safetensors"):
            stored |= load_file(file)
        assert {value.dtype for value in stored.values()} == {torch.bfloat16}
        assert stored.keys() == expected.keys()
        assert all(torch.equal(value, expected[name].bfloat16()) for name, value in stored.items()), folder


def test_handles_to_memory_of_the_device_take_the_four_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = nano()
    monkeypatch.setattr(
        device_handles, "reduce_tensor", lambda tensor: (None, (tuple(tensor.shape), float(tensor.sum())))
    )

    @contextmanager
    def on_device(policy: CausalLM, dtype: Any) -> Iterator[dict[str, Any]]:
        yield device_handles.described(engine_state(policy, dtype), "GPU-1")

    monkeypatch.setattr(server_engine, "device_handles", on_device)
    with scripted() as ((answers,), urls):
        engine(urls, policy, tmp_path, handles=True).sample([request(policy, 0)])
    names = ["init_weight_transfer_engine", "start_weight_update", "update_weights", "finish_weight_update"]
    calls = [*(f"/{name}" for name in names), "/reset_prefix_cache"]
    assert answers.calls[:7] == ["/pause?mode=wait", *calls, "/resume"]
    update, state = answers.bodies["/update_weights"]["update_info"], engine_state(policy, "float32")
    handles = pickle.loads(base64.b64decode(update.pop("ipc_handles_pickled")))
    assert handles == [{"GPU-1": (tuple(value.shape), float(value.sum()))} for value in state.values()]
    assert update == {
        "names": list(state),
        "dtype_names": ["float32"] * len(state),
        "shapes": [list(value.shape) for value in state.values()],
    }
    assert "lm_head.weight" in state
    monkeypatch.undo()
    with pytest.raises(ConfigurationError, match="only memory of a CUDA device has handles"), scripted() as (_, urls):
        engine(urls, policy, tmp_path, handles=True).sample([request(policy, 0)])


def test_a_server_sleeps_while_the_policy_learns(tmp_path: Path) -> None:
    for policy, level in ((nano(), 2), (adapted(), 1)):
        with scripted() as ((answers,), urls):
            asking = engine(urls, policy, tmp_path, sleeps=True)
            asking.rest()
            assert not answers.calls, "it has no weights yet"
            asking.sample([request(policy, 0)])
            before = len(answers.calls)
            asking.rest()
            moved(policy)
            asking.sample([request(policy, 0)])
            after = [call for call in answers.calls[before:] if "completions" not in call]
        weights, pages = after.index("/wake_up?tags=weights"), after.index("/wake_up?tags=kv_cache")
        load = after.index("/collective_rpc" if level == 2 else "/v1/load_lora_adapter")
        assert after[0] == f"/sleep?level={level}"
        assert weights < load < pages


# ---------------------------------------------------------------- SGLang


def test_sglang_is_asked_in_its_own_words(tmp_path: Path) -> None:
    policy = nano()
    with scripted() as ((answers,), urls):
        asking = engine(urls, policy, tmp_path, kind="sglang-server")
        (first,) = asking.sample([request(policy, 0)])
        moved(policy)
        (second,) = asking.sample([request(policy, 0)])
    assert (first.version, second.version) == (0, 1)
    assert asking.gap < 1e-5
    handover = ["/pause_generation", "/update_weights_from_disk", "/continue_generation", "/generate", "/generate"]
    assert answers.calls == handover * 2
    asked = answers.bodies["/generate"]
    assert asked["return_logprob"] is True
    assert asked["sampling_params"] == {
        "temperature": 1.0,
        "max_new_tokens": 24,
        "sampling_seed": Key.of(0).word >> 33,
        "top_p": 1.0,
        "top_k": -1,
        "min_p": 0.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "repetition_penalty": 1.0,
        "stop_token_ids": list(Chat(policy.tokenizer).stops),
        "skip_special_tokens": False,
        "no_stop_trim": True,
        "n": 1,
    }
    assert answers.bodies["/update_weights_from_disk"]["weight_version"] == "1"
    refusing = {"/update_weights_from_disk": [Said({"success": False, "message": "no such folder"})] * 2}
    with scripted(faults=refusing) as (_, urls), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        with pytest.raises(ConfigurationError, match=r"did not take new weights, twice \(the server refused: no such"):
            engine(urls, policy, tmp_path, kind="sglang-server").sample([request(policy, 0)])


# ---------------------------------------------------------------- faults


def answer(tokens: list[int], finish: Any, logp: list[float] | None = None) -> Said:
    return token_answer("", tokens, [-1.0] * len(tokens) if logp is None else logp, finish)


def test_an_answer_that_did_not_end_is_a_failure_not_an_end(tmp_path: Path) -> None:
    policy = nano()
    with scripted() as ((answers,), urls):
        asking = engine(urls, policy, tmp_path)
        asking.sample([request(policy, 0)])
        for finish in ("abort", "error", None, "content_filter"):
            answers.faults["/v1/completions"] = [answer([32, 33], finish)]
            with pytest.raises(EndpointError, match="failed once: the server"):
                asking.sample([request(policy, 1)])
        answers.faults["/v1/completions"] = [answer([], "stop")]
        with pytest.raises(EndpointError, match="the server's answer is empty"):
            asking.sample([request(policy, 1)])


def test_settings_of_the_servers_own_are_noticed(tmp_path: Path) -> None:
    policy = nano()
    listed = Said({"data": [{"id": "nano", "max_model_len": 20}]})
    with scripted() as ((answers,), urls):
        asking = engine(urls, policy, tmp_path)
        asking.sample([request(policy, 0)])
        answers.faults = {"/v1/completions": [answer([32, 33], "length")], "/v1/models": [Said({"data": []})]}
        with pytest.raises(ConfigurationError, match="after 2 of 24 tokens, although its context had room"):
            asking.sample([request(policy, 1)])
        answers.faults = {"/v1/completions": [answer([32, 33], "stop")]}
        with pytest.raises(ConfigurationError, match="at token 33, which ends no response of this run"):
            asking.sample([request(policy, 1)])
        left = 20 - len(request(policy, 1).tokens)
        asking._servers[0].context = None
        answers.faults = {"/v1/completions": [answer([32] * left, "length")], "/v1/models": [listed]}
        assert len(asking.sample([request(policy, 1)])[0].tokens) == left, "its context is full"


@pytest.mark.parametrize("times", [1, 2])
def test_half_a_transfer_is_repeated_whole_and_then_refused(times: int, tmp_path: Path) -> None:
    policy = nano()
    broken = {"/reset_prefix_cache": [Said({"error": "gone"}, 500)] * times}
    with scripted(faults=broken) as ((answers,), urls), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        asking = engine(urls, policy, tmp_path)
        if times == 1:
            assert asking.sample([request(policy, 0)])[0].version == 0
        else:
            with pytest.raises(ConfigurationError, match="it may hold a part of them and is left paused: restart it"):
                asking.sample([request(policy, 0)])
    assert str(said[0].message).endswith("it is repeated")
    once = ["/pause?mode=wait", "/collective_rpc", "/reset_prefix_cache"]
    assert answers.calls[:6] == once * 2
    assert ("/resume" in answers.calls) == (times == 1)


def test_requests_are_shared_out_and_go_to_the_others_when_a_server_is_gone(tmp_path: Path) -> None:
    policy = nano()
    with ExitStack() as stack:
        answers = [Scripted(), Scripted()]
        servers = [Server(one) for one in answers]
        stack.enter_context(servers[0].running())
        with servers[1].running():
            asking = engine([one.url for one in servers], policy, tmp_path)
            asking.sample([request(policy, number) for number in range(12)])
            assert all(one.calls.count("/v1/completions") > 2 for one in answers)
            written = len(list(tmp_path.glob("*.safetensors")))
            assert written == 2, "weights are written once for all: the model and its head"
        moved(policy)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            samples = asking.sample([request(policy, number) for number in range(4)])
        assert any("the other servers take its requests until the weights" in str(one.message) for one in said)
        assert [sample.version for sample in samples] == [1] * 4
        moved(policy)
        answers[0].faults["/v1/completions"] = [Said(wait=0.4)]
        asking._servers[0].questions = replace(asking._servers[0].questions, timeout=0.2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            with pytest.raises(HocketError, match=r"failed once: no answer within 0\.2 s|no server answers|twice"):
                asking.sample([request(policy, 0)])


# ---------------------------------------------------------------- new weights in the middle


@pytest.mark.parametrize("kind", ["vllm-server", "sglang-server"])
def test_answers_go_on_under_new_weights(kind: str, tmp_path: Path) -> None:
    policy = nano()
    context = request(policy, 0).tokens
    with scripted() as ((answers,), urls):
        asking = engine(urls, policy, tmp_path, kind=kind)
        asking.interrupted = True
        asking.sample([request(policy, 9)])
        old = nano()
        answers.gate.clear()
        answers.tokens = [32, 33, 34, 35, 36, 1]
        found: list[Sample] = []
        thread = threading.Thread(target=lambda: found.extend(asking.sample([request(policy, n) for n in range(2)])))
        thread.start()
        assert answers.waiting.acquire(timeout=5)
        assert answers.waiting.acquire(timeout=5)
        answers.tokens = [40, 41, 1]
        moved(policy)
        asking.renew()
        thread.join(5)
    for sample in found:
        assert sample.tokens.tolist() == [32, 33, 40, 41, 1]
        assert sample.written_by.tolist() == [0, 0, 1, 1, 1]
        assert (sample.version, sample.finish) == (1, "stop")
        assert sample.logp is not None
        np.testing.assert_allclose(sample.logp[:2], own_logp(old, context, [32, 33]), atol=1e-5)
        np.testing.assert_allclose(sample.logp[2:], own_logp(policy, context, sample.tokens)[2:], atol=1e-5)


def test_an_answer_that_crosses_new_weights_is_asked_for_again(tmp_path: Path) -> None:
    policy = nano()
    with scripted() as (_, urls):
        asking = engine(urls, policy, tmp_path)
        asking.interrupted = True
        asking.sample([request(policy, 9)])
        usual = asking._dialect.read_part

        def late(document: Any) -> Any:
            if policy.version == 0:  # The weights change while it is on its way here.
                moved(policy)
                asking._servers[0].synced = None
            return usual(document)

        asking._dialect = SimpleNamespace(**{name: getattr(asking._dialect, name) for name in dir(asking._dialect)})
        asking._dialect.read_part = late
        (sample,) = asking.sample([request(policy, 0)])
    assert sample.written_by.tolist() == [1] * 5


# ---------------------------------------------------------------- the journal, and several policies


def test_a_resumed_run_hears_the_answers_of_each_version_again(tmp_path: Path) -> None:
    policy, answers = nano(), Scripted()
    journal = Journal(tmp_path / "journal.jsonl")
    with Server(answers).running() as server:
        asking = engine(server.url, policy, tmp_path / "weights", journal=journal)
        first = asking.sample([request(policy, 0)])
        moved(policy)
        second = asking.sample([request(policy, 0)])
        before, after = first[0].logp, second[0].logp
        assert before is not None
        assert after is not None
        assert not np.array_equal(before, after), "the same question, as an evaluation asks it, is asked of new weights"
    again = nano()
    replayed = engine(server.url, again, tmp_path / "weights", journal=Journal(tmp_path / "journal.jsonl"))
    asked = len(answers.calls)
    for version, samples in enumerate((first, second)):
        (heard,) = replayed.sample([request(policy, 0)])
        assert (heard.version, samples[0].version) == (version, version)
        np.testing.assert_array_equal(heard.logp, samples[0].logp)
        again.version += 1
    assert len(answers.calls) == asked


def test_one_server_cannot_hold_two_policies(tmp_path: Path) -> None:
    with Server(lambda path, body: Said({"data": [{"id": "nano"}]})).running() as server:
        settings = [("engine", "vllm-server"), ("engine.url", server.url)]
        engines = Engines(configure(settings, tasks.find("sums")), Barrier())
        engines.of(nano())
        with pytest.raises(
            ConfigurationError, match="cannot hold both policy 'policy' and 'other' unless both are ada"
        ):
            engines.of(nano(name="other"))
        both = Engines(configure(settings, tasks.find("sums")), Barrier())
        first, second = both.of(adapted()), both.of(adapted(name="other"))
        assert isinstance(first, ServerEngine)
        assert isinstance(second, ServerEngine)
        assert first.settings.folder != second.settings.folder
        assert first._name != second._name


def test_a_server_that_takes_no_weights_is_told(tmp_path: Path) -> None:
    policy = nano()
    with (
        Server(lambda path, body: Said({"detail": "Not Found"}, 404)).running() as server,
        pytest.raises(ConfigurationError, match=r"did not take new weights .* start it with VLLM_SERVER_DEV_MODE=1"),
    ):
        engine(server.url, policy, tmp_path).sample([request(policy, 0)])
    with pytest.raises(ConfigurationError, match="must end with /v1"):
        engine("http://127.0.0.1:1", policy, tmp_path)


def test_a_tied_head_is_written_out_and_a_value_head_is_not(tmp_path: Path) -> None:
    policy = nano()
    policy.require(frozenset({Quantity.VALUE}))
    write_weights(policy, tmp_path)
    assert not (tmp_path / "value_head.safetensors").exists()
    head = load_file(tmp_path / "lm_head.safetensors")["lm_head.weight"]
    assert torch.equal(head, load_file(tmp_path / "model.safetensors")["model.embed_tokens.weight"])
    moved(policy)
    write_weights(policy, tmp_path)
    assert not torch.equal(load_file(tmp_path / "lm_head.safetensors")["lm_head.weight"], head)


# ---------------------------------------------------------------- the real one


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving() as url:
        yield url


class TestRealServer:
    pytestmark = real

    def test_tokens_and_log_probs_are_the_policys_own(self, address: str, tmp_path: Path) -> None:
        policy = nano()
        asking = engine(address, policy, tmp_path)
        asked = [request(policy, number) for number in range(8)]
        for _ in range(3):
            samples = asking.sample(asked)
            assert len({tuple(sample.tokens) for sample in samples}) > 1
            for sample in samples:
                assert sample.version == policy.version
                assert sample.finish == "length" or sample.tokens[-1] == Chat(policy.tokenizer).end_of_turn
                assert sample.logp is not None
                np.testing.assert_allclose(sample.logp, own_logp(policy, asked[0].tokens, sample.tokens), atol=1e-4)
            again = asking.sample(asked)
            assert all(np.array_equal(one.tokens, two.tokens) for one, two in zip(samples, again, strict=True))
            moved(policy, 0.01)

    def test_answers_go_on_under_new_weights(self, address: str, tmp_path: Path) -> None:
        policy = nano()
        asking = engine(address, policy, tmp_path, processed=True)
        asking.interrupted = True
        ends = tuple(Chat(policy.tokenizer).stops)
        asked = [replace(request(policy, n), decoding=Decoding(max_tokens=400, banned=ends)) for n in range(4)]
        asking.sample(asked[:1])
        found: list[Sample] = []
        thread = threading.Thread(target=lambda: found.extend(asking.sample(asked)))
        thread.start()
        time.sleep(0.5)
        moved(policy, 0.005)
        asking.renew()
        thread.join(120)
        assert any(sample.versions is not None for sample in found), "it aborts with the tokens so far"
        assert all(len(sample.tokens) == 400 and sample.version == 1 for sample in found)

    def test_it_also_answers_by_text(self, address: str) -> None:
        chat = Chat(nano().tokenizer)
        asking = RemoteEngine(Endpoint(address, "nano", timeout=60.0), encode=chat.encode)
        asked = Request((), Decoding(max_tokens=24), Key.of(0), (), ({"role": "user", "content": "12+7"},))
        (sample,) = asking.sample([asked])
        assert sample.text
        assert "19" in sample.text or "answer" in sample.text
        with pytest.raises(ConfigurationError, match="has no model 'nanos'; it has nano; did you mean 'nano'"):
            RemoteEngine(Endpoint(address, "nanos"), encode=chat.encode).sample([asked])

    def test_a_tied_head_left_behind_is_caught(
        self, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        policy = nano()
        monkeypatch.setattr(server_engine, "write_weights", lambda policy, folder, dtype: policy.save(folder))
        moved(policy)
        with pytest.raises(ConfigurationError, match="it uses other weights"):
            engine(address, policy, tmp_path).sample([request(policy, 0)])

    def test_a_policy_trains_on_what_the_server_sampled(self, address: str, tmp_path: Path) -> None:
        pairs = [(TINY[i].removeprefix("--"), int(TINY[i + 1])) for i in range(0, len(TINY), 2)]
        more = [("steps", 2), ("runs", str(tmp_path)), ("run", "v"), ("update.lr", 1e-3), ("precision", "fp32")]
        trainer = Trainer(configure([*pairs, *more], tasks.find("sums")))
        policy = trainer.parts.lead.policy
        assert isinstance(policy, CausalLM)
        asking = engine(address, policy, tmp_path / "weights")
        player = trainer.parts.player
        assert isinstance(player, TextPlayer)
        actor = replace(player.actors["policy"], engine=asking)
        trainer.parts.player = TextPlayer(SingleTurn(), {"policy": actor})
        found = [trainer.step() for _ in range(3)]
        assert asking.version == 2
        assert all(row["agreement/largest"] < 1e-3 for row in found[1:])
