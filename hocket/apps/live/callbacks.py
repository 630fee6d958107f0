"""What a program is called back with while a run goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hocket.train.trainer import Observer, Trainer

OnStep = Callable[[int, dict[str, Any]], object]
"""A function of the step and its row of metrics; the run ends in order when it returns False."""

STOPPED = "stopped"
"""How a run ended that a callback stopped."""


class StepCallback:
    """Calls a function after the evaluation before training (step 0), and after every step.

    Attributes:
        stop: whether the function has returned False.
    """

    def __init__(self, function: OnStep) -> None:
        self._function, self.stop = function, False

    def started(self, trainer: Trainer) -> None:
        self.stop = False

    def stepped(self, trainer: Trainer, row: dict[str, Any]) -> None:
        self.stop = self._function(int(row["step"]), row) is False

    def said(self, message: str) -> None:
        pass


class GuardedObserver:
    """Keeps the first exception of an observer, which is not called again, so that the run can end in order.

    Attributes:
        error: the exception, None without one. call: what raised it, in words.
    """

    def __init__(self, observer: Observer, name: str) -> None:
        self._observer, self._name = observer, name
        self.error: Exception | None = None
        self.call = ""

    def started(self, trainer: Trainer) -> None:
        self._guarded("started", "at the start", trainer)

    def stepped(self, trainer: Trainer, row: dict[str, Any]) -> None:
        self._guarded("stepped", f"after step {row['step']}", trainer, row)

    def said(self, message: str) -> None:
        self._guarded("said", f"for the message {message!r}", message)

    def _guarded(self, method: str, when: str, *arguments: Any) -> None:
        if self.error is not None:
            return
        try:
            getattr(self._observer, method)(*arguments)
        except Exception as error:
            name = self._name if isinstance(self._observer, StepCallback) else f"{self._name}.{method}"
            self.error, self.call = error, f"{name} failed {when}"


class ObserverGroup:
    """Passes every event to several observers, in order."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = tuple(observers)

    def started(self, trainer: Trainer) -> None:
        for observer in self._observers:
            observer.started(trainer)

    def stepped(self, trainer: Trainer, row: dict[str, Any]) -> None:
        for observer in self._observers:
            observer.stepped(trainer, row)

    def said(self, message: str) -> None:
        for observer in self._observers:
            observer.said(message)
