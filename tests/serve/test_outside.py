"""Agents written elsewhere, in training: over real sockets, every call a turn with the tokens that were sampled."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import openai
import pytest
from serve_cases import WAIT, events, joined

from hocket.agents.tools.calculator import CALCULATOR
from hocket.agents.workflows.chat import Chat
from hocket.agents.workflows.episode import Limits
from hocket.agents.workflows.library import find
from hocket.agents.workflows.player import TextPlayer
from hocket.agents.workflows.team import Actor
from hocket.agents.workflows.workflow import Outcome
from hocket.apps.serve.outside_agent import OutsideAgent
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.engine.barrier import Barrier
from hocket.engine.local import LocalEngine
from hocket.engine.requests import Engine, Request, Sample
from hocket.nano import BASE
from hocket.nano.tokenizer import build_tokenizer
from hocket.policies.causal_lm import CausalLM
from hocket.testing import Script, ScriptedEngine
from hocket.types import Assignment, Decoding, Scenario, Trajectory

CHAT = Chat(build_tokenizer())
Agent = Callable[..., Awaitable[Any]]


@contextmanager
def outside(agent: Any, roles: tuple[str, ...] = ("policy",)) -> Iterator[OutsideAgent]:
    workflow = OutsideAgent(agent, roles)
    try:
        yield workflow
    finally:
        workflow.close()


def play(
    agent: Any,
    engine: Engine | Script,
    *,
    samples: int = 1,
    scenarios: int = 1,
    limits: Limits | None = None,
    roles: tuple[str, ...] = ("policy",),
    **decoding: Any,
) -> list[Trajectory]:
    """Plays an outside agent, with a scripted model unless an engine is given."""
    if not hasattr(engine, "submit"):
        engine = ScriptedEngine(engine, CHAT)  # type: ignore[arg-type]
    way = Decoding(**{"max_tokens": 100, **decoding})
    asked = [
        Assignment(Scenario(f"s{number}", f"What is {number} + 2?"), samples=samples, decoding=way)
        for number in range(scenarios)
    ]
    with outside(agent, roles) as workflow:
        actors = {role: Actor(role, engine, CHAT) for role in roles}  # type: ignore[arg-type]
        player = TextPlayer(workflow, actors, limits or Limits())
        return asyncio.run(player.play(asked, key=Key.of(0)))


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


@dataclass
class Client:
    """A plain client of one episode."""

    base_url: str
    api_key: str
    http: httpx.AsyncClient = field(default_factory=lambda: httpx.AsyncClient(timeout=WAIT))

    async def post(self, *messages: Any, headers: dict[str, str] | None = None, **more: Any) -> httpx.Response:
        body = {"model": "any", "messages": list(messages), **more}
        return await self.http.post(f"{self.base_url}/chat/completions", json=body, headers=headers)

    async def say(self, *messages: Any, **more: Any) -> dict[str, Any]:
        response = await self.post(*messages, **more)
        assert response.status_code == 200, response.text
        message: dict[str, Any] = response.json()["choices"][0]["message"]
        return message


def nano() -> LocalEngine:
    policy = CausalLM.from_pretrained(str(BASE), key=Key.of(0))
    policy.end_of_turn = CHAT.stops
    return LocalEngine(policy)


def chain(trajectory: Trajectory, place: int = -1) -> list[int]:
    path = trajectory.turns[place].context()
    return [int(token) for turn in path for token in (*turn.observation, *turn.action)]


# ---------------------------------------------------------------- what is recorded


def test_turns_hold_what_was_sampled_and_the_client_read():
    seen: list[dict[str, Any]] = []

    async def agent(base_url, api_key, scenario):
        client = Client(base_url, api_key)
        messages: list[Any] = [user(scenario.prompt)]
        for _ in range(3):
            response = (await client.post(*messages, logprobs=True)).json()
            seen.append(response)
            messages += [response["choices"][0]["message"], user("Again, please.")]
        return 0.25

    engine = nano()
    (trajectory,) = play(agent, engine)
    assert trajectory.failure is None
    assert trajectory.scores["agent"].value == 0.25
    assert [len(turn.context()) for turn in trajectory.turns] == [1, 2, 3]
    for place, (turn, response) in enumerate(zip(trajectory.turns, seen, strict=True)):
        choice = response["choices"][0]
        assert choice["message"]["content"] == turn.text == CHAT.reply_text(turn.action.tolist())
        assert turn.logp is not None
        told = [entry["logprob"] for entry in choice["logprobs"]["content"]]
        assert np.array_equal(np.float32(told), turn.logp[: len(told)])
        assert response["usage"]["completion_tokens"] == len(turn)
        assert response["usage"]["prompt_tokens"] == len(chain(trajectory, place)) - len(turn)
        context = tuple(chain(trajectory, place)[: -len(turn)])
        # The same draw again, from the engine alone.
        key = _key(trajectory, context)
        (again,) = engine.sample([Request(context, Decoding(max_tokens=100), key)])
        assert np.array_equal(again.tokens, turn.action)
        assert np.array_equal(again.logp, turn.logp)


def _key(trajectory: Trajectory, context: tuple[int, ...]) -> Key:
    import hashlib

    digest = hashlib.blake2b(np.asarray(context, np.int64).tobytes(), digest_size=16).hexdigest()
    return Key.of(0).derive(trajectory.scenario.id, "own", trajectory.sample).derive("policy", digest, 0)


def test_the_official_client_unchanged():
    async def agent(base_url, api_key, scenario):
        client = openai.AsyncOpenAI(base_url=base_url, api_key=api_key)
        told = await client.chat.completions.create(model="gpt-4o", messages=[user(scenario.prompt)])
        text = told.choices[0].message.content
        stream = await client.chat.completions.create(
            model="gpt-4o",
            messages=[user(scenario.prompt), {"role": "assistant", "content": text}, user("More")],
            stream=True,
        )
        parts = [part.choices[0].delta.content or "" async for part in stream]
        return "".join(parts)

    for trajectory in play(agent, lambda request: "said " * 5, samples=3):
        assert trajectory.failure is None
        assert trajectory.info["answer"] == "said " * 5
        assert trajectory.turns[1].parent is trajectory.turns[0]


@pytest.mark.global_rng
def test_the_official_client_in_threads():
    def agent(base_url, api_key, scenario):
        client = openai.OpenAI(base_url=base_url, api_key=api_key)
        told = client.chat.completions.create(model="m", messages=[user(scenario.prompt)])
        return float(told.choices[0].message.content == "ok")

    found = play(agent, lambda request: "ok", samples=8)
    assert [trajectory.scores["agent"].value for trajectory in found] == [1.0] * 8


@pytest.mark.parametrize("settings", [{}, {"stop": ["="]}, {"max_tokens": 5}, {"n": 3}])
def test_streams_give_the_tokens_of_whole_answers(settings: dict[str, Any]):
    def asking(stream: bool) -> Agent:
        async def agent(base_url, api_key, scenario):
            response = await Client(base_url, api_key).post(user(scenario.prompt), stream=stream, **settings)
            count = settings.get("n", 1)
            if stream:
                return json.dumps([joined(events(response), index) for index in range(count)])
            return json.dumps([choice["message"]["content"] for choice in response.json()["choices"]])

        return agent

    engine = nano()
    whole = play(asking(False), engine, scenarios=4)
    parts = play(asking(True), engine, scenarios=4)
    for one, other in zip(whole, parts, strict=True):
        assert one.failure is other.failure is None
        assert one.info["answer"] == other.info["answer"]
        assert [turn.action.tolist() for turn in one.turns] == [turn.action.tolist() for turn in other.turns]
        assert len(one.turns) == settings.get("n", 1)


def test_edited_and_shortened_histories_open_branches_and_credit_only_what_was_sampled():
    async def agent(base_url, api_key, scenario):
        client = Client(base_url, api_key)
        first = await client.say(user("a"))
        second = await client.say(user("a"), first, user("b"))
        await client.say(user("a"), first, user("b"), {"role": "assistant", "content": "never said"}, user("c"))
        await client.say(user("b"), second, user("d"))

    (trajectory,) = play(agent, ["one", "two", "three", "four"])
    one, two, three, four = trajectory.turns
    assert (one.parent, two.parent, three.parent, four.parent) == (None, one, one, None)
    assert "never said" in CHAT.render(three.observation.tolist())
    assert "two" in CHAT.render(four.observation.tolist())
    batch = pack([trajectory])
    assert (
        batch.decisions == sum(map(len, trajectory.turns)) == sum(len(w) + 1 for w in ("one", "two", "three", "four"))
    )
    assert float(batch.occurrences.weight.sum()) == batch.decisions


def test_calls_of_tools_come_back_as_they_were_written():
    # With a space that a template would not write: the exact tokens stay all the same.
    written = 'Well. <tool_call>{"name":  "calculator", "arguments": {"expression": "1 + 2"}}</tool_call>'

    async def agent(base_url, api_key, scenario):
        client = openai.AsyncOpenAI(base_url=base_url, api_key=api_key)
        messages: list[Any] = [user(scenario.prompt)]
        told = await client.chat.completions.create(model="m", messages=messages, tools=[CALCULATOR])
        (call,) = told.choices[0].message.tool_calls
        assert told.choices[0].finish_reason == "tool_calls"
        assert json.loads(call.function.arguments) == {"expression": "1 + 2"}
        messages += [told.choices[0].message.model_dump(exclude_none=True)]
        messages += [{"role": "tool", "tool_call_id": call.id, "content": "3"}]
        told = await client.chat.completions.create(model="m", messages=messages, tools=[CALCULATOR])
        return told.choices[0].message.content

    (trajectory,) = play(agent, [written, "<answer>3</answer>"])
    assert trajectory.failure is None, trajectory.failure
    one, two = trajectory.turns
    assert two.parent is one
    assert CHAT.render(chain(trajectory)).count(written) == 1


def test_calls_side_by_side_in_one_episode():
    async def agent(base_url, api_key, scenario):
        client = Client(base_url, api_key)
        plan = await client.say(user("plan"))
        return " ".join(
            reply["content"]
            for reply in await asyncio.gather(
                *(client.say(user("plan"), plan, user(word)) for word in ("x", "y", "y")), client.say(user("else"))
            )
        )

    found = play(agent, lambda request: str(request.key.value % 1000), samples=4)
    for trajectory in found:
        assert trajectory.failure is None
        plan, *others = trajectory.turns
        assert sorted(turn.parent is plan for turn in others) == [False, True, True, True]
        # The same question twice is asked twice.
        assert len(set(str(trajectory.info["answer"]).split())) == 4
    assert len({str(trajectory.info["answer"]) for trajectory in found}) == 4


def test_results_do_not_depend_on_when_calls_arrive():
    def agent_with(seed: int) -> Agent:
        async def agent(base_url, api_key, scenario):
            async def ask(word: str, place: int) -> str:
                for _ in range(seed * (place + len(scenario.id)) % 7):
                    await asyncio.sleep(0)
                return str((await client.say(user(word)))["content"])

            client = Client(base_url, api_key)
            words = await asyncio.gather(*(ask(word, place) for place, word in enumerate("abc")))
            return " ".join(words)

        return agent

    def answers(seed: int) -> list[Any]:
        found = play(agent_with(seed), lambda request: str(request.key.value % 10**6), samples=3, scenarios=3)
        return [trajectory.info["answer"] for trajectory in found]

    assert answers(1) == answers(3) == answers(5)


def test_calls_of_all_episodes_are_sampled_together():
    class Counting(ScriptedEngine):
        """Answers all pending requests together once every live workflow waits."""

        def __init__(self) -> None:
            super().__init__(lambda request: "ok", CHAT)
            self.barrier = Barrier()
            self.barrier.serve(self._run)
            self.batches: list[int] = []
            self._pending: list[tuple[Request, asyncio.Future[Sample]]] = []

        def episode(self) -> Any:
            return self.barrier.episode()

        async def submit(self, request: Request) -> Sample:
            answer: asyncio.Future[Sample] = asyncio.get_running_loop().create_future()
            self._pending.append((request, answer))
            async with self.barrier.waiting():
                return await answer

        def _run(self) -> bool:
            batch, self._pending = self._pending, []
            if batch:
                self.batches.append(len(batch))
            for request, answer in batch:
                answer.set_result(self._sample(request))
            return bool(batch)

    async def agent(base_url, api_key, scenario):
        client = Client(base_url, api_key, HTTP)
        first = await client.say(user("a"))
        await client.say(user("a"), first, user("b"))

    HTTP = httpx.AsyncClient(timeout=WAIT, limits=httpx.Limits(max_connections=None))
    engine = Counting()
    found = play(agent, engine, samples=20, scenarios=6)
    assert [trajectory.failure for trajectory in found if trajectory.failure is not None] == []
    assert engine.batches == [120, 120]


# ---------------------------------------------------------------- sent again


def test_a_named_request_is_answered_once():
    async def agent(base_url, api_key, scenario):
        client = Client(base_url, api_key)
        name = {"idempotency-key": "k1"}
        both = await asyncio.gather(*(client.post(user("a"), headers=name) for _ in range(2)))
        later = await client.post(user("a"), headers=name)
        assert both[0].content.split(b"created")[0] == later.content.split(b"created")[0]
        texts = {one.json()["choices"][0]["message"]["content"] for one in (*both, later)}
        clash = await client.post(user("b"), headers=name)
        assert clash.status_code == 422
        return " ".join(texts)

    (trajectory,) = play(agent, lambda request: str(request.key.value))
    assert trajectory.failure is None
    assert len(trajectory.turns) == 1
    assert trajectory.info["answer"] == trajectory.turns[0].text


def test_a_named_request_survives_the_client_that_left():
    begun, go_on = threading.Event(), threading.Event()

    class Gated(ScriptedEngine):
        async def submit(self, request: Request) -> Sample:
            begun.set()
            await asyncio.to_thread(go_on.wait, WAIT)
            return self._sample(request)

    async def agent(base_url, api_key, scenario):
        client = Client(base_url, api_key)
        name = {"idempotency-key": "k1"}
        lost = asyncio.create_task(client.post(user("a"), headers=name))
        await asyncio.to_thread(begun.wait, WAIT)
        lost.cancel()
        await asyncio.gather(lost, return_exceptions=True)
        again = asyncio.create_task(client.post(user("a"), headers=name))
        go_on.set()
        return (await again).json()["choices"][0]["message"]["content"]

    engine = Gated(["once"], CHAT)
    (trajectory,) = play(agent, engine)
    assert trajectory.info["answer"] == "once"
    assert len(trajectory.turns) == len(engine.requests) == 1


def test_the_official_clients_retries_are_answered_once():
    async def agent(base_url, api_key, scenario):
        client = Client(base_url, api_key)
        first = (await client.post(user("a"))).json()
        again = (await client.post(user("a"), headers={"x-stainless-retry-count": "1"})).json()
        assert first["choices"] == again["choices"]
        other = (await client.post(user("a"))).json()  # The same body without the header is another question.
        return float(other["choices"] != first["choices"])

    (trajectory,) = play(agent, lambda request: str(request.key.value))
    assert trajectory.failure is None
    assert len(trajectory.turns) == 2
    assert trajectory.scores["agent"].value == 1.0


# ---------------------------------------------------------------- who may ask


def test_unknown_and_ended_episodes_are_refused():
    doors: list[str] = []

    async def agent(base_url, api_key, scenario):
        client = Client(base_url, api_key)
        address = base_url.split("/e/")[0]
        doors.append(base_url)
        unknown = Client(f"{address}/e/{'0' * 32}/v1", "x")
        refused = [await unknown.post(user("a"))]
        plain = Client(f"{address}/v1", "x")
        refused.append(await plain.post(user("a")))
        refused.append(await plain.post(user("a"), headers={"authorization": "Bearer wrong"}))
        for ended in doors[:-1]:
            refused.append(await Client(ended, "x").post(user("a")))
        # The episode's key opens the plain address too.
        right = await plain.post(user("a"), headers={"authorization": f"Bearer {api_key}"})
        assert right.status_code == 200
        names = (await client.http.get(f"{base_url}/models")).json()["data"]
        assert [one["id"] for one in names] == ["policy"]
        return json.dumps([[one.status_code, one.json()["error"]["code"]] for one in refused])

    with outside(agent) as workflow:
        player = TextPlayer(workflow, {"policy": Actor("policy", ScriptedEngine(lambda request: "x", CHAT), CHAT)})
        for number in range(2):
            asked = [Assignment(Scenario(f"s{number}", "?"))]
            (trajectory,) = asyncio.run(player.play(asked, key=Key.of(0)))
            assert trajectory.failure is None, trajectory.failure
            assert len(trajectory.turns) == 1
    told = json.loads(trajectory.info["answer"])
    assert told == [
        [404, "unknown_episode"],
        [401, "invalid_api_key"],
        [401, "invalid_api_key"],
        [410, "episode_closed"],
    ]


def test_calls_that_are_pending_when_the_agent_returns_are_given_up():
    left: list[asyncio.Task[httpx.Response]] = []

    class Never(ScriptedEngine):
        async def submit(self, request: Request) -> Sample:
            if "slow" in CHAT.render(request.tokens):
                begun.set()
                await asyncio.Event().wait()
            return self._sample(request)

    begun = threading.Event()

    async def agent(base_url, api_key, scenario):
        client = Client(base_url, api_key)
        left.append(asyncio.create_task(client.post(user("slow"))))
        await asyncio.to_thread(begun.wait, WAIT)
        await client.say(user("fast"))
        return 1.0

    with outside(agent) as workflow:
        player = TextPlayer(workflow, {"policy": Actor("policy", Never(lambda request: "x", CHAT), CHAT)})
        (trajectory,) = asyncio.run(player.play([Assignment(Scenario("s", "?"))], key=Key.of(0)))
        assert trajectory.failure is None
        assert [turn.prompt[-1]["content"] for turn in trajectory.turns] == ["fast"]
        assert workflow._gate is not None

        async def told() -> httpx.Response:
            return await left[0]

        refused = asyncio.run_coroutine_threadsafe(told(), workflow._gate.loop).result(WAIT)
        assert refused.status_code == 410


def test_roles_are_named_as_models():
    async def agent(base_url, api_key, scenario):
        client = Client(base_url, api_key)
        plan = await client.say(user("a"), model="planner")
        await client.say(user(plan["content"]), model="worker")
        refused = await client.post(user("a"), model="gpt-4o")
        return json.dumps([refused.status_code, refused.json()["error"]["code"]])

    (trajectory,) = play(agent, ["one", "two"], roles=("planner", "worker"))
    assert [turn.role for turn in trajectory.turns] == ["planner", "worker"]
    assert [turn.policy for turn in trajectory.turns] == ["planner", "worker"]
    assert json.loads(trajectory.info["answer"]) == [404, "model_not_found"]


# ---------------------------------------------------------------- how episodes end


def test_limits_end_an_episode_as_truncated():
    async def agent(base_url, api_key, scenario):
        client = Client(base_url, api_key)
        while True:
            response = await client.post(user("a"))
            if response.status_code != 200:
                raise RuntimeError(response.json()["error"]["code"])

    (trajectory,) = play(agent, lambda request: "x", limits=Limits(turns=3))
    assert trajectory.failure is None
    assert trajectory.truncated
    assert "3 turns" in trajectory.info["limit"]
    assert len(trajectory.turns) == 3


def test_an_agent_that_takes_a_limit_in_its_stride_just_ends():
    async def agent(base_url, api_key, scenario):
        client = Client(base_url, api_key)
        await client.say(user("a"))
        assert (await client.post(user("b"))).json()["error"]["code"] == "episode_limit"
        return 1.0

    (trajectory,) = play(agent, lambda request: "x", limits=Limits(turns=1))
    assert trajectory.scores["agent"].value == 1.0
    assert trajectory.terminated


def test_a_context_that_is_full_is_a_limit():
    async def agent(base_url, api_key, scenario):
        client = openai.AsyncOpenAI(base_url=base_url, api_key=api_key)
        await client.chat.completions.create(model="m", messages=[user("1" * 3000)])

    (trajectory,) = play(agent, nano())
    assert "context" in trajectory.info["limit"]


def test_seconds_end_agents_that_wait_for_ever():
    async def agent(base_url, api_key, scenario):
        await asyncio.Event().wait()

    def stuck(base_url, api_key, scenario):
        threading.Event().wait(WAIT)

    for one in (agent, stuck):
        (trajectory,) = play(one, lambda request: "x", limits=Limits(seconds=0.1))
        assert "limits.seconds" in trajectory.info["limit"]


def test_an_agent_that_raises_fails_its_own_episode_only():
    async def agent(base_url, api_key, scenario):
        await Client(base_url, api_key).say(user("a"))
        if scenario.id == "s1":
            raise ValueError("no luck")
        return 1.0

    found = play(agent, lambda request: "x", scenarios=3)
    assert [trajectory.failure is None for trajectory in found] == [True, False, True]
    assert "the agent raised ValueError: no luck in agent() line" in str(found[1].failure)
    assert len(found[1].turns) == 1


@pytest.mark.parametrize(
    ("given", "scores", "answer"),
    [
        (None, {}, None),
        (1, {"agent": 1.0}, None),
        (True, {"agent": 1.0}, None),
        (-0.5, {"agent": -0.5}, None),
        ("four", {}, "four"),
        (Outcome(answer="x", rewards={"own": 2.0}), {"own": 2.0}, "x"),
    ],
)
def test_what_agents_return(given: Any, scores: dict[str, float], answer: str | None):
    async def agent(base_url):
        await Client(base_url, "").say(user("a"))
        return given

    (trajectory,) = play(agent, lambda request: "x")
    assert {name: score.value for name, score in trajectory.scores.items()} == scores
    assert trajectory.info.get("answer") == answer


@pytest.mark.parametrize("given", [float("nan"), [1.0], object()])
def test_what_agents_cannot_return(given: Any):
    async def agent():
        return given

    (trajectory,) = play(agent, lambda request: "x")
    assert "the agent returned" in str(trajectory.failure)


def test_rewards_by_post():
    async def agent(reward_url, base_url):
        client = Client(base_url, "")
        await client.say(user("a"))
        for value in (0.25, 0.75):
            assert (await client.http.post(reward_url, json={"reward": value})).status_code == 200
        assert (await client.http.post(reward_url, json={"reward": "high"})).status_code == 400
        assert (await client.http.post(reward_url, json={"score": 1})).status_code == 400
        assert (await client.http.post(reward_url, json={"answer": "four"})).status_code == 200

    (trajectory,) = play(agent, lambda request: "x")
    assert trajectory.failure is None, trajectory.failure
    assert trajectory.scores["agent"].value == 0.75
    assert trajectory.info["answer"] == "four"


# ---------------------------------------------------------------- commands

PROGRAM = """
import json, os, sys, urllib.request
scenario = json.load(sys.stdin)
def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    return json.load(urllib.request.urlopen(request))
told = post(os.environ["OPENAI_BASE_URL"] + "/chat/completions", {"model": "m", "messages": scenario["messages"]})
if sys.argv[1:] == ["fail"]:
    sys.exit("that was too hard")
