"""What a run changes while it goes on, because the machine is no longer as it was when the choices were made."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import torch

from hocket.policies.family import CHECKPOINTING
from hocket.stages import Policy
from hocket.train.cores import CoreWatch
from hocket.train.learner import Learner
from hocket.train.machine import Machine, MachineChange

WAITING = 0.1
"""A thread that stands ready without a core for more than this share of a step says that the cores are busy."""

PATIENCE = 3
"""After so many such steps in a row there are half as many threads."""


class ResourceMonitor:
    """Watches the steps of a run: fewer threads when the cores get busy, smaller parts when memory ran out.

    Threads that work together wait for the last of them, so that one other program on their cores can make a step
    several times as long; where a person chose their number, they stay and the person is notified once.

    Args:
        pinned: whether the number of threads was not chosen by measurement.
    """

    def __init__(self, *, pinned: bool) -> None:
        self._pinned = pinned
        self._warned = False
        self._row = 0
        self._watch = CoreWatch()

    def begin(self, machine: Machine, learners: Collection[Learner], step: int) -> None:
        """Before a step: the choices that hold in it."""
        machine.apply(_policies(learners), step=step)
        self._watch = CoreWatch()

    def changes(self, learners: Collection[Learner], step: int) -> list[MachineChange]:
        """After a step: what was changed in it, or is to change from the next one on."""
        return [*_shrunk(learners, step), *self._crowded(step)]

    def advice(self) -> str | None:
        """What a person should know who chose the number of threads; once."""
        if not self._pinned or self._warned or self._row < PATIENCE:
            return None
        self._warned = True
        return "the cores are busy with other programs, and threads wait for one another; fewer may be faster"

    def _crowded(self, step: int) -> list[MachineChange]:
        threads = torch.get_num_threads()
        waited = self._watch.waited() if threads > 1 else 0.0
        self._row = self._row + 1 if waited > WAITING else 0
        if self._row < PATIENCE or self._pinned:
            return []
        self._row = 0
        why = f"the cores are busy with other programs: a thread waited {waited:.0%} of a step for one"
        return [MachineChange(step + 1, why, threads=threads // 2)]


def _shrunk(learners: Collection[Learner], step: int) -> list[MachineChange]:
    taken = [shrunk for learner in learners if (shrunk := learner.retry.taken()) is not None]
    if not taken:
        return []
    budget, checkpointing = min(item[0] for item in taken), max((item[1] for item in taken), key=CHECKPOINTING.index)
    return [MachineChange(step, "memory ran out", token_budget=budget, checkpointing=checkpointing)]


def _policies(learners: Collection[Learner]) -> Iterator[Policy]:
    for learner in learners:
        yield learner.policy
        if learner.reference is not None:
            yield learner.reference


def in_words(change: MachineChange) -> str:
    """A sentence for the person who watches."""
    parts = []
    if change.threads is not None:
        parts.append(f"{change.threads} thread{'s' if change.threads > 1 else ''}")
    if change.token_budget is not None:
        parts.append(f"parts of {change.token_budget} tokens")
    if change.checkpointing:
        parts.append("checkpointing" + (" in the host's memory" if change.checkpointing == "host" else ""))
    return f"{change.why}; from step {change.step} on with {', '.join(parts)}"
