"""A solver at work in a world, in a folder of its own: every step measured exactly, and resumed to the bit."""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import yaml
from numpy.typing import NDArray

from hocket.core.components import replaced_all, to_plain
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key
from hocket.core.yaml_text import load_yaml
from hocket.lab.exact.solver import SOLVERS, Solver, SolverMethod, State, changed
from hocket.lab.exact.worlds import world
from hocket.train.disk import json_ready, write_atomic
from hocket.train.runfolder import RunLock
from hocket.train.trust import check, sign

CONFIG, METRICS, STATE, SUMMARY = "config.yaml", "metrics.jsonl", "state.npz", "summary.json"

AGAIN = "put back a copy, or begin anew in another folder with --out"

OWN = ("step", "value", "gap", "regret", "switches", "change")
"""Figures of a step that every solver has; its own stand beside them."""


@dataclass(frozen=True)
class SolveSettings:
    """The settings of `hocket solve`.

    Attributes:
        method: a solver's name. world, steps: the method's own where None. pairs: its settings (`eta`, ..).
    """

    method: str = "value-iteration"
    world: str | None = None
    steps: int | None = None
    seed: int = 0
    pairs: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class SolverProgress:
    """The progress of a run.

    Attributes:
        state: the solver's. answer: what its last step chose. step: how many were made. regret: the sum over them of
            the optimum less the value. switches: steps that chose another answer than the one before.
    """

    state: State
    answer: NDArray[Any] | None = None
    step: int = 0
    regret: float = 0.0
    switches: int = 0

    def pack(self) -> bytes:
        """As the bytes of an .npz."""
        figures = {"answer": self.answer, "step": self.step, "regret": self.regret, "switches": self.switches}
        held = {f"own/{name}": np.asarray(value) for name, value in figures.items() if value is not None}
        file = io.BytesIO()
        np.savez(file, **cast(Any, {**held, **{f"state/{name}": array for name, array in self.state.items()}}))
        return file.getvalue()

    @staticmethod
    def unpack(path: Path) -> SolverProgress:
        """What `pack` wrote.

        Raises:
            HocketError: when the file cannot be read.
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                held = {name: file[name] for name in file.files}
            figures = {name: held[f"own/{name}"] for name in ("step", "regret", "switches")}
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise HocketError(f"{path} cannot be read ({error}); {AGAIN}") from error
        state = {name.removeprefix("state/"): array for name, array in held.items() if name.startswith("state/")}
        return SolverProgress(
            state, held.get("own/answer"), int(figures["step"]), float(figures["regret"]), int(figures["switches"])
        )


class SolveRun:
    """A solver and a world, ready to run.

    Args:
        folder: where everything goes. One with a run in it goes on with that; only the number of steps may differ.
        every: steps between checkpoints.

    Raises:
        ConfigurationError: when method, settings and world do not fit together, or the folder holds another run.
    """

    def __init__(self, settings: SolveSettings, folder: Path, every: int = 25) -> None:
        self.method, self.solver = solver_of(settings.method, settings.pairs)
        steps = self.method.steps if settings.steps is None else settings.steps
        if steps < 1:
            raise ConfigurationError(f"steps = {steps}: it must be at least 1")
        self.settings = replace(settings, world=settings.world or self.method.world, steps=steps)
        self.world, self.steps = world(cast(str, self.settings.world)), steps
        try:
            self.solver.checked(self.world)
        except ConfigurationError as error:
            raise ConfigurationError(
                f"{error}; the default world of {self.method.name} is {self.method.world}"
            ) from error
        self.folder, self.every = folder, every
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = RunLock(folder)
        try:
            self._claim()
        except BaseException:
            self._lock.release()
            raise

    def run(self, observe: Callable[[Mapping[str, float]], None] = lambda row: None) -> dict[str, Any]:
        """Solves to the last step; returns what `summary.json` holds. `observe` is called with each step's figures."""
        try:
            begun, rows = self._begun()
            write_atomic(self.folder / METRICS, "".join(rows))
            with (self.folder / METRICS).open("a", encoding="utf-8") as file:
                progress = begun
                for progress, row in self._steps(begun):
                    file.write(json.dumps(json_ready(row)) + "\n")
                    if progress.step % self.every == 0 or progress.step == self.steps:
                        file.flush()
                        write_atomic(self.folder / STATE, progress.pack())
                    observe(row)
            summary = self._summary(progress)
            write_atomic(self.folder / SUMMARY, json.dumps(json_ready(summary), indent=2) + "\n")
            return {**summary, "path": str(self.folder)}
        finally:
            self._lock.release()

    def _begun(self) -> tuple[SolverProgress, list[str]]:
        """The newest checkpoint and the lines up to it, or the start.

        Raises:
            HocketError: when the checkpoint, or a line up to it, is missing or damaged.
        """
        metrics = self.folder / METRICS
        lines = metrics.read_text(encoding="utf-8").splitlines(keepends=True) if metrics.is_file() else []
        if not (self.folder / STATE).is_file():
            if len(lines) > self.every:
                raise HocketError(f"{self.folder / STATE} is missing, though {len(lines)} steps were made; {AGAIN}")
            return SolverProgress(self.solver.init(self.world, self._key.derive("begin"))), []
        progress = SolverProgress.unpack(self.folder / STATE)
        if progress.step > self.steps:
            raise ConfigurationError(f"{self.folder} has made {progress.step} steps already, more than {self.steps}")
        if len(lines) < progress.step:
            raise HocketError(f"{metrics} has {len(lines)} of the {progress.step} steps that were made; {AGAIN}")
        return progress, lines[: progress.step]

    def _steps(self, progress: SolverProgress) -> Iterator[tuple[SolverProgress, dict[str, float]]]:
        optimum = self.world.optimum
        while progress.step < self.steps:
            step = progress.step + 1
            state, figures = self.solver.step(self.world, progress.state, self._key.derive("step", step))
            answer = self.solver.answer(self.world, state)
            value = self.world.value(answer)
            moved = 0.0 if progress.answer is None else changed(progress.answer, answer)
            regret, switches = progress.regret + optimum - value, progress.switches + (moved > 0)
            progress = SolverProgress(state, answer, step, regret, switches)
            figures_own = dict(zip(OWN, (step, value, optimum - value, regret, switches, moved), strict=True))
            if not all(math.isfinite(figure) for figure in (*figures_own.values(), *figures.values())):
                raise HocketError(f"step {step} of {self.method.name} gave a number that is not finite: {figures}")
            yield progress, {**figures_own, **{name: float(figure) for name, figure in figures.items()}}

    def _summary(self, progress: SolverProgress) -> dict[str, Any]:
        assert progress.answer is not None
        value, optimum = self.world.value(progress.answer), self.world.optimum
        summary = {"value": value, "optimum": optimum, "gap": optimum - value, "regret": progress.regret}
        named = {"method": self.method.name, "world": self.world.name, "steps": progress.step}
        return {**named, "seed": self.settings.seed, **summary, "switches": progress.switches}

    @property
    def _key(self) -> Key:
        return Key.of(self.settings.seed).derive("solve")

    def _claim(self) -> None:
        path, mine = self.folder / CONFIG, _config(self.settings)
        if path.exists():
            theirs = _read(path)
            other = next((name for name in mine if name != "steps" and mine[name] != theirs.get(name)), None)
            if other is not None:
                raise ConfigurationError(
                    f"{self.folder} holds a run with {other} = {theirs.get(other)!r}, not {mine[other]!r}; give "
                    "another --out"
                )
        content = {**mine, "solver": to_plain(self.solver)}
        write_atomic(path, yaml.safe_dump(content, sort_keys=False))
        sign(path, list(content.items()))


