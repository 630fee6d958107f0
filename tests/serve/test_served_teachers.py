"""Teachers behind servers: what they say and cost, what is refused, and that a resumed run asks nothing again."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from remote_server import Said, Server
from serve_cases import hosted, nano_backend
from tiny_runs import TINY, call, resume, rows, train, weights

from hocket.core.divergences import Divergence, JensenShannon, TopActions
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.engine.prompt_logprobs import ScoredText, read_scores
from hocket.engine.remote_http import Endpoint, EndpointError
from hocket.engine.served_teacher import ServedTeacher
from hocket.nano import BASE
from hocket.policies.causal_lm import CausalLM
from hocket.train.journal import Journal
from hocket.types import Batch, Quantity, Scenario, Trajectory, Turn

PROMPTS = (5, 9, 17), (5, 9), (40, 41, 42, 43)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with nano_backend() as backend, hosted(backend) as host:
        yield f"{host.address}/v1"


@pytest.fixture(scope="module")
def nano() -> CausalLM:
    return CausalLM.from_pretrained(BASE, key=Key.of(0))


def experience(temperature: float = 1.0) -> Batch:
    """Answers of some lengths, one of them with a second turn."""
    rng, played = np.random.default_rng(0), []
    for number, prompt in enumerate(PROMPTS):
        turn = Turn("agent", "policy", np.array(prompt), rng.integers(0, 90, 3 + number), logp=None)
        turns = [turn]
        if number == 1:
            turns.append(Turn("agent", "policy", np.array([7, 8]), rng.integers(0, 90, 2), parent=turn))
        played.append(Trajectory(Scenario(f"s/{number}"), turns))
    batch = pack(played)
    return batch.but(temperature=torch.full((batch.turns,), temperature))


def teacher_at(url: str, policy: CausalLM, divergence: Divergence | None = None, **more: Any) -> ServedTeacher:
    return ServedTeacher(
        Endpoint(url, "base", backoff=0.0, retries=1),
        name="policy",
        width=int(policy.model.config.vocab_size),
        spell=lambda token: str(policy.tokenizer.decode([token])),
        divergence=divergence,
        **more,
    )


def test_a_served_teacher_says_what_it_says_in_this_process(address: str, nano: CausalLM) -> None:
    batch = experience()
    teacher = teacher_at(address, nano)
    asked = torch.tensor([0, 2, 3, 5, 8, 11])
    here = nano.evaluate(batch, {Quantity.LOGP}, asked).logp
    assert torch.allclose(teacher.evaluate(batch, {Quantity.LOGP}, asked).logp, here, atol=1e-5)
    assert teacher.costs()["throughput/teacher/calls"] == 1.0
    assert teacher.evaluate(batch, {Quantity.LOGP}, asked).logp.abs().sum() > 0
    costs = teacher.costs()
    assert costs["throughput/teacher/calls"] == 0.0, "it remembers"
    assert costs["teacher/tokens"] > 10


@pytest.mark.parametrize("rest", [True, False])
def test_the_likeliest_tokens_of_a_served_teacher_give_the_same_divergence_and_gradient(
    address: str, nano: CausalLM, rest: bool
) -> None:
    batch, divergence = experience(), TopActions(JensenShannon(0.3), count=7, rest=rest)
    student = CausalLM.from_pretrained(BASE, key=Key.of(0))
    with torch.no_grad():
        for weight in student.model.parameters():
            weight.add_(0.05 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(weight.numel())))
    student.divergence = divergence
    found = []
    for reference in (nano, teacher_at(address, nano, divergence)):
        value = student.evaluate(batch, {Quantity.DIVERGENCE}, reference=reference).get(Quantity.DIVERGENCE)
        (slope,) = torch.autograd.grad(value.square().sum(), [next(student.model.parameters())])
        found.append((value.detach(), slope))
    (near, slope), (far, other) = found
    assert near.max() > 0.01
    assert torch.allclose(near, far, atol=1e-5)
    assert torch.allclose(slope, other, atol=1e-4 * float(slope.abs().max()))


# ------------------------------------------------------------ what is refused


def place(token: int, logp: float = -1.0, text: str = "a", **others: float) -> dict[str, Any]:
    own = {str(token): {"logprob": logp, "rank": 1, "decoded_token": text}}
    return own | {name[1:]: {"logprob": value, "rank": 2, "decoded_token": "b"} for name, value in others.items()}


GOOD = [None, place(1), place(2, t5=-2.0)]


def reading(places: Any, top: int = 0) -> ScoredText:
    (scores,) = read_scores(
        {"choices": [{"prompt_logprobs": places}]}, [[0, 1, 2]], [1], top, dict.fromkeys((0, 1, 2), "a")
    )
    return scores


def test_scores_are_read_and_come_back_from_a_journal() -> None:
    scores = reading([None, place(1, t7=-0.5), place(2, t5=-2.0)], top=2)
    assert scores.logp.tolist() == [-1.0, -1.0]
    assert scores.top.tolist() == [[7, 1], [2, 5]]
    assert scores.top_logp.tolist() == [[-0.5, -1.0], [-1.0, -2.0]]
    again = ScoredText.of_plain(json.loads(json.dumps(scores.plain())))
    assert all(np.array_equal(getattr(scores, name), getattr(again, name)) for name in ("logp", "top", "top_logp"))


@pytest.mark.parametrize(
    ("places", "top", "sentence"),
    [
        (GOOD[:2], 0, "gave log-probs of 1 of 2 tokens"),
        ([None, None, place(2)], 0, "gave log-probs of 1 of 2 tokens"),
        ([None, place(1), place(2, logp=-0.1, t5=-0.1)], 1, r"sum to 1\.810, and they may sum to 1 at most"),
        ([None, place(1), place(2, logp=math.nan)], 0, "sum to nan"),
        ([None, place(1), place(3)], 0, "1 likeliest tokens lack the token 2 that stands there"),
        (GOOD, 2, "gave 1 likeliest tokens of the 2 asked for"),
        (
            [None, place(1), place(2, text="cat")],
            0,
            "tokenizer differs: token 2 is 'cat' there and 'a' for the student",
        ),
        (None, 0, "gives no log-probs of prompts"),
        ([None, place(1), {"2": -1.0}], 0, "not in vLLM's form"),
    ],
)
def test_wrong_answers_of_a_teacher_are_one_sentence(places: Any, top: int, sentence: str) -> None:
    with pytest.raises((ConfigurationError, EndpointError), match=sentence):
        reading(places, top)


def test_a_teacher_that_always_answers_short_is_asked_again_and_named(nano: CausalLM) -> None:
    def reply(path: str, body: Any) -> Said:
        return Said({"choices": [{"index": n, "prompt_logprobs": [None]} for n, _ in enumerate(body["prompt"])]})

    with Server(reply).running() as server:
        with pytest.raises(EndpointError, match="failed 2 times: the teacher gave log-probs of 0 of"):
            teacher_at(server.url, nano).evaluate(experience(), {Quantity.LOGP})
        assert len(server.asked) == 2
        assert server.asked[0].body["prompt_logprobs"] == 0


def test_other_temperatures_and_whole_distributions_are_refused(nano: CausalLM) -> None:
    teacher = teacher_at("http://127.0.0.1:1/v1", nano)
    with pytest.raises(ConfigurationError, match=r"sampled at 0\.5; set decoding\.temperature 1"):
        teacher.evaluate(experience(0.5), {Quantity.LOGP})
    with pytest.raises(ConfigurationError, match=r"likeliest tokens, not all; set objective\.divergence"):
        teacher_at("http://127.0.0.1:1/v1", nano, JensenShannon())
    with pytest.raises(ConfigurationError, match="no whole distributions for an exact KL"):
        nano.evaluate(experience(), {Quantity.KL_EXACT}, reference=teacher)


def test_a_journal_answers_in_place_of_the_server(address: str, nano: CausalLM, tmp_path: Path) -> None:
    batch, journal = experience(), Journal(tmp_path / "journal.jsonl")
    first = teacher_at(address, nano, journal=journal).evaluate(batch, {Quantity.LOGP}).logp
    gone = teacher_at("http://127.0.0.1:1/v1", nano, journal=journal)
    assert torch.equal(gone.evaluate(batch, {Quantity.LOGP}).logp, first)
    journal.close()


# ------------------------------------------------------------ runs


TOP = ["--objective.divergence", "{type: hocket.core.divergences.TopActions, count: 5}"]


@pytest.mark.slow
def test_a_resumed_run_asks_its_teacher_nothing_again(address: str, tmp_path: Path) -> None:
    flags = ["--recipe", "gkd", "--teacher", address, *TOP, "--model", BASE]
    train(tmp_path, "first", *flags, steps=1)
    shutil.copytree(tmp_path / "first", tmp_path / "second")
    resume(tmp_path, "first", "--steps", "2")
    shutil.copy(tmp_path / "first" / "journal.jsonl", tmp_path / "second" / "journal.jsonl")
    resume(tmp_path, "second", "--steps", "2")
    assert rows(tmp_path / "first") == rows(tmp_path / "second")
    assert weights(tmp_path / "first") == weights(tmp_path / "second")
    assert rows(tmp_path / "first")[1]["teacher/tokens"] > 100
    metrics = [json.loads(line) for line in (tmp_path / "second" / "metrics.jsonl").read_text().splitlines()]
    assert metrics[-1]["throughput/teacher/calls"] == 0.0


def test_a_run_learns_from_a_server_and_counts_its_cost(address: str, tmp_path: Path) -> None:
    lines = [{"prompt": f"What is {n} + 1?", "answer": str(n + 1), "level": 1 + n % 2} for n in range(20)]
    (tmp_path / "sums.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    teachers = ["--recipe", "multi-teacher", "--teacher", f"by=level,1={address},2=nano"]
    train(tmp_path, "one", *teachers, "--task", tmp_path / "sums.jsonl", steps=1)
    row = rows(tmp_path / "one")[1]
    assert row["teacher/tokens"] > 100
    assert (tmp_path / "one" / "journal.jsonl").read_text().count('"teacher/') > 1


def test_a_server_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    for teacher, sentence in (
        ("http://127.0.0.1:1/v1", "no server answers at http://127.0.0.1:1/v1"),
        ("http://127.0.0.1:1/v1#base", "set objective.divergence"),
    ):
        said = call("train", *TINY, "--recipe", "gkd", "--teacher", teacher, "--runs", tmp_path, "--quiet")
        assert said.code == 2
        assert sentence in said.err
        assert "Traceback" not in said.err
