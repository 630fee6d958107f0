"""Training agents that were written elsewhere: whatever speaks the protocol of chat completions, unchanged."""

from __future__ import annotations

import asyncio
import inspect
import json
import math
import os
import shlex
import signal
import threading
import traceback
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hocket.agents.workflows.foreign import Correspondent
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.apps.serve.event_loop import across
from hocket.core.errors import ConfigurationError, HocketError, nearest
from hocket.core.occurrences import unmarked
from hocket.core.user_files import load_object
from hocket.types import Scenario

if TYPE_CHECKING:
    from hocket.apps.serve.episodes import AgentEndpoint, Gate

GIVEN = ("base_url", "api_key", "scenario", "reward_url")
"""What an agent function may ask for by naming a parameter so."""

OUTPUT = 2**20
"""Bytes that are kept of what a command writes."""

HEAD_START = 20
"""Turns of the event loop that an agent has for its first call before the next one starts."""

REWARD = "agent"
"""The name of the score that an agent gives itself."""


class OutsideAgent(Workflow):
    """Runs somebody's agent once per episode, and records what it asks the model.

    The agent talks to an OpenAI-compatible server inside this process (`hocket.apps.serve.episodes`), at an address of
    its own per episode. Every call is a turn with its exact tokens and log-probs; histories are matched as
    `hocket.agents.workflows.foreign.Correspondent` says. Sampling follows the run, not the agent: of a request's
    settings only its limit of tokens, its stop strings and `n` count. Calls of all episodes are sampled together.

    An episode ends when the agent does. A number it returns is a reward, named `agent`, text an answer, and an
    `Outcome` is taken as it is; `POST reward_url` with `{"reward": number}` does the same for programs. The task's
    verifiers judge the last reply as ever. An agent that raises fails its episode; one that was told that a limit of
    the episode is reached ends it as truncated.

    Args:
        agent: a function, `async` or not, that takes any of `base_url`, `api_key`, `scenario`, `reward_url`; or a
            command, which finds the first two in OPENAI_BASE_URL and OPENAI_API_KEY, the last in HOCKET_REWARD_URL and
            the scenario as JSON on its standard input, and prints its answer, if any.
        roles: names of models that it asks for. With one role, any name of a model is that role.

    Raises:
        ConfigurationError: when the agent needs what it is not given, or the server cannot be had.
    """

    name = "outside:"  # Without a description: it is no workflow until an agent is named.

    def __init__(self, agent: Callable[..., Any] | str | Sequence[str], roles: Sequence[str] = ("policy",)) -> None:
        self.roles = tuple(roles)
        self._agent: _Function | _Command
        if callable(agent):
            self._agent = _Function(agent)
        else:
            self._agent = _Command(tuple(shlex.split(agent) if isinstance(agent, str) else agent))
        self._gate: Gate | None = None

    @staticmethod
    def named(text: str) -> OutsideAgent:
        """`FILE.py:FUNCTION` or a command."""
        file, _, name = text.partition(".py:")
        is_function = bool(name) and " " not in text
        return OutsideAgent(load_object(f"{file}.py:{name}", "workflow") if is_function else text)

    async def play(self, scenario: Scenario, team: Team) -> Outcome | None:
        from hocket.apps.serve.episodes import AgentSession

        gate = self._opened()
        session = AgentSession({role: Correspondent(team[role]) for role in self.roles})
        with gate.opened(session) as door:
            try:
                returned = await self._agent.run(gate, door, scenario)
            except Exception as error:
                reason = session.broken or session.stopped
                if reason is None:
                    raise
                raise reason from error
        if session.broken is not None:
            raise session.broken
        return _outcome(returned, session.reward, session.answer)

    def close(self) -> None:
        """Stops the server; the next episode starts another."""
        if self._gate is not None:
            self._gate.close()
            self._gate = None

    def _opened(self) -> Gate:
        from hocket.apps.serve.episodes import Gate
        from hocket.apps.serve.host import require

        if self._gate is None:
            require()
            self._gate = Gate(self.roles)
            weakref.finalize(self, self._gate.close).atexit = False
        return self._gate


class AgentFailed(HocketError):
    """An outside agent raised, or ended badly."""


