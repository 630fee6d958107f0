"""Sampling of a trained policy with vLLM in a child process, which has its own Python environment."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.core.notices import say
from hocket.core.waits import waiting_for
from hocket.engine import vllm_child
from hocket.engine.barrier import Barrier
from hocket.engine.batched_engine import BatchedEngine
from hocket.engine.handover import (
    Dtype,
    check_gap,
    dtype_for,
    handover_folder,
    log_prob_gap,
    probe_of,
    tolerance_for,
    write_weights,
)
from hocket.engine.remote_wire import tokens_body
from hocket.engine.requests import Request, Sample
from hocket.engine.vllm_child import SocketWire

if TYPE_CHECKING:
    from hocket.policies.causal_lm import CausalLM

PYTHON_VARIABLE = "HOCKET_VLLM_PYTHON"
"""The environment variable with the path to a Python that has vLLM."""

_PATIENCE = 10.0
"""Seconds that a child has to end by itself."""
_OWN_ENVIRONMENT = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")
_LOG_HEAD = re.compile(r"^(\(.*?\) )?((ERROR|WARNING|INFO) [\d-]+ [\d:.]+ )?(\[[^\]]*\] )?")


class EngineLost(ConfigurationError):
    """The process of an engine ended. This stops the run, which can be resumed."""

    exit_code = 1


class ChildLost(Exception):
    """A child ended during a request; the text says how."""


class EngineProcess:
    """The process that holds the engine, and the connection to it.

    Args:
        python: the interpreter of the other environment.
        script: the script that it runs, with the file descriptor of the connection as its argument.
        log: the file of its output.
    """

    def __init__(self, python: str, script: Path, log: Path) -> None:
        near, there = socket.socketpair()
        self.log = log
        self._read = log.stat().st_size if log.is_file() else 0
        with there, log.open("ab") as out:
            self._process = subprocess.Popen(
                [python, str(script), str(there.fileno())],
                pass_fds=(there.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=_environment(),
                start_new_session=True,  # Ctrl-C reaches only the run, which then ends its child.
            )
        self._wire = SocketWire(near, alive=lambda: self._process.poll() is None)

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        """The answer to a question.

        Raises:
            ChildLost: when the child ended.
            ConfigurationError: when it reports an error.
        """
        if message["do"] != "open":
            self._read = self.log.stat().st_size  # The end of the log belongs to this question.
        try:
            with waiting_for("the vLLM process"):
                self._wire.send(message)
                answer = self._wire.receive()
        except (OSError, EOFError):
            raise ChildLost(self._epitaph()) from None
        except BaseException:
            self.close(patience=0)  # An interrupt between question and answer makes the connection unusable.
            raise
        if "error" in answer:
            raise ConfigurationError(f"vLLM refused ({answer['error']}); its log is {self.log}")
        return answer

    def close(self, patience: float = _PATIENCE) -> None:
        """Ends the child by closing the connection; kills it if it does not end within `patience` seconds."""
        self._wire.close()
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)  # With the processes that it started.
            self._process.wait()

    def _epitaph(self) -> str:
        """How it ended, and the last line of its log."""
        self.close()
        code = self._process.returncode
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        words = last_words(self.log, self._read)
        return f"{how}; the last line of its log: {words}" if words else how


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
        more: further arguments of `vllm.LLM`.
    """

    dtype: Dtype | None = None
    memory: float = 1.0
    compiled: bool = False
    more: dict[str, Any] = field(default_factory=dict)


