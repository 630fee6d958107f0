"""When memory runs out in the learner: the same work again, in smaller parts."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch

from hocket.core.batch import Batch
from hocket.policies.family import CHECKPOINTING, Checkpointing
from hocket.stages import Metrics, Policy
from hocket.update.problem import Problem

Found = TypeVar("Found")

LEAST_BUDGET = 256
"""A budget below this is not tried: the products get too small to be worth it."""

_SIGNS = ("out of memory", "can't allocate memory", "not enough memory", "cannot allocate memory")
"""What allocators say: those of CUDA, and of torch on Linux and on Windows."""


def out_of_memory(error: BaseException) -> bool:
    """Whether an allocator was refused."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error).lower() for sign in _SIGNS)


class MemoryRetry:
    """Runs work that changes no weights; out of memory, it halves the policies' budgets and runs it again.

    When budgets are at their least, activations are made again instead of held, where a policy can do that, and on an
    accelerator the states that this begins from go to the host's memory. A policy without a budget has nothing to
    spare, and the error is raised.

    Attributes:
        budget, checkpointing: what the policies were brought down to, None while nothing has happened.
    """

    def __init__(self, policies: Iterable[Policy]) -> None:
        self._policies: list[Any] = [policy for policy in policies if hasattr(policy, "token_budget")]
        self.budget: int | None = None
        self.checkpointing: Checkpointing | None = None

    def __call__(self, work: Callable[[], Found]) -> Found:
        while True:
            try:
                return work()
            except (MemoryError, RuntimeError) as error:
                if not out_of_memory(error) or not self._shrink():
                    raise
            # Only now the error is gone, and with it the frames that held what had been computed.
            gc.collect()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()

    def taken(self) -> tuple[int, Checkpointing] | None:
        """What was changed since the last call, if anything was."""
        shrunk = None if self.budget is None else (self.budget, self.checkpointing or False)
        self.budget = self.checkpointing = None
        return shrunk

    def _shrink(self) -> bool:
        if not self._policies:
            return False
        budget = int(min(2**24, *(policy.token_budget for policy in self._policies)))
        checkpointing: Checkpointing = min((policy.checkpointing for policy in self._policies), key=CHECKPOINTING.index)
        if budget > LEAST_BUDGET:
            budget = max(LEAST_BUDGET, budget // 2)
        elif not checkpointing:
            checkpointing = True
        elif checkpointing is True and any(policy.device.type != "cpu" for policy in self._policies):
            checkpointing = "host"
        else:
            return False
        for policy in self._policies:
            policy.token_budget, policy.checkpointing = budget, checkpointing
        self.budget, self.checkpointing = budget, checkpointing
        return True


@dataclass
class RetryingProblem(Problem):
    """A problem whose passes begin anew in smaller parts when memory runs out.

    Each is safe to repeat: none changes the weights, and a gradient replaces what an earlier attempt left behind.
    """

    retry: MemoryRetry = field(default_factory=lambda: MemoryRetry(()))

    def measured(self, batch: Batch | None = None) -> Metrics:
        return self.retry(lambda: Problem.measured(self, batch))

    def gradient(self, batch: Batch | None = None) -> Metrics:
        return self.retry(lambda: Problem.gradient(self, batch))

    def kl(self) -> float:
        return self.retry(lambda: Problem.kl(self))
