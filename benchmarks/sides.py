"""Two programs beside each other: each in a process of its own, taking turns, one frozen while the other works.

A worker reads commands line by line and answers each with one JSON object. `step` and `brief` ask for a step, the
latter for one with a few tokens only, which warms up; anything else ends the worker.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol

from bench import ROOT, busy_seconds, spread
from cases import Case, build_model

QUIET = 0.1
"""Processors that other programs may use during a step; two spinning threads lose far more than their share."""


class WorkerFailed(SystemExit):
    """A worker ended or did other work than it should; unless caught, the program ends with the sentence."""


class Line:
    """A worker's line to the parent. What is printed besides goes to the log."""

    def __init__(self) -> None:
        self._out: IO[str] = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    def wait(self) -> str | None:
        """`step` or `brief`; None when no more is asked for."""
        command = sys.stdin.readline().strip()
        return command if command in ("step", "brief") else None

    def tell(self, **found: Any) -> None:
        """Answers."""
        print(json.dumps(found), file=self._out, flush=True)


@dataclass
class Side:
    """A running worker, frozen except while it makes a step.

    Attributes:
        name: for people. tokens: what a step must have sampled, or None.
        about: its first answer. first: its first step, which warms up. steps: those after it. end: its last answer.
    """

    name: str
    process: subprocess.Popen[str]
    log: Path
    tokens: int | None = None
    about: dict[str, Any] = field(default_factory=dict)
    first: dict[str, Any] = field(default_factory=dict)
    steps: list[dict[str, Any]] = field(default_factory=list)
    end: dict[str, Any] = field(default_factory=dict)

    @staticmethod
    def start(
        name: str,
        command: Sequence[str | Path],
        *,
        log: Path,
        threads: int | None = None,
        wait: str = "",
        tokens: int | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> Side:
        """Starts a worker with OpenMP's threads and wait policy; `ready` must be called before anything else."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "MKL_"))}
        environment |= {"PYTHONPATH": str(ROOT), "TRANSFORMERS_VERBOSITY": "error", "HF_HUB_OFFLINE": "1"}
        environment |= {"OMP_WAIT_POLICY": wait} if wait else {}
        environment |= {"OMP_NUM_THREADS": str(threads)} if threads else {}
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("w") as sink:
            process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=sink,
                text=True,
                env=environment | dict(extra or {}),
            )
        return Side(name, process, log, tokens)

    def ready(self) -> None:
        """Waits until it has loaded everything, then freezes it."""
        self.about = self._answer()
        self._freeze()

    def warm(self, *, brief: bool) -> None:
        """The first step; with `brief` one of a few tokens where the worker says it can."""
        self.first = self._ask("brief") if brief and self.about.get("brief") else self.step()

    def step(self) -> dict[str, Any]:
        """One step; `others` is how many processors other programs kept busy meanwhile."""
        busy, own, start = busy_seconds(), self._used(), time.perf_counter()
        found = self._ask("step")
        if self.tokens and found["tokens"] != self.tokens:
            raise WorkerFailed(f"{self.name} sampled {found['tokens']} tokens instead of {self.tokens}")
        wall = time.perf_counter() - start
        return found | {"others": max(0.0, busy_seconds() - busy - (self._used() - own)) / wall}

    def quiet_step(self, patience: float) -> dict[str, Any]:
        """A step that other programs left alone, or the least disturbed one begun within `patience` seconds."""
        started = time.perf_counter()
        found = self.step()
        while found["others"] > QUIET and time.perf_counter() - started < patience:
            time.sleep(0.5)
            found = min(found, self.step(), key=lambda step: float(step["others"]))
        return found

    def finish(self) -> None:
        """Ends it and keeps its last answer."""
        self.end = self._ask("end")
        self.process.wait(60)

    def kill(self) -> None:
        """Ends it whatever it does."""
        self.process.kill()
        self.process.wait()

    # ------------------------------------------------------------ what it measured

    @property
    def clock(self) -> str:
        """Processor seconds of one thread, so that other programs do not count; else wall-clock seconds."""
        alone = self.about["threads"] == 1 and self.about.get("device", "cpu") == "cpu"
        return "processor" if alone else "seconds"

    def median(self, part: str, clock: str | None = None) -> float:
        """The median time of a part of a step, seconds."""
        return statistics.median(float(step[clock or self.clock][part]) for step in self.steps)

    def medians(self, clock: str | None = None) -> dict[str, float]:
        """The median time of each part."""
        return {part: self.median(part, clock) for part in self.steps[0][clock or self.clock]}

    def warm_up(self, part: str) -> float:
        """Wall-clock seconds by which the first step was slower than the median: compilation, caches."""
        taken: float = self.first["seconds"][part] - self.median(part, "seconds")
        return max(0.0, taken)

    @property
    def disturbance(self) -> float:
        """The most processors that other programs used during a step that counts."""
        return max(float(step["others"]) for step in self.steps)

    # ------------------------------------------------------------

    def _freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def _used(self) -> float:
        # After the name, which may hold spaces: fields 14 and 15 of the whole line are user and system time.
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _ask(self, command: str) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.send_signal(signal.SIGCONT)
        try:
            self.process.stdin.write(command + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # It ended by itself: its log says why.
        found = self._answer()
        if command != "end":
            self._freeze()
        return found

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        text = self.process.stdout.readline()
        if not text:
            raise WorkerFailed(f"{self.name} failed; the end of {self.log}:\n{self.log.read_text()[-2000:]}")
        found: dict[str, Any] = json.loads(text)
        return found


class Settings(Protocol):
    """How one side is run."""

    def start(self, name: str, case: Case) -> Side:
        """A worker of these settings."""
        ...


def beside(
    case: Case,
    wanted: Mapping[str, Settings],
    *,
    rounds: int,
    seconds: float,
    patience: float,
    brief: bool = False,
) -> dict[str, Side]:
    """Runs workers of the settings in turns, for about `seconds`, and ends them; see `take_turns`."""
    build_model(case)
    shutil.rmtree(case.folder / "runs", ignore_errors=True)
    sides: list[Side] = []
    started = time.perf_counter()
    try:
        for name, settings in wanted.items():
            sides.append(settings.start(name, case))
        for side in sides:
            side.ready()
        left = seconds - (time.perf_counter() - started)
        take_turns(sides, rounds=rounds, seconds=left, patience=patience, brief=brief)
        for side in sides:
            side.finish()
    finally:
        for side in sides:
            side.kill()
    return {side.name: side for side in sides}


def take_turns(sides: Sequence[Side], *, rounds: int, seconds: float, patience: float, brief: bool) -> None:
    """A first step each, then rounds: `rounds` at most, one at least, and none begun that would end after `seconds`.

    With `brief` the first step has few tokens on sides that can. On busy processors a step is repeated for up to
    `patience` seconds, see `Side.quiet_step`.
    """
    started = time.perf_counter()
    for side in sides:
        side.warm(brief=brief)
    taken = 0.0
    for turn in range(rounds):
        begun = time.perf_counter()
        if turn and begun - started + taken > seconds:
            break
        left = max(0.0, seconds - (begun - started)) / len(sides)
        for side in sides if turn % 2 else reversed(sides):
            side.steps.append(side.quiet_step(min(patience, left)))
            seconds_of = ", ".join(f"{part} {spent:.2f} s" for part, spent in side.steps[-1]["seconds"].items())
            print(f"round {turn + 1}, {side.name}: {seconds_of}", file=sys.stderr, flush=True)
        taken = time.perf_counter() - begun


def clock_of(*sides: Side) -> str:
    """The clock that serves all of them."""
    return "processor" if all(side.clock == "processor" for side in sides) else "seconds"


def ratio(above: Side, below: Side, part: str, clock: str | None = None) -> dict[str, float]:
    """`above` over `below` within rounds: median, least, most."""
    kind = clock or clock_of(above, below)
    return spread([a[kind][part] / b[kind][part] for a, b in zip(above.steps, below.steps, strict=True)])


def floor_seconds(side: Side, part: str, *, attention: bool = False) -> float:
    """The least time of a part at the rate of large products in the side's precision."""
    names = [part, f"attention_{part}"] if attention else [part]
    precision: str = side.about["precision"]
    return statistics.median(
        sum(float(step["work"][name]) for name in names) / float(step["rates"][precision]) for step in side.steps
    )


def floor_fraction(side: Side, part: str, *, attention: bool = False) -> float:
    """The least time over that measured."""
    return floor_seconds(side, part, attention=attention) / side.median(part)
