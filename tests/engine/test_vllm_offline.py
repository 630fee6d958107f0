"""vLLM in a child process: protocol, weights, seeds, and what happens when the child dies.

The fast tests use a stand-in. The slow ones start vLLM; set HOCKET_VLLM_PYTHON to the python of an environment with it.
"""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from remote_server import Said, Server
from test_server_engine import adapted, moved, nano, own_logp, request
from tiny_runs import TINY, assert_same, call, resume, rows, train
from vllm_server import VLLM_PYTHON, real
from vllm_stand_in import StandInModel, ThreadChild

from hocket import tasks
from hocket.agents.workflows.chat import Chat
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.engine import handover, vllm_child, vllm_offline, vllm_process, vllm_transfer
from hocket.engine.continuation import joined, lengthened, remainder
from hocket.engine.decoding import written
from hocket.engine.handover import write_weights
from hocket.engine.local import LocalEngine
from hocket.engine.requests import ContextFull, Request, Sample
from hocket.engine.stops import StopStrings
from hocket.engine.vllm_child import SocketWire
from hocket.engine.vllm_offline import ChildSettings, VLLMEngine
from hocket.engine.vllm_process import EngineLost, find_python, last_words
from hocket.policies.causal_lm import CausalLM
from hocket.train.config import configure, loaded
from hocket.train.trainer import Trainer, resumed
from hocket.types import Decoding

Stand = Callable[..., StandInModel]


@pytest.fixture(autouse=True)
def own_logs(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs of children that failed are kept; here with the test's other files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("logs")))


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stand]:
    """Puts a stand-in into the place of the child."""

    def put(**how: Any) -> StandInModel:
        ThreadChild.model = StandInModel(**how)
        monkeypatch.setattr(vllm_offline, "EngineProcess", ThreadChild)
        return ThreadChild.model

    yield put
    gc.collect()  # Engines go, and their threads with them.


def engine(policy: CausalLM, **more: Any) -> VLLMEngine:
    return VLLMEngine(policy, stops=Chat(policy.tokenizer).stops, **more)


def same(left: list[Sample], right: list[Sample]) -> bool:
    return all(np.array_equal(one.tokens, two.tokens) for one, two in zip(left, right, strict=True))


# ---------------------------------------------------------------- weights


def test_weights_follow_the_policy_once_per_version(stand: Stand) -> None:
    policy, model = nano(), stand()
    asking = engine(policy)
    for version in range(3):

        async def both() -> list[Sample]:
            return await asyncio.gather(*(asking.submit(request(policy, number)) for number in range(3)))

        for sample in [*asyncio.run(both()), *asking.sample([request(policy, 3)])]:
            assert sample.version == version
            assert sample.logp is not None
            np.testing.assert_allclose(
                sample.logp, own_logp(policy, request(policy, 0).tokens, sample.tokens), atol=1e-5
            )
        assert asking.gap < 1e-5
        moved(policy)
    asked = [len(said) if isinstance(said, list) else said for said in model.said]
    assert asked == ["open", 1, 3, 1, "load", 1, 3, 1, "load", 1, 3, 1], "a handover, a probe, the batch, one more"
    assert model.settings["enable_prefix_caching"] is True
    assert model.settings["generation_config"] == "vllm"
    assert model.settings["dtype"] == "float32"


@pytest.mark.parametrize("stale", ["everything", "head"])
def test_old_weights_are_caught(stand: Stand, stale: str) -> None:
    policy, _ = nano(), stand(stale=stale)
    asking = engine(policy)
    asking.sample([request(policy, 0)])
    moved(policy)
    with pytest.raises(ConfigurationError, match=r"of vLLM differ from the policy's by .* nats \(tolerance 0.001\)"):
        asking.sample([request(policy, 0)])


def test_nothing_is_left_behind(stand: Stand) -> None:
    policy, _ = nano(), stand()
    asking = engine(policy)
    house = asking._house
    asking.sample([request(policy, 0)])
    assert not list(house.folder.glob("*.safetensors")), "weights stay in shared memory only while they are read"
    del asking
    gc.collect()
    assert not house.folder.exists()
    assert not house.log.exists()


# ---------------------------------------------------------------- requests