class _Function:
    """An agent that is a Python function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        parameters = inspect.signature(function).parameters.values()
        self._takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
        named = [
            parameter
            for parameter in parameters
            if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        ]
        self._takes = [
            parameter.name
            for parameter in named
            if parameter.name in GIVEN and parameter.kind is not parameter.POSITIONAL_ONLY
        ]
        for parameter in named:
            if parameter.name not in self._takes and parameter.default is parameter.empty:
                raise ConfigurationError(
                    f"the outside agent {function.__name__} takes {parameter.name!r}, which it is not given"
                    f"{nearest(parameter.name, GIVEN)}"
                )

    async def run(self, gate: Gate, door: AgentEndpoint, scenario: Scenario) -> Any:
        """Runs it: `async` functions all in one loop, beside the server; others each in a thread."""
        known = {
            "base_url": door.base_url,
            "api_key": door.api_key,
            "scenario": scenario,
            "reward_url": door.reward_url,
        }
        arguments = known if self._takes_all else {name: known[name] for name in self._takes}
        called = self._function if inspect.isroutine(self._function) else type(self._function).__call__
        if inspect.iscoroutinefunction(inspect.unwrap(called)):
            return await across(gate.loop, lambda: self._told(self._paced(gate, arguments)))
        return await self._told(_in_thread(lambda: self._function(**arguments)))

    async def _paced(self, gate: Gate, arguments: Mapping[str, Any]) -> Any:
        """One starts after the other, and has connected before the next one does.

        Making a client can take a tenth of a second of computing. Were all to do so at once, the connections of the
        first would time out before the loop got to look at them.
        """
        task: asyncio.Task[Any] | None = None
        try:
            async with gate.starting:
                task = asyncio.create_task(self._function(**arguments))
                for _ in range(HEAD_START):
                    await asyncio.sleep(0)
            return await task
        finally:
            if task is not None:
                task.cancel()

    async def _told(self, work: Awaitable[Any]) -> Any:
        """What the agent gives back, or where it failed."""
        try:
            return await work
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            file = inspect.getsourcefile(inspect.unwrap(self._function))
            inside = [frame for frame in frames if frame.filename == file]
            where = f" in {inside[-1].name}() line {inside[-1].lineno}" if inside else ""
            raise AgentFailed(f"the agent raised {type(error).__name__}: {error}{where}") from error


async def _in_thread(work: Callable[[], Any]) -> Any:
    """Runs blocking work in a thread of its own: all episodes must be able to ask at the same time.

    A thread that is no longer waited for ends when it next asks, because its episode is closed.
    """
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()

    def body() -> None:
        try:
            returned = work()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(returned)

    threading.Thread(target=body, name="hocket-agent", daemon=True).start()
    return await asyncio.wrap_future(future)


class _Command:
    """An agent that is a program."""

    def __init__(self, words: tuple[str, ...]) -> None:
        if not words:
            raise ConfigurationError("the outside agent is empty: write outside:FILE.py:FUNCTION or outside:COMMAND")
        self._words = words

    async def run(self, gate: Gate, door: AgentEndpoint, scenario: Scenario) -> Any:
        """Runs it in a process group of its own, which ends with the episode."""
        environment = {
            **os.environ,
            "OPENAI_BASE_URL": door.base_url,
            "OPENAI_API_KEY": door.api_key,
            "HOCKET_REWARD_URL": door.reward_url,
        }
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                *self._words, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, start_new_session=True
            )
        except OSError as error:
            raise ConfigurationError(f"the agent {self._words[0]!r} cannot be run: {error.strerror}") from error
        try:
            output, errors = await _talked(process, told_scenario(scenario))
            code = await process.wait()
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        if code:
            last = "".join(f": {line}" for line in errors.strip().splitlines()[-1:])
            raise AgentFailed(f"the agent {Path(self._words[0]).name} ended with code {code}{last}")
        return output.strip() or None


async def _talked(process: asyncio.subprocess.Process, question: bytes) -> tuple[str, str]:
    """Hands a program its input; what it printed and what it complained about."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None

    async def tell(writer: asyncio.StreamWriter) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):
            writer.write(question)
            await writer.drain()
        writer.close()

    _, output, errors = await asyncio.gather(tell(process.stdin), _read(process.stdout), _read(process.stderr))
    return output, errors


async def _read(reader: asyncio.StreamReader) -> str:
    """All that is written, of which the last `OUTPUT` bytes are kept."""
    end = b""
    while part := await reader.read(2**16):
        end = (end + part)[-OUTPUT:]
    return end.decode("utf-8", "replace")


def told_scenario(scenario: Scenario) -> bytes:
    """A scenario as a program is told it."""
    document = {
        "id": unmarked(scenario.id),
        "messages": [dict(message) for message in scenario.messages],
        "answer": scenario.answer,
        "metadata": dict(scenario.metadata),
        "seed": scenario.seed,
    }
    return json.dumps(document, default=str).encode()


def _outcome(returned: Any, reward: float | None, answer: str | None) -> Outcome:
    """How the episode came out, from what the agent returned and reported."""
    if isinstance(returned, Outcome):
        return returned
    if isinstance(returned, (bool, int, float)):
        reward = float(returned)
        if not math.isfinite(reward):
            raise AgentFailed(f"the agent returned the reward {returned}; return a finite number")
    elif isinstance(returned, str):
        answer = returned
    elif returned is not None:
        raise AgentFailed(
            f"the agent returned a {type(returned).__name__}; return a number (its reward), text (its answer), "
            "an Outcome or nothing"
        )
    rewards: Mapping[str, float | None] = {} if reward is None else {REWARD: reward}
    return Outcome(answer=answer, rewards=rewards)
