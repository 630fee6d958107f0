"""Curricula with memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hocket.core.keys import Key
from hocket.stages import Curriculum, LedgerView, State, Task
from hocket.types import Scenario, Trajectory


class RememberingCurriculum(Curriculum):
    """A curriculum with memory. The loop passes its state from call to call.

    A step calls it once, and again if its rollout needs more scenarios; every call updates the state. After the
    updates, `after` gets the step's trajectories. The ledger has the rewards of scenarios in addition.

    Steps must be collected in sequence, so a run with `overlap`, `lag` or `order = arrival` raises an error, and so
    does a recipe that puts it inside another curriculum. A new phase of a plan starts from the initial state, as for
    all stages. Evaluation uses no curriculum.
    """

    def init(self) -> State:
        """The state before the first step."""
        raise NotImplementedError

    def ask_with(
        self, state: State, task: Task, asked: int, count: int, ledger: LedgerView, key: Key
    ) -> tuple[list[Scenario], State]:
        """The next `count` scenarios, as from `__call__`, and the next state; leaves `state` unchanged."""
        raise NotImplementedError

    def after(self, state: State, trajectories: Sequence[Trajectory], weights: Mapping[str, float]) -> State:
        """The state after a step, from the samples of source `own`, in the order in which the ledger records them.

        Args:
            weights: the weights of the named scores, for `hocket.core.outcomes.total_reward`.
        """
        return state

    def __call__(self, task: Task, asked: int, count: int, ledger: LedgerView, key: Key) -> list[Scenario]:
        """The scenarios of a first call; its state is dropped."""
        return self.ask_with(self.init(), task, asked, count, ledger, key)[0]
