"""Environments behind an OpenEnv server (meta-pytorch/OpenEnv): reset, step and state as JSON.

The wire. A WebSocket at `URL/ws` is a session with an environment of its own: `{"type": "reset", "data": {"seed": 3}}`
and `{"type": "step", "data": ACTION}` are answered by `{"type": "observation", "data": RESULT}`, `{"type": "state"}` by
`{"type": "state", "data": STATE}`, and what went wrong by `{"type": "error", "data": {"message", "code"}}`. Over plain
HTTP, `POST /reset {"seed": 3}` and `POST /step {"action": ACTION}` give the RESULT itself, and `GET /state` the STATE;
only servers with one environment for all callers keep an episode that way. RESULT is
`{"observation": {..}, "reward": number or null, "done": bool}`.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

from hocket.agents.environments.protocol import UNREADABLE, Environment, Observation, same_move
from hocket.agents.environments.spaces import shown
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key
from hocket.core.waits import waiting_for
from hocket.core.worlds import reward_of
from hocket.types import Scenario

SEAT = "agent"


@dataclass(frozen=True)
class OpenEnv:
    """The environment behind the OpenEnv server at `url`, as a world with one seat, `agent`.

    A move becomes the action `{into: move}`, or what `moves` says. Only what `moves` lists is legal then; otherwise
    the server decides what a move is worth, and one that it refuses as malformed counts as illegal.

    Attributes:
        url: `http(s)://host:port` (`ws(s)://` says the same for sessions).
        into: which field of an action holds the move. extra: what every action holds besides.
        moves: legal moves in words, and the action that each stands for.
        show: the field of the observation that is shown; None shows all.
        wire: `session` is a WebSocket with an environment for each episode; `http` the single one of older servers.
        concurrent: how many episodes may be open at once: the server's `max_concurrent_envs`. With `http` always 1.
        seconds: how long to wait for an answer.
        penalty: taken from the reward for a move that is unreadable, not listed or refused. tries: how many of these in
            a row are forgiven before the episode ends.

    Raises:
        ConfigurationError: for an address that is none, or a session without websockets.
    """

    url: str
    into: str = "message"
    extra: Mapping[str, Any] = field(default_factory=dict)
    moves: Mapping[str, Mapping[str, Any]] | None = None
    show: str | None = None
    wire: Literal["session", "http"] = "session"
    concurrent: int = 1
    seconds: float = 60.0
    penalty: float = 1.0
    tries: int = 1

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https", "ws", "wss") or not parts.hostname:
            raise ConfigurationError(f"openenv: {self.url!r} is no address; write http://host:port")
        if self.wire == "http":
            object.__setattr__(self, "concurrent", 1)
        elif self.wire == "session":
            _websockets()
        else:
            raise ConfigurationError(f"openenv: wire is session or http, not {self.wire!r}")
        if self.concurrent < 1:
            raise ConfigurationError(f"openenv: concurrent must be at least 1, not {self.concurrent}")

    @property
    def name(self) -> str:
        return f"openenv:{self.url}"

    @property
    def agents(self) -> tuple[str, ...]:
        return (SEAT,)

    def make(self, scenario: Scenario) -> OpenEnvironment:
        return OpenEnvironment(self)

    def connect(self) -> Wire:
        """A new connection."""
        return _Session(self) if self.wire == "session" else _Posts(self)

    def action(self, move: str) -> Mapping[str, Any] | None:
        """The action that a move stands for; None when it is none."""
        if move == UNREADABLE:
            return None
        if self.moves is None:
            return {**self.extra, self.into: move}
        legal_move = same_move(move, tuple(self.moves))
        return None if legal_move is None else {**self.extra, **self.moves[legal_move]}


class MalformedAction(HocketError):
    """The server calls an action malformed."""


class Wire(Protocol):
    """A connection to one environment."""

    def reset(self, seed: int) -> Mapping[str, Any]:
        """Starts an episode; the RESULT of it."""
        ...

    def step(self, action: Mapping[str, Any]) -> Mapping[str, Any]:
        """Makes an action; the RESULT of it. Raises `MalformedAction` when the server calls it malformed."""
        ...

    def state(self) -> Mapping[str, Any]:
        """What the server says of its environment: `episode_id`, `step_count` and more."""
        ...

    def close(self) -> None: ...


class _Session:
    """A WebSocket, and behind it an environment of its own."""

    def __init__(self, world: OpenEnv) -> None:
        self._world = world
        parts = urlsplit(world.url)
        scheme = "wss" if parts.scheme in ("https", "wss") else "ws"
        address = f"{scheme}://{parts.netloc}{parts.path.rstrip('/')}/ws"
        try:
            with waiting_for(f"environment {world.name}"):
                self._socket = _websockets().connect(address, open_timeout=world.seconds, max_size=None)
        except Exception as error:
            raise HocketError(
                f"{world.name} cannot be reached ({error}); start the server or correct the url"
            ) from None

    def reset(self, seed: int) -> Mapping[str, Any]:
        return self._asked("reset", {"seed": seed})

    def step(self, action: Mapping[str, Any]) -> Mapping[str, Any]:
        return self._asked("step", action)

    def state(self) -> Mapping[str, Any]:
        return self._asked("state", None)

    def close(self) -> None:
        try:
            self._socket.send(json.dumps({"type": "close"}))
            self._socket.close()
        except Exception:  # the server may have gone; there is nothing left to close then
            return

    def _asked(self, kind: str, data: Mapping[str, Any] | None) -> Mapping[str, Any]:
        name = self._world.name
        try:
            with suppress(_closed()):  # a full server says so, and closes before it is asked anything
                self._socket.send(json.dumps({"type": kind} if data is None else {"type": kind, "data": data}))
            with waiting_for(f"environment {name}"):
                reply = json.loads(self._socket.recv(timeout=self._world.seconds))
        except TimeoutError:
            raise HocketError(f"{name} did not answer within {self._world.seconds} s; raise seconds") from None
        except Exception as error:
            raise HocketError(f"{name} broke off ({type(error).__name__}: {error})") from None
        data = reply.get("data") if isinstance(reply, Mapping) else None
        if not isinstance(data, Mapping):
            raise HocketError(f"{name} answers {str(reply)[:80]!r}, which is not OpenEnv's protocol")
        if reply.get("type") != "error":
            return data
        cause = f"{data.get('message')} ({data.get('code')})"
        if data.get("code") == "VALIDATION_ERROR":
            raise MalformedAction(f"{name} refuses the action: {cause}")
        if data.get("code") == "CAPACITY_REACHED":
            raise HocketError(
                f"{name} has no place left: {cause}; lower concurrent to the server's max_concurrent_envs"
            )
        raise HocketError(f"{name} failed: {cause}")


class _Posts:
    """Plain HTTP to the single environment of a server."""

    def __init__(self, world: OpenEnv) -> None:
        self._world = world
        plain = world.url.replace("ws", "http", 1) if world.url.startswith("ws") else world.url
        self._base = plain.rstrip("/")

    def reset(self, seed: int) -> Mapping[str, Any]:
        return self._asked("reset", {"seed": seed})

    def step(self, action: Mapping[str, Any]) -> Mapping[str, Any]:
        return self._asked("step", {"action": action})

    def state(self) -> Mapping[str, Any]:
        return self._asked("state", None)

    def close(self) -> None:
        return

    def _asked(self, path: str, body: Mapping[str, Any] | None) -> Mapping[str, Any]:
        name = self._world.name
        request = urllib.request.Request(
            f"{self._base}/{path}",
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json"},
            method="GET" if body is None else "POST",
        )
        try:
            wait = waiting_for(f"environment {name}")
            with wait, urllib.request.urlopen(request, timeout=self._world.seconds) as response:
                reply = json.loads(response.read())
        except urllib.error.HTTPError as error:
            reason = error.read(400).decode("utf-8", "replace")
            if error.code == 422 and path == "step":
                raise MalformedAction(f"{name} refuses the action: {reason}") from None
            raise HocketError(f"{name} answers /{path} with status {error.code}: {reason}") from None
        except (OSError, ValueError) as error:
            raise HocketError(f"{name} cannot be reached ({error}); start the server or correct the url") from None
        if not isinstance(reply, Mapping):
            raise HocketError(f"{name} answers /{path} with {str(reply)[:80]!r}, which is not OpenEnv's protocol")
        return reply


class OpenEnvironment(Environment):
    """One episode on the server."""

    blocking = True

    def __init__(self, world: OpenEnv) -> None:
        self.agents = world.agents
        self.world = world
        self._wire: Wire | None = None
        self._result: Mapping[str, Any] = {}
        self._notice = ""
        self._moved = self._over = False
        self._illegal = self._wrong = 0

    def reset(self, key: Key) -> None:
        if self._wire is None:
            self._wire = self.world.connect()
        self._moved = self._over = False
        self._illegal, self._wrong, self._notice = 0, 0, ""
        self._took(self._wire.reset(key.derive("openenv").word >> 33))

    @property
    def acting(self) -> tuple[str, ...]:
        return () if self._over or self._wire is None else (SEAT,)

    @property
    def illegal(self) -> Mapping[str, int]:
        return {SEAT: self._illegal}

    def observe(self, agent: str) -> Observation:
        observation = self._result.get("observation")
        if self.world.show is not None and isinstance(observation, Mapping):
            observation = observation.get(self.world.show)
        state = shown(observation)
        text = f"{state}\n{self._notice}" if self._notice else state
        actions: tuple[str, ...] | None = ()
        if self.acting:
            actions = None if self.world.moves is None else tuple(self.world.moves)
        return Observation(text, actions, state, (self._notice or state) if self._moved else None)

    def act(self, moves: Mapping[str, str]) -> Mapping[str, float]:
        self.check_movers(moves)
        assert self._wire is not None
        self._moved = True
        action = self.world.action(moves[SEAT])
        if action is None:
            return self._erred("That was not a legal move. Try again.")
        try:
            result = self._wire.step(action)
        except MalformedAction:
            return self._erred("That was not a valid action. Try again.")
        self._wrong, self._notice = 0, ""
        self._took(result)
        paid = result.get("reward")
        return {SEAT: 0.0 if paid is None else reward_of(paid, self.world.name)}

    def state(self) -> Mapping[str, Any]:
        """What the server says of its environment."""
        return {} if self._wire is None else self._wire.state()

    def close(self) -> None:
        if self._wire is not None:
            self._wire.close()
        self._wire = None

    def _took(self, result: Mapping[str, Any]) -> None:
        if "observation" not in result:
            raise HocketError(f"{self.world.name} answers without an observation, which is not OpenEnv's protocol")
        self._result, self._over = result, bool(result.get("done"))

    def _erred(self, notice: str) -> Mapping[str, float]:
        self._illegal += 1
        self._wrong += 1
        self._notice = notice
        self._over = self._wrong > self.world.tries
        return {SEAT: -self.world.penalty}


def _closed() -> type[Exception]:
    from websockets.exceptions import ConnectionClosed

    error_type: type[Exception] = ConnectionClosed
    return error_type


def _websockets() -> Any:
    try:
        from websockets.sync import client
    except ImportError:
        raise ConfigurationError("OpenEnv's sessions need websockets: pip install 'hocket[openenv]'") from None
    return client
