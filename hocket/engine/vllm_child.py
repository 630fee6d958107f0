"""vLLM in a process with its own Python environment, called over a socket.

The other environment's Python runs it as `python vllm_child.py FD`. This file imports nothing of hocket, which that
environment need not have: only the standard library, msgspec (which vLLM requires), and vLLM at the first request.

A message is a length (four bytes, big-endian) and this many bytes of MessagePack. The parent asks one question at a
time, a map with `do`:

    open    settings: arguments of `vllm.LLM`; version        -> vllm: its version
    load    folder: safetensors, as a checkpoint has them; version -> {}
    hand    update: what vLLM's own backend `ipc` reads; version -> {}
    adapt   folder: an adapter in peft's format; version      -> {}
    sample  questions: each a map as in an OpenAI request     -> version, samples: [tokens, logp, finish] of each
    go      questions by number, to begin; drop: numbers; seconds -> version, done: [tokens, logp, finish] by number
    part    nothing: what is under way ends                   -> version, parts: [tokens, logp] by number
    sleep   level                                             -> {}

and receives one map, `{error: sentence}` after a failure. A child that sleeps wakes at the next question. A closed
connection ends the child.
"""

from __future__ import annotations

import importlib
import os
import pathlib
import select
import shutil
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterable, Sequence
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


Answer = tuple[list[int], list[float], str]
"""Tokens, their log-probs, and `stop` or `length`."""


class ChildModel(Protocol):
    """The model of a child process."""

    def open(self, settings: dict[str, Any]) -> str:
        """Loads the weights in `settings["model"]`; returns the version of the software."""
        ...

    def load(self, folder: str) -> None:
        """Loads new weights in place."""
        ...

    def hand(self, update: dict[str, Any]) -> None:
        """Loads new weights in place from another process's memory of the device."""
        ...

    def adapt(self, folder: str, version: int) -> None:
        """Takes a new adapter in the place of the last one."""
        ...

    def sample(self, questions: list[dict[str, Any]]) -> list[Answer]:
        """The answer to each question."""
        ...

    def go(self, questions: dict[int, dict[str, Any]], drop: list[int], seconds: float) -> dict[int, Answer]:
        """Begins `questions`, forgets those in `drop`, and works until one is answered, or for `seconds`."""
        ...

    def part(self) -> dict[int, tuple[list[int], list[float]]]:
        """Ends what is under way; returns what was written of each."""
        ...

    def sleep(self, level: int) -> None:
        """Frees memory of the device until the next question."""
        ...


def serve(wire: SocketWire, model: ChildModel) -> None:
    """Answers questions until the connection closes."""
    version, folder = -1, None
    while True:
        try:
            question = wire.receive()
        except EOFError:
            break
        do, answer = question.pop("do"), dict[str, Any]()
        try:
            if do == "open":
                folder = question["settings"]["model"]
                answer["vllm"] = model.open(question["settings"])
            elif do == "load":
                model.load(question["folder"])
            elif do == "hand":
                model.hand(question["update"])
            elif do == "adapt":
                model.adapt(question["folder"], question["version"])
            elif do == "sample":
                answer["samples"] = model.sample(question["questions"])
            elif do == "go":
                answer["done"] = model.go(**question)
            elif do == "part":
                answer["parts"] = model.part()
            else:
                model.sleep(question["level"])
            version = question.get("version", version)
            answer["version"] = version
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {' '.join(str(error).split())}"[:600]}
        try:
            wire.send(answer)
        except OSError:
            break
    if folder is not None:  # The parent may have been killed before it removed the folder.
        shutil.rmtree(folder, ignore_errors=True)


class _Growing:
    """An answer under way: log-probs of the prompt if they were requested, tokens, and their log-probs."""

    def __init__(self) -> None:
        self.prompt: list[float] = []
        self.tokens: list[int] = []
        self.logps: list[float] = []


