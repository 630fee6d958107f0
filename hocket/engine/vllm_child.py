"""vLLM in a process with its own Python environment, called over a socket.

The other environment's Python runs it as `python vllm_child.py FD`. This file imports nothing of hocket, which that
environment need not have: only the standard library, msgspec (which vLLM requires), and vLLM at the first request.

A message is a length (four bytes, big-endian) and this many bytes of MessagePack. The parent asks one question at a
time, a map with `do`:

    open    settings: arguments of `vllm.LLM`; version        -> vllm: its version
    load    folder: safetensors, as a checkpoint has them; version -> {}
    sample  questions: each a map as in an OpenAI request     -> version, samples: [tokens, logp, finish] of each

and receives one map, `{error: sentence}` after a failure. A closed connection ends the child.
"""

from __future__ import annotations

import importlib
import os
import select
import shutil
import socket
import struct
import sys
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

_LENGTH = struct.Struct(">I")
_PIECE = 1 << 20
_ENDS = ("stop", "length")
_LOOK = 1.0
"""Seconds of silence after which the process checks whether its partner still runs."""


class SocketWire:
    """Messages over a socket.

    Args:
        connection: a connected stream socket.
        alive: whether the partner still runs. A process that it started may hold the connection open after its end.
    """

    def __init__(self, connection: socket.socket, alive: Callable[[], bool] = lambda: True) -> None:
        self._socket = connection
        self._alive = alive

    def send(self, message: dict[str, Any]) -> None:
        """Sends a message.

        Raises:
            OSError: when the partner is gone.
        """
        data = msgspec.msgpack.encode(message)
        self._socket.sendall(_LENGTH.pack(len(data)) + data)

    def receive(self) -> dict[str, Any]:
        """Waits for a message.

        Raises:
            EOFError: when the partner is gone.
        """
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size))
        message: dict[str, Any] = msgspec.msgpack.decode(self._read(length))
        return message

    def close(self) -> None:
        """Closes the connection."""
        self._socket.close()

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            if not select.select([self._socket], [], [], _LOOK)[0]:
                if self._alive():
                    continue
                raise EOFError
            try:
                piece = self._socket.recv(min(size - len(data), _PIECE))
            except ConnectionError:
                piece = b""
            if not piece:
                raise EOFError
            data += piece
        return bytes(data)


class ChildModel(Protocol):
    """The model of a child process."""

    def open(self, settings: dict[str, Any]) -> str:
        """Loads the weights in `settings["model"]`; returns the version of the software."""
        ...

    def load(self, folder: str) -> None:
        """Loads new weights in place."""
        ...

    def sample(self, questions: list[dict[str, Any]]) -> list[tuple[list[int], list[float], str]]:
        """Tokens, log-probs and `stop` or `length` for each question."""
        ...


def serve(wire: SocketWire, model: ChildModel) -> None:
    """Answers questions until the connection closes."""
    version, folder = -1, None
    while True:
        try:
            question = wire.receive()
        except EOFError:
            break
        try:
            answer: dict[str, Any] = {}
            if question["do"] == "open":
                folder = question["settings"]["model"]
                answer["vllm"], version = model.open(question["settings"]), question["version"]
            elif question["do"] == "load":
                model.load(question["folder"])
                version = question["version"]
            else:
                answer["samples"], answer["version"] = model.sample(question["questions"]), version
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {' '.join(str(error).split())}"[:600]}
        try:
            wire.send(answer)
        except OSError:
            break
    if folder is not None:  # The parent may have been killed before it removed the folder.
        shutil.rmtree(folder, ignore_errors=True)


class VLLM:
    """`vllm.LLM` with changing weights. Implements `ChildModel`."""

    def __init__(self) -> None:
        self._vllm: Any = None
        self._engine: Any = None

    def open(self, settings: dict[str, Any]) -> str:
        """Loads the model, which takes seconds."""
        self._vllm = importlib.import_module("vllm")  # Only the other environment has vLLM.
        self._engine = self._vllm.LLM(**settings)
        return str(self._vllm.__version__)

    def load(self, folder: str) -> None:
        """Replaces the weights of the live model and clears its cache."""
        self._engine.collective_rpc("reload_weights", kwargs={"weights_path": folder})
        if not self._engine.reset_prefix_cache():
            raise RuntimeError("the prefix cache of the old weights could not be reset")

    def sample(self, questions: list[dict[str, Any]]) -> list[tuple[list[int], list[float], str]]:
        """Samples all questions together."""
        prompts = [{"prompt_token_ids": question.pop("prompt")} for question in questions]
        ways = [self._way(question) for question in questions]
        outputs = self._engine.generate(prompts, ways, use_tqdm=False)
        broken = [place for place, output in enumerate(outputs) if output.outputs[0].finish_reason not in _ENDS]
        if broken:  # Aborted, perhaps for lack of memory: fewer at a time may succeed.
            again = self._engine.generate([prompts[n] for n in broken], [ways[n] for n in broken], use_tqdm=False)
            outputs = list(outputs)
            for place, output in zip(broken, again, strict=True):
                outputs[place] = output
        return [self._answer(output) for output in outputs]

    def _way(self, question: dict[str, Any]) -> Any:
        """The sampling parameters of a question."""
        bias = question.pop("logit_bias", None)
        if bias:
            question["logit_bias"] = {int(token): value for token, value in bias.items()}
        return self._vllm.SamplingParams(**question, detokenize="stop" in question)

    @staticmethod
    def _answer(output: Any) -> tuple[list[int], list[float], str]:
        """Sampled tokens and their log-probs, after those of all prompt tokens but the first if requested."""
        out = output.outputs[0]
        if out.finish_reason not in _ENDS:
            raise RuntimeError(f"vLLM ended a request with {out.finish_reason!r}")
        tokens = [int(token) for token in out.token_ids]
        before = list(zip(output.prompt_token_ids, output.prompt_logprobs or (), strict=False))[1:]
        logps = [*before, *zip(tokens, out.logprobs, strict=True)]
        return tokens, [float(place[token].logprob) for token, place in logps], out.finish_reason


def main() -> None:
    """Serves vLLM on the socket whose number is the only argument."""
    number = int(sys.argv[1])
    os.set_inheritable(number, False)
    # Modules beside this file have the names of other packages.
    folder = os.path.dirname(os.path.realpath(__file__))
    sys.path[:] = [place for place in sys.path if os.path.realpath(place or ".") != folder]
    serve(SocketWire(socket.socket(fileno=number)), VLLM())


if __name__ == "__main__":
    main()
