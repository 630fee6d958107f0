"""A stand-in for the process that holds vLLM: a thread that really samples, from the weights it was given."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from hocket.core.keys import Key
from hocket.engine.local import LocalEngine
from hocket.engine.requests import Request
from hocket.engine.vllm_child import SocketWire, serve
from hocket.engine.vllm_offline import EngineProcess
from hocket.policies.causal_lm import CausalLM
from hocket.types import Decoding


class StandInModel:
    """Implements `hocket.engine.vllm_child.ChildModel` with hocket's own engine.

    Attributes:
        stale: what `load` leaves behind: nothing, everything, or the output head.
        dies: numbers of the questions to sample (counted over all children) over which it ends.
        said: what was asked, in order.
    """

    def __init__(self, stale: str = "", dies: tuple[int, ...] = ()) -> None:
        self.stale = stale
        self.dies = dies
        self.said: list[Any] = []
        self.settings: dict[str, Any] = {}
        self._numbers: Iterator[int] = itertools.count()
        self._policy: CausalLM | None = None

    def open(self, settings: dict[str, Any]) -> str:
        self.said.append("open")
        self.settings = settings
        self._policy = CausalLM.from_pretrained(settings["model"], name="policy", key=Key.of(0))
        return "0"

    def load(self, folder: str) -> None:
        self.said.append("load")
        assert self._policy is not None
        if self.stale == "everything":
            return
        model = self._policy.model
        before = model.lm_head.weight.detach().clone()
        model.load_state_dict(load_file(Path(folder) / "model.safetensors"), strict=False)
        if self.stale == "head":
            model.lm_head.weight = torch.nn.Parameter(before)

    def sample(self, questions: list[dict[str, Any]]) -> list[tuple[list[int], list[float], str]]:
        self.said.append([dict(question) for question in questions])
        if next(self._numbers) in self.dies:
            raise SystemExit(3)
        assert self._policy is not None
        engine = LocalEngine(self._policy)
        found = []
        for sample, question in zip(engine.sample([_request(q) for q in questions]), questions, strict=True):
            before = [0.0] * (len(question["prompt"]) - 1) if "prompt_logprobs" in question else []
            assert sample.logp is not None
            found.append((sample.tokens.tolist(), before + sample.logp.tolist(), sample.finish))
        return found


def _request(question: dict[str, Any]) -> Request:
    names = ("temperature", "max_tokens", "top_k", "top_p", "min_p")
    drawn = {name: question[name] for name in names if name in question}
    drawn["top_k"] = None if drawn["top_k"] == -1 else drawn["top_k"]
    way = Decoding(**drawn, stop=tuple(question.get("stop", ())))
    return Request(tuple(question["prompt"]), way, Key.of(question["seed"]))


class ThreadChild(EngineProcess):
    """A `EngineProcess` whose process is a thread that serves a `StandInModel`; give the class one first."""

    model: StandInModel

    def __init__(self, python: str, script: Path, log: Path) -> None:
        here, there = socket.socketpair()
        log.touch()
        self.log, self._read = log, 0
        thread = _Thread(there, self.model)
        self._process: Any = thread
        self._wire = SocketWire(here, alive=thread.is_alive)
        thread.start()


class _Thread(threading.Thread):
    """What `EngineProcess` wants to know of a process."""

    def __init__(self, connection: socket.socket, model: StandInModel) -> None:
        super().__init__(daemon=True)
        self._connection, self._model = connection, model
        self.returncode: int | None = None

    def run(self) -> None:
        self.returncode = 3
        with self._connection, contextlib.suppress(SystemExit):
            serve(SocketWire(self._connection), self._model)
            self.returncode = 0

    def poll(self) -> int | None:
        return None if self.is_alive() else self.returncode

    def wait(self, patience: float | None = None) -> None:
        self.join(patience)
