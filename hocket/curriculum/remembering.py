"""Curricula with memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hocket.core.keys import Key
from hocket.stages import Curriculum, LedgerView, State, Task
from hocket.types import Scenario, Trajectory


class RememberingCurriculum(Curriculum):
    """A curriculum with memory: what it remembers is threaded by the loop, beside what the other stages remember.

    A step asks it once and, where its rollout asks for more, again: the state goes through every call. When everybody
    has learnt, `after` tells it once what the step brought. What scenarios earned stands in the ledger besides.

    Steps are collected one after the other, so it is refused where they are collected ahead (`overlap`, `lag`,
    `order = arrival`), and inside another curriculum. With a new phase of a plan it begins anew, as all stages do.
    Evaluation asks no curriculum.
    """

    def init(self) -> State:
        """The state before the first step."""
        raise NotImplementedError

    def ask_with(
        self, state: State, task: Task, asked: int, count: int, ledger: LedgerView, key: Key
    ) -> tuple[list[Scenario], State]:
        """The next `count` scenarios, as a call without memory, and the next state; the given one is left as it was."""
        raise NotImplementedError

    def after(self, state: State, trajectories: Sequence[Trajectory], weights: Mapping[str, float]) -> State:
        """The state after a step, from all its samples of the policies' own, as the ledger is told of them, in order.

        Args:
            weights: those of the named scores, as `hocket.core.outcomes.total_reward` reads them.
        """
        return state

    def __call__(self, task: Task, asked: int, count: int, ledger: LedgerView, key: Key) -> list[Scenario]:
        """The scenarios of a first call, which is then forgotten."""
        return self.ask_with(self.init(), task, asked, count, ledger, key)[0]
