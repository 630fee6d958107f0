"""A stand-in for the process that holds vLLM: a thread that really samples, from the weights it was given."""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from hocket.core.keys import Key
from hocket.engine.local import LocalEngine
from hocket.engine.requests import Request
from hocket.engine.vllm_child import SocketWire, serve
from hocket.engine.vllm_process import EngineProcess
from hocket.policies.causal_lm import CausalLM
from hocket.types import Decoding


class StandInModel:
    """Implements `hocket.engine.vllm_child.ChildModel` with hocket's own engine.

    Attributes:
        stale: what `load` leaves behind: nothing, everything, or the output head.
        dies: numbers of the questions to sample or to go on (counted over all children) over which it ends.
        pace: how many tokens of each response `go` writes.
        said: what was asked, in order.
    """

    def __init__(self, stale: str = "", dies: tuple[int, ...] = (), pace: int = 4) -> None:
        self.stale = stale
        self.dies = dies
        self.pace = pace
        self.said: list[Any] = []
        self.open_rows: dict[int, dict[str, Any]] = {}
        self.asleep = 0
        self.settings: dict[str, Any] = {}
        self._numbers: Iterator[int] = itertools.count()
        self._policy: CausalLM | None = None
        self._base: dict[str, torch.Tensor] | None = None

    def open(self, settings: dict[str, Any]) -> str:
        self.said.append("open")
        self.settings = settings
        self._policy = CausalLM.from_pretrained(settings["model"], name="policy", key=Key.of(0))
        return "0"

    def load(self, folder: str) -> None:
        self.said.append("load")
        assert self._policy is not None
        self.asleep = 0
        if self.stale == "everything":
            return
        model = self._policy.model
        before = model.lm_head.weight.detach().clone()
        model.load_state_dict(load_file(Path(folder) / "model.safetensors"), strict=False)
        if self.stale == "head":
            model.lm_head.weight = torch.nn.Parameter(before)

    def hand(self, update: dict[str, Any]) -> None:
        raise AssertionError("there is no device here")

    def adapt(self, folder: str, version: int) -> None:
        """Merges the adapter into the base, as vLLM's result is."""
        self.said.append(f"adapt {version}")
        assert self._policy is not None
        if self.stale == "everything":
            return
        settings = json.loads((Path(folder) / "adapter_config.json").read_text())
        stored = load_file(Path(folder) / "adapter_model.safetensors")
        model = self._policy.model
        if self._base is None:
            self._base = {name: value.clone() for name, value in model.state_dict().items()}
        state = dict(self._base)
        for name in stored:
            if "lora_A" in name:
                up = stored[name.replace("lora_A", "lora_B")]
                plain = name.removeprefix("base_model.model.").replace("lora_A.", "")
                scale = settings["lora_alpha"] / settings["r"]
                state[plain] = state[plain] + scale * up @ stored[name]
        model.load_state_dict(state)

    def go(self, questions: dict[int, Any], drop: list[int], seconds: float) -> dict[int, Any]:
        self.said.append(("go", sorted(questions)))
        if next(self._numbers) in self.dies:
            raise SystemExit(3)
        for number in drop:
            self.open_rows.pop(number, None)
        for number, question in questions.items():
            ((tokens, logp, finish),) = self._drawn([question])
            self.open_rows[number] = {"tokens": tokens, "logp": logp, "finish": finish, "written": 0}
        done = {}
        for number, row in list(self.open_rows.items()):
            row["written"] += self.pace
            if row["written"] >= len(row["tokens"]):
                done[number] = row["tokens"], row["logp"], row["finish"]
                del self.open_rows[number]
        return done

    def part(self) -> dict[int, Any]:
        self.said.append("part")
        parts = {}
        for number, row in self.open_rows.items():
            left = len(row["tokens"]) - row["written"]
            parts[number] = row["tokens"][: row["written"]], row["logp"][: len(row["logp"]) - left]
        self.open_rows.clear()
        return parts

    def sleep(self, level: int) -> None:
        self.said.append(f"sleep {level}")
        self.asleep = level

    def sample(self, questions: list[dict[str, Any]]) -> list[tuple[list[int], list[float], str]]:
        self.said.append([dict(question) for question in questions])
        if next(self._numbers) in self.dies:
            raise SystemExit(3)
        return self._drawn(questions)

    def _drawn(self, questions: list[dict[str, Any]]) -> list[tuple[list[int], list[float], str]]:
        assert self._policy is not None
        assert self.asleep < 2, "its weights are gone"
        self.asleep = 0
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
    variables: Mapping[str, str]

    def __init__(self, python: str, script: Path, log: Path, variables: Mapping[str, str]) -> None:
        type(self).variables = variables
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
