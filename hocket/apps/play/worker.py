"""Operators in processes of their own: any program that speaks this protocol may play.

Messages are msgpack, each after its length in four bytes (big-endian), over standard input and output. The program
begins with `Ready`; then for every `Begin` it gets ready, for every `Act` it answers `ActionReply`, and ends with its
input.

    python -m hocket.apps.play.worker SPEC TASK AGENT RUNS TEMPERATURE [trust]      # an operator of this library
"""

from __future__ import annotations

import os
import shlex
import struct
import subprocess
import sys
import tempfile
import threading
from typing import IO, Any

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from hocket.apps.play.operators import Action, Operator, Place, operator, places_of
from hocket.core.errors import HocketError

VERSION = 1
"""Of the protocol; other programs must speak the same."""

WAIT = 60.0
"""Seconds that an answer may take, and the start."""

LONGEST = 2**22


class Ready(Struct, frozen=True, tag="ready"):
    """The first word of a program: which version it speaks, and how many uniforms it takes for a decision."""

    version: int
    draws: int = 1


class Begin(Struct, frozen=True, tag="begin"):
    """An episode begins."""

    seed: int


class Act(Struct, frozen=True, tag="act"):
    """Asks for an action: what is seen, which actions are allowed (None: all), and the uniforms to draw by."""

    observation: list[float]
    allowed: list[bool] | None
    uniforms: list[float]


class ActionReply(Struct, frozen=True, tag="acted"):
    """The action: a number, or a vector. unread: how many answers of a language model have named none so far."""

    action: int | list[float]
    unread: int = 0


Message = Ready | Begin | Act | ActionReply
_READER = msgspec.msgpack.Decoder(Message)


def write(stream: IO[bytes], message: Message) -> None:
    """Sends a message."""
    data = msgspec.msgpack.encode(message)
    stream.write(struct.pack(">I", len(data)) + data)
    stream.flush()


def read(stream: IO[bytes]) -> Message | None:
    """The next message; None at the end.

    Raises:
        HocketError: for what is no message.
    """
    head = stream.read(4)
    if len(head) < 4:
        return None
    (size,) = struct.unpack(">I", head)
    if size > LONGEST:
        raise HocketError(f"a message of {size} bytes")
    try:
        message: Message = _READER.decode(stream.read(size))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise HocketError(f"no message: {error}") from error
    return message


class ProgramOperator:
    """An operator that is a program.

    Args:
        command: starts it. place: where it sits, for sentences.

    Attributes:
        draws, unread: as it says.

    Raises:
        HocketError: when it does not start, speaks another version, ends, falls silent, or says what is no answer.
    """

    def __init__(self, command: str, place: Place) -> None:
        self.place, self.command, self.unread = place, command, 0
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed in `close`)
        try:
            self._process = subprocess.Popen(
                shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors
            )
        except OSError as error:
            raise HocketError(f"worker of {place.agent} ({command}) does not start: {error.strerror}") from error
        greeting = self._heard()
        if not isinstance(greeting, Ready) or greeting.version != VERSION:
            protocol = f"version {greeting.version}" if isinstance(greeting, Ready) else "something else"
            self.close()
            raise HocketError(
                f"worker of {place.agent} ({command}) speaks {protocol} of the protocol; here it is version {VERSION}"
            )
        self.draws = greeting.draws

    def begin(self, seed: int) -> None:
        self._say(Begin(seed))

    def act(
        self, observation: NDArray[np.float32], allowed: NDArray[np.bool_] | None, uniforms: NDArray[np.float64]
    ) -> Action:
        possible = None if allowed is None else allowed.tolist()
        self._say(Act(observation.tolist(), possible, uniforms.tolist()))
        reply = self._heard()
        if not isinstance(reply, ActionReply):
            raise self._fault("said what is no action")
        self.unread = reply.unread
        return reply.action

    def close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except OSError:
                    pass  # It has ended, and what was not written never will be.
        try:
            self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()

    def _say(self, message: Message) -> None:
        assert self._process.stdin is not None
        try:
            write(self._process.stdin, message)
        except OSError:
            raise self._fault("ended") from None

    def _heard(self) -> Message:
        """The next message; a program that says nothing in time is ended."""
        assert self._process.stdout is not None
        silent = threading.Timer(WAIT, self._process.kill)
        silent.start()
        try:
            message = read(self._process.stdout)
        except HocketError as error:
            raise self._fault(f"said {error}") from error
        finally:
            late = not silent.is_alive()
            silent.cancel()
        if message is None:
            raise self._fault(f"said nothing for {WAIT:g} s" if late else "ended")
        return message

    def _fault(self, what: str) -> HocketError:
        """A sentence about it, with its exit status and the last line that it wrote."""
        try:
            status: Any = self._process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            status = None
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        status_words = f" with status {status}" if status is not None and what == "ended" else ""
        last = f": {lines[-1]}" if lines else ""
        return HocketError(f"worker of {self.place.agent} ({self.command}) {what}{status_words}{last}")


def command_of(spec: str, place: Place, runs: str, temperature: float, *, trust: bool = False) -> str:
    """What starts an operator of this library as a worker."""
    words = [sys.executable, "-m", "hocket.apps.play.worker", spec, place.task, place.agent, runs, str(temperature)]
    words += ["trust"] if trust else []
    return shlex.join(words)


def serve(player: Operator, heard: IO[bytes], out: IO[bytes]) -> None:
    """Plays for whoever asks, until they stop."""
    write(out, Ready(VERSION, player.draws))
    while (message := read(heard)) is not None:
        if isinstance(message, Begin):
            player.begin(message.seed)
        elif isinstance(message, Act):
            allowed = None if message.allowed is None else np.array(message.allowed, bool)
            observation, uniforms = np.array(message.observation, np.float32), np.array(message.uniforms, np.float64)
            action = player.act(observation, allowed, uniforms)
            write(out, ActionReply(action if isinstance(action, int) else list(action), getattr(player, "unread", 0)))


def main(spec: str, task: str, agent: str, runs: str, temperature: str, trust: str = "") -> None:
    """An operator of this library, as `command_of` asks for it."""
    # Nothing but messages may be written where messages are read.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        place = places_of(task)[agent]
        player = operator(spec, place, runs=runs, temperature=float(temperature), trust=trust == "trust")
    except HocketError as error:
        sys.exit(str(error))
    serve(player, sys.stdin.buffer, out)


if __name__ == "__main__":
    main(*sys.argv[1:])
