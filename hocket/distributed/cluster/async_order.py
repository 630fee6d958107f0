"""Steps that learn from what is ready: `--samplers 3 --lag 2 --order arrival`.

Every sampler draws some groups at a time, with the newest weights there are when it begins them, and a step takes the
oldest groups that are ready; `admission` bounds how old. What a group is made of depends on its number and on the
weights that drew it, so that which groups a step took, by which weights (`schedule.jsonl`), is all that chance had a
say in, and `hocket replay` does the same again.

With `interrupt` a sampler is given newer weights while it draws, and its answers go on with them. Then the schedule
also says which version wrote which part of an answer.

A group is collected by itself: a rollout that compares scenarios, or asks for more of them, does so within its group.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hocket.core import sums
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.occurrences import OccurrenceIds
from hocket.core.outcomes import StepResult, all_trajectories
from hocket.core.packing import unique_turns
from hocket.distributed.cluster.admission import GroupAdmission, GroupTicket
from hocket.distributed.cluster.interruption import Plan, Plans
from hocket.distributed.cluster.sampler import TargetWeights
from hocket.distributed.cluster.sampler_worker import Play, Plays
from hocket.distributed.cluster.samplers import Samplers, spread
from hocket.recipe import Recipe
from hocket.stages import Rollout, State
from hocket.train.ledger import Ledger
from hocket.train.loop import RunContext, collect, learn_from
from hocket.train.overlap import stale
from hocket.train.step_memory import outcomes
from hocket.types import Assignment, Experience, Trajectory

MOMENT = 0.2
"""Seconds after which new weights may come to a sampler that may be interrupted."""

_PATIENCE = 10.0
"""Seconds that a thread has to end once its sampler is gone."""


@dataclass(frozen=True)
class Version:
    """What a group is made of, beside its number: weights, and what was known of scenarios when they were made."""

    goal: TargetWeights
    ledger: State


@dataclass(frozen=True)
class ReadyGroup:
    """A group that is ready.

    Attributes:
        plans: of its answers that other versions wrote than the one that began it.
    """

    experience: Experience
    problems: Sequence[str]
    plans: Plans = field(default_factory=dict)


class Arrival:
    """Training steps of a run whose samplers draw as fast as `lag` lets them.

    Args:
        lag: how many versions old a group may be, at least 0. parts: of the run.
        interrupt: whether answers go on under new weights.
        samplers: who plays. Between steps they serve evaluation too: call `pause` before.
        note: is told of every step which groups it learnt from, and by which versions they were drawn.
    """

    def __init__(
        self,
        lag: int,
        parts: RunContext,
        samplers: Samplers,
        note: Callable[[Mapping[str, Any]], object],
        *,
        interrupt: bool = False,
    ) -> None:
        self.lag, self.samplers, self._parts, self._note = lag, samplers, parts, note
        self._interrupt = interrupt
        self.lags: Counter[int] = Counter()
        self._first, self._phase_end, self._asked = 1, 0, 0
        self._admission = GroupAdmission(1, lag, "arrival")
        self._versions: dict[int, Version] = {}
        self._groups: dict[GroupTicket, ReadyGroup] = {}
        self._threads: list[threading.Thread] = []
        self._changed = threading.Condition()
        self._drawing, self._held, self._ended = 0, False, False
        self._error: BaseException | None = None
        self._taken = time.perf_counter()

    def start(self) -> None:
        """Starts the samplers, which takes some seconds, and does not wait for them."""
        self.samplers.start()

    # ------------------------------------------------------------ learning

    def step(self, step: int, *, phase_end: int, last: int) -> StepResult:
        """Step `step` (from 1).

        Args:
            phase_end: the last step of its phase. last: of the run, beyond which nothing is sampled.
        """
        try:
            return self._step(step, phase_end, last)
        except BaseException:
            self.close()
            raise

    def _step(self, step: int, phase_end: int, last: int) -> StepResult:
        started = time.perf_counter()
        if step > self._phase_end:
            self._begin_phase(step)
        self._phase_end = phase_end
        self._publish((min(phase_end, last) - self._first + 1) * self._admission.batch)
        taken, groups = self._batch()
        moment = time.perf_counter()
        waited, between, self._taken = moment - started, moment - self._taken, moment
        lags = [self._admission.version - ticket.version for ticket in taken]
        experience, problems = merged([group.experience for group in groups]), [p for g in groups for p in g.problems]
        ages = {"lag/mean": sum(lags) / len(lags), "lag/max": float(max(lags))}
        ages |= parted(self._parts, experience) if self._interrupt else {}
        result = learn_from(self._parts, step, experience, problems, rollout=between)
        self._parts.ledger.note(step, outcomes(self._parts, experience))
        parts = {str(ticket.group): group.plans for ticket, group in zip(taken, groups, strict=True) if group.plans}
        began = [[ticket.group, self._first - 1 + ticket.version] for ticket in taken]
        self._note({"step": step, "groups": began, **({"parts": parts} if parts else {})})
        with self._changed:
            self._admission.learnt(taken)
            self._parts.asked = self._asked + self._admission.version * self._admission.batch
        self.lags.update(lags)
        result.metrics |= {**ages, **stale(self._parts)}
        result.metrics |= {"time/step": time.perf_counter() - started, "time/wait": waited}
        result.metrics["memory/sampler"] = self.samplers.peak
        return result

    def _begin_phase(self, step: int) -> None:
        """Numbers groups and versions anew: none of an earlier phase is left."""
        self._first, self._asked = step, self._parts.asked
        self._admission = GroupAdmission(self._parts.lead.recipe.curriculum.prompts, self.lag, "arrival")
        self._versions, self._groups = {}, {}

    def _publish(self, limit: int) -> None:
        """Lets groups be drawn by the weights there are now, until there are `limit` in the phase."""
        self.samplers.start()
        version = Version(TargetWeights(self._parts.learners), self._parts.ledger.state())
        if self._interrupt:
            self.samplers.newest = version.goal
        with self._changed:
            newest = self._admission.version
            self._admission.limit = limit
            self._versions = {n: held for n, held in self._versions.items() if n >= newest - self.lag} | {
                newest: version
            }
            self._groups = {
                ticket: group for ticket, group in self._groups.items() if ticket.version >= newest - self.lag
            }
            self._held = self._ended = False
            self._changed.notify_all()
        while len(self._threads) < self.samplers.size:
            thread = threading.Thread(
                target=self._serve, args=(len(self._threads),), name="hocket-arrival", daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def _batch(self) -> tuple[tuple[GroupTicket, ...], list[ReadyGroup]]:
        """The next step's groups, once there are enough."""
        with self._changed:
            while (taken := self._admission.take()) is None:
                if self._error is not None:
                    raise self._error
                self._changed.wait()
            return taken, [self._groups.pop(ticket) for ticket in taken]

    # ------------------------------------------------------------ sampling

    def _serve(self, place: int) -> None:
        """One sampler's thread: draws what may begin, until the end."""
        while (share := self._share()) is not None:
            try:
                asyncio.run(self._drawn(place, share))
            except BaseException as error:
                with self._changed:
                    self._error = self._error or error
            finally:
                with self._changed:
                    self._drawing -= 1
                    self._changed.notify_all()

    def _share(self) -> list[tuple[GroupTicket, Version]] | None:
        """What a sampler may begin now: at most its part of a batch, by the newest weights. None at the end."""
        with self._changed:
            most = math.ceil(self._admission.batch / self.samplers.size)
            while not self._ended:
                share: list[tuple[GroupTicket, Version]] = []
                while not self._held and self._error is None and len(share) < most:
                    ticket = self._admission.begin(self._versions)
                    if ticket is None:
                        break
                    share.append((ticket, self._versions[ticket.version]))
                if share:
                    self._drawing += 1
                    return share
                self._changed.wait()
            return None

    async def _drawn(self, place: int, share: Sequence[tuple[GroupTicket, Version]]) -> None:
        """Collects groups side by side on one sampler."""
        desk, admission = Desk(self.samplers, place, self._interrupt), self._admission
        try:
            async with asyncio.TaskGroup() as drawing:
                for ticket, version in share:
                    drawing.create_task(self._collected(ticket, version, desk, admission))
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None

    async def _collected(self, ticket: GroupTicket, version: Version, desk: Desk, admission: GroupAdmission) -> None:
        step, seat = self._first + ticket.group // self._admission.batch, DeskSeat(desk)
        player = spread(self._parts.player, seat, version.goal)
        ready = await collected(self._parts, player, version.ledger, step, self._asked, ticket.group)
        with self._changed:
            # Groups of another phase have the same numbers.
            if admission is self._admission and admission.finish(ticket):
                self._groups[ticket] = replace(ready, plans=seat.plans)
                self._changed.notify_all()

    # ------------------------------------------------------------ pauses and ends

    def pause(self) -> None:
        """Waits until nothing is collected any more, so that task, player and rewards are the caller's alone."""
        with self._changed:
            self._held = True
            while self._drawing:
                self._changed.wait()

    def close(self) -> None:
        """Ends the samplers and what is collected. A further step would start both anew."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self.samplers.close()
        threads, self._threads = self._threads, []
        for thread in threads:
            thread.join(_PATIENCE)
        with self._changed:
            self._admission.restore(self._admission.state())
            self._groups, self._error = {}, None

    # ------------------------------------------------------------ state

    def status(self) -> dict[str, Any]:
        """How old groups were, by how many were so old, and how many were dropped, as JSON data."""
        return {"lag": {str(lag): n for lag, n in sorted(self.lags.items())}, "dropped": self._admission.dropped}

    def state(self) -> State:
        """Which groups are open; a resumed run asks them again."""
        with self._changed:
            numbers = {"first": self._first, "phase_end": self._phase_end, "asked": self._asked}
            return {**numbers, "batch": self._admission.batch, "admission": self._admission.state()}

    def restore(self, state: State) -> None:
        """The inverse of `state`, before the first step, once learners hold their weights."""
        self._first, self._asked, self._phase_end = (int(state[name]) for name in ("first", "asked", "phase_end"))
        self._admission = GroupAdmission(int(state["batch"]), self.lag, "arrival")
        self._admission.restore(state["admission"])


Answer = tuple[list[list[Trajectory]], Plans]
"""The trajectories of each assignment, and who wrote which parts of what they say."""


class Desk:
    """Asks one sampler, in one message, for what several groups want at about the same time."""

    def __init__(self, samplers: Samplers, place: int, interrupt: bool) -> None:
        self.samplers, self._place, self._interrupt = samplers, place, interrupt
        self._waiting: list[tuple[Play, TargetWeights, asyncio.Future[Answer]]] = []
        self._asking: asyncio.Task[None] | None = None

    async def play(self, play: Play, goal: TargetWeights) -> Answer:
        """What is played by the weights of `goal`, or by these first."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((play, goal, answer))
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        return await answer

    async def _ask(self) -> None:
        while self._waiting:
            await asyncio.sleep(0)  # Groups that are as far as the first come along.
            goal = self._waiting[0][1]
            asked = [waiting for waiting in self._waiting if waiting[1] is goal]
            self._waiting = [waiting for waiting in self._waiting if waiting[1] is not goal]
            try:
                usual = goal.versions if self._interrupt else None
                plays = Plays([play for play, _, _ in asked], usual, MOMENT)
                played = await self.samplers.play_at(self._place, plays, goal)
                following, plans = iter(played.trajectories), played.plans or [{} for _ in asked]
                for (play, _, answer), parts in zip(asked, plans, strict=True):
                    groups = [[next(following) for _ in range(assignment.samples)] for assignment in play.assignments]
                    answer.set_result((groups, parts))
            except BaseException as error:
                for _, _, answer in asked:
                    with contextlib.suppress(asyncio.InvalidStateError):
                        answer.set_exception(error)
                raise


