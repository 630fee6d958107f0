"""Long waits are named while they last: by one mechanism, wherever something outside is waited for."""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from judged_cases import Scripted
from remote_server import Server, chat_answer
from rich.console import Console
from tiny_runs import TINY, call

from hocket.agents.tools.outside_answers import asked
from hocket.agents.workflows.episode import Episode, Limits
from hocket.apps.cli.display import LiveDisplay
from hocket.core import waits
from hocket.core.keys import Key
from hocket.core.waits import Wait, in_words, long_waits, waiting_for, watched
from hocket.distributed.cluster import connection
from hocket.engine.remote_http import Endpoint
from hocket.engine.vllm_process import EngineProcess
from hocket.rewards.judging import Answer, Question
from hocket.rewards.score import grade
from hocket.stages import Reward
from hocket.train.embedders import checked_vectors
from hocket.train.sampler import SamplerProcess
from hocket.types import Assignment, Scenario, Trajectory, Turn

LONG = 0.12
"""Seconds that things take here."""


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(waits, "PATIENCE", 0.04)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield
    assert long_waits() == {}, "what is over is not waited for"


def shown(work: Callable[[], object]) -> list[str]:
    said: list[str] = []
    with watched(said.append):
        work()
    return said


def test_a_long_wait_is_named_and_a_short_one_is_not() -> None:
    def work() -> None:
        with waiting_for("nobody"):
            pass
        with waiting_for("judge x"):
            time.sleep(LONG)

    said = shown(work)
    assert said
    assert set(said) == {"waiting for judge x for 0:00"}


def test_it_is_said_again_whenever_it_has_lasted_twice_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(waits, "PATIENCE", 30.0)
    monkeypatch.setattr(waits, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    said: list[str] = []
    moments = iter([*range(0, 300, 10), None])

    class Ended:
        """An end that comes when the clock has no more moments; each look takes ten seconds."""

        over = False

        def is_set(self) -> bool:
            return self.over

        def wait(self, seconds: float) -> None:
            assert seconds == 1.0
            moment = next(moments)
            self.over = moment is None
            clock[0] = clock[0] if moment is None else float(moment)

    with waiting_for("judge x"):
        waits._watch(said.append, Ended())  # type: ignore[arg-type]
    assert said == [f"waiting for judge x for {at}" for at in ("0:30", "1:00", "2:00", "4:00")]


def test_equal_waits_are_one_and_the_longest_counts() -> None:
    first = Wait("model m")
    time.sleep(0.05)
    others = [Wait("model m"), Wait("tool t")]
    time.sleep(0.05)
    assert {what: count for what, (_, count) in long_waits().items()} == {"model m": 2, "tool t": 1}
    assert long_waits()["model m"][0] >= 0.1
    for one in (first, *others):
        one.over()
    assert in_words("model m", 75.4, 2) == "model m for 1:15 (2 times)"


# ---------------------------------------------------------------- who is waited for


class Slow:
    """What takes its time: a tool, a line, a response."""

    name = "search"

    async def __call__(self, arguments: Any) -> str:
        await asyncio.sleep(LONG)
        return "found"

    def recv(self) -> float:
        time.sleep(LONG)
        return 0.0

    def receive(self) -> dict[str, Any]:
        return {"peak": self.recv()}

    def send(self, message: Any) -> None:
        pass


class Own(Reward):
    name = "thoughtful"
    weight = 1.0

    async def __call__(self, trajectories: Any, *, key: Key) -> list[float | None]:
        await asyncio.sleep(LONG)
        return [1.0]


def server() -> None:
    def reply(path: str, body: Any) -> Any:
        time.sleep(LONG)
        return chat_answer("yes")

    with Server(reply).running() as running:
        Endpoint(running.url, "big").ask("/chat/completions", {"model": "big"}, Key.of(0))


def judge() -> None:
    def say(prompt: str) -> Answer:
        time.sleep(LONG)
        return Answer("yes")

    Scripted(say)([Question("?")])


def reward() -> None:
    turn = Turn("a", "a", np.array([1]), np.array([2]))
    asyncio.run(grade([Trajectory(Scenario("s"), [turn])], [Own()], Key.of(0)))


def embedder() -> None:
    def embed(texts: list[str]) -> list[list[float]]:
        time.sleep(LONG)
        return [[1.0] for _ in texts]

    checked_vectors("mine.py:embed", embed, ["a"])


def sampler() -> None:
    SamplerProcess._receive(SimpleNamespace(_connection=Slow()))  # type: ignore[arg-type]


def process() -> None:
    answers = [b"done"]
    looks = iter([False, False, True])

    def ready(seconds: float) -> bool:
        time.sleep(LONG / 2)
        return next(looks)

    connection.ChildProcess.receive(SimpleNamespace(name="learner 1", ready=ready, _next=answers))  # type: ignore[arg-type]


def vllm() -> None:
    EngineProcess.ask(SimpleNamespace(_wire=Slow(), log=None), {"do": "open"})  # type: ignore[arg-type]


def workflow() -> None:
    async def play() -> None:
        episode = Episode(Assignment(Scenario("s")), Limits(), Key.of(0))

        async def own() -> None:
            await asyncio.sleep(LONG)

        assert await episode.watch(asyncio.create_task(own())) is None

    asyncio.run(play())


@pytest.mark.parametrize(
    ("work", "who"),
    [
        (server, "model big at http://127.0.0.1:"),
        (judge, "judge scripted"),
        (reward, "reward thoughtful"),
        (embedder, "embedder mine.py:embed"),
        (lambda: asyncio.run(asked(Slow(), {})), "tool search"),
        (sampler, "the process that samples"),
        (process, "learner 1"),
        (vllm, "the vLLM process"),
        (workflow, "a workflow that calls no agent"),
    ],
)
def test_everybody_who_is_waited_for_is_named(work: Callable[[], object], who: str) -> None:
    assert any(sentence.startswith(f"waiting for {who}") for sentence in shown(work))


# ---------------------------------------------------------------- where it is shown


def test_a_command_says_it_where_nobody_looks_at_a_terminal(tmp_path: Path) -> None:
    file = tmp_path / "slow.py"
    file.write_text(
        "import time\ndef slow(completions, **columns):\n    time.sleep(0.15)\n    return [1.0] * len(completions)\n"
    )
    asked_for = ["--reward", f"{file}:slow", "--steps", "1", "--runs", tmp_path, "--run"]
    assert "… waiting for reward slow for 0:00" in call("train", *TINY, *asked_for, "run").err
    assert "waiting" not in call("train", *TINY, *asked_for, "silent", "--quiet").err


def test_the_live_display_has_a_row_for_it() -> None:
    console = Console(file=io.StringIO(), width=100, force_terminal=True)
    display = LiveDisplay(console)
    with waiting_for("judge [x]"):
        time.sleep(0.05)
        console.print(display.live.get_renderable())
    console.print(display.live.get_renderable())
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert text.count("waiting for") == 1
    assert "judge [x] for 0:00" in text
