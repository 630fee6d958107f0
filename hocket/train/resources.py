"""The machine of a run: what it does best is chosen at the start, recorded, and changed when it must be."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any

from hocket.agents.workflows.single import SingleTurn
from hocket.policies.language_model import LanguageModel
from hocket.stages import Player, Task
from hocket.train.device_faults import no_room, slow_kernels
from hocket.train.kinds.kind import Kind
from hocket.train.learner import Learner
from hocket.train.machine import Machine, environment_threads
from hocket.train.memory import planned, return_large_blocks
from hocket.train.oom_retry import out_of_memory
from hocket.train.overlap import divided
from hocket.train.prediction import predicted_bytes
from hocket.train.recorder import Recorder
from hocket.train.resource_monitor import ResourceMonitor, in_words
from hocket.train.settings import Config


class Resources:
    """Chooses threads, precision and memory for a run, and gives way when the machine gets busy or full.

    Attributes:
        machine: the choices, with every change since.
    """

    def __init__(self, config: Config, kind: Kind, recorder: Recorder, *, resume: bool) -> None:
        """Makes the choices hold in this process: those of an earlier session where there was one."""
        self._config, self._recorder = config, recorder
        file = recorder.folder.machine
        self.machine = Machine.recorded(file) if resume and file.is_file() else _chosen(config, kind.models(config))
        self.machine.apply()
        self._monitor = ResourceMonitor(pinned=config.threads is not None or environment_threads() is not None)

    def plan_memory(self, task: Task, player: Player, learners: Collection[Learner]) -> None:
        """Completes the choices of a new run and records them."""
        return_large_blocks(learners)
        if self.machine.memory.why:
            return
        policies = [learner.policy for learner in learners if isinstance(learner.policy, LanguageModel)]
        several = not isinstance(getattr(player, "workflow", SingleTurn()), SingleTurn)
        for sentence in dict.fromkeys(slow_kernels(policy) for policy in policies):
            if sentence is not None:
                self._recorder.say(sentence)
        try:
            memory = planned(self._config, task, learners, several_turns=several)
        except (MemoryError, RuntimeError) as error:
            if not policies or not out_of_memory(error):
                raise
            raise no_room(policies[0].device, "a pass over the shortest sequences does not fit") from error
        predicted = predicted_bytes(self._config, task, learners, memory)
        if predicted is not None:
            memory = dataclasses.replace(memory, predicted_mib=round(predicted / 2**20, 1))
        self.machine = dataclasses.replace(self.machine, memory=memory)
        self._recorder.machine(self.machine)
        if memory.warning:
            self._recorder.say(memory.warning)

    def begin(self, learners: Collection[Learner], step: int) -> None:
        """Before a step: the choices that hold in it."""
        self._monitor.begin(self.machine, learners, step)

    def adapt(self, learners: Collection[Learner], step: int) -> bool:
        """Records and reports adaptations to the machine after a step; returns whether they changed `step` itself."""
        changes = self._monitor.changes(learners, step)
        for change in changes:
            self.machine = self.machine.changed(change)
            self._recorder.say(in_words(change))
        if changes:
            self._recorder.machine(self.machine)
        advice = self._monitor.advice()
        if advice is not None:
            self._recorder.say(advice)
        return any(change.step == step for change in changes)


def _chosen(config: Config, models: Any) -> Machine:
    return divided(Machine.chosen(config, models), config)