def solver_of(name: str, pairs: tuple[tuple[str, Any], ...] = ()) -> tuple[SolverMethod, Solver]:
    """A solver by its method's name, with settings.

    Raises:
        ConfigurationError: for an unknown method or setting.
    """
    method: SolverMethod = SOLVERS.find(name)
    return method, replaced_all(method.solver, dict(pairs), "method") if pairs else method.solver


def resumed(folder: Path, *, trust: bool = False) -> SolveSettings:
    """The settings of a run that was begun in a folder.

    Raises:
        ConfigurationError: when there is none, or without `trust` it names code of others.
    """
    if not (folder / CONFIG).is_file():
        raise ConfigurationError(f"{folder} holds no run to continue: it has no {CONFIG}")
    held = _read(folder / CONFIG)
    check(folder / CONFIG, list(held.items()), trust=trust)
    return SolveSettings(held["method"], held["world"], held["steps"], held["seed"], tuple(held["settings"].items()))


def _config(settings: SolveSettings) -> dict[str, Any]:
    settings_kept = {name: value for name, value in asdict(settings).items() if name != "pairs"}
    return {**settings_kept, "settings": dict(settings.pairs)}


def _read(path: Path) -> dict[str, Any]:
    try:
        content = load_yaml(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from error
    complete = isinstance(content, dict) and {"method", "world", "steps", "seed", "settings"} <= set(content)
    if not complete or not isinstance(content["settings"], dict):
        raise ConfigurationError(f"{path} is no configuration of `hocket solve`")
    return dict(content)
