"""What this machine has, what hocket would pick, and a short self-test."""

from __future__ import annotations

import importlib.metadata
import platform
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Finding:
    """One line of `hocket doctor`."""

    name: str
    found: str
    fine: bool
    advice: str = ""
    optional: bool = False


REQUIRED = ("torch", "transformers", "numpy", "safetensors", "pyyaml", "msgspec", "rich", "jinja2")
EXTRAS = {"peft": "lora", "reasoning-gym": "tasks", "gymnasium": "control", "tensorboard": "tracking"}


def examine() -> list[Finding]:
    """All findings; takes about ten seconds, most of them the self-test."""
    findings = [Finding("python", platform.python_version(), platform.python_version_tuple() >= ("3", "11"))]
    findings += [_package(name, None) for name in REQUIRED]
    findings += [_package(name, extra) for name, extra in EXTRAS.items()]
    return [*findings, *_machine(), _attempt("self-test", self_test)]


def _package(name: str, extra: str | None) -> Finding:
    try:
        return Finding(name, importlib.metadata.version(name), True)
    except importlib.metadata.PackageNotFoundError:
        advice = f"pip install 'hocket[{extra}]'" if extra else "pip install hocket again: it is a direct dependency"
        return Finding(name, "missing", False, advice, optional=extra is not None)


def _machine() -> list[Finding]:
    import torch

    from hocket.train.machine import SMALL, Machine, available_cores

    machine = Machine.measured(None, parameters=SMALL)
    timed = ", ".join(f"{count}: {1000 * seconds:.0f} ms" for count, seconds in machine.seconds.items())
    capability = torch.backends.cpu.get_cpu_capability()
    accelerator = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "none"
    return [
        Finding("cores", str(available_cores()), True),
        Finding("threads", f"{machine.threads}, and 1 for small models", True, f"the probe took, by threads, {timed}"),
        Finding("vector units", capability, True, "with bf16 products" if _bf16() else "without bf16 products"),
        Finding("accelerator", accelerator, True),
    ]


def _bf16() -> bool:
    flags = Path("/proc/cpuinfo")
    return flags.is_file() and ("avx512_bf16" in flags.read_text() or "amx_bf16" in flags.read_text())


def _attempt(name: str, test: Callable[[], str]) -> Finding:
    try:
        return Finding(name, test(), True)
    except Exception as error:  # A doctor reports what is broken.
        return Finding(name, f"{type(error).__name__}: {error}", False, "run `hocket train --steps 2 --debug` for more")


def self_test() -> str:
    """Three steps of the main job in a temporary folder; returns what was seen."""
    from hocket.run import train

    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        settings: dict[str, Any] = {"runs": folder, "evaluation.n": 32, "evaluation.every": 0}
        run = train("sums", steps=3, **settings)
        gaps = [row["agreement/largest"] for row in run.metrics if row.get("agreement/largest") is not None]
    seconds = time.perf_counter() - started
    if not gaps or max(gaps) > 1e-3:
        raise RuntimeError(f"sampler and learner disagree by {max(gaps, default=float('nan')):.2g} nats")
    return f"3 training steps in {seconds:.1f} s; sampler and learner agree to {max(gaps):.0e} nats"