class VLLM:
    """`vllm.LLM` with changing weights. Implements `ChildModel`."""

    def __init__(self) -> None:
        self._vllm: Any = None
        self._engine: Any = None
        self._adapter: Any = None
        self._native = False
        self._asleep = 0
        self._growing: dict[str, _Growing] = {}

    def open(self, settings: dict[str, Any]) -> str:
        """Loads the model, which takes seconds."""
        self._vllm = importlib.import_module("vllm")  # Only the other environment has vLLM.
        self._engine = self._vllm.LLM(**settings)
        return str(self._vllm.__version__)

    def load(self, folder: str) -> None:
        """Replaces the weights of the live model by checkpoint files."""
        self._transfer([{"file": str(file)} for file in sorted(pathlib.Path(folder).glob("*.safetensors"))])

    def hand(self, update: dict[str, Any]) -> None:
        """Replaces the weights of the live model by those in another process's memory of the device."""
        self._transfer([update])

    def _transfer(self, updates: list[dict[str, Any]]) -> None:
        """vLLM's four calls, then the cache of the old weights is cleared."""
        self._wake("weights")
        if not self._native:
            self._engine.init_weight_transfer_engine({"init_info": {}})
            self._native = True
        self._engine.start_weight_update()
        for update in updates:
            self._engine.update_weights({"update_info": update})
        self._engine.finish_weight_update()
        self._wake("kv_cache")
        if not self._engine.reset_prefix_cache():
            raise RuntimeError("the prefix cache of the old weights could not be reset")

    def adapt(self, folder: str, version: int) -> None:
        """Replaces the adapter. Its name is new, so keys and values that another one computed are not used again."""
        self._wake("weights", "kv_cache")
        new = importlib.import_module("vllm.lora.request").LoRARequest(f"version-{version}", version + 1, folder)
        if self._adapter is not None:
            self._engine.llm_engine.remove_lora(self._adapter.lora_int_id)
        if not self._engine.llm_engine.add_lora(new):
            raise RuntimeError("the adapter was not taken")
        self._adapter = new

    def sleep(self, level: int) -> None:
        """Frees the memory of keys and values, and that of weights: kept in the host's (1), or dropped (2)."""
        self._engine.sleep(level=level)
        self._asleep = level

    def _wake(self, *tags: str) -> None:
        if self._asleep:
            self._engine.wake_up(tags=list(tags))
            if "kv_cache" in tags:
                self._asleep = 0

    # ------------------------------------------------------------ sampling

    def sample(self, questions: list[dict[str, Any]]) -> list[Answer]:
        """Samples all questions together."""
        self._wake("weights", "kv_cache")
        prompts = [{"prompt_token_ids": question.pop("prompt")} for question in questions]
        ways = [self._way(question) for question in questions]
        outputs = self._engine.generate(prompts, ways, use_tqdm=False, lora_request=self._adapter)
        broken = [place for place, output in enumerate(outputs) if output.outputs[0].finish_reason not in _ENDS]
        if broken:  # Aborted, perhaps for lack of memory: fewer at a time may succeed.
            some = [prompts[place] for place in broken], [ways[place] for place in broken]
            again = self._engine.generate(*some, use_tqdm=False, lora_request=self._adapter)
            outputs = list(outputs)
            for place, output in zip(broken, again, strict=True):
                outputs[place] = output
        return [self._answer(output) for output in outputs]

    def go(self, questions: dict[int, dict[str, Any]], drop: list[int], seconds: float) -> dict[int, Answer]:
        """Works on what is under way, one token a row at a time."""
        self._wake("weights", "kv_cache")
        engine, until = self._engine.llm_engine, time.monotonic() + seconds
        for number, question in questions.items():
            prompt = {"prompt_token_ids": question.pop("prompt")}
            way = self._way(question)
            way.output_kind = importlib.import_module("vllm.sampling_params").RequestOutputKind.DELTA
            engine.add_request(str(number), prompt, way, lora_request=self._adapter)
            self._growing[str(number)] = _Growing()
        self._forget(map(str, drop))
        done: dict[int, Answer] = {}
        while self._growing and not done and time.monotonic() < until:
            for output in engine.step():
                finish = self._grown(output)
                if finish is not None:
                    text = self._growing.pop(output.request_id)
                    done[int(output.request_id)] = text.tokens, text.prompt + text.logps, finish
        return done

    def part(self) -> dict[int, tuple[list[int], list[float]]]:
        """Ends what is under way."""
        parts = {int(name): (row.tokens, row.prompt + row.logps) for name, row in self._growing.items()}
        self._forget(list(self._growing))
        return parts

    def _forget(self, names: Iterable[str]) -> None:
        known = [name for name in names if name in self._growing]
        if known:
            self._engine.llm_engine.abort_request(known)
        for name in known:
            del self._growing[name]

    def _grown(self, output: Any) -> str | None:
        """Adds what a pass wrote; returns how the answer ended, None while it is under way."""
        growing, out = self._growing[output.request_id], output.outputs[0]
        if output.prompt_logprobs:
            growing.prompt = _logps(output.prompt_token_ids[1:], output.prompt_logprobs[1:])
        growing.tokens += map(int, out.token_ids)
        growing.logps += _logps(out.token_ids, out.logprobs or ())
        if output.finished and out.finish_reason not in _ENDS:
            raise RuntimeError(f"vLLM ended a request with {out.finish_reason!r}")
        return out.finish_reason if output.finished else None

    def _way(self, question: dict[str, Any]) -> Any:
        """The sampling parameters of a question."""
        bias = question.pop("logit_bias", None)
        if bias:
            question["logit_bias"] = {int(token): value for token, value in bias.items()}
        return self._vllm.SamplingParams(**question, detokenize="stop" in question)

    @staticmethod
    def _answer(output: Any) -> Answer:
        """Sampled tokens and their log-probs, after those of all prompt tokens but the first if requested."""
        out = output.outputs[0]
        if out.finish_reason not in _ENDS:
            raise RuntimeError(f"vLLM ended a request with {out.finish_reason!r}")
        tokens = [int(token) for token in out.token_ids]
        before = _logps(output.prompt_token_ids[1:], (output.prompt_logprobs or ())[1:])
        return tokens, before + _logps(tokens, out.logprobs), out.finish_reason


def _logps(tokens: Sequence[int], places: Sequence[Any]) -> list[float]:
    """The log-probs of tokens in vLLM's maps of some of each place's; none without maps."""
    return [float(place[token].logprob) for token, place in zip(tokens, places, strict=True)] if places else []


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
