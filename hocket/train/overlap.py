"""Sampling and learning at the same time, in two processes, with samples exactly one update old.

While the learner learns from the batch of step n, a second process samples that of step n + 1 with the weights as they
were before step n. So the batch of step n comes from the weights after step max(0, n - 2), however fast either side
is; within a plan, from no weights older than those its phase began with. Results are a function of the configuration
alone, and of no clock:

- curriculum, workflow, tools, rewards and the journal stay in this process, in a thread beside the learner, and only
  requests for tokens go to the second one;
- the collection for step n + 1 sees the ledger as it was before step n: what step n earned is recorded after it;
- the weights being sampled from lie in memory that both processes see, and a checkpoint holds them, so that a resumed
  run collects the batch that was in flight again, from the same weights.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import asdict, dataclass, replace
from typing import NamedTuple

import torch

from hocket.agents.workflows.player import TextPlayer
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.outcomes import StepResult
from hocket.engine.requests import PolicyEngine
from hocket.rollout.demonstrations import Demonstrations, Preferences
from hocket.stages import State
from hocket.train.cores import available_cores
from hocket.train.ledger import Ledger, SampleOutcome
from hocket.train.loop import RunContext, collect, learn_from
from hocket.train.machine import Machine, environment_threads
from hocket.train.roles import learning
from hocket.train.sampler import SamplerEngine, SamplerProcess
from hocket.train.settings import Config, RoleSettings
from hocket.train.step_memory import outcomes
from hocket.types import Experience

_PATIENCE = 5.0
"""Seconds to wait for a collection that was called off: a reward may be busy, and is then left behind."""


class CollectedBatch(NamedTuple):
    """A collected batch, the problems of rewards, its seconds, and the number of scenarios drawn until then."""

    experience: Experience
    problems: list[str]
    seconds: float
    asked: int


@dataclass(frozen=True)
class SamplingTicket:
    """What is in shared memory: the weights, of these versions, that sample the batch of `step` on `threads`."""

    step: int
    versions: Mapping[str, int]
    threads: int


class Flight:
    """The collection of one batch, in a thread of its own.

    Args:
        parts: of the run, with their own count of scenarios `asked`.
        before: the collection of the batch before, which this one waits for.
    """

    def __init__(self, parts: RunContext, key: Key, step: int, before: Flight | None = None) -> None:
        self._parts, self._step, self._before = parts, step, before
        self._outcome: Future[CollectedBatch] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[CollectedBatch] | None = None
        self._thread = threading.Thread(target=self._run, args=(key,), name="hocket-overlap", daemon=True)
        self._thread.start()

    def wait(self) -> CollectedBatch:
        """The batch, once it is there. Raises what its collection raised."""
        return self._outcome.result()

    def pause(self) -> None:
        """Returns when the collection has ended, however it did."""
        self._outcome.exception()

    def cancel(self) -> None:
        """Calls the collection off."""
        loop, task = self._loop, self._task
        if loop is not None and task is not None:
            with contextlib.suppress(RuntimeError):  # It ended meanwhile.
                loop.call_soon_threadsafe(task.cancel)
        self._thread.join(_PATIENCE)

    def _run(self, key: Key) -> None:
        try:
            before, self._before = self._before, None
            if before is not None:
                self._parts.asked = before.wait().asked
            self._outcome.set_result(asyncio.run(self._collected(key)))
        except BaseException as error:  # Raised where the batch is waited for.
            self._outcome.set_exception(error)

    async def _collected(self, key: Key) -> CollectedBatch:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        started = time.perf_counter()
        experience, problems = await collect(self._parts, key, self._step)
        return CollectedBatch(experience, problems, time.perf_counter() - started, self._parts.asked)


class PendingOutcomes:
    """What a step found out about scenarios and the ledger does not know yet: the next collection had begun before."""

    def __init__(self) -> None:
        self._step, self._outcomes = 0, list[SampleOutcome]()

    def keep(self, step: int, outcomes: list[SampleOutcome]) -> None:
        """What this step found out."""
        self._step, self._outcomes = step, outcomes

    def settle(self, ledger: Ledger) -> None:
        """Has the ledger know it."""
        ledger.note(self._step, self._outcomes)
        self._outcomes = []

    def state(self) -> State:
        """For a checkpoint."""
        names = sorted({name for outcome in self._outcomes for name in outcome.statistics})
        return {
            "step": self._step,
            "scenarios": [outcome.scenario for outcome in self._outcomes],
            "rewards": [math.nan if outcome.reward is None else outcome.reward for outcome in self._outcomes],
            "statistics": {
                name: [outcome.statistics.get(name, math.nan) for outcome in self._outcomes] for name in names
            },
        }

    def restore(self, state: State) -> None:
        """The inverse of `state`. Checkpoints of earlier versions keep each statistic beside the rewards."""
        earlier = {name: state[name] for name in state.keys() - {"step", "scenarios", "rewards", "statistics"}}
        columns = {**earlier, **state.get("statistics", {})}
        measured = [
            {name: column[place] for name, column in sorted(columns.items()) if not math.isnan(column[place])}
            for place in range(len(state["rewards"]))
        ]
        self.keep(int(state["step"]), list(map(SampleOutcome, state["scenarios"], state["rewards"], measured)))


class Overlap:
    """Training steps of a run whose sampling overlaps with its learning.

    The run's own player stays as it is, for evaluation between steps: call `pause` before using it.

    Args:
        config: of the run. parts: its parts; their learners may be replaced when a phase begins.

    Raises:
        ConfigurationError: when nothing is sampled from a language model in this process.
    """

    def __init__(self, config: Config, parts: RunContext) -> None:
        player = parts.player
        actors = dict(player.actors) if isinstance(player, TextPlayer) else {}
        local = {role: actor.engine for role, actor in actors.items() if isinstance(actor.engine, PolicyEngine)}
        if not isinstance(player, TextPlayer) or not local:
            raise ConfigurationError(
                f"overlap = {config.overlap} is for language models sampled by the run itself, and task {config.task} "
                "has none here; drop it"
            )
        self._parts = parts
        policies = {actors[role].policy: engine.policy for role, engine in local.items()}
        self.process = SamplerProcess(config, _models(config, local, player), policies)
        engines = {actors[role].policy: engine for role, engine in local.items()}
        away = {name: SamplerEngine(self.process, name, engine.barrier) for name, engine in engines.items()}
        actors |= {role: replace(actors[role], engine=away[actors[role].policy]) for role in local}
        self._player = replace(player, actors=actors)
        self._flight: Flight | None = None
        self._ticket: SamplingTicket | None = None  # None when the next step begins with the weights there are then.
        self._earned = PendingOutcomes()

    # ------------------------------------------------------------ stepping

    def start(self) -> None:
        """Starts the second process, which takes some seconds, and does not wait for it."""
        self.process.start()

    def step(self, step: int, *, phase_end: int, last: int) -> StepResult:
        """Step `step` (from 1), during which the batch of the next one is collected.

        Args:
            phase_end: the last step of its phase; a next one before takes the weights this step begins with.
            last: the last step of the run, beyond which nothing is collected.
        """
        try:
            return self._step(step, phase_end, last)
        except Exception:
            self.close()
            raise

    def _step(self, step: int, phase_end: int, last: int) -> StepResult:
        started = time.perf_counter()
        experience, problems, seconds, _ = self._arrived(step)
        waited = time.perf_counter() - started
        self._earned.settle(self._parts.ledger)
        self._ticket = None
        if step < phase_end:
            self._publish(step + 1)
            if step < last:
                self._flight = self._launch(step + 1)
        result = learn_from(self._parts, step, experience, problems, rollout=seconds)
        self._earned.keep(step, outcomes(self._parts, experience))
        result.metrics |= {"time/step": time.perf_counter() - started, "time/wait": waited, **stale(self._parts)}
        result.metrics["memory/sampler"] = self.process.peak
        return result

    def _arrived(self, step: int) -> CollectedBatch:
        """The batch of `step`, collected now unless that was begun during the step before."""
        if self._ticket is None or self._ticket.step != step:
            if self._flight is not None:  # Of a step that was given up.
                self.close()
            self._earned.settle(self._parts.ledger)
            self._publish(step)
        elif not self.process.loaded:
            self.process.load(self._ticket.versions, self._ticket.threads)
        flight = self._flight = self._flight or self._launch(step)
        collected = flight.wait()
        if self.process.failure is not None:  # It ended midway: every episode failed, which must not be learnt from.
            raise self.process.failure
        self._flight = None
        self._parts.asked = collected.asked
        return collected

    def pause(self) -> None:
        """Waits until nothing is collected any more, so that task, player and rewards are the caller's alone."""
        if self._flight is not None:
            self._flight.pause()

    def close(self) -> None:
        """Ends the second process and what is collected. A further step would start both anew."""
        self.process.close()
        flight, self._flight = self._flight, None
        if flight is not None:
            flight.cancel()

    def _launch(self, step: int) -> Flight:
        parts = replace(self._parts, player=self._player)
        return Flight(parts, parts.key.derive("step", step), step)

    def _publish(self, step: int) -> None:
        """The batch of `step` comes from the weights as they are now."""
        versions = {name: learner.policy.version for name, learner in self._parts.learners.items()}
        self.process.weights.put()
        self._ticket = SamplingTicket(step, versions, torch.get_num_threads())
        self.process.load(self._ticket.versions, self._ticket.threads)

    # ------------------------------------------------------------ state

    def state(self) -> State:
        """What the next step's batch is made of, beside the ledger and the count of scenarios asked."""
        ticket = self._ticket
        return {
            "next": None if ticket is None else asdict(ticket),
            "weights": {} if ticket is None else self.process.weights.state(),
            "earned": self._earned.state(),
        }

    def restore(self, state: State) -> None:
        """The inverse of `state`, before the first step."""
        self._earned.restore(state["earned"])
        if state["next"] is not None:
            self._ticket = SamplingTicket(**state["next"])
            self.process.weights.restore(state["weights"])


