"""Sampling of a trained policy with vLLM in a child process, which has its own Python environment."""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.core.notices import say
from hocket.engine import vllm_child
from hocket.engine.barrier import Barrier
from hocket.engine.batched_engine import BatchedEngine, Pending
from hocket.engine.continuation import joined, lengthened, remainder
from hocket.engine.device_handles import device_handles
from hocket.engine.handover import (
    Dtype,
    check_gap,
    dtype_for,
    handed_adapter,
    handover_folder,
    log_prob_gap,
    probe_of,
    tolerance_for,
    write_base,
    write_weights,
)
from hocket.engine.remote_wire import tokens_body
from hocket.engine.requests import Request, Sample
from hocket.engine.running import BREATH
from hocket.engine.stops import StopStrings
from hocket.engine.vllm_process import ChildLost, EngineLost, EngineProcess, plugged
from hocket.engine.vllm_transfer import BACKEND
from hocket.policies.lora import save_adapter

if TYPE_CHECKING:
    from hocket.policies.causal_lm import CausalLM

T = TypeVar("T")

_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""The ranks that vLLM reserves memory for."""


@dataclass
class _House:
    """The resources to release at the end of an engine."""

    folder: Path
    log: Path
    child: EngineProcess | None = None
    failed: bool = False

    def clear(self) -> None:
        if self.child is not None:
            self.child.close()
            self.child = None
        shutil.rmtree(self.folder, ignore_errors=True)
        if not self.failed:
            self.log.unlink(missing_ok=True)


@dataclass(frozen=True)
class ChildSettings:
    """The settings of the child's engine.

    Attributes:
        dtype: the precision of vLLM; None takes the policy's.
        memory: GiB for keys and values.
        compiled: lets vLLM compile the model and capture CUDA graphs, which can take minutes at the start.
        more: further arguments of `vllm.LLM`, which override those made here.
        devices: what CUDA_VISIBLE_DEVICES is in the child; None leaves it as it is here.
        merged: hands over an adapter merged into the weights instead of as an adapter.
        sleeps: frees the device's memory while the policy learns.
        handles: hands over the weights by handles to this process's memory of the device, not by files.
    """

    dtype: Dtype | None = None
    memory: float = 1.0
    compiled: bool = False
    more: Mapping[str, Any] = field(default_factory=dict)
    devices: str | None = None
    merged: bool = False
    sleeps: bool = False
    handles: bool = False


@dataclass(eq=False)
class _Row:
    """A request under way.

    Attributes:
        request: with its response so far. limit: of response tokens. sent: whether the child works on it.
    """

    pending: Pending
    request: Request
    limit: int
    sent: bool = False


class VLLMEngine(BatchedEngine):
    """Samples a `CausalLM` with vLLM's offline engine, always with its current weights, tokens and log-probs exact.

    The child starts at the first request. After a change of the policy's `version` it gets the weights by vLLM's own
    four calls, from files in shared memory or by handles to memory of the device; of a policy with an adapter it gets
    the adapter alone. Then log-probs of a fresh sample are compared with the policy's, because a transfer that misses
    a tensor is silent. Each sample records the version that the child reports. Log-probs are those of the distribution
    drawn from, at every temperature and truncation. Each request has its own seed.

    A child that ends is started again, once per batch, and repeats the batch. If it ends again, the run stops.

    Attributes:
        interrupted: whether requests are answered as they end, and unfinished responses go on with the new weights
            when these come. Then batches depend on timing.

    Args:
        policy: the sampled policy.
        stops: ids that end a response.
        python: the interpreter of an environment with vLLM.
        settings: the settings of the child's engine.
        tolerance: the largest gap in nats allowed after a handover; None takes 1e-3, or 0.5 if vLLM uses bf16.
        max_rows, barrier: see `BatchedEngine`.
        script: the script of the child.
    """

    def __init__(
        self,
        policy: CausalLM,
        *,
        stops: Sequence[int],
        python: str = sys.executable,
        settings: ChildSettings | None = None,
        tolerance: float | None = None,
        max_rows: int = 256,
        barrier: Barrier | None = None,
        script: Path = Path(vllm_child.__file__),
    ) -> None:
        super().__init__(max_rows=max_rows, barrier=barrier)
        self.policy = policy
        self.settings = settings if settings is not None else ChildSettings()
        self.dtype = self.settings.dtype or dtype_for(policy)
        self.tolerance = tolerance_for(policy, self.dtype) if tolerance is None else tolerance
        self.rank = None if self.settings.merged else handed_adapter(policy)
        self.gap = 0.0
        self.restarts = 0
        self.interrupted = False
        self._stops = tuple(stops)
        self._strings = StopStrings(policy.tokenizer)
        self._began = False
        self._python = python
        self._script = script
        self._synced: int | None = None
        self._asking = threading.Lock()
        self._rows: dict[int, _Row] = {}
        self._number = 0
        folder = handover_folder(policy)
        self._house = _House(folder, Path(tempfile.gettempdir()) / f"{folder.name}.log")
        self.close = weakref.finalize(self, self._house.clear)

    @property
    def context_length(self) -> int | None:
        length: int | None = self.settings.more.get("max_model_len", self.policy.context_length)
        return length

    def sample(self, requests: Sequence[Request]) -> list[Sample]:
        """Samples all requests now; results in the order given.

        Raises:
            EngineLost: when the child ended twice during these requests.
            ConfigurationError: when vLLM does not start, refuses the requests, or does not use the policy's weights.
        """
        limits = [self._limit(request) for request in requests]
        samples = {
            place: done for place, request in enumerate(requests) if (done := self._imposed(request, limits[place]))
        }
        # In key order, whichever workflow asked first.
        left = sorted((place for place in range(len(requests)) if place not in samples), key=lambda p: requests[p].key)
        if left:
            with self._asking:
                drawn = self._twice(lambda: self._batch([(requests[place], limits[place]) for place in left]))
            samples.update(zip(left, drawn, strict=True))
        return [samples[place] for place in range(len(requests))]

    def rest(self) -> None:
        """Frees the device's memory until the next request, if `settings.sleeps`: the policy learns now."""
        child = self._house.child
        if child is None or not self.settings.sleeps or self._rows:
            return
        level = 1 if self.rank is not None else 2  # Without an adapter all weights are handed over again.
        with self._asking:
            try:
                child.ask({"do": "sleep", "level": level})
            except ChildLost:
                self._lose()
            if level > 1:
                self._synced = None

    # ------------------------------------------------------------ asking the child

    def _twice(self, attempt: Callable[[], T]) -> T:
        """What an attempt gives, with one more if the child ends."""
        try:
            return attempt()
        except ChildLost as lost:
            self._lose()
            if not self._began:
                raise EngineLost(f"vLLM did not start: its process {lost}; its log is {self._house.log}") from None
            self.restarts += 1
            say(f"the vLLM process {lost}; hocket starts it again")
        try:
            return attempt()
        except ChildLost as lost:
            self._lose()
            raise EngineLost(
                f"the vLLM process {lost}, twice during the same requests; its log is {self._house.log}. Remove the "
                "cause and resume the run"
            ) from None

    def _batch(self, requests: Sequence[tuple[Request, int]]) -> list[Sample]:
        child = self._ready(requests[0][0])
        answer = child.ask({"do": "sample", "questions": [self._question(*item) for item in requests]})
        return [
            self._sample(request, sample, answer["version"])
            for (request, _), sample in zip(requests, answer["samples"], strict=True)
        ]

    def _ready(self, request: Request) -> EngineProcess:
        """A running child with the current weights; `request` is used to check these."""
        house = self._house
        child = house.child
        if child is not None and self._synced == self.policy.version:
            return child
        try:
            child = self._begun() if child is None else self._loaded(child)
            self.gap = self._measured(child, request)
        except ConfigurationError:
            house.failed = True
            raise
        check_gap(self.gap, self.tolerance, "vLLM", "check its dtype and the model's architecture, or sample locally")
        self._synced = self.policy.version
        return child

    def _begun(self) -> EngineProcess:
        """A new child with the current weights."""
        self._began, folder, devices = False, self._house.folder, self.settings.devices
        variables = plugged(folder / "plugin") | ({} if devices is None else {"CUDA_VISIBLE_DEVICES": devices})
        (write_weights if self.rank is None else write_base)(self.policy, folder, self.dtype)
        child = self._house.child = EngineProcess(self._python, self._script, self._house.log, variables)
        child.ask({"do": "open", "settings": self._arguments(), "version": self.policy.version})
        if self.rank is not None:
            self._adapt(child)
        self._began = True
        self._emptied()
        return child

    def _loaded(self, child: EngineProcess) -> EngineProcess:
        """The child with the current weights."""
        folder, version = self._house.folder, self.policy.version
        if self.rank is not None:
            self._adapt(child)
        elif self.settings.handles:
            with device_handles(self.policy, self.dtype) as update:
                child.ask({"do": "hand", "update": update, "version": version})
        else:
            write_weights(self.policy, folder, self.dtype)
            child.ask({"do": "load", "folder": str(folder), "version": version})
            self._emptied()
        return child

    def _adapt(self, child: EngineProcess) -> None:
        folder = self._house.folder / "adapter"
        with self.policy.residence.whole():
            save_adapter(self.policy.model, folder)
        child.ask({"do": "adapt", "folder": str(folder), "version": self.policy.version})

    def _emptied(self) -> None:
        for file in self._house.folder.glob("*.safetensors"):
            file.unlink()  # Shared memory is memory.

    def _lose(self) -> None:
        self._house.failed = True
        self._house.child, self._synced = None, None
        for row in self._rows.values():
            row.sent = False

    def _arguments(self) -> dict[str, Any]:
        """The arguments of `vllm.LLM`."""
        adapters: dict[str, Any] = {}
        if self.rank is not None:
            reserved = next((rank for rank in _RANKS if rank >= self.rank), self.rank)
            adapters = {"enable_lora": True, "max_loras": 1, "max_lora_rank": reserved}
        return {
            "model": str(self._house.folder),
            "dtype": self.dtype,
            "max_model_len": self.context_length,
            "max_num_seqs": self.max_rows,
            "kv_cache_memory_bytes": int(self.settings.memory * 2**30),
            "gpu_memory_utilization": 0.01,  # The line above decides; but this share must be free beside a learner.
            "enforce_eager": not self.settings.compiled,
            "enable_prefix_caching": True,
            "enable_sleep_mode": self.settings.sleeps,
            "weight_transfer_config": {"backend": "ipc" if self.settings.handles else BACKEND},
            "logprobs_mode": "processed_logprobs",  # Log-probs of the distribution drawn from.
            "generation_config": "vllm",  # Without the model's own sampling defaults and stops.
            "seed": 0,
            **adapters,
            **self.settings.more,
        }

    def _measured(self, child: EngineProcess, request: Request) -> float:
        """The largest gap between the child's and the policy's log-probs on a fresh sample, nats."""
        probe = probe_of(request)
        measured = child.ask({"do": "sample", "questions": [self._question(probe, self._limit(probe))]})
        ((tokens, logp, _),) = measured["samples"]
        return log_prob_gap(self.policy, probe.tokens, tokens, logp)

    # ------------------------------------------------------------ requests and samples

    def _question(self, request: Request, limit: int) -> dict[str, Any]:
        """A request as its prompt and the arguments of `vllm.SamplingParams`."""
        request = remainder(request, limit)
        question = tokens_body(request, "", self._stops)
        del question["model"], question["return_token_ids"]
        question["logprobs"] = 0  # Only that of the drawn token.
        if request.prefix:
            question["prompt_logprobs"] = 0
        return question

    def _imposed(self, request: Request, limit: int) -> Sample | None:
        """The sample if the imposed prefix is the complete response; else None."""
        if not request.prefix or (len(request.prefix) < limit and request.prefix[-1] not in self._stops):
            return None
        return Sample(
            tokens=np.array(request.prefix, np.int64),
            logp=None,
            finish="stop" if request.prefix[-1] in self._stops else "length",
            version=self.policy.version,
            forced=np.ones(len(request.prefix), np.bool_),
        )

    def _sample(self, request: Request, answer: tuple[list[int], list[float], Any], version: int) -> Sample:
        tokens, logp, finish = answer
        prefix = request.prefix[0 if request.begun is None else len(request.begun.tokens) :]
        tokens_all = np.array([*prefix, *tokens], np.int64)
        rest = Sample(
            tokens=tokens_all,
            logp=np.array(logp[len(logp) - len(tokens_all) :], np.float32),  # Those of the prompt may come first.
            finish=finish,
            version=version,
            forced=np.arange(len(tokens_all)) < len(prefix),
        )
        return joined(request, rest, self._strings)

    # ------------------------------------------------------------ as requests come

    def _go_on(self) -> bool:
        """Adds pending requests to those under way and works until one is answered, or for a moment."""
        if not self.interrupted:
            return False
        waiting = [entry for entry in self._pending.values() if entry.promise.waits]
        self._pending.clear()
        for entry in sorted(waiting, key=lambda entry: entry.request.key):
            limit = self._limit(entry.request)
            if (done := self._imposed(entry.request, limit)) is not None:
                entry.promise.answer(done)
                continue
            self._number += 1
            self._rows[self._number] = _Row(entry, entry.request, limit)
        if not self._rows:
            return bool(waiting)
        try:
            with self._asking:
                self._twice(self._advance)
        except Exception as error:
            for row in self._rows.values():
                row.pending.promise.fail(error)
            self._rows.clear()
        return True

    def _advance(self) -> None:
        child = self._house.child
        if child is not None and self._synced != self.policy.version:
            self._part(child)
        gone = [number for number, row in self._rows.items() if not row.pending.promise.waits]
        for number in gone:
            del self._rows[number]
        if not self._rows:
            if child is not None and gone:
                child.ask({"do": "go", "questions": {}, "drop": gone, "seconds": 0.0})
            return
        child = self._ready(next(iter(self._rows.values())).request)
        new = {number: self._question(row.request, row.limit) for number, row in self._rows.items() if not row.sent}
        answer = child.ask({"do": "go", "questions": new, "drop": gone, "seconds": BREATH})
        for number in new:
            self._rows[number].sent = True
        for number, text in answer["done"].items():
            row = self._rows.pop(number)
            row.pending.promise.answer(self._sample(row.request, text, answer["version"]))

    def _part(self, child: EngineProcess) -> None:
        """Takes what is written of the responses under way, which then go on from there."""
        answer = child.ask({"do": "part"})
        for number, (tokens, logp) in answer["parts"].items():
            if (row := self._rows.get(number)) is None:
                continue
            imposed = row.request.prefix[0 if row.request.begun is None else len(row.request.begun.tokens) :]
            if tokens:
                text = [*imposed, *tokens]
                begun = lengthened(row.request.begun, text, logp[len(logp) - len(text) :], answer["version"])
                row.request = replace(row.request, begun=begun)
            row.sent = False
