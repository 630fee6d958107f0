"""Ours: steps of the library's own loop on a case's model, put together as `hocket train` does."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from bench import ROOT, Stopwatch, device_peak, forget_peak, matrix_rate, preload, resident
from cases import MODULES, Case, Work, between, prompt_text
from sides import Line, Side

from hocket.agents.workflows.workflow import Workflow
from hocket.core.keys import Key
from hocket.policies.causal_lm import CausalLM
from hocket.stages import Split
from hocket.tasks.text import TextTask
from hocket.train.config import configure
from hocket.train.loop import collect, learn
from hocket.train.trainer import Trainer
from hocket.types import Scenario, Trajectory


@dataclass(frozen=True)
class Settings:
    """How it is run.

    Attributes:
        threads: of torch; None leaves the choice to the library. wait: OpenMP's policy; empty leaves it alone.
        precision: of products; None is what `hocket train` picks. device: `cpu` or `cuda`.
        sampling_only: leaves the learner out.
    """

    threads: int | None = None
    wait: str = ""
    precision: str | None = None
    device: str = "cpu"
    sampling_only: bool = False

    def start(self, name: str, case: Case) -> Side:
        """A worker of these settings."""
        order = json.dumps({"case": asdict(case), "settings": asdict(self)})
        return Side.start(
            name,
            [sys.executable, Path(__file__), order],
            log=case.folder / f"{name.replace(' ', '-')}.log",
            threads=self.threads,
            wait=self.wait,
            tokens=case.tokens,
        )


class Fixed(TextTask):
    """A few prompts, the same in every step."""

    def __init__(self, case: Case) -> None:
        self.name = "fixed"
        self._case = case

    def size(self, split: Split) -> int:
        return self._case.prompts

    def scenario(self, split: Split, number: int) -> Scenario:
        return Scenario(str(number), prompt_text(number, self._case.prompt))

    def verify(self, text: str, scenario: Scenario) -> None:
        return None


class Conversation(Workflow):
    """`turns` turns, with a fixed text between two of them."""

    roles = ("policy",)

    def __init__(self, turns: int) -> None:
        self._turns = turns

    async def play(self, scenario: Scenario, team: Any) -> None:
        await team.policy(scenario.prompt)
        for turn in range(1, self._turns):
            await team.policy(between(turn))


class Half:
    """Rewards every other sample."""

    name = "half"
    weight = 1.0
    outside = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float]:
        return [float(trajectory.sample % 2) for trajectory in trajectories]


class Steps:
    """A run of the case, built as `hocket train` builds one, and made step by step.

    Attributes:
        parameters: weights; of these `head` in the output head and `idle` in the experts that a token is not sent to.
    """

    def __init__(self, case: Case, settings: Settings) -> None:
        task = Fixed(case)
        pairs: list[tuple[str, Any]] = [
            ("model", str(case.folder)),
            ("runs", str(case.folder / "runs")),
            ("steps", 10**6),
            ("curriculum.prompts", case.prompts),
            ("rollout.samples", case.samples),
            ("decoding.max_tokens", case.new),
        ]
        pairs += [] if settings.threads is None else [("threads", settings.threads)]
        pairs += [] if settings.precision is None else [("precision", settings.precision)]
        pairs += [("lora.rank", case.lora), ("lora.targets", ["q_proj", "v_proj"])] if case.lora else []
        workflow = Conversation(case.turns)
        trainer = Trainer(configure(pairs, task), task=task, rewards=(Half(),), workflow=workflow)
        self.case, self.watch = case, Stopwatch(settings.device)
        self.parts, self.number = trainer.parts, 0
        policy = self.parts.lead.policy
        assert isinstance(policy, CausalLM)
        self.policy = policy
        self.policy.module.to(settings.device)
        self.head = self.policy.model.lm_head.weight.numel()
        weights = dict(self.policy.model.named_parameters())
        self.parameters = sum(weight.numel() for weight in weights.values())
        routed = sum(weight.numel() for name, weight in weights.items() if ".experts." in name)
        self.idle = routed - routed * case.chosen // max(case.experts, 1)

    @property
    def precision(self) -> str:
        """What products are computed in."""
        return self.policy.precision

    def step(self, *, sampling_only: bool = False) -> list[Trajectory]:
        """One step; returns its trajectories. Seconds of its parts are in `watch`."""
        with self.watch("step"):
            trajectories = self.sample()
            if not sampling_only:
                self.learn(trajectories)
        return trajectories

    def sample(self) -> list[Trajectory]:
        """The first half of the next step."""
        self.number += 1
        with self.watch("sampling"):
            experience, problems = asyncio.run(collect(self.parts, self._key))
        failures = [one.failure for one in experience.trajectories if one.failure]
        if problems or failures:
            raise RuntimeError(f"{problems} {failures[:1]}")
        return experience.trajectories

    def learn(self, trajectories: Sequence[Trajectory]) -> None:
        """The second half."""
        with self.watch("learner"):
            learn(self.parts, trajectories, self._key, self.number)

    @property
    def _key(self) -> Key:
        return self.parts.key.derive("step", self.number)

    def work(self, trajectories: Sequence[Trajectory]) -> Work:
        """The least arithmetic in a step that gave `trajectories`."""
        sampled = sum(trajectory.length for trajectory in trajectories)
        busy = self.parameters - self.head - self.idle
        return Work.of(self.case, map(tokens_of, trajectories), sampled, busy, self.head)


def tokens_of(trajectory: Trajectory) -> list[int]:
    """All tokens of a trajectory whose turns are one conversation."""
    found: list[int] = []
    for turn in trajectory.turns[-1].context():
        found += [*turn.observation.tolist(), *turn.action.tolist()]
    return found


def compilation(head: int) -> float | None:
    """Seconds that compiling the kernels takes for heads of `head` numbers, once per machine: later they are cached.

    None where they cannot be compiled, so that torch computes alone.
    """
    code = "import sys, hocket.policies.kernels; sys.exit(not hocket.policies.kernels.available(int(sys.argv[1])))"
    with tempfile.TemporaryDirectory() as empty:
        taken = []
        for _ in range(2):  # The second one finds them in the cache; what remains is Python's and torch's start.
            start = time.perf_counter()
            environment = {**os.environ, "XDG_CACHE_HOME": empty, "PYTHONPATH": str(ROOT)}
            if subprocess.run([sys.executable, "-c", code, str(head)], env=environment, check=False).returncode:
                return None
            taken.append(time.perf_counter() - start)
    return taken[0] - taken[1]


def run(case: Case, settings: Settings) -> None:
    """The worker."""
    line = Line()
    preload(*MODULES)
    before = forget_peak()
    steps = Steps(case, settings)
    threads = torch.get_num_threads()
    cpu = settings.device == "cpu"
    clock = time.process_time if cpu and threads == 1 else time.perf_counter
    kinds = sorted({"fp32", steps.precision} if cpu else {"fp32", "bf16"})
    peak = resident("VmHWM")
    line.tell(threads=threads, device=settings.device, parameters=steps.parameters, precision=steps.precision)
    while line.wait():
        trajectories = steps.step(sampling_only=settings.sampling_only)
        # The peak is read before what this benchmark does besides.
        peak = max(peak, resident("VmHWM"))
        work = steps.work(trajectories)
        rates = {kind: matrix_rate(kind, clock, settings.device) for kind in kinds}
        line.tell(**steps.watch.take(), tokens=work.sampled, work=asdict(work), rates=rates)
        forget_peak()
    line.tell(memory=(peak - before) / 1024 if cpu else device_peak())


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    run(Case(**given["case"]), Settings(**given["settings"]))
