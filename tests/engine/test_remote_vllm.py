"""A policy trained here and sampled from a vLLM server: weights follow, and a server that keeps old ones is caught.

The slow tests start a real server; set HOCKET_VLLM_PYTHON to the python of an environment with vLLM.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from remote_server import Said, Server, token_answer
from safetensors.torch import load_file
from tiny_runs import TINY
from vllm_server import real, serving

from hocket import tasks
from hocket.agents.workflows.chat import Chat
from hocket.agents.workflows.player import TextPlayer
from hocket.agents.workflows.single import SingleTurn
from hocket.core.errors import ConfigurationError
from hocket.core.evaluating import evaluate_detached
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.engine import vllm
from hocket.engine.barrier import Barrier
from hocket.engine.handover import write_weights
from hocket.engine.remote import RemoteEngine
from hocket.engine.remote_http import Endpoint
from hocket.engine.requests import Request, Sample
from hocket.engine.vllm import VLLMServerEngine
from hocket.nano import BASE
from hocket.policies.causal_lm import CausalLM
from hocket.train.config import configure
from hocket.train.engines import Engines
from hocket.train.journal import Journal
from hocket.train.trainer import Trainer
from hocket.types import Decoding, Quantity, Scenario, Trajectory, Turn


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def nano(where: Path = BASE) -> CausalLM:
    return CausalLM.from_pretrained(str(where), name="policy", key=Key.of(0))


def moved(policy: CausalLM, by: float = 0.05) -> None:
    """Changes all weights, as a learner's step would."""
    generator = torch.Generator().manual_seed(policy.version)
    with torch.no_grad():
        for parameter in policy.module.parameters():
            parameter.add_(by * torch.randn(parameter.shape, generator=generator))
    policy.version += 1


def own_logp(policy: CausalLM, context: Any, tokens: Any) -> np.ndarray:
    turn = Turn("policy", "policy", np.array(context), np.array(tokens))
    batch = pack([Trajectory(Scenario("s"), [turn])])
    now = evaluate_detached(policy, batch, {Quantity.LOGP}, torch.arange(batch.decisions))
    return now.logp.numpy()


def engine(url: str, policy: CausalLM, folder: Path, **more: Any) -> VLLMServerEngine:
    where = Endpoint(url, "nano", timeout=60.0, retries=0)
    return VLLMServerEngine(where, policy, folder=folder, stops=Chat(policy.tokenizer).stops, **more)


def request(policy: CausalLM, number: int) -> Request:
    context = Chat(policy.tokenizer).opening(({"role": "user", "content": "12+7"},))
    return Request(context, Decoding(max_tokens=24), Key.of(number))


# ---------------------------------------------------------------- a stand-in


class StandIn:
    """Says always the same, at the log-probs of the weights that it was last given."""

    def __init__(self, *, stale: bool = False) -> None:
        self.policy = nano()
        self.stale = stale
        self.calls: list[str] = []

    def __call__(self, path: str, body: Any) -> Said:
        self.calls.append(path)
        if path == "/collective_rpc":
            assert body["method"] == "reload_weights"
            if not self.stale:
                self.policy = nano(Path(body["kwargs"]["weights_path"]))
            return Said({"results": [None]})
        if path == "/reset_prefix_cache":
            return Said(b"")
        tokens = [32, 33, 1]
        return token_answer("", tokens, own_logp(self.policy, body["prompt"], tokens).tolist())


def test_weights_follow_the_policy_once_per_version(tmp_path: Path) -> None:
    policy, answers = nano(), StandIn()
    with Server(answers).running() as server:
        asking = engine(server.url, policy, tmp_path)
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
    reload = ["/collective_rpc", "/reset_prefix_cache", "/v1/completions"]
    assert answers.calls == (reload + ["/v1/completions"] * 3) * 2
    assert asking.gap < 1e-5


def test_a_server_that_keeps_old_weights_is_caught(tmp_path: Path) -> None:
    policy = nano()
    with Server(StandIn(stale=True)).running() as server:
        asking = engine(server.url, policy, tmp_path)
        asking.sample([request(policy, 0)])
        moved(policy)
        with pytest.raises(ConfigurationError, match=r"differ from the policy's by .* nats \(tolerance 0.001\)"):
            asking.sample([request(policy, 0)])


def test_a_resumed_run_hears_the_answers_of_each_version_again(tmp_path: Path) -> None:
    policy, answers = nano(), StandIn()
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
        second = CausalLM.from_pretrained(str(BASE), name="other", key=Key.of(0))
        with pytest.raises(ConfigurationError, match="cannot hold both policy 'policy' and 'other'"):
            engines.of(second)


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
def served() -> Iterator[str]:
    with serving() as url:
        yield url


class TestRealServer:
    pytestmark = real

    def test_tokens_and_log_probs_are_the_policys_own(self, served: str, tmp_path: Path) -> None:
        policy = nano()
        asking = engine(served, policy, tmp_path)
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

    def test_it_also_answers_by_text(self, served: str) -> None:
        chat = Chat(nano().tokenizer)
        asking = RemoteEngine(Endpoint(served, "nano", timeout=60.0), encode=chat.encode)
        asked = Request((), Decoding(max_tokens=24), Key.of(0), (), ({"role": "user", "content": "12+7"},))
        (sample,) = asking.sample([asked])
        assert sample.text
        assert "19" in sample.text or "answer" in sample.text
        with pytest.raises(ConfigurationError, match="has no model 'nanos'; it has nano; did you mean 'nano'"):
            RemoteEngine(Endpoint(served, "nanos"), encode=chat.encode).sample([asked])

    def test_a_tied_head_left_behind_is_caught(
        self, served: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        policy = nano()
        monkeypatch.setattr(vllm, "write_weights", lambda policy, folder: policy.save(folder))
        moved(policy)
        with pytest.raises(ConfigurationError, match="it uses other weights"):
            engine(served, policy, tmp_path).sample([request(policy, 0)])

    def test_a_policy_trains_on_what_the_server_sampled(self, served: str, tmp_path: Path) -> None:
        pairs = [(TINY[i].removeprefix("--"), int(TINY[i + 1])) for i in range(0, len(TINY), 2)]
        more = [("steps", 2), ("runs", str(tmp_path)), ("run", "v"), ("update.lr", 1e-3)]
        trainer = Trainer(configure([*pairs, *more], tasks.find("sums")))
        policy = trainer.parts.lead.policy
        assert isinstance(policy, CausalLM)
        asking = engine(served, policy, tmp_path / "weights")
        player = trainer.parts.player
        assert isinstance(player, TextPlayer)
        actor = replace(player.actors["policy"], engine=asking)
        trainer.parts.player = TextPlayer(SingleTurn(), {"policy": actor})
        found = [trainer.step() for _ in range(3)]
        assert asking.version == 2
        assert all(row["agreement/largest"] < 1e-3 for row in found[1:])
