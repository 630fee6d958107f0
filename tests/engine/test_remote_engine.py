"""The engine over a server: what is sent, what is made of the answers, and how much at a time."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from remote_server import Said, Server, chat_answer, token_answer

from hocket.agents.workflows.chat import Chat
from hocket.agents.workflows.plain import TextChat
from hocket.agents.workflows.player import TextPlayer
from hocket.agents.workflows.team import Actor, Team
from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.engine.barrier import Barrier
from hocket.engine.local import LocalEngine
from hocket.engine.remote import RemoteEngine
from hocket.engine.remote_http import Endpoint, EndpointError
from hocket.engine.requests import ContextFull, Request, Sample
from hocket.nano import BASE
from hocket.nano.tokenizer import build_tokenizer
from hocket.policies.causal_lm import CausalLM
from hocket.testing import ScriptedEngine
from hocket.train.journal import Journal
from hocket.types import Assignment, Decoding, Scenario, Trajectory

CHAT = Chat(build_tokenizer())
ASKED = ({"role": "user", "content": "2+2"},)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def engine(
    server: Server, *, journal: Journal | None = None, barrier: Barrier | None = None, **more: Any
) -> RemoteEngine:
    named = {name: more.pop(name) for name in ("retries", "timeout", "concurrency") if name in more}
    where = Endpoint(server.url, "m", **({"retries": 0, "timeout": 5.0, "backoff": 0.001} | named))
    return RemoteEngine(where, encode=CHAT.encode, journal=journal, barrier=barrier, **more)


def request(number: int = 0, **decoding: Any) -> Request:
    prefix = decoding.pop("prefix", ())
    way = Decoding(**({"max_tokens": 20} | decoding))
    return Request(CHAT.opening(ASKED), way, Key.of(number), tuple(prefix), ASKED)


# ---------------------------------------------------------------- by text


def test_text_out_and_in() -> None:
    with Server(lambda path, body: chat_answer("4")).running() as server:
        (sample,) = engine(server).sample([request(3, stop=("x",), top_p=0.5)])
    sent = server.asked[0]
    assert sent.path == "/v1/chat/completions"
    assert sent.body["messages"] == list(ASKED)
    assert (sent.body["model"], sent.body["max_tokens"], sent.body["temperature"]) == ("m", 20, 1.0)
    assert (sent.body["stop"], sent.body["top_p"]) == (["x"], 0.5)
    assert 0 <= sent.body["seed"] < 2**31
    assert (sample.text, sample.finish, sample.logp) == ("4", "stop", None)
    assert tuple(sample.tokens) == CHAT.encode("4")


def test_what_no_tokenizer_here_knows_is_kept_as_text() -> None:
    with Server(lambda path, body: chat_answer("été 日本")).running() as server:
        (sample,) = engine(server).sample([request()])
    assert sample.text == "été 日本"
    assert len(sample.tokens) > 0


def test_a_stop_string_that_was_left_out_is_put_back() -> None:
    with Server(lambda path, body: chat_answer("4", stop_reason="</a>")).running() as server:
        assert engine(server).sample([request()])[0].text == "4</a>"


def test_an_answer_that_was_cut() -> None:
    with Server(lambda path, body: chat_answer(None, "length")).running() as server:
        (sample,) = engine(server).sample([request()])
    assert (sample.text, sample.finish, len(sample.tokens)) == ("", "length", 0)


@pytest.mark.parametrize("more", [{"prefix": (1, 2)}, {"banned": (3,)}])
def test_token_ids_mean_nothing_to_a_server_that_knows_text(more: dict[str, Any]) -> None:
    with (
        Server(lambda path, body: chat_answer("4")).running() as server,
        pytest.raises(ConfigurationError, match="names token ids; give its role a tokenizer"),
    ):
        engine(server).sample([request(**more)])


# ---------------------------------------------------------------- by token ids


def test_tokens_out_and_in() -> None:
    ids = [*CHAT.encode("4"), CHAT.end_of_turn]
    with Server(lambda path, body: token_answer("4", ids, [-0.5, -0.25])).running() as server:
        (sample,) = engine(server, tokens=True, stops=CHAT.stops).sample([request(banned=(9,))])
    sent = server.asked[0]
    assert sent.path == "/v1/completions"
    assert sent.body["prompt"] == list(CHAT.opening(ASKED))
    assert sent.body["return_token_ids"] is True
    assert sent.body["stop_token_ids"] == list(CHAT.stops)
    assert sent.body["logit_bias"] == {"9": -100}
    assert sample.tokens.tolist() == ids
    assert sample.text is None
    assert sample.logp is None, "of the distribution before a ban"
    assert not sample.forced.any()


@pytest.mark.parametrize(
    ("decoding", "processed", "known"),
    [
        ({}, False, True),
        ({"temperature": 0.0}, False, True),
        ({"temperature": 0.5}, False, False),
        ({"top_k": 3}, False, False),
        ({"temperature": 0.5}, True, True),
    ],
)
def test_log_probs_count_only_where_they_are_those_drawn_from(
    decoding: dict[str, Any], processed: bool, known: bool
) -> None:
    with Server(lambda path, body: token_answer("4", [5, 6], [-0.5, -0.25])).running() as server:
        (sample,) = engine(server, tokens=True, processed=processed).sample([request(**decoding)])
    if known:
        assert sample.logp is not None
        np.testing.assert_array_equal(sample.logp, np.float32([-0.5, -0.25]))
    else:
        assert sample.logp is None


def test_a_prefix_is_sent_as_context_and_recorded_as_forced() -> None:
    with Server(lambda path, body: token_answer("4", [5, 6], [-0.5, -0.25], "length")).running() as server:
        (sample,) = engine(server, tokens=True).sample([request(prefix=(7, 8))])
        assert server.asked[0].body["prompt"][-2:] == [7, 8]
        assert server.asked[0].body["max_tokens"] == 18
        assert sample.tokens.tolist() == [7, 8, 5, 6]
        assert sample.forced.tolist() == [True, True, False, False]
        assert (sample.logp, sample.finish) == (None, "length")
        with pytest.raises(ContextFull, match="a prefix of 2 tokens fills the response"):
            engine(server, tokens=True).sample([request(prefix=(7, 8), max_tokens=2)])


def test_a_server_that_returns_no_ids_gives_an_encoding() -> None:
    with Server(lambda path, body: token_answer("4", None, None)).running() as server:
        (sample,) = engine(server, tokens=True, stops=CHAT.stops).sample([request()])
    assert tuple(sample.tokens) == (*CHAT.encode("4"), CHAT.end_of_turn)
    assert (sample.logp, sample.text) == (None, "4")


# ---------------------------------------------------------------- nonsense and failures


@pytest.mark.parametrize(
    ("said", "tokens"),
    [
        (Said({}), False),
        (Said([]), True),
        (Said(b""), False),
        (Said({"choices": []}), False),
        (Said({"choices": ["x"]}), False),
        (Said({"choices": [{"message": {}}]}), False),
        (chat_answer(None), False),
        (Said({"choices": [{"text": None}]}), True),
        (token_answer("4", ["5"], None), True),
        (token_answer("4", [5, 6], [-0.5]), True),
        (token_answer("4", [5, 6], [-0.5, None]), True),
    ],
)
def test_malformed_answers_are_told(said: Said, tokens: bool) -> None:
    fine = token_answer("4", [5], [-0.5]) if tokens else chat_answer("4")
    replies = [fine, said]
    with Server(lambda path, body: replies.pop(0)).running() as server:
        asking = engine(server, tokens=tokens)
        asking.sample([request(0)])
        with pytest.raises(EndpointError, match="the server"):
            asking.sample([request(1)])


def test_a_server_that_never_worked_stops_the_run_and_is_not_remembered(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.jsonl")
    with (
        Server(lambda path, body: Said({}, 500)).running() as server,
        pytest.raises(ConfigurationError, match="failed once: HTTP 500"),
    ):
        engine(server, journal=journal).sample([request()])
    assert len(journal) == 0


# ---------------------------------------------------------------- at the same time


async def _gather(asking: RemoteEngine, count: int) -> list[Any]:
    async with asking.episode():
        return await asyncio.gather(*(asking.submit(request(number)) for number in range(count)))


def test_no_more_than_allowed_are_under_way() -> None:
    with Server(lambda path, body: Said(chat_answer(str(body["seed"])).value, wait=0.02)).running() as server:
        asking = engine(server, concurrency=3)
        samples = asyncio.run(_gather(asking, 9))
        assert server.most == 3
        assert [sample.text for sample in samples] == [str(request(n).key.word >> 33) for n in range(9)]
        assert len(asyncio.run(_gather(asking, 4))) == 4, "another event loop"
        server.most = 0
        asking.sample([request(number) for number in range(9)])
        assert server.most == 3


def test_who_stops_waiting_does_not_wait_for_the_server() -> None:
    async def hurried(asking: RemoteEngine) -> None:
        async with asyncio.timeout(0.05):
            await asking.submit(request())

    with Server(lambda path, body: Said(chat_answer("4").value, wait=0.5)).running() as server:
        started = asyncio.new_event_loop().time()
        with pytest.raises(TimeoutError):
            asyncio.run(hurried(engine(server)))
        assert asyncio.new_event_loop().time() - started < 0.4


# ---------------------------------------------------------------- remembered


def test_answers_are_replayed_from_the_journal(tmp_path: Path) -> None:
    count = iter(range(100))
    with Server(lambda path, body: chat_answer(f"answer {next(count)}")).running() as server:
        first = engine(server, journal=Journal(tmp_path / "j.jsonl"))
        said = [sample.text for sample in asyncio.run(_gather(first, 3))]
        again = engine(server, journal=Journal(tmp_path / "j.jsonl"))
        assert [sample.text for sample in asyncio.run(_gather(again, 3))] == said
        assert [sample.text for sample in again.sample([request(n) for n in range(3)])] == said
        assert len(server.asked) == 3
        other = Request(request(0).tokens, request(0).decoding, Key.of(0), (), ({"role": "user", "content": "3+3"},))
        assert again.sample([other])[0].text not in said, "the same place in the run, but another question"
        assert len(server.asked) == 4


def test_failures_of_single_requests_are_replayed_too(tmp_path: Path) -> None:
    long = {"error": {"message": "maximum context length is 5"}}
    replies = [chat_answer("4"), Said({}, 500), Said(long, 400)]
    with Server(lambda path, body: replies.pop(0)).running() as server:
        for _ in range(2):
            asking = engine(server, journal=Journal(tmp_path / "j.jsonl"))
            assert asking.sample([request(0)])[0].text == "4"
            with pytest.raises(EndpointError, match="HTTP 500"):
                asking.sample([request(1)])
            with pytest.raises(ContextFull):
                asking.sample([request(2)])
        assert len(server.asked) == 3


def test_log_probs_survive_the_journal(tmp_path: Path) -> None:
    logp = [-1 / 3, -math.pi]
    with Server(lambda path, body: token_answer("4", [5, 6], logp)).running() as server:
        for _ in range(2):
            asking = engine(server, tokens=True, journal=Journal(tmp_path / "j.jsonl"))
            found = asking.sample([request()])[0].logp
            assert found is not None
            np.testing.assert_array_equal(found, np.float32(logp))


# ---------------------------------------------------------------- in a team


class Pair(Workflow):
    roles = ("student", "judge")

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        answer = await team.student(scenario.prompt or "")
        verdict = await team.judge([f"Is {answer} right?"])
        second = await team.judge("Sure?")
        return Outcome(rewards={"judge": float(str(verdict) == "oui, ça va"), "sure": float(str(second) == "oui")})


def played(server: Server) -> Trajectory:
    barrier = Barrier()
    plain = TextChat(build_tokenizer())
    judge = engine(server, barrier=barrier)
    actors = {
        "student": Actor("policy", ScriptedEngine(["4"], CHAT), CHAT),
        "judge": Actor("judge", judge, plain, learns=False),
    }
    player = TextPlayer(Pair(), actors)
    (found,) = asyncio.run(player.play([Assignment(Scenario("s", "2+2"))], key=Key.of(0)))
    assert player.decode(CHAT.encode("4")) == "4"
    return found


def test_a_judge_by_text_keeps_its_conversation_word_for_word() -> None:
    replies = [chat_answer("oui, ça va"), chat_answer("oui")]
    with Server(lambda path, body: replies.pop(0)).running() as server:
        found = played(server)
    assert found.failure is None
    assert {name: score.value for name, score in found.scores.items()} == {"judge": 1.0, "sure": 1.0}
    assert server.asked[1].body["messages"] == [
        {"role": "user", "content": "Is 4 right?"},
        {"role": "assistant", "content": "oui, ça va"},
        {"role": "user", "content": "Sure?"},
    ]
    student, first, second = found.turns
    assert not student.forced.any()
    assert first.forced.all()
    assert first.logp is None
    assert second.parent is first
    assert (first.text, second.text) == ("oui, ça va", "oui")


def test_one_failed_request_fails_its_episode_and_a_wrong_key_the_run() -> None:
    replies = [chat_answer("oui"), Said({}, 500)]
    with Server(lambda path, body: replies.pop(0)).running() as server:
        assert "EndpointError" in str(played(server).failure)
    with (
        Server(lambda path, body: Said({}, 401)).running() as server,
        pytest.raises(ConfigurationError, match="refuses access"),
    ):
        played(server)


class Twice(Workflow):
    roles = ("student", "judge")

    async def play(self, scenario: Scenario, team: Team) -> None:
        first = await team.student(scenario.prompt or "")
        await team.student([await team.judge([first])])


@pytest.mark.parametrize("whole", [False, True])
def test_what_is_said_here_does_not_depend_on_how_fast_the_server_is(
    whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where an engine runs whole batches, they are the same too."""
    policy, batches = CausalLM.from_pretrained(str(BASE), name="policy", key=Key.of(0)), []

    class Counting(LocalEngine):
        def sample(self, requests: Sequence[Request]) -> list[Sample]:
            batches.append(len(requests))
            return super().sample(requests)

    if whole:
        monkeypatch.setattr(Counting, "_split", lambda self, asked: ([], list(asked)))

    def play(share: int) -> list[list[list[int]]]:
        barrier = Barrier()
        local = Counting(policy, barrier=barrier)

        def late(path: str, body: Any) -> Said:
            return Said(chat_answer("1+1").value, wait=body["seed"] * share % 5 * 0.03)

        with Server(late).running() as server:
            actors = {
                "student": Actor("policy", local, CHAT),
                "judge": Actor("judge", engine(server, barrier=barrier), TextChat(build_tokenizer()), learns=False),
            }
            asked = Assignment(Scenario("s", "2+2"), samples=4, decoding=Decoding(max_tokens=6))
            found = asyncio.run(TextPlayer(Twice(), actors).play([asked], key=Key.of(0)))
        assert [len(one.turns) for one in found] == [3] * 4
        return [[turn.action.tolist() for turn in one.turns] for one in found]

    assert play(1) == play(3)
    assert batches == ([4, 4] * 2 if whole else [])


def test_a_text_chat_shows_no_tools() -> None:
    with pytest.raises(ConfigurationError, match=r"roles\.NAME\.tokenizer"):
        TextChat(build_tokenizer()).opening(ASKED, [{"name": "calculator"}])