def stale(parts: RunContext) -> dict[str, float]:
    """The share of the decisions of a step that older weights sampled, by learner."""
    several = len(parts.learners) > 1
    return {
        (f"{name}/" if several else "") + "agreement/stale": learner.agreement.stale
        for name, learner in parts.learners.items()
        if learner.agreement is not None
    }


def _models(config: Config, local: Mapping[str, PolicyEngine], player: TextPlayer) -> dict[str, str | None]:
    """The model that each policy was read from, None for the run's: that of the first role it plays."""
    models: dict[str, str | None] = {}
    for role in local:
        models.setdefault(player.actors[role].policy, config.roles.get(role, RoleSettings()).model)
    return models


def divided(machine: Machine, config: Config) -> Machine:
    """The cores divided among the run's processes, unless the number of threads of each is set."""
    processes = learning(config) + (max(1, config.samplers) if config.behind else 0)
    most = max(1, available_cores() // processes)
    if processes == 1 or config.threads is not None or environment_threads() is not None or machine.threads <= most:
        return machine
    others = "the process that samples" if learning(config) == 1 else "the run's other processes"
    why = f"{most} of {available_cores()} cores; the others are for {others}"
    return replace(machine, threads=most, why={**machine.why, "threads": why})


def advice(config: Config) -> str | None:
    """What a person should know who overlaps a recipe that takes its samples for its own; None otherwise."""
    for recipe, _ in config.phases:
        recorded = isinstance(recipe.rollout, (Demonstrations, Preferences))
        if recipe.correction is None and not recorded:
            return (
                f"overlap = {config.overlap}: samples are one update old, and recipe {recipe.name} has no correction "
                "for that; grpo-tis has one (--recipe grpo-tis)"
            )
    return None