post(os.environ["HOCKET_REWARD_URL"], {"reward": len(scenario["id"]) / 4})
print(told["choices"][0]["message"]["content"], os.environ["OPENAI_API_KEY"])
"""


def test_a_program_as_agent(tmp_path: Path):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    for trajectory in play(f"{sys.executable} {file}", lambda request: "said", samples=2):
        assert trajectory.failure is None, trajectory.failure
        assert trajectory.scores["agent"].value == 0.5
        said, key = str(trajectory.info["answer"]).split()
        assert said == "said"
        assert len(key) == 32
        assert trajectory.turns[0].text == "said"


def test_a_program_that_fails(tmp_path: Path):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    (trajectory,) = play([sys.executable, str(file), "fail"], lambda request: "said")
    assert "ended with code 1: that was too hard" in str(trajectory.failure)


def test_a_program_that_hangs_is_ended_with_its_children(tmp_path: Path):
    file = tmp_path / "program.py"
    mark = tmp_path / "pid"
    file.write_text(
        "import pathlib, subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"pathlib.Path({str(mark)!r}).write_text(str(child.pid))\n"
        "child.wait()\n"
    )
    (trajectory,) = play([sys.executable, str(file)], lambda request: "x", limits=Limits(seconds=5))
    assert "limits.seconds" in trajectory.info["limit"]
    state = Path(f"/proc/{mark.read_text()}/stat")
    assert not state.exists() or state.read_text().split()[2] == "Z"


def test_a_program_that_is_not_there():
    with pytest.raises(ConfigurationError, match="no-such-program"):
        play("no-such-program --at all", lambda request: "x")


# ---------------------------------------------------------------- by name


def test_names(tmp_path: Path):
    file = tmp_path / "mine.py"
    file.write_text("async def agent(base_url, scenario):\n    return 1.0\n\nasync def odd(client):\n    return 1.0\n")
    found = find(f"outside:{file}:agent")
    assert isinstance(found, OutsideAgent)
    assert found.roles == ("policy",)
    with pytest.raises(ConfigurationError, match="takes 'client'"):
        find(f"outside:{file}:odd")
    with pytest.raises(ConfigurationError, match="has no 'agnet'; did you mean 'agent'"):
        find(f"outside:{file}:agnet")
    with pytest.raises(ConfigurationError, match="is empty"):
        find("outside:")
    assert isinstance(find(f"outside:python {file} --fast"), OutsideAgent)
