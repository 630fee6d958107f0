"""The first process's side of others that sample: `--cluster local --samplers 3`.

What is asked is dealt out by whole assignments, so that all samples of a scenario are drawn in one process. A sample
depends on its key and the weights alone, not on who drew it; so any number of samplers gives the same run, and what a
sampler did not finish another does again.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from hocket.agents.workflows.player import TextPlayer
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key
from hocket.distributed.cluster.connection import Host, PeerLost
from hocket.distributed.cluster.sampler import Account, Sampler, TargetWeights
from hocket.distributed.cluster.sampler_worker import GoOn, Play, PlayResult, Plays, Underway, samples_of
from hocket.distributed.cluster.setup import Setup
from hocket.distributed.cluster.verify import picked, unlike
from hocket.stages import Player, Stateful, Task
from hocket.train.cores import available_cores
from hocket.train.engines import SERVERS, addresses
from hocket.train.machine import environment_threads
from hocket.train.roles import learning
from hocket.train.sequential import refuse_ahead
from hocket.train.settings import Config, EngineSettings
from hocket.types import Assignment, Trajectory

if TYPE_CHECKING:
    from hocket.policies.family import Precision
    from hocket.train.learner import Learner

_WORKER = "hocket.distributed.cluster.sampler_worker"

GIVEN = ("expert", "imported")
"""Sources of which nothing is sampled."""


class Samplers:
    """Processes that sample for one run.

    Args:
        config: of the run. precision: of its matrix products. task: of the run.
        learners: of the run's present phase.
        say: is told in a sentence when a sampler is lost. place: where samplers are.

    Attributes:
        members: the samplers. newest: the weights that those which may be interrupted go on with; None for their own.
        peak: the largest resident memory of one so far, MiB.
        verified: how many samples were drawn again elsewhere.
    """

    def __init__(
        self,
        config: Config,
        precision: Precision,
        task: Task,
        learners: Callable[[], Mapping[str, Learner]],
        say: Callable[[str], None],
        place: Host,
    ) -> None:
        self.members: list[Sampler] = []
        self._judge: Sampler | None = None
        self.newest: TargetWeights | None = None
        self.peak, self.verified = 0.0, 0
        self._counts: Counter[str] = Counter()
        self._accounts: dict[int, Account] = {}
        self._since = time.monotonic()
        self._config, self._precision, self._task = config, precision, task
        self._learners, self._say, self._place = learners, say, place
        self._lost, self._lock = 0, threading.Lock()
        self._threads = ThreadPoolExecutor(config.samplers, "hocket-sampler")  # The loop's own are fewer than samplers.

    @property
    def size(self) -> int:
        """How many there are to be."""
        return self._config.samplers

    def start(self) -> None:
        """Starts those that are missing, which takes some seconds, and does not wait for them."""
        numbers = range(len(self.members) + 1, self._config.samplers + 1)
        for number in numbers:
            account = self._accounts.setdefault(number, Account(f"sampler {number}"))
            self.members.append(Sampler(self._place.line(account.name, _WORKER), account))

    def close(self) -> None:
        """Ends all."""
        with self._lock:
            members, self.members = self.members, []
            judge, self._judge = self._judge, None
        for member in [*members, *([] if judge is None else [judge])]:
            member.line.close()

    def status(self) -> dict[str, Any]:
        """Who is where and does what, as JSON data, since the run began or went on."""
        accounts = [asdict(account) for account in self._accounts.values()]
        return {"seconds": time.monotonic() - self._since, "samplers": accounts, "verified": self.verified}

    def counts(self) -> dict[str, int]:
        """What the engines of all samplers did so far, as `hocket.engine.paged_model.SamplingCounts` names it."""
        return dict(self._counts)

    async def play(
        self, assignments: Sequence[Assignment], seats: Mapping[str, str], key: Key, goal: TargetWeights | None = None
    ) -> list[list[Trajectory]]:
        """The trajectories of each assignment, by the weights of `goal`, those there are now when None.

        Raises:
            HocketError: when samplers end one after the other, or a question cannot be sent.
        """
        self.start()
        goal, shares = goal or TargetWeights(self._learners()), dealt(assignments, len(self.members))
        plays = [Plays([Play([assignments[number] for number in share], seats, key)]) for share in shares]
        by_assignment: list[list[Trajectory]] = [[] for _ in assignments]
        try:
            asking = [self.play_at(place, play, goal) for place, play in enumerate(plays)]
            for share, played in zip(shares, await asyncio.gather(*asking), strict=True):
                following = iter(played.trajectories)
                for number in share:
                    by_assignment[number] = [next(following) for _ in range(assignments[number].samples)]
        except BaseException:
            self.close()  # Else the threads that ask would be waited for.
            raise
        return by_assignment

    async def play_at(self, place: int, plays: Plays, goal: TargetWeights) -> PlayResult:
        """What one sampler plays, or the next one that can."""
        work = partial(self._played, place, plays, goal)
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    # ------------------------------------------------------------ one sampler

    def _played(self, place: int, play: Plays, goal: TargetWeights) -> PlayResult:
        """What a sampler plays, or the next one that can."""
        while play.assignments:
            member = self._member(place)
            try:
                with member.lock:
                    result = self._asked(member, play, goal)
                if self._config.verify:
                    return replace(result, trajectories=self._verified(place, member, play, goal, result.trajectories))
                return result
            except PeerLost as error:
                place = self._replaced(place, member, error)
        return PlayResult((), {}, 0.0, "")

    def _member(self, place: int) -> Sampler:
        with self._lock:
            if not self.members:
                raise HocketError("the samplers were ended on purpose")
            return self.members[place % len(self.members)]

    def _answer(self, member: Sampler, play: Plays, goal: TargetWeights) -> PlayResult:
        if not member.begun:
            self._begin(member)
        if play.usual is not None:
            goal = self.newest or goal
        self._given(member, goal)
        played = member.ask(play)
        while isinstance(played, Underway):
            self._given(member, self.newest or goal)
            played = member.ask(GoOn())
        assert isinstance(played, PlayResult)
        return played

    def _given(self, member: Sampler, goal: TargetWeights) -> None:
        """Has a sampler hold the weights of `goal`."""
        if not goal.reached(member):
            goal.load(member, self._say if self._config.differences else None)

    def _asked(self, member: Sampler, play: Plays, goal: TargetWeights) -> PlayResult:
        played = self._answer(member, play, goal)
        with self._lock:
            self.peak, self._lost = max(self.peak, played.peak), 0
            self._counts.update(played.counts)
        member.account.where, member.account.episodes = played.where, member.account.episodes + len(played.trajectories)
        return played

    # ------------------------------------------------------------ verification

    def _verified(
        self, place: int, member: Sampler, play: Plays, goal: TargetWeights, trajectories: Sequence[Trajectory]
    ) -> Sequence[Trajectory]:
        """What was played, or where some of it comes out otherwise on another sampler, what a third one plays."""
        some, mine = picked(play, self._config.verify)
        if not mine:
            return trajectories
        other = self._other(place, member)
        again = self._redrawn(other, some, goal)
        with self._lock:
            self.verified += len(mine)
        if unlike([trajectories[number] for number in mine], again) is None:
            return trajectories
        truth = self._redrawn(self._referee(), play, goal)
        for sampler, drawn, right in (
            (member, trajectories, truth),
            (other, again, [truth[number] for number in mine]),
        ):
            what = unlike(drawn, right)
            if what is not None:
                self._caught(place, sampler, what)
        return truth

    def _redrawn(self, member: Sampler, play: Plays, goal: TargetWeights) -> Sequence[Trajectory]:
        """What a sampler plays, or where that is gone meanwhile, the referee."""
        try:
            with member.lock:
                return self._answer(member, play, goal).trajectories
        except PeerLost:
            referee = self._referee()
            if member is referee:
                self._judge = None
                raise
            return self._redrawn(referee, play, goal)

    def _other(self, place: int, member: Sampler) -> Sampler:
        other = self._member(place + 1)
        return self._referee() if other is member else other

    def _referee(self) -> Sampler:
        """A sampler that only plays what others are not agreed on, started when it is first needed."""
        with self._lock:
            if self._judge is None:
                self._judge = Sampler(self._place.line("the referee", _WORKER), Account("the referee"))
            return self._judge

    def _caught(self, place: int, member: Sampler, what: str) -> None:
        """A sampler's samples are wrong: the second time another process takes its place."""
        member.account.wrong += 1
        words = f"{member.line.name} drew {what} than its keys and weights give"
        if member.account.wrong > 1 and member is not self._judge:
            member.account.wrong = 0
            self._replaced(place, member, PeerLost(f"{words}, for the second time"))
        else:
            self._say(f"{words}; it was drawn again")

    def _begin(self, member: Sampler) -> None:
        place = self.members.index(member) if member in self.members else 0
        config = replace(self._config, engine=engine_of(self._config.engine, place, self.size))
        setup = Setup(config.plain(), self._precision, threads(self._config))
        if member.ask(setup) != samples_of(self._task):
            raise ConfigurationError(
                f"{member.line.name} finds another task by the name {self._config.task!r} than this process has; name "
                "it so that it can be found again, as FILE.py:NAME or NAME?setting=value"
            )
        member.begun = True

    def _replaced(self, place: int, member: Sampler, error: PeerLost) -> int:
        """Puts a new sampler in the place of one that is gone; the place of another that does its work meanwhile."""
        member.line.close()
        with self._lock:
            if member in self.members:
                self._lost += 1
                if self._lost > 2 * len(self.members):
                    raise HocketError(f"{error}, the {self._lost}th in a row; see to the machine, then --resume")
                self._say(f"{error}; what it was asked another does, and a new one is started")
                member.account.lost += 1
                new = Sampler(self._place.line(member.line.name, _WORKER), member.account)
                self.members[self.members.index(member)] = new
        return place + 1


