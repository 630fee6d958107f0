"""Choices made by measurement on this machine: made once, recorded in the run, reused on resume."""

from __future__ import annotations

import dataclasses
import math
import os
import platform
import resource
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from hocket.core.errors import ConfigurationError
from hocket.policies import kernels
from hocket.policies.family import Checkpointing, Precision
from hocket.policies.forms import expected
from hocket.policies.shapes import model_size
from hocket.stages import Metrics, Policy
from hocket.train.cores import CoreWatch, available_cores
from hocket.train.memory import MemoryPlan, return_blocks
from hocket.train.probe import LayerShapes, ProductRate, has_bf16, measure
from hocket.train.runfolder import read_json
from hocket.train.settings import Config

WORTH = 0.75
"""Twice the threads are taken when the probe falls to this share of its time or below."""

SLACK = 0.3
"""Cores that others may take before one fewer counts as free: a system is never wholly idle."""


@dataclass(frozen=True)
class MachineChange:
    """What a run does otherwise from `step` on, because the machine no longer was as it had been; None stays as it is.

    Recorded with its step, so that a resumed run changes at the same place.
    """

    step: int
    why: str
    threads: int | None = None
    token_budget: int | None = None
    checkpointing: Checkpointing | None = None


@dataclass(frozen=True)
class Machine:
    """What was chosen and why.

    Attributes:
        threads: torch threads. precision: of matrix products.
        compiled: whether language models run on the compiled kernels (`hocket.policies.kernels`), not on torch's alone.
        memory: what the learner holds at once.
        why: the reason for each choice, by its name. rates: GFLOP/s that were measured, by precision and threads.
        changes: made since, in order of their steps.
    """

    threads: int = 1
    precision: Precision = "fp32"
    compiled: bool = False
    memory: MemoryPlan = MemoryPlan()
    why: Mapping[str, str] = field(default_factory=dict)
    rates: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    changes: tuple[MachineChange, ...] = ()

    @staticmethod
    def chosen(config: Config, models: Sequence[Any], device: torch.device | None = None) -> Machine:
        """Threads and precision for a run; `models` are `transformers` configurations, none for control tasks.

        `device` is that of the configuration when None.
        """
        device = device or (device_of(config) if models else torch.device("cpu"))
        largest = max((LayerShapes.of(model) for model in models), key=lambda shapes: shapes.weights, default=None)
        probe = Probe(largest, device)
        precision, precise = _precision(config, models, probe)
        threads, threaded = _threads(config.threads, precision, probe)
        compiled, activations = _compiled(models, device)
        why = {"threads": threaded, "precision": precise, "compiled": activations}
        return Machine(threads, precision, compiled, why=why, rates=probe.to_json())

    @staticmethod
    def recorded(path: Path) -> Machine:
        """What an earlier session chose, from `machine.json`."""
        content = read_json(path)
        names = [field.name for field in dataclasses.fields(Machine) if field.name in content]
        values = {name: content[name] for name in names}
        if "memory" in values:
            values["memory"] = MemoryPlan(**values["memory"])
        values["changes"] = tuple(MachineChange(**change) for change in values.get("changes", ()))
        if values.get("precision") == "float32":
            values["precision"] = "fp32"  # So runs begun before there was a choice called it.
        return Machine(**values)

    def apply(self, policies: Iterable[Policy] = (), *, step: int = 0) -> None:
        """Makes the choices hold in this process and for `policies`, as they stand from `step` on."""
        settings = self.at(step)
        compute_in(settings.precision, settings.threads)
        if settings.memory.checkpointing:
            return_blocks()
        for policy in policies:
            if settings.memory.token_budget is not None and hasattr(policy, "token_budget"):
                policy.token_budget = settings.memory.token_budget
            if hasattr(policy, "checkpointing"):
                policy.checkpointing = settings.memory.checkpointing

    def at(self, step: int) -> Machine:
        """The choices that hold in `step`: the first ones and all changes up to then."""
        machine = self
        for change in self.changes:
            if change.step <= step:
                memory = dataclasses.replace(
                    machine.memory,
                    token_budget=change.token_budget or machine.memory.token_budget,
                    checkpointing=machine.memory.checkpointing
                    if change.checkpointing is None
                    else change.checkpointing,
                )
                machine = dataclasses.replace(machine, threads=change.threads or machine.threads, memory=memory)
        return machine

    def changed(self, change: MachineChange) -> Machine:
        """The same with one more change."""
        return dataclasses.replace(self, changes=tuple(sorted((*self.changes, change), key=lambda entry: entry.step)))

    def to_json(self) -> dict[str, Any]:
        """For `machine.json`: the choices and what they were made on."""
        return {
            **asdict(self),
            "cores": available_cores(),
            "processor": platform.processor() or platform.machine(),
            "python": platform.python_version(),
            "torch": torch.__version__,
        }

    @property
    def briefly(self) -> str:
        """The choices in a line."""
        reason = self.why.get("threads")
        because = f" ({reason})" if reason else ""
        return f"{self.threads} thread{'s' if self.threads > 1 else ''}{because}, {self.precision}"

    def peak(self) -> Metrics:
        """Peak memory of this process, of the accelerator where it was used, and what was predicted, in MiB."""
        metrics = {"memory/peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}
        if torch.cuda.is_available():
            metrics["memory/accelerator"] = torch.cuda.max_memory_allocated() / 2**20
        if self.memory.predicted_mib is not None:
            metrics["memory/predicted"] = self.memory.predicted_mib
        return metrics


class Probe:
    """Rates of matrix products of a model's shapes, each measured on first use.

    Attributes:
        shapes: None where there is no language model. others: the largest share of the cores seen with other programs.
    """

    def __init__(self, shapes: LayerShapes | None, device: torch.device) -> None:
        self.shapes = shapes
        self.device = device
        self.others = 0.0
        self._rates: dict[tuple[Precision, int], ProductRate] = {}

    def __call__(self, precision: Precision, threads: int) -> ProductRate:
        assert self.shapes is not None
        if (precision, threads) not in self._rates:
            watch = CoreWatch()
            self._rates[precision, threads] = measure(self.shapes, precision, threads, self.device)
            self.others = max(self.others, watch.others())
        return self._rates[precision, threads]

    def to_json(self) -> dict[str, dict[str, float]]:
        """GFLOP/s by precision and threads."""
        return {f"{precision}, {threads}": rate.to_json() for (precision, threads), rate in self._rates.items()}


def compute_in(precision: Precision, threads: int) -> None:
    """Has torch in this process compute as a run that has chosen these; every process of a run must."""
    torch.set_num_threads(threads)
    # On a CUDA device products of fp32 numbers may be as exact as the rest then is: the head's and attention's.
    torch.backends.cuda.matmul.allow_tf32 = precision == "bf16"


def device_of(config: Config) -> torch.device:
    """Where language models are.

    Raises:
        ConfigurationError: when an accelerator is asked for that is not there.
    """
    if config.device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device = torch.device(config.device)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        devices = torch.cuda.device_count()
        raise ConfigurationError(f"device = {config.device!r}, but torch finds {devices} CUDA devices; use cpu or auto")
    return device


def _precision(config: Config, models: Sequence[Any], probe: Probe) -> tuple[Precision, str]:
    """What products are made in. Never by a clock: the same run on the same machine computes the same numbers."""
    if probe.shapes is None:
        return "fp32", "a small network"
    if config.precision != "auto":
        return config.precision, "set by precision"
    if config.weights != "fp32":
        return "bf16", f"the weights are in {config.weights}"
    stranger = next((model.model_type for model in models if not expected(model)), None)
    if stranger is not None:
        return "fp32", f"this {stranger} model takes the forward pass of transformers; --precision bf16 is for it too"
    if config.engine.kind != "local" and probe.device.type == "cpu":
        return "fp32", "another engine sums differently in bf16 and nearly equally in fp32"
    if not has_bf16(probe.device):
        return "fp32", "the processor has no bf16 instructions"
    missing = kernels.reason(kernels.ANY_HEAD) if probe.device.type == "cpu" else None
    if missing is not None:
        return "fp32", f"the kernels are not there: {missing}"
    return "bf16", f"the {'processor' if probe.device.type == 'cpu' else 'accelerator'} has bf16 instructions"


def _compiled(models: Sequence[Any], device: torch.device) -> tuple[bool, str]:
    """Whether all models run on the compiled kernels, and why."""
    if not models or device.type != "cpu":
        return False, "the kernels are for language models on a processor"
    if stranger := next((model.model_type for model in models if not expected(model)), None):
        return False, f"{stranger} models take the forward pass of transformers"
    missing = next((why for model in models if (why := kernels.reason(model_size(model).widest.key))), None)
    return missing is None, missing or "the kernels are there"


def environment_threads() -> int | None:
    """The number of threads that the environment asks for, None if it does not."""
    value = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(value) if value.isdigit() and int(value) > 0 else None


def _threads(threads: int | None, precision: Precision, probe: Probe) -> tuple[int, str]:
    """The number of threads, and the reason. `threads` is the number that the configuration sets."""
    if threads is not None:
        return threads, "set by threads"
    from_environment = environment_threads()
    if from_environment is not None:
        return from_environment, "set by OMP_NUM_THREADS"
    cores = available_cores()
    if probe.shapes is None:
        return 1, "the operators of a small network are too short to share"
    if probe.device.type != "cpu":
        return 1, "the work is on the accelerator"
    if cores == 1:
        return 1, "there is one core"
    best, share, counts = 1, 1.0, [2**n for n in range(1, cores.bit_length()) if 2**n <= cores]
    probe(precision, 1)
    for count in counts:
        free = cores * (1 - probe.others)
        if math.floor(free + SLACK) < count:
            return best, f"other programs take {probe.others:.0%} of the {cores} cores"
        share = probe(precision, count).against(probe(precision, best))
        if share > WORTH:
            return best, f"{count} threads take {share:.0%} of the time of {best}, not {WORTH:.0%} or less"
        best = count
    return best, f"the cores are quiet, and {best} threads take {share:.0%} of the time of {best // 2}"