class DeskSeat:
    """One group at a desk.

    Attributes:
        plans: of its answers so far, those that other versions wrote than the one that began it.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.plans: dict[str, Plan] = {}

    def counts(self) -> dict[str, int]:
        return self._desk.samplers.counts()

    async def play(
        self, assignments: Sequence[Assignment], seats: Mapping[str, str], key: Key, goal: TargetWeights | None = None
    ) -> list[list[Trajectory]]:
        """The trajectories of each assignment, by the weights of `goal`."""
        assert goal is not None
        groups, parts = await self._desk.play(Play(assignments, seats, key), goal)
        self.plans.update(parts)
        return groups


async def collected(parts: RunContext, player: Any, ledger: State, step: int, asked: int, group: int) -> ReadyGroup:
    """Group number `group` of a phase, before which `asked` scenarios were asked; it would be step `step`'s if none
    overtook another."""
    known = Ledger()
    known.restore(ledger)
    alone = replace(parts, player=player, ledger=known, asked=asked + group)
    return ReadyGroup(*await collect(alone, parts.key.derive("step", step), step, group))


def merged(several: Sequence[Experience]) -> Experience:
    """The experience of several groups as one; metrics are averaged over the groups that have them.

    Groups about one scenario that began in different steps stay groups of their own.
    """
    ids = OccurrenceIds()
    for experience in several:
        marked: dict[str, str] = {}
        for trajectory in (
            trajectory for root in all_trajectories(experience) for trajectory in (root, *root.branches)
        ):
            scenario_id = trajectory.scenario.id
            marked[scenario_id] = marked.get(scenario_id) or ids.of(trajectory.scenario).id
            trajectory.scenario = replace(trajectory.scenario, id=marked[scenario_id])
    names = sorted({name for experience in several for name in experience.metrics})
    metrics = {}
    for name in names:
        values = [experience.metrics[name] for experience in several if name in experience.metrics]
        metrics[name] = sums.mean(values)
    return Experience(
        [trajectory for experience in several for trajectory in experience.trajectories],
        [trajectory for experience in several for trajectory in experience.discarded],
        metrics,
    )


def parted(parts: RunContext, experience: Experience) -> dict[str, float]:
    """How old the tokens of a step are by their own versions, and the share of turns that several versions wrote."""
    versions = {name: learner.policy.version for name, learner in parts.learners.items()}
    by = [
        (versions[turn.policy], turn.version)
        for turn in unique_turns(experience.trajectories)
        if turn.policy in versions and turn.version is not None and len(turn.version)
    ]
    tokens = sum(len(version) for _, version in by)
    lags = sum(int((newest - version).sum()) for newest, version in by)
    several = [bool((version != version[0]).any()) for _, version in by]
    return {"lag/token": lags / max(1, tokens), "lag/parted": sum(several) / max(1, len(by))}


def check_order(recipe: Recipe, policies: Sequence[str]) -> None:
    """Refuses a recipe whose steps differ in who plays or learns, since a step's groups were begun in several.

    Raises:
        ConfigurationError: with the mend.
    """
    cast = recipe.cast
    casts = {
        (
            tuple(sorted(cast.learning(policies, step))),
            *sorted(cast.seats({policy: policy for policy in policies}, step).items()),
        )
        for step in range(1, 100)
    }
    if len(casts) > 1 or type(recipe.rollout).at is not Rollout.at:
        raise ConfigurationError(
            f"recipe {recipe.name} has other players or learners from step to step, and with order = arrival a step "
            "learns from groups that were begun in several; use order = start"
        )
