"""Sampling ahead of learning: `--samplers 3 --lag 2`, every batch from weights at most so many updates old.

With a lag of eta the batch of step n comes from the weights after step max(0, n - 1 - eta), however fast either side
is; within a plan, from no weights older than those its phase began with. Batches are collected one after the other, so
that a sampler has ended its share of one before it takes the weights of the next. Results are a function of the
configuration alone, and of no clock:

- curriculum, rewards and the journal stay in this process, in threads beside the learner;
- the collection for step n sees the ledger as it was after step n - 1 - eta;
- a checkpoint holds the weights and ledgers of the batches that are on their way, which a resumed run collects again.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from hocket.core.outcomes import StepResult
from hocket.distributed.cluster.sampler import TargetWeights
from hocket.distributed.cluster.samplers import Samplers, spread
from hocket.stages import State
from hocket.train.ledger import Ledger
from hocket.train.loop import RunContext, learn_from
from hocket.train.overlap import Flight, PendingOutcomes, stale
from hocket.train.step_memory import outcomes


@dataclass(frozen=True)
class BatchTicket:
    """What the batch of a step is made of: the weights that sample, and what was known of scenarios."""

    goal: TargetWeights
    ledger: State


class LaggedSampling:
    """Training steps of a run whose samplers are up to `lag` batches ahead of its learners.

    Args:
        lag: updates, at least 1. parts: of the run; their learners may be replaced when a phase begins.
        samplers: who plays. Between steps they serve evaluation too: call `pause` before.
    """

    def __init__(self, lag: int, parts: RunContext, samplers: Samplers) -> None:
        self.lag, self.samplers, self._parts = lag, samplers, parts
        self._tickets: dict[int, BatchTicket] = {}
        self._flights: dict[int, Flight] = {}
        self._earned = PendingOutcomes()

    def start(self) -> None:
        """Starts the samplers, which takes some seconds, and does not wait for them."""
        self.samplers.start()

    def step(self, step: int, *, phase_end: int, last: int) -> StepResult:
        """Step `step` (from 1).

        Args:
            phase_end: the last step of its phase, beyond which nothing is sampled with these learners.
            last: the last step of the run, beyond which nothing is sampled; what would be stays in the checkpoint.
        """
        try:
            return self._step(step, phase_end, last)
        except Exception:
            self.close()
            raise

    def _step(self, step: int, phase_end: int, last: int) -> StepResult:
        started = time.perf_counter()
        if step not in self._tickets:
            self._abandon()
        self._earned.settle(self._parts.ledger)
        for coming in range(step, min(step + self.lag, phase_end) + 1):
            self._prepare(coming, last)
        collected = self._flights.pop(step).wait()
        del self._tickets[step]
        self._parts.asked = collected.asked
        waited = time.perf_counter() - started
        result = learn_from(self._parts, step, collected.experience, collected.problems, rollout=collected.seconds)
        self._earned.keep(step, outcomes(self._parts, collected.experience))
        result.metrics |= {"time/step": time.perf_counter() - started, "time/wait": waited, **stale(self._parts)}
        result.metrics["memory/sampler"] = self.samplers.peak
        return result

    def _prepare(self, step: int, last: int) -> None:
        """Has the batch of a step collected once those before it are, from the weights as they are now."""
        if step not in self._tickets:
            self._tickets[step] = BatchTicket(TargetWeights(self._parts.learners), self._parts.ledger.state())
        if step not in self._flights and step <= last:
            ticket, ledger = self._tickets[step], Ledger()
            ledger.restore(ticket.ledger)
            player = spread(self._parts.player, self.samplers, ticket.goal)
            parts = replace(self._parts, player=player, ledger=ledger)
            self._flights[step] = Flight(parts, parts.key.derive("step", step), step, self._flights.get(step - 1))

    def pause(self) -> None:
        """Waits until nothing is collected any more, so that task, player and rewards are the caller's alone."""
        for flight in self._flights.values():
            flight.pause()

    def close(self) -> None:
        """Ends the samplers and what is collected. A further step would start both anew."""
        self.samplers.close()
        flights, self._flights = self._flights, {}
        for flight in flights.values():
            flight.cancel()

    def _abandon(self) -> None:
        """Forgets what was meant for steps that will not come."""
        if self._flights:
            self.close()
        self._tickets = {}

    # ------------------------------------------------------------ state

    def state(self) -> State:
        """What the next batches are made of, beside the count of scenarios asked."""
        return {
            "tickets": [
                {"step": step, "goal": ticket.goal.state(), "ledger": ticket.ledger}
                for step, ticket in sorted(self._tickets.items())
            ],
            "earned": self._earned.state(),
        }

    def restore(self, state: State) -> None:
        """The inverse of `state`, before the first step, once learners hold their weights."""
        self._earned.restore(state["earned"])
        for ticket in state["tickets"]:
            goal = TargetWeights(self._parts.learners)
            goal.restore(ticket["goal"])
            self._tickets[int(ticket["step"])] = BatchTicket(goal, ticket["ledger"])
