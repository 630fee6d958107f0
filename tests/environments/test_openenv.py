"""Environments behind a server that speaks OpenEnv's protocol, started here in a thread."""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
from collections.abc import Iterator
from typing import Any

import players
import pytest
from workflows import chats, engines

pytest.importorskip("websockets")
pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from hocket.agents.environments.openenv import OpenEnv
from hocket.agents.workflows.environment import PlayEnvironment
from hocket.agents.workflows.episode import Limits
from hocket.agents.workflows.player import TextPlayer
from hocket.agents.workflows.team import Actor
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key
from hocket.engine.barrier import Barrier
from hocket.testing import rehearse
from hocket.types import Assignment, Scenario

CAPACITY = 2


class Doors:
    """Behind one of three doors is a prize; three tries. Looking tells on which side it lies."""

    def __init__(self) -> None:
        self.prize, self.steps, self.done = 0, 0, False

    def reset(self, seed: int | None = None) -> dict[str, Any]:
        self.prize, self.steps, self.done = random.Random(seed).randrange(3), 0, False
        return self._result("Three doors.", None)

    def step(self, action: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(action.get("message"), str):
            raise TypeError("message must be text")
        if action["message"] == "crash":
            raise RuntimeError("the house is on fire")
        self.steps += 1
        right = action["message"] == str(self.prize)
        self.done = right or self.steps == 3
        said = "The prize!" if right else f"Not {action['message']}."
        return self._result(said, 1.0 if right else -0.125)

    def state(self) -> dict[str, Any]:
        return {"episode_id": "e", "step_count": self.steps}

    def _result(self, said: str, reward: float | None) -> dict[str, Any]:
        return {"observation": {"said": said, "tries": self.steps}, "reward": reward, "done": self.done}


SHARED, OPEN = Doors(), []


async def reset(request: Request) -> JSONResponse:
    return JSONResponse(SHARED.reset((await request.json()).get("seed")))


async def step(request: Request) -> JSONResponse:
    try:
        return JSONResponse(SHARED.step((await request.json())["action"]))
    except TypeError as error:
        return JSONResponse({"detail": str(error)}, 422)


async def state(request: Request) -> JSONResponse:
    return JSONResponse(SHARED.state())


async def session(socket: WebSocket) -> None:
    await socket.accept()
    if len(OPEN) >= CAPACITY:
        await socket.send_text(error("CAPACITY_REACHED", "server at capacity"))
        await socket.close()
        return
    doors = Doors()
    OPEN.append(doors)
    try:
        while (asked := json.loads(await socket.receive_text()))["type"] != "close":
            await socket.send_text(answer(doors, asked))
        await socket.close()
    except WebSocketDisconnect:
        return
    finally:
        OPEN.remove(doors)


def answer(doors: Doors, asked: dict[str, Any]) -> str:
    try:
        if asked["type"] == "state":
            return json.dumps({"type": "state", "data": doors.state()})
        result = doors.reset(asked["data"]["seed"]) if asked["type"] == "reset" else doors.step(asked["data"])
        return json.dumps({"type": "observation", "data": result})
    except TypeError as wrong:
        return error("VALIDATION_ERROR", str(wrong))
    except RuntimeError as wrong:
        return error("EXECUTION_ERROR", str(wrong))


def error(code: str, message: str) -> str:
    return json.dumps({"type": "error", "data": {"code": code, "message": message}})


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    routes = [
        Route("/reset", reset, methods=["POST"]),
        Route("/step", step, methods=["POST"]),
        Route("/state", state),
        WebSocketRoute("/ws", session),
    ]
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(10)


@pytest.mark.parametrize("wire", ["session", "http"])
def test_episodes_come_over_either_wire(url: str, wire: Any) -> None:
    world = OpenEnv(url, show="said", wire=wire)
    environment = players.started(world, 3)
    assert environment.blocking
    assert environment.observe("agent").text == "Three doors."
    assert environment.observe("agent").actions is None
    earned = []
    for door in ("0", "1", "2"):
        if environment.acting:
            earned += environment.act({"agent": door}).values()
    assert environment.over
    assert earned == [-0.125] * (len(earned) - 1) + [1.0]
    assert environment.observe("agent").text == "The prize!"
    assert environment.state() == {"episode_id": "e", "step_count": len(earned)}  # type: ignore[attr-defined]
    environment.close()
    again = players.started(world, 3)
    log = [next(iter(again.act({"agent": door}).values())) for door in ("0", "1", "2")[: len(earned)]]
    assert log == earned
    again.close()


def test_everything_is_shown_unless_one_field_is_named(url: str) -> None:
    environment = players.started(OpenEnv(url), 0)
    assert environment.observe("agent").text == "said: Three doors.\ntries: 0"
    environment.act({"agent": "7"})
    assert environment.observe("agent").told(remembering=True) == "said: Not 7.\ntries: 1"
    environment.close()


def test_listed_moves_stand_for_actions_and_others_are_illegal(url: str) -> None:
    moves = {"left": {"message": "0"}, "middle": {"message": "1"}, "right": {"message": "2"}, "odd": {"message": 5}}
    environment = players.started(OpenEnv(url, moves=moves, show="said", penalty=0.5, tries=1), 0)
    assert environment.observe("agent").told() == "Three doors.\nLegal moves: left, middle, right, odd"
    assert environment.act({"agent": "door"}) == {"agent": -0.5}
    assert environment.observe("agent").text == "Three doors.\nThat was not a legal move. Try again."
    environment.act({"agent": "Left"})
    assert environment.act({"agent": "odd"}) == {"agent": -0.5}  # the server refuses it
    assert environment.illegal == {"agent": 2}
    assert environment.act({"agent": ""}) == {"agent": -0.5}
    assert environment.over
    environment.close()


def test_the_text_player_plays_more_episodes_than_the_server_has_places(url: str) -> None:
    world = OpenEnv(
        url, concurrent=CAPACITY, show="said", moves={str(door): {"message": str(door)} for door in range(3)}
    )
    chat = chats.chat("nano")
    engine = engines.WaitingEngine(players.reply, chat, Barrier(patience=30.0))
    player = TextPlayer(PlayEnvironment(world), {"policy": Actor("main", engine, chat)}, Limits(seconds=20))
    found = asyncio.run(player.play([Assignment(Scenario("s", seed=1), samples=7)], key=Key.of(0)))
    assert [one.failure for one in found] == [None] * 7
    assert all(one.info["returns"]["agent"] <= 1.0 for one in found)
    deadline = time.monotonic() + 5
    while OPEN and time.monotonic() < deadline:
        time.sleep(0.01)
    assert OPEN == []


def test_more_sessions_than_places_are_explained(url: str) -> None:
    live = [players.started(OpenEnv(url), 0) for _ in range(CAPACITY)]
    with pytest.raises(HocketError, match=r"no place left: server at capacity .* lower concurrent"):
        players.started(OpenEnv(url), 0)
    for environment in live:
        environment.close()


def test_a_server_that_fails_ends_its_episode_with_its_words(url: str) -> None:
    (found,) = rehearse(PlayEnvironment(OpenEnv(url)), Scenario("s"), ["crash"])
    assert "failed: the house is on fire" in str(found.failure)


@pytest.mark.parametrize("wire", ["session", "http"])
def test_nobody_there_is_said_in_a_sentence(wire: Any) -> None:
    with pytest.raises(HocketError, match="cannot be reached"):
        players.started(OpenEnv("http://127.0.0.1:9", wire=wire, seconds=2.0), 0)


def test_settings_are_checked() -> None:
    with pytest.raises(ConfigurationError, match="is no address"):
        OpenEnv("localhost:8000")
    with pytest.raises(ConfigurationError, match="wire is session or http"):
        OpenEnv("http://localhost", wire="post")  # type: ignore[arg-type]
    assert OpenEnv("http://localhost", wire="http", concurrent=8).concurrent == 1
