"""What this machine has, what hocket would pick, and a short self-test."""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any


@dataclass(frozen=True)
class Symptom:
    """One line of `hocket doctor`."""

    name: str
    found: str
    fine: bool
    advice: str = ""
    optional: bool = False


REQUIRED = ("torch", "transformers", "numpy", "safetensors", "pyyaml", "msgspec", "rich", "jinja2")
EXTRAS = {
    "peft": "lora",
    "reasoning-gym": "tasks",
    "gymnasium": "control",
    "tensorboard": "tracking",
    "uvicorn": "serve",
    "gguf": "smollm2",
}


def examine() -> list[Symptom]:
    """All findings; takes about ten seconds, most of them the self-test."""
    findings = [Symptom("python", platform.python_version(), platform.python_version_tuple() >= ("3", "11"))]
    findings += [_package(name, None) for name in REQUIRED]
    findings += [_package(name, extra) for name, extra in EXTRAS.items()]
    return [*findings, *_machine(), _attempt("self-test", self_test)]


def _package(name: str, extra: str | None) -> Symptom:
    try:
        return Symptom(name, importlib.metadata.version(name), True)
    except importlib.metadata.PackageNotFoundError:
        advice = f"pip install 'hocket[{extra}]'" if extra else "pip install hocket again: it is a direct dependency"
        return Symptom(name, "missing", False, advice, optional=extra is not None)


WIDE = {"hidden_size": 1024, "num_attention_heads": 16}
WIDTHS = {"the shipped model": None, "a model of width 1024": WIDE}
"""Whose products are timed; None reads the shipped model's configuration."""


def _machine() -> list[Symptom]:
    """The cores and memory, what they can do, and what a run of the shipped model would choose and why."""
    import torch

    from hocket.policies import kernels
    from hocket.train.machine import Machine
    from hocket.train.models import configured_models
    from hocket.train.settings import Config

    models = configured_models(Config())
    machine = Machine.chosen(Config(), models)
    accelerator = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "none"
    head = int(models[0].head_dim)
    compiled = kernels.available(head)
    return [
        Symptom("threads", str(machine.threads), True, machine.why["threads"]),
        Symptom("precision", machine.precision, True, machine.why["precision"]),
        *_rates(models[0]),
        Symptom("vector units", torch.backends.cpu.get_cpu_capability(), True),
        Symptom("kernels", "compiled" if compiled else "missing", compiled, kernels.reason(head) or "", optional=True),
        _memory(),
        _sandbox(),
        Symptom("accelerator", accelerator, True),
        torch_build(torch.version.cuda, available=torch.cuda.is_available(), driver=_has_nvidia()),
    ]


CPU_BUILD = "pip install torch --index-url https://download.pytorch.org/whl/cpu"


def torch_build(cuda: str | None, *, available: bool, driver: bool) -> Symptom:
    """Which build of torch this is, and another that fits the machine better.

    Args:
        cuda: the version of CUDA that it was built for, None for the CPU build.
        available: whether it can use a GPU. driver: whether the machine has one of NVIDIA's.
    """
    name = "for the CPU" if cuda is None else f"for CUDA {cuda}"
    if cuda is None and driver:
        return Symptom("torch build", name, False, "this machine has an NVIDIA GPU: pip install torch", optional=True)
    if cuda is not None and driver and not available:
        advice = f"the GPU's driver does not work with CUDA {cuda}: update it, or see https://pytorch.org/get-started"
        return Symptom("torch build", name, False, advice, optional=True)
    if cuda is not None and not driver and not available:
        return Symptom("torch build", name, True, f"there is no NVIDIA GPU; the CPU build is far smaller: {CPU_BUILD}")
    return Symptom("torch build", name, True)


def _has_nvidia() -> bool:
    return Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi") is not None


def _rates(shipped: Any) -> list[Symptom]:
    """GFLOP/s of products of two sizes, by precision and threads."""
    import torch

    from hocket.train.cores import available_cores
    from hocket.train.machine import Probe
    from hocket.train.probe import LayerShapes, has_bf16

    device, cores = torch.device("cpu"), available_cores()
    symptoms = [Symptom("cores", str(cores), True)]
    for name, settings in WIDTHS.items():
        probe = Probe(LayerShapes.of(shipped if settings is None else SimpleNamespace(**settings)), device)
        single = probe("fp32", 1)
        figures = [f"{single.to_json()['train']:.0f} GFLOP/s in fp32"]
        if has_bf16(device):
            figures.append(f"bf16 is {1 / probe('bf16', 1).against(single):.1f} times as fast")
        if cores > 1:
            figures.append(f"{cores} threads are {1 / probe('fp32', cores).against(single):.1f} times as fast as one")
        symptoms[0] = Symptom("cores", str(cores), True, f"other programs took {probe.others:.0%} of them meanwhile")
        symptoms.append(Symptom("products", f"of {name}", True, "; ".join(figures)))
    if torch.cuda.is_available():
        probe = Probe(LayerShapes.of(SimpleNamespace(**WIDE)), torch.device("cuda"))
        figures = [f"{probe(kind, 1).to_json()['train'] / 1e3:.0f} TFLOP/s in {kind}" for kind in ("fp32", "bf16")]
        symptoms.append(Symptom("products", "on the accelerator", True, "; ".join(figures)))
    return symptoms


def _memory() -> Symptom:
    import torch

    from hocket.train.memory import GIB, available_memory

    free = available_memory(torch.device("cpu"))
    return Symptom("memory", "unknown" if free is None else f"{free / GIB:.1f} GiB free", True)


def _sandbox() -> Symptom:
    """What locks in programs that agents write."""
    from hocket.agents.tools.sandbox import Sandbox
    from hocket.core.errors import ConfigurationError

    try:
        return Symptom("sandbox", ", ".join(Sandbox().layers()), True)
    except ConfigurationError as error:
        return Symptom("sandbox", "missing", False, str(error), optional=True)


def _attempt(name: str, test: Callable[[], str]) -> Symptom:
    try:
        return Symptom(name, test(), True)
    except Exception as error:  # A doctor reports what is broken.
        return Symptom(name, f"{type(error).__name__}: {error}", False, "run `hocket train --steps 2 --debug` for more")


def self_test() -> str:
    """Three steps of the main job in a temporary folder; returns what was seen."""
    import torch

    from hocket.run import train

    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        settings: dict[str, Any] = {"runs": folder, "evaluation.n": 32, "evaluation.every": 0}
        run = train("sums", steps=3, progress=False, **settings)
        gaps = [row["agreement/largest"] for row in run.metrics if row.get("agreement/largest") is not None]
    seconds = time.perf_counter() - started
    # On an accelerator sampler and learner add up in other orders, in bf16.
    if not gaps or max(gaps) > (0.2 if torch.cuda.is_available() else 1e-3):
        raise RuntimeError(f"sampler and learner disagree by {max(gaps, default=float('nan')):.2g} nats")
    return f"3 training steps in {seconds:.1f} s; sampler and learner agree to {max(gaps):.0e} nats"
