"""What `hocket.load` gives: a policy with the parts that it is measured by."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from hocket.apps.report.evaluation import EvaluationSubject, measure_subject
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.stages import Policy, Task
from hocket.train.evaluate import EvaluationResult
from hocket.types import Message

Conversation = Sequence[Message]
"""Chat messages, `{"role": .., "content": ..}`."""


@dataclass(eq=False)
class TrainedPolicy:
    """A policy to use. What it can do depends on what it is; the other methods raise a sentence that says so.

    Attributes:
        subject: the run or model that it is of. policy: the weights. role: the role that it plays.
        reload: reads the same weights again for another task. seed: of all that it draws.
    """

    subject: EvaluationSubject
    policy: Policy
    role: str
    reload: Callable[[str | Task], EvaluationSubject] = field(repr=False)
    seed: int = 0
    _calls: int = field(default=0, init=False, repr=False)

    what: ClassVar[str] = "a policy of its own kind"
    """What it is, in words."""
    use: ClassVar[str] = ".evaluate() or .save(folder)"
    """The methods that use it."""

    @property
    def label(self) -> str:
        """The run or model that it is of, in words."""
        checkpoint = self.subject.checkpoint
        return (
            f"run {checkpoint.parent.parent.name}" if checkpoint is not None else f"model {self.subject.config.model}"
        )

    def __repr__(self) -> str:
        return f"<{self.what}, {self.role!r} of {self.label} on {self.subject.name}: {self.use}>"

    def evaluate(self, task: str | Task | None = None, n: int | None = None) -> EvaluationResult:
        """Greedy success on the first `n` unseen scenarios, as `hocket eval` measures it; a team plays as a whole.

        Args:
            task: another task than the run's: a name or a `Task`. n: how many; None takes the run's `evaluation.n`.
        """
        subject = self.subject if task is None else self.reload(task)
        return measure_subject(subject, n or subject.config.evaluation.n)

    def save(self, folder: str | Path) -> Path:
        """Writes the weights into a new folder, which `hocket.load` reads; returns its path.

        A language model or a scorer becomes a folder of `transformers`, adapters added to the weights. Of any other
        policy the folder is a run with its configuration and this checkpoint: every command reads it, and
        `hocket train --resume` continues it.

        Raises:
            ConfigurationError: when the folder exists.
        """
        target = new_folder(folder)
        hidden = target.with_name(f".{target.name}.part")
        shutil.rmtree(hidden, ignore_errors=True)
        try:
            hidden.mkdir(parents=True)
            self._write(hidden)
            hidden.rename(target)  # Whole or not at all.
        finally:
            shutil.rmtree(hidden, ignore_errors=True)
        return target

    def _write(self, folder: Path) -> None:
        from hocket.train.export import copy_run

        if self.subject.checkpoint is None:
            raise ConfigurationError(
                f"{self.label} on {self.subject.name} was never trained, so there is nothing to save"
            )
        copy_run(self.subject.checkpoint, folder)

    def _key(self, purpose: str, seed: int | None = None) -> Key:
        """The key of the next call's draws; calls with a seed of their own draw the same every time."""
        self._calls += 1
        return Key.of(self.seed).derive(purpose, self._calls) if seed is None else Key.of(seed).derive(purpose)

    # ------------------------------------------------------------ what some policies can do

    def act(
        self,
        observation: Any,
        state: NDArray[np.float32] | None = None,
        greedy: bool = True,
        *,
        allowed: Any = None,
        episode_start: Any = None,
    ) -> tuple[Any, NDArray[np.float32] | None]:
        """See `hocket.apps.use.controller.TrainedController`."""
        self._refuse("act")

    def generate(
        self,
        prompt: str | Conversation | Sequence[str | Conversation],
        n: int = 1,
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
        seed: int | None = None,
    ) -> Any:
        """See `hocket.apps.use.language.TrainedModel`."""
        self._refuse("generate")

    def chat(self, messages: str | Conversation, **options: Any) -> list[Mapping[str, Any]]:
        """See `hocket.apps.use.language.TrainedModel`."""
        self._refuse("chat")

    def score(self, texts: Any) -> Any:
        """See `hocket.apps.use.language.TrainedScorer`."""
        self._refuse("score")

    def save_onnx(self, file: str | Path) -> Path:
        """See `hocket.apps.use.controller.TrainedController`."""
        raise ConfigurationError(
            f"{self.label}: ONNX is for controllers, and {self.role!r} is {self.what}; for a language model write "
            "hocket export RUN --gguf, or --merge"
        )

    def _refuse(self, method: str) -> NoReturn:
        raise ConfigurationError(f"{self.label}: {self.role!r} is {self.what} and has no .{method}(); use {self.use}")


def new_folder(folder: str | Path) -> Path:
    """The path of a folder that may be written.

    Raises:
        ConfigurationError: when there is something already.
    """
    target = Path(folder)
    if target.exists():
        raise ConfigurationError(f"{target} exists already; choose another folder, or remove it")
    return target