def test_a_request_has_its_own_seed_whatever_it_is_asked_beside(stand: Stand) -> None:
    policy, model = nano(), stand()
    asking = engine(policy)
    requests = [request(policy, number) for number in range(6)]
    together = asking.sample(requests)
    assert len({tuple(sample.tokens) for sample in together}) > 1
    assert same(together, [sample for one in requests for sample in asking.sample([one])])
    assert same(together, asking.sample(requests[::-1])[::-1])
    batch = next(said for said in reversed(model.said) if len(said) == 6)
    assert [question["seed"] for question in batch] == [
        one.key.word >> 33 for one in sorted(requests, key=lambda r: r.key)
    ]


def test_what_is_asked_is_what_the_request_says(stand: Stand) -> None:
    policy, model = nano(), stand()
    asking = engine(policy)
    way = Decoding(max_tokens=9, temperature=0.5, top_k=3, top_p=0.9, min_p=0.1, stop=("x",), banned=(40,))
    context = request(policy, 0).tokens
    asking.sample([Request(context, way, Key.of(0)), Request(context, Decoding(temperature=0.0), Key.of(1))])
    full, greedy = sorted(model.said[-1], key=lambda question: -question["temperature"])
    assert full == {
        "prompt": list(context),
        "temperature": 0.5,
        "max_tokens": 9,
        "seed": Key.of(0).word >> 33,
        "stop": ["x"],
        "top_p": 0.9,
        "top_k": 3,
        "min_p": 0.1,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "repetition_penalty": 1.0,
        "logprobs": 0,
        "stop_token_ids": list(Chat(policy.tokenizer).stops),
        "include_stop_str_in_output": True,
        "skip_special_tokens": False,
        "logit_bias": {"40": -100},
    }
    assert {name: greedy[name] for name in ("top_p", "top_k", "min_p")} == {"top_p": 1.0, "top_k": -1, "min_p": 0.0}


def test_an_imposed_prefix_comes_first_and_may_be_all(stand: Stand) -> None:
    policy, model = nano(), stand()
    asking, context = engine(policy), request(policy, 0).tokens
    end = Chat(policy.tokenizer).end_of_turn
    (sample,) = asking.sample([Request(context, Decoding(max_tokens=8), Key.of(0), prefix=(40, 41))])
    assert sample.tokens[:2].tolist() == [40, 41]
    assert sample.forced.tolist() == [True, True] + [False] * (len(sample.tokens) - 2)
    assert sample.logp is not None
    assert len(sample.logp) == len(sample.tokens) <= 8
    np.testing.assert_allclose(sample.logp[2:], own_logp(policy, context, sample.tokens)[2:], atol=1e-5)
    asked = len(model.said)
    ended, full = asking.sample(
        [
            Request(context, Decoding(max_tokens=8), Key.of(0), prefix=(40, end)),
            Request(context, Decoding(max_tokens=2), Key.of(0), prefix=(40, 41)),
        ]
    )
    assert (ended.tokens.tolist(), ended.finish) == ([40, end], "stop")
    assert (full.tokens.tolist(), full.finish) == ([40, 41], "length")
    assert len(model.said) == asked, "there is nothing to ask"


def test_a_full_context_is_refused_before_vllm_sees_it(stand: Stand) -> None:
    policy, model = nano(), stand()
    with pytest.raises(ContextFull, match="leaves no room"):
        engine(policy).sample([Request((5,) * 1024, Decoding(), Key.of(0))])
    assert not model.said


