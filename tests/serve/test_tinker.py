"""Tinker's public client against a local server: the numbers are the engine's, and faults are the protocol's."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch

from hocket.apps.cli import main
from hocket.apps.serve.tinker.command import TinkerServer
from hocket.apps.serve.tinker.service import KEPT_SNAPSHOTS
from hocket.nano import BASE
from hocket.train.token_losses import CrossEntropy
from hocket.train.training_engine import TokenExample, TrainingEngine

tinker = pytest.importorskip("tinker")
types: Any = tinker.types

TEXT = "What is 2 + 3? The answer is 5."


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TinkerServer]:
    with TinkerServer(str(BASE), "nano", tmp_path_factory.mktemp("tinker")) as found:
        yield found


@pytest.fixture(scope="module")
def client(server: TinkerServer) -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TINKER_TELEMETRY", "0")
        logging.getLogger("tinker").setLevel(logging.CRITICAL)
        yield tinker.ServiceClient(base_url=server.address, api_key="tml-local")


@pytest.fixture(scope="module")
def ids() -> list[int]:
    return list(TrainingEngine.open("nano").tokenizer.encode(TEXT))


def datum(ids: list[int], **columns: Any) -> Any:
    inputs = {"target_tokens": ids[1:]} | {
        name: np.full(len(ids) - 1, one, np.float32) for name, one in columns.items()
    }
    return types.Datum(model_input=types.ModelInput.from_ints(ids[:-1]), loss_fn_inputs=inputs)


def trainer(client: Any, **settings: Any) -> Any:
    return client.create_lora_training_client(base_model="nano", rank=4, seed=1, **settings).result()


def log_probs(result: Any) -> list[list[float]]:
    return [np.asarray(output["logprobs"].data).tolist() for output in result.loss_fn_outputs]


def test_a_pass_says_what_the_engine_says(client: Any, ids: list[int]) -> None:
    found = trainer(client).forward_backward([datum(ids), datum(ids[:9])], "cross_entropy").result()
    examples = [
        TokenExample(np.array(part[:-1]), np.array(part[1:]), {"weights": np.ones(len(part) - 1, np.float32)})
        for part in (ids, ids[:9])
    ]
    expected = TrainingEngine.open("nano").forward(examples, CrossEntropy())  # A fresh adapter changes nothing.
    assert found.metrics["loss:sum"] == pytest.approx(expected.loss, rel=1e-5)
    for one, other in zip(log_probs(found), expected.logp, strict=True):
        assert np.allclose(one, other, atol=1e-5)


def test_steps_samples_and_checkpoints(client: Any, ids: list[int]) -> None:
    training = trainer(client)
    losses = []
    for _ in range(4):
        passed = training.forward_backward([datum(ids, weights=1.0)], "cross_entropy")
        stepped = training.optim_step(types.AdamParams(learning_rate=1e-3))
        losses.append(passed.result().metrics["loss:sum"])
        assert stepped.result().metrics["gradient_norm"] > 0
    assert losses[3] < 0.8 * losses[0]
    sampling = training.save_weights_and_get_sampling_client().result()
    prompt = types.ModelInput.from_ints(ids[:8])
    params = types.SamplingParams(max_tokens=6, temperature=1.0, seed=3)
    answer = sampling.sample(prompt=prompt, num_samples=2, sampling_params=params).result()
    again = sampling.sample(prompt=prompt, num_samples=2, sampling_params=params).result()
    assert [one.tokens for one in again.sequences] == [one.tokens for one in answer.sequences]
    assert len({one.sequence_id for one in answer.sequences}) == 2
    # The sampler's log-probs are the learner's, to the bit.
    for one in answer.sequences:
        whole = ids[:8] + one.tokens
        learnt = log_probs(training.forward([datum(whole)], "cross_entropy").result())[0]
        assert learnt[7:] == one.logprobs
    scored = sampling.compute_logprobs(types.ModelInput.from_ints(ids)).result()
    assert scored[0] is None
    assert np.allclose(scored[1:], log_probs(training.forward([datum(ids)], "cross_entropy").result())[0], atol=1e-5)

    path = training.save_state("one").result().path
    training.forward_backward([datum(ids)], "cross_entropy").result()
    training.optim_step(types.AdamParams(learning_rate=1e-3)).result()
    other = client.create_training_client_from_state_with_optimizer(path).result()
    other.forward_backward([datum(ids)], "cross_entropy").result()
    other.optim_step(types.AdamParams(learning_rate=1e-3)).result()
    both = [one.forward([datum(ids)], "cross_entropy").result().metrics["loss:sum"] for one in (training, other)]
    assert both[0] == both[1]
    other.save_state("two").result()
    with pytest.raises(tinker.RequestFailedError, match="there is a checkpoint 'two' already"):
        other.save_state("two").result()


def test_what_was_saved_for_samplers_is_sampled_after_other_weights_were(client: Any, ids: list[int]) -> None:
    training, prompt = trainer(client), types.ModelInput.from_ints(ids[:8])
    params = types.SamplingParams(max_tokens=6, temperature=0.0)

    def words(sampling: Any) -> list[int]:
        tokens: list[int] = (
            sampling.sample(prompt=prompt, num_samples=1, sampling_params=params).result().sequences[0].tokens
        )
        return tokens

    path = training.save_weights_for_sampler("first").result().path
    first = words(client.create_sampling_client(model_path=path).result())
    assert first == words(client.create_sampling_client(base_model="nano").result())
    for _ in range(8):
        training.forward_backward([datum([*ids[:8], 9, 9, 9, 9, 9, 9])], "cross_entropy").result()
        training.optim_step(types.AdamParams(learning_rate=5e-2)).result()
    later = training.save_weights_and_get_sampling_client().result()
    assert words(later) != first
    assert words(client.create_sampling_client(model_path=path).result()) == first


def test_a_custom_loss_is_the_same_loss(client: Any, ids: list[int]) -> None:
    training = trainer(client)
    data = [datum(ids, weights=0.5)]

    def own(data: Any, logp: list[torch.Tensor]) -> tuple[torch.Tensor, dict[str, float]]:
        return -0.5 * logp[0].sum(), {}

    norms = []
    for own_loss in (False, True):
        if own_loss:
            training.forward_backward_custom(data, own).result()
        else:
            training.forward_backward(data, "cross_entropy").result()
        norms.append(training.optim_step(types.AdamParams(learning_rate=0.0)).result().metrics["gradient_norm"])
    assert norms[0] == pytest.approx(norms[1], rel=1e-5)


def test_gspo_is_a_custom_loss_of_whole_sequences(client: Any, ids: list[int]) -> None:
    columns = {"advantages": -1.0, "logprobs": -9.0, "sequence_ratio_mask": 1.0}
    data, bounds = [datum(ids, **columns), datum(ids[:9], **columns)], {"clip_high_threshold": 1e5}

    def loss(_: Any, logp: list[Any]) -> tuple[Any, dict[str, float]]:
        ratios = [(one.detach() + 9.0).mean() + one - one.detach() for one in logp]
        return sum(ratio.exp().sum() for ratio in ratios), {}

    one, other = trainer(client), trainer(client)
    passed = one.forward_backward(data, "gspo", bounds).result()
    ratios = [float(np.exp(np.mean(part) + 9.0)) for part in log_probs(passed)]
    assert min(ratios) > 1
    expected = sum(len(part) * ratio for part, ratio in zip(log_probs(passed), ratios, strict=True))
    assert passed.metrics["loss:sum"] == pytest.approx(expected, rel=1e-4)
    other.forward_backward_custom(data, loss).result()
    norms = [each.optim_step(types.AdamParams()).result().metrics["gradient_norm"] for each in (one, other)]
    assert norms[0] == pytest.approx(norms[1], rel=1e-4)
    assert norms[0] > 0


def test_tenants_do_not_see_each_other(client: Any, ids: list[int]) -> None:
    one, other = trainer(client), trainer(client)
    data = [datum(ids)]
    before = other.forward(data, "cross_entropy").result().metrics["loss:sum"]
    one.forward_backward(data, "cross_entropy").result()
    with pytest.raises(tinker.RequestFailedError, match="no gradient to step with"):
        other.optim_step(types.AdamParams()).result()
    one.optim_step(types.AdamParams(learning_rate=1e-2)).result()
    third = trainer(client, train_mlp=False)
    assert third.get_info().lora_rank == 4
    with pytest.raises(tinker.RequestFailedError):  # A client whose request failed goes no further.
        other.forward([datum([10**6, 1])], "cross_entropy").result()
    fourth = trainer(client)
    assert fourth.forward(data, "cross_entropy").result().metrics["loss:sum"] == before


def test_a_client_that_goes_away_and_a_name_that_is_used_again_take_nothing_from_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ids: list[int]
) -> None:
    monkeypatch.setenv("TINKER_TELEMETRY", "0")
    data = [datum(ids)]
    with TinkerServer(str(BASE), "nano", tmp_path) as server:
        away = trainer(tinker.ServiceClient(base_url=server.address, api_key="tml-local"))
        first = away.save_state("one").result().path
        expected = away.forward_backward(data, "cross_entropy").result().metrics["loss:sum"]
        staying = post(server, "create_session", {})[1]["session_id"]
        time.sleep(0.1)
        assert post(server, "session_heartbeat", {"session_id": staying})[0] == 200
        with monkeypatch.context() as patch:
            patch.setattr("hocket.apps.serve.tinker.service.SILENT_SECONDS", 0.1)
            post(server, "create_session", {})
        assert post(server, "get_info", {"model_id": away.model_id})[0] == 404
        assert post(server, "session_heartbeat", {"session_id": staying})[0] == 200
    with TinkerServer(str(BASE), "nano", tmp_path) as server:  # Its sessions are counted from the beginning again.
        training = trainer(tinker.ServiceClient(base_url=server.address, api_key="tml-local"))
        training.forward_backward(data, "cross_entropy").result()
        training.optim_step(types.AdamParams(learning_rate=1e-2)).result()
        assert training.save_state("one").result().path != first
        training.load_state(first).result()
        assert training.forward(data, "cross_entropy").result().metrics["loss:sum"] == expected


@pytest.mark.parametrize(
    ("loss", "columns", "settings", "message"),
    [
        ("stable_reinforce", {"advantages": 1.0}, None, "'stable_reinforce' is not served here; choose one of"),
        ("gspo", {"logprobs": 0.0, "advantages": 1.0}, None, "reads the column 'sequence_ratio_mask'"),
        ("ppo", {"logprobs": 0.0, "advantages": 1.0, "clip_low_threshold": 0.5}, None, "put it into loss_fn_config"),
        ("ppo", {"advantages": 1.0}, None, "reads the column 'logprobs'"),
        ("ppo", {"logprobs": 0.0, "advantages": 1.0}, {"clip": 0.1}, "has no setting 'clip'"),
        ("ppo", {"logprobs": 0.0, "advantages": 1.0}, {"clip_low_threshold": 2.0}, "around 1"),
        ("cross_entropy", {"weights": np.inf}, None, "not finite"),
        ("cross_entropy", {"target_tokens": 2.5}, None, "target_tokens are whole numbers"),
    ],
)
def test_what_cannot_be_learnt_is_said(
    client: Any, ids: list[int], loss: str, columns: dict[str, float], settings: dict[str, float] | None, message: str
) -> None:
    with pytest.raises((tinker.APIStatusError, tinker.RequestFailedError), match=message):
        trainer(client).forward_backward([datum(ids, **columns)], loss, settings).result()


def test_models_samplers_and_checkpoints_that_are_not_there(client: Any) -> None:
    with pytest.raises(tinker.APIStatusError, match="there is no model 'other'; this server has 'nano'"):
        client.create_lora_training_client(base_model="other").result()
    for path in ("tinker://x/weights/y", "tinker://x/weights/..", "tinker://../weights/y"):
        with pytest.raises(tinker.APIStatusError, match=r"there is no checkpoint|no address"):
            client.create_sampling_client(model_path=path).result()
    with pytest.raises(tinker.APIStatusError, match="nothing would be trained"):
        trainer(client, train_mlp=False, train_attn=False)


def test_a_context_that_is_full_fails_its_request_alone(client: Any, ids: list[int]) -> None:
    sampling = client.create_sampling_client(base_model="nano").result()
    params = types.SamplingParams(max_tokens=4)
    long = sampling.sample(prompt=types.ModelInput.from_ints(ids * 200), num_samples=1, sampling_params=params)
    short = sampling.sample(prompt=types.ModelInput.from_ints(ids), num_samples=1, sampling_params=params)
    assert len(short.result().sequences) == 1
    with pytest.raises(tinker.RequestFailedError, match="leaves no room"):
        long.result()


HTTP = httpx.Client(timeout=30)


def post(server: TinkerServer, path: str, body: Any, **headers: str) -> tuple[int, Any]:
    answer = HTTP.post(f"{server.address}/api/v1/{path}", content=json.dumps(body), headers=headers)
    return answer.status_code, answer.json()


def test_a_request_that_is_sent_again_is_done_once(server: TinkerServer) -> None:
    _, told = post(server, "create_session", {})
    session = told["session_id"]
    asked = {"session_id": session, "model_seq_id": 0, "base_model": "nano", "lora_config": {"rank": 2}}
    first, second = (post(server, "create_model", asked)[1]["request_id"] for _ in range(2))
    assert first == second
    for _ in range(2):
        assert post(server, "retrieve_future", {"request_id": first})[1]["model_id"] == f"{session}:train:0"
    for number in range(1, KEPT_SNAPSHOTS + 3):
        saved = {"model_id": f"{session}:train:0", "seq_id": number, "sampling_session_seq_id": number}
        request = post(server, "save_weights_for_sampler", saved)[1]["request_id"]
        assert post(server, "retrieve_future", {"request_id": request})[0] == 200
    prompt = {"chunks": [{"type": "encoded_text", "tokens": [1, 2, 3]}]}
    asked = {"sampling_session_id": f"{session}:sample:1", "seq_id": 0, "prompt": prompt, "sampling_params": {}}
    status, told = post(server, "asample", asked)
    assert status == 404
    assert "no longer kept" in told["detail"]
    assert post(server, "sessions/" + session + "/finish", {})[0] == 200
    assert post(server, "session_heartbeat", {"session_id": session})[0] == 410


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("create_model", {"session_id": "none"}, 400, "missing required field `model_seq_id`"),
        ("create_session", [], 400, "Expected `object`"),
        ("optim_step", {"model_id": "m", "seq_id": 1, "adam_params": {"beta1": 2}}, 400, "adam_params.beta1: Expected"),
        ("load_weights", {"session_id": "none", "path": "x", "optimizer": True}, 422, "send seq_id with model_id"),
        ("forward_backward", "x", 400, "no ForwardBackwardRequest"),
        ("retrieve_future", {"request_id": "none"}, 410, "no request"),
        ("optim_step", {"model_id": "none", "seq_id": 1, "adam_params": {}}, 404, "there is no model"),
    ],
)
def test_broken_requests(server: TinkerServer, path: str, body: Any, status: int, message: str) -> None:
    found, told = post(server, path, body)
    assert (found, message in told["detail"]) == (status, True), told


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"prompt": {"chunks": [{"tokens": [1, 10**9]}]}}, "1000000000 is no token: the vocabulary has 122"),
        ({"prompt": {"chunks": [{"type": "image"}]}}, "inputs are text here, not 'image'"),
        ({"num_samples": 0}, "num_samples: Expected `int` >= 1"),
        ({"topk_prompt_logprobs": -1}, "topk_prompt_logprobs: Expected `int` >= 0"),
        ({"sampling_params": {"stop": [-5]}}, "-5 is no token"),
        ({"sampling_params": {"stop": ""}}, "sampling_params.stop: Expected"),
        ({"sampling_params": {"temperature": -1}}, "sampling_params.temperature: Expected `float` >= 0.0"),
    ],
)
def test_samples_that_cannot_be_are_refused_before_they_join_a_batch(
    server: TinkerServer, fields: dict[str, Any], message: str
) -> None:
    session = post(server, "create_session", {})[1]["session_id"]
    asked = {"session_id": session, "sampling_session_seq_id": 0, "base_model": "nano"}
    sampler = post(server, "create_sampling_session", asked)[1]["sampling_session_id"]
    body = {"sampling_session_id": sampler, "prompt": {"chunks": [{"tokens": [1, 2]}]}, **fields}
    status, told = post(server, "asample", body)
    assert status in (400, 422)
    assert message in told["detail"]


def test_a_step_whose_gradient_is_infinite_changes_nothing_and_is_told(client: Any, ids: list[int]) -> None:
    training = trainer(client)
    data = [datum(ids, logprobs=-1e30, advantages=1.0)]
    training.forward_backward(data, "importance_sampling").result()
    before = training.forward([datum(ids)], "cross_entropy").result().metrics
    assert training.optim_step(types.AdamParams()).result().metrics == {"update_skipped": 1.0}
    assert training.forward([datum(ids)], "cross_entropy").result().metrics == before


def test_an_adapter_is_no_wider_than_its_layers(client: Any) -> None:
    with pytest.raises(tinker.APIStatusError, match="the layers are 128 wide: ask for less"):
        client.create_lora_training_client(base_model="nano", rank=10**5).result()


def test_others_need_a_key(tmp_path: Path, server: TinkerServer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert post(server, "create_session", {}, host="example.com")[0] == 403
    with TinkerServer(str(BASE), "nano", tmp_path, keys=["tml-0123456789abcdef"]) as closed:
        assert post(closed, "create_session", {})[0] == 401
        headers = {"x-api-key": "tml-0123456789abcdef"}
        assert post(closed, "create_session", {}, **headers)[0] == 200


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--name", "x"], "--name goes with --tinker"),
        (["--tinker", "--key", "secret"], "begin with tml-"),
        (["--tinker", "--host", "0.0.0.0"], "a key is required"),
        (["--tinker", "--update.lr", "1"], "bring their own settings"),
    ],
)
def test_flags_that_cannot_be(flags: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "nano", *flags]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
