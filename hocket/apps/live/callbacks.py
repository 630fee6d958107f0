"""What a program is called back with while a run goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hocket.train.trainer import NullObserver, Observer, Trainer

OnStep = Callable[[int, dict[str, Any]], object]
"""A function of the step and its row of metrics; the run ends in order when it returns False."""


DISPLAY = "progress"
"""The name of the display among the callbacks."""


class StepCallback(NullObserver):
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


class CallbackGroup:
    """Passes every event to the observers of a program. After an exception only the display receives events.

    The exception is kept, so that the run can end in order.

    Args:
        callbacks: observers by the names of the arguments that they came in, in the order of their calls.

    Attributes:
        error: the first exception, None without one. call: what raised it, in words.
    """

    def __init__(self, callbacks: Mapping[str, Observer]) -> None:
        self._callbacks = callbacks
        self.error: Exception | None = None
        self.call = ""

    def started(self, trainer: Trainer) -> None:
        self._pass("started", "at the start", trainer)

    def stepped(self, trainer: Trainer, row: dict[str, Any]) -> None:
        self._pass("stepped", f"after step {row['step']}", trainer, row)

    def said(self, message: str) -> None:
        self._pass("said", f"for the message {message!r}", message)

    def _pass(self, method: str, when: str, *arguments: Any) -> None:
        for name, callback in self._callbacks.items():
            if self.error is not None and name != DISPLAY:
                continue
            try:
                getattr(callback, method)(*arguments)
            except Exception as error:
                function = name if isinstance(callback, StepCallback) else f"{name}.{method}"
                self.error, self.call = self.error or error, self.call or f"{function} failed {when}"