class VLLMEngine(BatchedEngine):
    """Samples a `CausalLM` with vLLM's offline engine, always with its current weights, tokens and log-probs exact.

    The child starts at the first request. After a change of the policy's `version` the weights are written to a folder
    in shared memory, and the child loads them into the live model and drops its prefix cache. Then log-probs of a fresh
    sample are compared with the policy's, because a reload that misses a tensor is silent. Each sample records the
    version that the child reports. Log-probs are those of the distribution drawn from, at every temperature and
    truncation. Each request has its own seed.

    A child that ends is started again, once per batch, and repeats the batch. If it ends again, the run stops.

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
        self.gap = 0.0
        self.restarts = 0
        self._stops = tuple(stops)
        self._began = False
        self._python = python
        self._script = script
        self._synced: int | None = None
        self._asking = threading.Lock()
        folder = handover_folder(policy)
        self._house = _House(folder, Path(tempfile.gettempdir()) / f"{folder.name}.log")
        self.close = weakref.finalize(self, self._house.clear)

    @property
    def context_length(self) -> int | None:
        return self.settings.more.get("max_model_len", self.policy.context_length)

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
                drawn = self._drawn([requests[place] for place in left], [limits[place] for place in left])
            samples.update(zip(left, drawn, strict=True))
        return [samples[place] for place in range(len(requests))]

    # ------------------------------------------------------------ asking the child

    def _drawn(self, requests: Sequence[Request], limits: Sequence[int]) -> list[Sample]:
        """Samples with the current weights, with one more attempt if the child ends."""
        questions = [self._question(request, limit) for request, limit in zip(requests, limits, strict=True)]
        try:
            return self._attempt(requests, questions)
        except ChildLost as lost:
            self._lose()
            if not self._began:
                raise EngineLost(f"vLLM did not start: its process {lost}; its log is {self._house.log}") from None
            self.restarts += 1
            say(f"the vLLM process {lost}; hocket starts it again")
        try:
            return self._attempt(requests, questions)
        except ChildLost as lost:
            self._lose()
            raise EngineLost(
                f"the vLLM process {lost}, twice during the same requests; its log is {self._house.log}. Remove the "
                "cause and resume the run"
            ) from None

    def _attempt(self, requests: Sequence[Request], questions: Sequence[dict[str, Any]]) -> list[Sample]:
        child = self._ready(requests[0])
        answer = child.ask({"do": "sample", "questions": questions})
        return [
            self._sample(request, answer_tokens, answer["version"])
            for request, answer_tokens in zip(requests, answer["samples"], strict=True)
        ]

    def _ready(self, request: Request) -> EngineProcess:
        """A running child with the current weights; `request` is used to check these."""
        house, version = self._house, self.policy.version
        child = house.child
        if child is not None and self._synced == version:
            return child
        write_weights(self.policy, house.folder)
        try:
            if child is None:
                child = self._start()
            else:
                child.ask({"do": "load", "folder": str(house.folder), "version": version})
            self.gap = self._measured(child, request)
        except ConfigurationError:
            self._house.failed = True
            raise
        check_gap(self.gap, self.tolerance, "vLLM", "check its dtype and the model's architecture, or sample locally")
        for file in house.folder.glob("*.safetensors"):
            file.unlink()  # Shared memory is memory.
        self._synced = version
        return child

    def _start(self) -> EngineProcess:
        self._began = False
        child = self._house.child = EngineProcess(self._python, self._script, self._house.log)
        child.ask({"do": "open", "settings": self._arguments(), "version": self.policy.version})
        self._began = True
        return child

    def _lose(self) -> None:
        self._house.failed = True
        self._house.child, self._synced = None, None

    def _arguments(self) -> dict[str, Any]:
        """The arguments of `vllm.LLM`."""
        return {
            "model": str(self._house.folder),
            "dtype": self.dtype,
            "max_model_len": self.context_length,
            "max_num_seqs": self.max_rows,
            "kv_cache_memory_bytes": int(self.settings.memory * 2**30),
            "gpu_memory_utilization": 0.01,  # The line above decides; but this share must be free beside a learner.
            "enforce_eager": not self.settings.compiled,
            "enable_prefix_caching": True,
            "logprobs_mode": "processed_logprobs",  # Log-probs of the distribution drawn from.
            "generation_config": "vllm",  # Without the model's own sampling defaults and stops.
            "seed": 0,
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
        request = replace(request, decoding=replace(request.decoding, max_tokens=limit))
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
        tokens_all = np.array([*request.prefix, *tokens], np.int64)
        return Sample(
            tokens=tokens_all,
            logp=np.array(logp[-len(tokens_all) :], np.float32),  # With a prefix, those of the prompt come first.
            finish=finish,
            version=version,
            forced=np.arange(len(tokens_all)) < len(request.prefix),
        )


def find_python(named: str | None) -> str:
    """The Python of an environment with vLLM: the named one, else that of `HOCKET_VLLM_PYTHON`, else this one.

    Raises:
        ConfigurationError: when it cannot be run or has no vLLM.
    """
    python = named or os.environ.get(PYTHON_VARIABLE) or sys.executable
    source = "engine.python" if named else PYTHON_VARIABLE if os.environ.get(PYTHON_VARIABLE) else ""
    look = "import importlib.util, sys; sys.exit(importlib.util.find_spec('vllm') is None)"
    try:
        process = subprocess.run([python, "-c", look], env=_environment(), capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigurationError(f"{source or 'engine.python'} = {python!r} cannot be run: {error}") from None
    if process.returncode == 0:
        return python
    if not source:
        raise ConfigurationError(
            "engine.kind = vllm: this Python environment has no vLLM; name the Python of one that has it with "
            f"engine.python or {PYTHON_VARIABLE}, or use engine.kind = local"
        )
    raise ConfigurationError(f"{source} = {python!r}: this Python has no vLLM; install it there, or name another one")


def last_words(log: Path, start: int = 0) -> str:
    """The last error in a log from byte `start` on, else its last line with content; "" without one."""
    lines = log.read_bytes()[start:].decode(errors="replace").splitlines()
    words = [text for line in lines[-200:] if (text := _LOG_HEAD.sub("", line).strip(" ^~|-"))]
    errors = [text for text in words if re.match(r"[\w.]*(Error|Exception)\b", text)]
    return " ".join((errors or words or [""])[-1].split())[:300]


def _environment() -> dict[str, str]:
    """The child's environment variables: those of this process, without those that point to its packages."""
    variables = {name: value for name, value in os.environ.items() if name not in _OWN_ENVIRONMENT}
    defaults = {"VLLM_LOGGING_LEVEL": "WARNING", "VLLM_NO_USAGE_STATS": "1", "TOKENIZERS_PARALLELISM": "false"}
    if "OMP_NUM_THREADS" in variables:
        defaults["VLLM_CPU_OMP_THREADS_BIND"] = "nobind"  # Otherwise vLLM uses all cores, whatever this says.
    # In the child's process: one process less, and the same batches every time.
    return {**defaults, **variables, "PYTHONSAFEPATH": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
