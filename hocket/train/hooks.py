"""The hooks of a run, called around every step, and what they remember."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from hocket.core.outcomes import StepResult
from hocket.stages import Hook, HookContext, Player, State
from hocket.types import Assignment


class HookedRun(HookContext, Protocol):
    """A run and its hooks."""

    @property
    def active(self) -> Mapping[str, Hook]:
        """The hooks of the present phase by name, in the order in which they act."""
        ...


@dataclass
class Hooks:
    """Calls the hooks of a run and holds their memories.

    Attributes:
        memories: of the present phase's hooks, as they keep them. earlier: the states that earlier phases' left.
    """

    memories: dict[str, Any] = field(default_factory=dict)
    earlier: State = field(default_factory=dict)

    def _each(self, run: HookedRun) -> Iterator[tuple[str, Hook, Any]]:
        for name, hook in run.active.items():
            if name not in self.memories:
                self.memories[name] = hook.begin(run, self.earlier.get(name))
            yield name, hook, self.memories[name]

    async def before(self, run: HookedRun, step: int) -> None:
        for name, hook, memory in self._each(run):
            self.memories[name] = await hook.before(run, step, memory)

    def assign(self, run: HookedRun, assignment: Assignment, step: int) -> Assignment:
        for hook in run.active.values():
            assignment = hook.assign(assignment, step)
        return assignment

    def seat(self, player: Player, run: HookedRun, step: int) -> Player:
        for _, hook, memory in self._each(run):
            player = hook.seat(player, run, step, memory)
        return player

    def withheld(self, run: HookedRun) -> frozenset[str]:
        return frozenset().union(*(hook.withheld(run) for hook in run.active.values()))

    async def after(self, run: HookedRun, step: int, result: StepResult) -> None:
        for name, hook, memory in self._each(run):
            self.memories[name] = await hook.after(run, step, result, memory)

    def state(self, run: HookedRun) -> State:
        """What all hooks remember, those of earlier phases too, by name."""
        states = {
            name: hook.state(self.memories[name], run) for name, hook in run.active.items() if name in self.memories
        }
        return {name: state for name, state in {**self.earlier, **states}.items() if state}

    def restore(self, state: State, run: HookedRun) -> None:
        """The inverse of `state`."""
        active = run.active
        self.memories = {name: active[name].restore(memory, run) for name, memory in state.items() if name in active}
        self.earlier = {name: memory for name, memory in state.items() if name not in active}

    def end_phase(self, run: HookedRun) -> None:
        """Makes what the present phase's hooks remember what they left behind."""
        self.memories, self.earlier = {}, self.state(run)


def named(hooks: list[Hook]) -> dict[str, Hook]:
    """Hooks by the names of their classes, numbered where there are several of one."""
    hooks_by_name: dict[str, Hook] = {}
    for hook in hooks:
        name = type(hook).__name__
        same = sum(known.partition("/")[0] == name for known in hooks_by_name)
        hooks_by_name[f"{name}/{same + 1}" if same else name] = hook
    return hooks_by_name
