"""Drives runs from Python: shows progress, calls back, and ends in order on Ctrl-C."""

from __future__ import annotations

import signal
import sys
import threading
import warnings
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Protocol

from hocket.apps.live.callbacks import DISPLAY, CallbackGroup, OnStep, StepCallback
from hocket.core.ending import stopping
from hocket.core.errors import HocketError
from hocket.train import silences
from hocket.train.trainer import FAILED, UNSAVED, Observer, Trainer

INTERRUPTED = "interrupted"
"""How a run ended that Ctrl-C stopped."""


STOPPED = "stopped"
"""How a run ended that `on_step` stopped."""


class Display(Observer, Protocol):
    """An observer that a person looks at."""

    def close(self) -> None:
        """Stops what moves; what was shown stays."""
        ...

    def end(self, trainer: Trainer, *, resume: str) -> None:
        """Shows what came of a run; `resume` is the call that continues it."""
        ...


def in_notebook() -> bool:
    """Whether this program runs in a kernel, whose front end shows rich output."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


def display() -> Display:
    """A display for where the program runs: a page in a notebook, a live table in a terminal, lines anywhere else."""
    if in_notebook():
        from hocket.apps.live.notebook import NotebookDisplay

        return NotebookDisplay()
    from rich.console import Console

    from hocket.apps.cli.display import LiveDisplay

    return LiveDisplay(Console(stderr=True, highlight=False))


class Driver:
    """Drives the runs of one call of `hocket.train`.

    Args:
        progress: whether to show progress. on_step, observer: see `hocket.train`. is_object: whether the task is a
            Python object rather than a name.

    Attributes:
        observer: for the trainers of the runs.
    """

    def __init__(
        self, *, progress: bool, on_step: OnStep | None, observer: Observer | None, is_object: bool = False
    ) -> None:
        self._is_object = is_object
        self._display = display() if progress else None
        self._step = None if on_step is None else StepCallback(on_step)
        named = {DISPLAY: self._display, "on_step": self._step, "observer": observer}
        callbacks = {name: callback for name, callback in named.items() if callback is not None}
        self.observer = self._callbacks = CallbackGroup(callbacks)

    def run(self, trainer: Trainer, place: Path | None = None, *, more: bool = False) -> bool:
        """Drives a run to its end; whether `on_step` did not stop it.

        Args:
            trainer: of the run. place: the folder to resume from, that of the plan if the run is a phase. more: whether
                phases follow it.

        Raises:
            KeyboardInterrupt: after Ctrl-C, when the run has ended in order; the message says how to continue.
            HocketError: when nothing could be learnt, or a callback failed.
        """
        resume = self._call(trainer, place)
        with _interrupts() as interrupts:
            try:
                ended = trainer.drive(lambda: self._reason(interrupts))
            finally:
                if self._display is not None:
                    self._display.close()
        if self._display is not None:
            longer = trainer.done and place is None
            self._display.end(trainer, resume=self._call(trainer, place, 2 * trainer.total_steps if longer else None))
        if not trainer.saved:
            warnings.warn(UNSAVED, RuntimeWarning, stacklevel=3)
        onward = f"; the run is saved after step {trainer.progress.step}, continue with {resume}"
        if (error := self._callbacks.error) is not None:
            raise HocketError(f"{self._callbacks.call} ({type(error).__name__}: {error}){onward}") from error
        if ended == FAILED:
            raise HocketError(str(silences.failure(trainer.progress)))
        if interrupts and (more or not trainer.done):  # Who stops the last step of a phase does not want the next.
            raise KeyboardInterrupt(f"stopped by Ctrl-C{onward}")
        return self._step is None or not self._step.stop

    def _call(self, trainer: Trainer, place: Path | None, steps: int | None = None) -> str:
        """The call that continues a run; `...` stands for objects that no configuration holds."""
        objects = trainer.python_objects
        arguments = ["..."] * self._is_object + [f"resume={str(place or trainer.folder.path)!r}"]
        arguments += [] if steps is None else [f"steps={steps}"]
        arguments += ["reward=..."] * bool(objects["rewards"]) + ["workflow=..."] * (objects["workflow"] is not None)
        return f"hocket.train({', '.join(arguments)})"

    def _reason(self, interrupts: list[bool]) -> str | None:
        """Why the run is to end before its next step; None to continue."""
        if self._callbacks.error is not None:
            return FAILED
        if interrupts:
            return INTERRUPTED
        return STOPPED if self._step is not None and self._step.stop else None


def _interrupts() -> AbstractContextManager[list[bool]]:
    """A list that Ctrl-C fills; a second Ctrl-C stops at once.

    Nothing fills it outside the main thread, and where the program answers Ctrl-C itself.
    """
    main = threading.current_thread() is threading.main_thread()
    if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        return stopping((signal.SIGINT,))
    return nullcontext([])