def dealt(assignments: Sequence[Assignment], count: int) -> list[list[int]]:
    """The numbers of the assignments of each of `count` samplers: neighbours, about as many samples each."""
    total, so_far = sum(assignment.samples for assignment in assignments), 0
    shares: list[list[int]] = [[] for _ in range(count)]
    for number, assignment in enumerate(assignments):
        shares[min(count - 1, (2 * so_far + assignment.samples) * count // max(1, 2 * total))].append(number)
        so_far += assignment.samples
    return shares


def threads(config: Config) -> int:
    """Of each sampler: as many as the run was told, else the cores divided among all that work at the same time."""
    busy = max(1, config.samplers + (learning(config) if config.behind else 0))
    return config.threads or environment_threads() or max(1, available_cores() // busy)


# ---------------------------------------------------------------- players


class Drawing(Protocol):
    """Whoever has other processes play."""

    def counts(self) -> dict[str, int]: ...

    async def play(
        self, assignments: Sequence[Assignment], seats: Mapping[str, str], key: Key, goal: TargetWeights | None = None
    ) -> list[list[Trajectory]]: ...


def spread(player: Player, samplers: Drawing, goal: TargetWeights | None = None) -> Player:
    """The player that has `samplers` draw what is sampled, by the weights of `goal`, those there are when None."""
    if isinstance(player, TextPlayer):
        plain = {part.name: getattr(player, part.name) for part in fields(TextPlayer)}
        return SpreadText(**plain, samplers=samplers, goal=goal)
    return SpreadPlayer(player.here if isinstance(player, SpreadPlayer) else player, samplers, goal)


@dataclass(frozen=True)
class SpreadText(TextPlayer):
    """Plays workflows on samplers; given texts, likelihoods and words are this process's."""

    samplers: Drawing = field(kw_only=True)
    goal: TargetWeights | None = None

    async def play(self, assignments: Sequence[Assignment], *, key: Key) -> list[Trajectory]:
        if self.guests is not None:
            raise ConfigurationError("guests are seated in this process only; drop samplers")
        if any(assignment.decoding.mask is not None for assignment in assignments):
            raise ConfigurationError("masks of actions are computed in this process only; drop samplers")
        away = [assignment for assignment in assignments if assignment.source not in GIVEN]
        seats = {role: actor.policy for role, actor in self.actors.items() if actor.learns}
        groups = iter(await self.samplers.play(away, seats, key, self.goal) if away else [])
        trajectories: list[Trajectory] = []
        for assignment in assignments:
            trajectories += await super().play([assignment], key=key) if assignment.source in GIVEN else next(groups)
        return trajectories

    def counts(self) -> dict[str, int]:
        total = Counter(super().counts())
        total.update(self.samplers.counts())
        return dict(total)


class SpreadPlayer:
    """Plays on samplers what another player plays here."""

    def __init__(self, player: Player, samplers: Drawing, goal: TargetWeights | None) -> None:
        self.here, self._samplers, self._goal = player, samplers, goal

    def __getattr__(self, name: str) -> Any:
        return getattr(self.here, name)

    async def play(self, assignments: Sequence[Assignment], *, key: Key) -> list[Trajectory]:
        groups = await self._samplers.play(assignments, {}, key, self._goal)
        return [trajectory for group in groups for trajectory in group]


def _check_engine(config: Config, what: str) -> None:
    """Refuses engines that several samplers cannot share.

    Raises:
        ConfigurationError: naming what to change.
    """
    kind, servers = config.engine.kind, len(addresses(config.engine))
    if kind in SERVERS and servers < config.samplers:
        raise ConfigurationError(
            f"{what} need a server each, since each may hold other weights, and engine.url names {servers}; name more, "
            "separated by commas, or lower samplers"
        )
    if kind != "local" and config.verify:
        raise ConfigurationError(
            f"verify = {config.verify:g}: {kind} does not draw the same bits elsewhere; drop it, or use --engine local"
        )


def engine_of(settings: EngineSettings, member: int, size: int) -> EngineSettings:
    """The engine of one of `size` samplers: its part of the servers."""
    if settings.kind not in SERVERS:
        return settings
    return replace(settings, url=",".join(addresses(settings)[member::size]))


def check_samplers(config: Config, workflow: Any) -> None:
    """Refuses what several samplers cannot do.

    Raises:
        ConfigurationError: with the mend.
    """
    for recipe, _ in config.phases:
        for stage in (recipe.curriculum, recipe.rollout):
            if isinstance(stage, Stateful):
                refuse_ahead(config, stage, f"of recipe {recipe.name}")
    if not config.samplers:
        if config.interrupt:
            raise ConfigurationError(
                "interrupt: samplers are interrupted; add --cluster local --samplers 1 --order arrival --lag 2"
            )
        if config.differences:
            raise ConfigurationError(
                "differences: of weights, they are sent to samplers; add --cluster local --samplers 1"
            )
        if config.verify:
            raise ConfigurationError(
                f"verify = {config.verify:g}: samplers are verified; add --cluster local --samplers 2"
            )
        if config.overlap > 1:
            raise ConfigurationError(f"overlap = {config.overlap}: beyond 1 it takes --cluster local --samplers 1")
        if config.order == "arrival":
            raise ConfigurationError("order = arrival: groups arrive from samplers; add --cluster local --samplers 1")
        return
    if config.interrupt and config.order != "arrival":
        raise ConfigurationError(
            "interrupt: in order of start one version draws a whole batch; add --order arrival, or drop it"
        )
    if config.interrupt and config.verify:
        raise ConfigurationError(
            f"verify = {config.verify:g}: what several versions of the weights wrote is not drawn again elsewhere; "
            "drop interrupt or verify"
        )
    what = f"samplers = {config.samplers}"
    if config.cluster is None:
        raise ConfigurationError(f"{what} run as processes of this machine: add --cluster local")
    _check_engine(config, what)
    if workflow is not None:
        raise ConfigurationError(f"{what} know no workflow but by name; name yours as FILE.py:NAME")
    outside = next((role for role, settings in config.roles.items() if settings.endpoint is not None), None)
    if outside is not None:
        raise ConfigurationError(f"{what} and roles.{outside}.endpoint: endpoints are asked from one process; drop one")