def test_what_vllm_refuses_stops_with_its_words(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    policy, model = nano(), stand()

    def refuse(settings: dict[str, Any]) -> str:
        raise ValueError("To serve at least one request,\n more memory is needed")

    monkeypatch.setattr(model, "open", refuse)
    with pytest.raises(ConfigurationError, match="ValueError: To serve at least one request, more memory is needed"):
        engine(policy).sample([request(policy, 0)])


# ---------------------------------------------------------------- death


@pytest.mark.parametrize("question", [0, 1])
def test_a_child_that_dies_once_is_replaced_and_the_batch_is_the_same(stand: Stand, question: int) -> None:
    policy, _ = nano(), stand()
    requests = [request(policy, number) for number in range(4)]
    expected = engine(policy).sample(requests)
    model = stand(dies=(question,))
    asking = engine(policy)
    with pytest.warns(RuntimeWarning, match="the vLLM process ended with code 3; hocket starts it again"):
        found = asking.sample(requests)
    assert same(found, expected)
    assert asking.restarts == 1
    assert model.said.count("open") == 2


def test_a_child_that_dies_twice_stops_the_run_which_can_be_resumed(
    stand: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vllm_process, "find_python", lambda named: sys.executable)
    flags = ["--engine", "vllm", "--checkpoint.steps", "1", "--seed", "3"]
    model = stand()
    train(tmp_path, "whole", *flags, steps=3)
    questions = [len(said) for said in model.said if isinstance(said, list)]
    assert questions == [1, 8, 8, 1, 8, 1, 8, 1, 8], "a probe for each version; evaluation, three steps, evaluation"
    assert [row["agreement/p999"] < 1e-5 for row in rows(tmp_path / "whole")[1:]] == [True] * 3

    stand(dies=(4, 6))  # Over the batch of the second step, and over it again after another probe.
    begun = [*TINY, *flags, "--steps", "3", "--runs", str(tmp_path), "--run", "cut", "--quiet"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        said = call("train", *begun)
    assert said.code == 1
    assert "the vLLM process ended with code 3, twice during the same requests" in said.err
    assert len(rows(tmp_path / "cut")) == 2, "evaluation and one step"
    gc.collect()  # The run that failed lets go of its folder.
    stand()
    resume(tmp_path, "cut")
    assert_same(tmp_path / "whole", tmp_path / "cut")


DYING = """
import importlib.util, os, signal, socket, sys
spec = importlib.util.spec_from_file_location("child", {child!r})
child = importlib.util.module_from_spec(spec)
spec.loader.exec_module(child)

class Model:
    def open(self, settings):
        print("(EngineCore pid=7) ERROR 11-20 12:47:23 [core.py:505] RuntimeError: it was there before", flush=True)
        print("some more of it", flush=True)
        if {early}:
            os._exit(7)
        return "0"

    def sample(self, questions):
        os.kill(os.getpid(), signal.SIGKILL)

child.serve(child.SocketWire(socket.socket(fileno=int(sys.argv[1]))), Model())
"""


@pytest.mark.parametrize(
    ("early", "sentence"),
    [
        (
            True,
            r"vLLM did not start: its process ended with code 7;.*: RuntimeError: it was there before",
        ),
        (False, r"the vLLM process was killed by SIGKILL, twice during the same requests; its log is .*\.log"),
    ],
)
def test_a_real_process_that_ends_is_told_in_a_sentence(early: bool, sentence: str, tmp_path: Path) -> None:
    script = tmp_path / "dying.py"
    script.write_text(DYING.format(child=vllm_child.__file__, early=early))
    policy = nano()
    asking = engine(policy, script=script)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        with pytest.raises(EngineLost, match=sentence) as caught:
            asking.sample([request(policy, 0)])
    assert caught.value.exit_code == 1
    asking.close()
    assert asking._house.log.is_file(), "what it said is kept"
    assert not asking._house.folder.exists()


def test_last_words_are_the_last_error_else_the_last_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    head = "(EngineCore pid=7) ERROR 11-20 12:47:23 [core.py:505] "
    log.write_text(f"{head}Traceback\n{head}torch.OutOfMemoryError: 3 GiB\n{head}  ^^^^\nstopping\n\n")
    assert last_words(log) == "torch.OutOfMemoryError: 3 GiB"
    assert last_words(log, log.read_text().index("  ^^^")) == "stopping"
    assert last_words(log, len(log.read_text())) == ""


# ---------------------------------------------------------------- adapters, arguments, sleep


def test_an_adapter_goes_to_the_base_as_an_adapter(stand: Stand) -> None:
    policy, model = adapted(), stand()
    asking = engine(policy)
    for version in range(2):
        (sample,) = asking.sample([request(policy, 0)])
        assert sample.version == version
        assert sample.logp is not None
        np.testing.assert_allclose(sample.logp, own_logp(policy, request(policy, 0).tokens, sample.tokens), atol=1e-5)
        moved(policy)
    assert [said for said in model.said if isinstance(said, str)] == ["open", "adapt 0", "adapt 1"]
    settings = {name: model.settings[name] for name in ("enable_lora", "max_loras", "max_lora_rank")}
    assert settings == {"enable_lora": True, "max_loras": 1, "max_lora_rank": 8}, "vLLM has no rank 4"
    model.stale = "everything"
    with pytest.raises(ConfigurationError, match="it uses other weights"):
        asking.sample([request(policy, 0)])


def test_every_argument_of_vllm_can_be_set(stand: Stand) -> None:
    policy, model = nano(), stand()
    more = {"tensor_parallel_size": 2, "max_model_len": 99, "quantization": "fp8", "kv_cache_memory_bytes": None}
    asking = engine(policy, settings=ChildSettings(more=more, devices="2,3", dtype="bfloat16"))
    asking.sample([request(policy, 0)])
    assert {name: model.settings[name] for name in more} == more
    assert asking.context_length == 99
    assert (ThreadChild.variables["CUDA_VISIBLE_DEVICES"], model.settings["dtype"]) == ("2,3", "bfloat16")
    assert model.settings["weight_transfer_config"] == {"backend": "hocket"}
    assert asking.tolerance == 0.5


def test_arguments_come_from_flags_and_files_and_survive_both() -> None:
    flags = [("engine", "vllm"), ("engine.arguments.tensor_parallel_size", 2)]
    flags += [("engine.arguments.compilation_config.level", 3), ("engine.arguments.compilation_config.backend", "x")]
    flags += [("engine.devices", 3)]
    config = configure(flags, tasks.find("sums"))
    assert config.engine.devices == (3,)
    assert configure([("engine", "vllm"), ("engine.devices", "1,2")], tasks.find("sums")).engine.devices == (1, 2)
    expected = {"tensor_parallel_size": 2, "compilation_config": {"level": 3, "backend": "x"}}
    assert config.engine.arguments == expected
    assert loaded(config.plain(), tasks.find("sums")) == config
    with pytest.raises(ConfigurationError, match=r"write --engine\.arguments\.NAME VALUE"):
        configure([("engine.arguments", 3)], tasks.find("sums"))


def test_vllm_loads_the_receiver_of_weights_as_a_plugin(tmp_path: Path) -> None:
    """Every process of vLLM reads entry points on its path and calls them; what is received goes into its model."""
    path = vllm_process.plugged(tmp_path)["PYTHONPATH"]
    (found,) = [one for one in metadata.distributions(path=[path]) if one.metadata["Name"] == "hocket-transfer"]
    (entry,) = found.entry_points
    assert (entry.group, entry.value) == ("vllm.general_plugins", "hocket_transfer:register")
    assert Path(path, "hocket_transfer.py").read_text() == Path(vllm_transfer.__file__).read_text()

    class Base:
        model = SimpleNamespace(got={}, load_weights=lambda pairs: Base.model.got.update(pairs))

    base = SimpleNamespace(WeightTransferInitInfo=object, WeightTransferUpdateInfo=object, WeightTransferEngine=Base)
    write_weights(nano(), tmp_path / "weights", "bfloat16")
    receiver = vllm_transfer._receiver(base)()
    for file in sorted((tmp_path / "weights").glob("*.safetensors")):
        receiver.receive_weights(receiver.update_info_cls(file=str(file)))
    assert {name: value.dtype for name, value in Base.model.got.items()} == dict.fromkeys(
        nano().model.state_dict(), torch.bfloat16
    )


def test_vllm_sleeps_while_the_policy_learns(stand: Stand) -> None:
    for policy, level in ((nano(), 2), (adapted(), 1)):
        model = stand()
        asking = engine(policy, settings=ChildSettings(sleeps=True))
        asking.rest()
        (before,) = asking.sample([request(policy, 0)])
        asking.rest()
        (after,) = asking.sample([request(policy, 0)])
        assert before.tokens.tolist() == after.tokens.tolist()
        words = [said for said in model.said if isinstance(said, str)]
        assert words[-1 - (level == 2) :] == [f"sleep {level}"] + ["load"] * (level == 2), "level 2 loses the weights"
        assert model.settings["enable_sleep_mode"] is True


# ---------------------------------------------------------------- new weights in the middle


def under_way(asking: VLLMEngine, requests: list[Request]) -> list[Sample]:
    async def one(asked: Request) -> Sample:
        async with asking.episode():
            return await asking.submit(asked)

    async def every() -> list[Sample]:
        return await asyncio.gather(*map(one, requests))

    return asyncio.run(every())


@pytest.mark.parametrize("dies", [(), (2,)], ids=["alive", "dies"])
def test_responses_go_on_under_new_weights_and_come_out_again_in_parts(stand: Stand, dies: tuple[int, ...]) -> None:
    policy, model = nano(), stand(pace=2)
    asking, twin, renewed = engine(policy), nano(), nano()
    asking.interrupted = True
    go = model.go

    def stepped(*arguments: Any, **named: Any) -> Any:
        found = go(*arguments, **named)
        if len([said for said in model.said if said[0] == "go"]) == 1:
            moved(policy, 0.01)
        return found

    model.go = stepped  # type: ignore[method-assign]
    model.dies = dies
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        requests = [replace(request(policy, number), prefix=(40,) * (number == 2)) for number in range(4)]
        samples = under_way(asking, requests)
    moved(renewed, 0.01)
    parted = 0
    for asked, sample in zip(requests, samples, strict=True):
        by = sample.written_by.tolist()
        cut = by.count(0)
        assert by == [0] * cut + [1] * (len(by) - cut)
        assert sample.logp is not None
        drawn = len(asked.prefix)
        for writer, part in ((twin, slice(drawn, cut)), (renewed, slice(max(cut, drawn), None))):
            own = own_logp(writer, asked.tokens, sample.tokens)
            np.testing.assert_allclose(sample.logp[part], own[part], atol=1e-5)
        assert sample.forced.tolist() == [True] * drawn + [False] * (len(by) - drawn)
        if 0 < cut < len(by):
            parted += 1
            stand()
            first = engine(twin).sample([replace(asked, decoding=replace(asked.decoding, max_tokens=cut))])[0]
            assert first.tokens.tolist() == sample.tokens[:cut].tolist()
            renewed.version = 1
            (again,) = engine(renewed).sample([replace(asked, begun=written(first))])
            assert again.tokens.tolist() == sample.tokens.tolist()
            assert again.written_by.tolist() == by
    assert parted, "some response was written in two parts"
    assert asking.restarts == len(dies)


def test_a_stop_string_across_the_parts_ends_the_response() -> None:
    policy = nano()
    text = "the answer is 12 and so on"
    tokens = policy.tokenizer(text, add_special_tokens=False)["input_ids"]
    strings = StopStrings(policy.tokenizer)
    for cut in range(1, len(tokens)):
        begun = lengthened(None, tokens[:cut], [-1.0] * cut, 3)
        asked = Request((5,), Decoding(max_tokens=99, stop=("12 and",)), Key.of(0), begun=begun)
        rest = remainder(asked, 99)
        assert rest.tokens == (5, *tokens[:cut])
        assert rest.decoding.max_tokens == 99 - cut
        assert rest.key != asked.key
        found = Sample(np.array(tokens[cut:]), np.full(len(tokens) - cut, -2.0, np.float32), "length", 4)
        whole = joined(asked, found, strings)
        assert whole.written_by.tolist()[:cut] == [3] * min(cut, len(whole.tokens))
        before = policy.tokenizer.decode(tokens[:cut])
        if "12 and" in before:  # The engine would have ended there.
            assert len(whole.tokens) == len(tokens)
            continue
        assert policy.tokenizer.decode(whole.tokens) == "the answer is 12 and"
        assert whole.finish == "stop"


# ---------------------------------------------------------------- the wire


def test_messages_arrive_whole_however_large() -> None:
    here, there = socket.socketpair()
    message = {"do": "sample", "questions": [{"prompt": list(range(100_000)), "temperature": 0.1}] * 5}
    with here, there:
        sending = threading.Thread(target=SocketWire(here).send, args=(message,))
        sending.start()
        assert SocketWire(there).receive() == message
        sending.join()
        here.sendall(b"\x00\x00\x00\x09half")
        here.shutdown(socket.SHUT_WR)
        with pytest.raises(EOFError):
            SocketWire(there).receive()


def test_a_dead_partner_is_noticed_although_others_hold_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_child, "_LOOK", 0.01)
    here, there = socket.socketpair()
    with here, there, pytest.raises(EOFError):
        SocketWire(here, alive=lambda: False).receive()


# ---------------------------------------------------------------- the switch


def refused(*flags: str, runs: Path) -> str:
    said = call("train", *TINY, "--steps", "1", "--runs", runs, "--quiet", *flags)
    assert said.code == 2
    assert not list(runs.iterdir()), "nothing of a run that never began"
    return said.err


def test_what_does_not_fit_is_refused_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOCKET_VLLM_PYTHON", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = ("--engine", "vllm-server")
    nobody = "http://127.0.0.1:9/v1"
    assert "engine: kind = 'vlm'; did you mean 'vllm'" in refused("--engine", "vlm", runs=tmp_path)
    assert "this Python environment has no vLLM" in refused("--engine", "vllm", runs=tmp_path)
    gone = refused("--engine", "vllm", "--engine.python", "/not/there", runs=tmp_path)
    assert "engine.python = '/not/there' cannot be run" in gone
    assert "engine.url is for engine.kind vllm-server" in refused("--engine.url", nobody, runs=tmp_path)
    assert "needs engine.url" in refused(*server, runs=tmp_path)
    assert f"engine.url: no server answers at {nobody}" in refused(*server, "--engine.url", nobody, runs=tmp_path)
    warm = refused(*server, "--engine.url", nobody, "--decoding.temperature", "0.8", runs=tmp_path)
    assert "--logprobs-mode processed_logprobs" in warm
    assert "for language models" in refused("--task", "gym:CartPole-v1", "--engine", "vllm", runs=tmp_path)
    monkeypatch.setenv("HOCKET_VLLM_PYTHON", sys.executable)
    assert f"HOCKET_VLLM_PYTHON = '{sys.executable}': this Python has no vLLM" in refused(
        "--engine", "vllm", runs=tmp_path
    )


def test_a_python_with_vllm_is_found_by_flag_then_by_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_vllm = tmp_path / "python"
    with_vllm.write_text("#!/bin/sh\nexit 0\n")
    with_vllm.chmod(0o755)
    monkeypatch.setenv("HOCKET_VLLM_PYTHON", str(with_vllm))
    assert find_python(None) == str(with_vllm)
    with pytest.raises(ConfigurationError, match="this Python has no vLLM"):
        find_python(sys.executable)


def test_a_server_says_itself_what_its_model_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    listed = [{"id": "big"}]
    with Server(lambda path, body: Said({"data": listed})).running() as server:
        pairs = [("engine", "vllm-server"), ("engine.url", server.url), ("runs", str(tmp_path))]
        actor = Trainer(configure(pairs, tasks.find("sums"))).parts.player.actors["policy"]  # type: ignore[attr-defined]
        assert actor.engine.endpoint.model == "big"
        listed.append({"id": "other"})
        err = refused("--engine", "vllm-server", "--engine.url", server.url, runs=tmp_path / "none")
        assert "has 2 models; choose by engine.model: ['big', 'other']" in err


def test_settings_survive_the_config_file(tmp_path: Path, stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_process, "find_python", lambda named: sys.executable)
    model = stand()
    train(tmp_path, "a", "--engine", "vllm", "--engine.max_rows", "7", "--engine.memory", "0.5", steps=1)
    assert (model.settings["max_num_seqs"], model.settings["kv_cache_memory_bytes"]) == (7, 2**29)
    again = resumed(tmp_path / "a", steps=2)
    assert (again.config.engine.kind, again.config.engine.max_rows) == ("vllm", 7)


class Faltering:
    """Stands in for `vllm.LLM`: the first answers to some prompts are broken off."""

    def __init__(self, broken: dict[int, list[str | None]]) -> None:
        self.broken, self.asked = broken, list[list[int]]()

    def generate(self, prompts: list[Any], ways: list[Any], use_tqdm: bool, lora_request: Any) -> list[Any]:
        first = [prompt["prompt_token_ids"][0] for prompt in prompts]
        self.asked.append(first)
        return [self._one(number, way) for number, way in zip(first, ways, strict=True)]

    def _one(self, number: int, way: Any) -> Any:
        left = self.broken.get(number, [])
        out = SimpleNamespace(
            token_ids=[number, way["seed"]],
            logprobs=[{token: SimpleNamespace(logprob=-0.5)} for token in (number, way["seed"])],
            finish_reason=left.pop(0) if left else "stop",
        )
        return SimpleNamespace(outputs=[out], prompt_token_ids=[number], prompt_logprobs=None)


def faltering(broken: dict[int, list[str | None]]) -> tuple[vllm_child.VLLM, Faltering]:
    model, engine = vllm_child.VLLM(), Faltering(broken)
    model._engine, model._vllm = engine, SimpleNamespace(SamplingParams=lambda **way: way)
    return model, engine


def test_what_vllm_broke_off_is_asked_for_once_more() -> None:
    model, engine = faltering({2: ["abort"], 3: [None]})
    found = model.sample([{"prompt": [number], "seed": 10 * number} for number in (1, 2, 3)])
    assert found == [([n, 10 * n], [-0.5, -0.5], "stop") for n in (1, 2, 3)]
    assert engine.asked == [[1, 2, 3], [2, 3]]


def test_what_vllm_breaks_off_twice_is_no_answer() -> None:
    model, _ = faltering({2: ["abort", "error"]})
    with pytest.raises(RuntimeError, match="vLLM ended a request with 'error'"):
        model.sample([{"prompt": [number], "seed": 1} for number in (1, 2)])


# ---------------------------------------------------------------- the real one


@pytest.fixture(scope="module")
def lived() -> Iterator[tuple[CausalLM, VLLMEngine]]:
    policy = nano()
    assert VLLM_PYTHON is not None
    asking = engine(policy, python=VLLM_PYTHON, settings=ChildSettings(memory=0.25))
    yield policy, asking
    asking.close()
    asking._house.log.unlink(missing_ok=True)


class TestRealEngine:
    pytestmark = real

    def test_tokens_and_log_probs_are_the_policys_own(self, lived: tuple[CausalLM, VLLMEngine]) -> None:
        policy, asking = lived
        asked = [request(policy, number) for number in range(32)]
        for _ in range(3):
            samples = asking.sample(asked)
            assert len({tuple(sample.tokens) for sample in samples}) > 1
            for sample in samples:
                assert sample.version == policy.version
                assert sample.logp is not None
                np.testing.assert_allclose(sample.logp, own_logp(policy, asked[0].tokens, sample.tokens), atol=1e-4)
            assert same(samples, asking.sample(asked))
            assert same(samples[:1], asking.sample(asked[:1]))
            moved(policy, 0.005)

    def test_log_probs_are_those_of_the_distribution_drawn_from(self, lived: tuple[CausalLM, VLLMEngine]) -> None:
        policy, asking = lived
        context = request(policy, 0).tokens
        for way in (
            Decoding(max_tokens=8, temperature=0.0),
            Decoding(max_tokens=8, temperature=0.7),
            Decoding(max_tokens=8, top_k=3, temperature=0.7),
            Decoding(max_tokens=8, top_p=0.8),
            Decoding(max_tokens=8, min_p=0.1),
            Decoding(max_tokens=8, banned=tuple(range(20, 40))),
        ):
            (sample,) = asking.sample([Request(context, way, Key.of(5))])
            assert sample.logp is not None
            written: tuple[int, ...] = ()
            for token, logp in zip(sample.tokens.tolist(), sample.logp.tolist(), strict=True):
                assert abs(logp - drawn_logp(policy, context + written, way, token)) < 1e-4, way
                written += (token,)

    def test_stops_prefixes_and_greedy(self, lived: tuple[CausalLM, VLLMEngine]) -> None:
        policy, asking = lived
        context = request(policy, 0).tokens
        greedy = Request(context, Decoding(max_tokens=24, temperature=0.0), Key.of(0))
        (mine,), (theirs,) = LocalEngine(policy).sample([greedy]), asking.sample([greedy])
        assert np.array_equal(mine.tokens, theirs.tokens)
        (stopped,) = asking.sample([Request(context, Decoding(max_tokens=64, stop=("1",)), Key.of(1))])
        text = policy.tokenizer.decode(stopped.tokens)
        assert stopped.finish != "stop" or "1" in text or stopped.tokens[-1] in Chat(policy.tokenizer).stops
        assert "1" not in policy.tokenizer.decode(stopped.tokens[:-1])
        begun = Request(context, Decoding(max_tokens=24), Key.of(2), prefix=(40, 41, 42))
        (sample,) = asking.sample([begun])
        assert sample.tokens[:3].tolist() == [40, 41, 42]
        assert sample.logp is not None
        np.testing.assert_allclose(sample.logp, own_logp(policy, context, sample.tokens), atol=1e-4)

    def test_a_tied_head_left_behind_is_caught(
        self, lived: tuple[CausalLM, VLLMEngine], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        policy, asking = lived
        asking.sample([request(policy, 0)])
        monkeypatch.setattr(vllm_offline, "write_weights", without_the_head)
        moved(policy, 0.01)
        with pytest.raises(ConfigurationError, match="it uses other weights"):
            asking.sample([request(policy, 0)])
        monkeypatch.undo()
        assert asking.sample([request(policy, 0)])[0].version == policy.version

    def test_a_killed_child_is_replaced(self, lived: tuple[CausalLM, VLLMEngine]) -> None:
        policy, asking = lived
        asked = [request(policy, number) for number in range(8)]
        before = asking.sample(asked)
        assert asking._house.child is not None
        os.kill(asking._house.child.pid, 9)
        with pytest.warns(RuntimeWarning, match="was killed by SIGKILL; hocket starts it again"):
            assert same(asking.sample(asked), before)

    def test_an_adapter_is_computed_beside_the_base(self) -> None:
        policy = adapted()
        assert VLLM_PYTHON is not None
        asking = engine(policy, python=VLLM_PYTHON, settings=ChildSettings(memory=0.25))
        asked = [request(policy, number) for number in range(8)]
        for _ in range(2):
            for sample in asking.sample(asked):
                assert sample.version == policy.version
                assert sample.logp is not None
                np.testing.assert_allclose(sample.logp, own_logp(policy, asked[0].tokens, sample.tokens), atol=1e-4)
            moved(policy, 0.01)
        asking.close()

    def test_responses_go_on_under_new_weights(self, lived: tuple[CausalLM, VLLMEngine]) -> None:
        policy, asking = lived
        ends = tuple(Chat(policy.tokenizer).stops)
        asked = [replace(request(policy, n), decoding=Decoding(max_tokens=300, banned=ends)) for n in range(4)]
        old = policy.snapshot()

        async def every() -> list[Sample]:
            tasks = [asyncio.create_task(one(each)) for each in asked]
            await asyncio.sleep(0.3)
            moved(policy, 0.005)
            return await asyncio.gather(*tasks)

        async def one(each: Request) -> Sample:
            async with asking.episode():
                return await asking.submit(each)

        asking.interrupted = True
        samples = asyncio.run(every())
        asking.interrupted = False
        assert any(sample.versions is not None for sample in samples)
        for sample in samples:
            assert sample.logp is not None
            first = sample.written_by == policy.version - 1
            assert not (np.diff(first.astype(int)) > 0).any()
            for place in (0, len(first) - 1):
                text = asked[0].tokens + tuple(sample.tokens[:place].tolist())
                logp = drawn_logp(old if first[place] else policy, text, asked[0].decoding, int(sample.tokens[place]))
                assert abs(logp - sample.logp[place]) < 1e-3

    def test_samplers_ahead_of_the_learner_equal_their_replay(self, tmp_path: Path) -> None:
        flags = ["--engine", "vllm", "--engine.memory", "0.25", "--cluster", "local", "--samplers", "2", "--lag", "1"]
        train(tmp_path, "ahead", *flags, "--checkpoint.steps", "1", steps=3)
        said = call("replay", tmp_path / "ahead")
        assert said.code == 0, said.out + said.err

    def test_an_interrupted_run_equals_an_uninterrupted_one(self, tmp_path: Path) -> None:
        flags = ["--engine", "vllm", "--engine.memory", "0.25", "--checkpoint.steps", "1"]
        train(tmp_path, "whole", *flags, steps=4)
        pairs = [(TINY[i].removeprefix("--"), int(TINY[i + 1])) for i in range(0, len(TINY), 2)]
        more = [("engine", "vllm"), ("engine.memory", 0.25), ("checkpoint.steps", 1), ("steps", 4)]
        trainer = Trainer(configure([*pairs, *more, ("runs", str(tmp_path)), ("run", "cut")], tasks.find("sums")))
        for _ in range(3):
            trainer.step()
        trainer.folder.release()
        del trainer
        gc.collect()
        resume(tmp_path, "cut")
        assert_same(tmp_path / "whole", tmp_path / "cut")


def without_the_head(policy: CausalLM, folder: Path, dtype: Any = None) -> None:
    handover.write_weights(policy, folder, dtype)
    (folder / "lm_head.safetensors").unlink()


def drawn_logp(policy: CausalLM, context: tuple[int, ...], way: Decoding, token: int) -> float:
    """The log-prob of a token under what `way` leaves of the next-token distribution, computed plainly."""
    with torch.no_grad():
        logits = policy.model(input_ids=torch.tensor([context])).logits[0, -1].double()
    if way.banned:
        logits[list(way.banned)] = -torch.inf
    p = torch.softmax(logits / (way.temperature or 1.0), 0)
    kept = torch.ones_like(p, dtype=torch.bool)
    ranked, order = p.sort(descending=True)
    if way.top_k:
        kept[order[way.top_k :]] = False
    if way.top_p < 1:
        kept[order[ranked.cumsum(0) - ranked >= way.top_p]] = False
    kept &= p >= way.min_p * p.max()
    return float(torch.log(p[token] / p[kept].sum()))
