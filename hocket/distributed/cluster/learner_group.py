"""The first process's side of several that learn together: `--cluster local --learners 2`."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import torch

from hocket.core.batch import Batch
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key
from hocket.distributed.cluster.connection import Connection, Host, PeerLost
from hocket.distributed.cluster.learner_worker import Divide, Learn, Meet, Question, Stand, held
from hocket.distributed.cluster.setup import Setup
from hocket.distributed.cluster.sharding import check_shards, check_shared, divide, restore, share_of
from hocket.distributed.cluster.shards import Meeting
from hocket.train.learner import Learner
from hocket.train.machine import device_of
from hocket.train.roles import learners_by_policy
from hocket.train.settings import Config

if TYPE_CHECKING:
    from hocket.distributed.cluster.ranks import RankProcess, Rendezvous
    from hocket.distributed.cluster.weights import PackedWeights
    from hocket.policies.family import Precision

_WORKER = "hocket.distributed.cluster.learner_worker"

_RESUME = "go on from the last checkpoint with --resume"

_LAST_WORDS = 5.0
"""Seconds in which a rank that failed is heard, once the others have noticed."""


class LearnerMembers:
    """Processes that learn together, beside this one, and the lines to them.

    Args:
        config: of the run. precision: of its matrix products. place: where the processes are. names: of them.
    """

    def __init__(self, config: Config, precision: Precision, place: Host, names: Sequence[str]) -> None:
        self._config, self._precision, self._place, self._names = config, precision, place, names
        self.lines: list[Connection] = []
        self.where: list[str] = []
        self._held_open = ExitStack()

    def start(self) -> None:
        """Starts the processes and does not wait for them."""
        self.lines = [self._place.line(name, _WORKER) for name in self._names]
        self._tell(Setup(self._config.plain(), self._precision, torch.get_num_threads()))

    def close(self) -> None:
        """Ends the processes."""
        for line in self.lines:
            line.close()
        self.lines = []
        self._held_open.close()

    def _meet(self, first: int, size: int) -> Rendezvous:
        """Has the members find each other, of `size` ranks those from `first` on; where they do."""
        where = self._held_open.enter_context(self._place.rendezvous())
        for rank, line in enumerate(self.lines, first):
            send(line, pickle.dumps(Meet(rank, size, where)))
        return where

    def _repeat(self, phase: int, learners: Mapping[str, Learner]) -> None:
        """All members hold what this process does."""
        weights = {name: _plain(learner.policy.module.state_dict()) for name, learner in learners.items()}
        references = {
            name: _plain(learner.reference.module.state_dict())
            for name, learner in learners.items()
            if learner.reference is not None and not learner.frozen
        }
        states = {name: learner.state() for name, learner in learners.items()}
        self._tell(Stand(phase, weights, references, states))
        self._answers()

    def _tell(self, message: Setup | Stand | Question | Learn) -> None:
        data = pickle.dumps(message)
        for line in self.lines:
            send(line, data)

    def _answers(self, lines: Sequence[Connection] | None = None, *, waiting: bool = True) -> list[Any]:
        """What all members answer, or those at some `lines`, in order; without `waiting`, those that have.

        Raises:
            PeerLost: when one is. HocketError: when one failed.
        """
        answers, failed = [], []
        for line in self.lines if lines is None else lines:
            if not (waiting or line.ready(_LAST_WORDS)):
                continue
            try:
                answer = pickle.loads(line.receive())
            except PeerLost as error:
                raise PeerLost(f"{error}; {_RESUME}") from error  # What others say of it they merely noticed.
            if isinstance(answer, BaseException):
                failed.append((line.name, answer))
            answers.append(answer)
        for name, problem in sorted(failed, key=lambda failure: _noticed(failure[1])):
            kind = ConfigurationError if isinstance(problem, ConfigurationError) else HocketError
            raise kind(f"{name} failed: {problem}") from problem
        return answers


class LearnerGroup(LearnerMembers):
    """The processes that learn policies together, of which this one is rank 0.

    Every rank makes the same step from the same numbers; a gradient's leaves are divided among them
    (`hocket.distributed.cluster.leaves`), and with `shard` what they hold too (`hocket.distributed.cluster.sharding`).
    The others are fresh interpreters that build the policies from the run's configuration, and are told weights and
    optimisers whenever a phase begins.

    Args:
        config: of the run. precision: of its matrix products. place: where the others are. names: of the others.
    """

    def __init__(self, config: Config, precision: Precision, place: Host, names: Sequence[str]) -> None:
        super().__init__(config, precision, place, names)
        self.size = 1 + len(names)
        self._ranks: RankProcess | None = None
        self._meeting: Meeting | None = None

    def stand(self, phase: int, learners: Mapping[str, Learner]) -> None:
        """Lets all ranks go on from the weights and optimisers as they are here, in a phase.

        Raises:
            HocketError: when a rank could not be started, or is gone.
        """
        ranks = self._started()
        if self._config.shard:
            self._divide(phase, learners, ranks)
        else:
            self._repeat(phase, learners)
        for learner in learners.values():
            learner.ranks, learner.group = ranks, self

    def _divide(self, phase: int, learners: Mapping[str, Learner], ranks: RankProcess) -> None:
        """Every rank holds its shares, this one too."""
        check_shared(learners)
        for rank, line in enumerate(self.lines, 1):
            shares = {name: share_of(learner, rank, self.size) for name, learner in learners.items()}
            send(line, pickle.dumps(Divide(phase, shares)))
        self._meeting = Meeting(ranks, self._asked)
        divide(learners, self._meeting)
        self._answers()

    def gather(self, learners: Mapping[str, Learner]) -> None:
        """Has this rank hold the whole again where every one holds its shares.

        Raises:
            PeerLost: when one is.
        """
        if self._meeting is not None:
            restore(learners, filled=True)
            self._meeting = None

    def _asked(self, question: Question) -> list[Any]:
        self._tell(question)
        return self._answers()

    @contextmanager
    def updating(self, learner: Learner, batch: Batch, key: Key, step: int) -> Iterator[None]:
        """Has the others make the update that this process makes within, and compares the weights after it.

        Raises:
            HocketError: naming the rank that failed, is gone, or has other weights.
        """
        meeting = learner.meeting
        with nullcontext() if meeting is None else meeting.lock:  # Nobody else may ask meanwhile.
            self._tell(update(learner, batch, key, step))
            try:
                with nullcontext() if meeting is None else meeting.jointly():
                    yield
            except HocketError:
                self._answers(waiting=False)  # A rank that failed has said why before it ended.
                raise
            answers = self._answers()
        ours = held(learner)
        for rank, theirs in enumerate(answers, 1):
            if theirs != ours:
                raise HocketError(
                    f"learner {rank} has other weights than learner 0 after the same update of "
                    f"{learner.policy.name!r}; see `hocket doctor`, and go on from the last checkpoint with --resume"
                )

    def close(self) -> None:
        if self._ranks is not None:
            self._ranks.leave()
            self._ranks = None
        super().close()

    # ------------------------------------------------------------ processes

    def _started(self) -> RankProcess:
        if self._ranks is None:
            try:
                self._ranks = self._start()
            except BaseException:
                self.close()
                raise
        return self._ranks

    def _start(self) -> RankProcess:
        from hocket.distributed.cluster.ranks import joined

        self.start()
        self.where = self._answers()
        ranks = joined(0, self.size, self._meet(1, self.size), device=device_of(self._config))
        self._answers()
        return ranks


def update(learner: Learner, batch: Batch, key: Key, step: int, changed: PackedWeights | None = None) -> Learn:
    """What has others make an update as this process would."""
    budget, again = (getattr(learner.policy, name, None) for name in ("token_budget", "checkpointing"))
    return Learn(learner.policy.name, batch, key, step, budget, again, changed)


def _noticed(problem: BaseException) -> bool:
    """Whether it is another's end, and no reason."""
    from hocket.distributed.cluster.ranks import Parted

    return isinstance(problem, Parted)


def send(line: Connection, data: bytes) -> None:
    """Sends a message.

    Raises:
        PeerLost: when nobody listens, with the mend.
    """
    try:
        line.send(data)
    except PeerLost as error:
        raise PeerLost(f"{error}; {_RESUME}") from error


def check_learners(config: Config) -> None:
    """Refuses what several learners cannot do.

    Raises:
        ConfigurationError: with the mend.
    """
    learners_by_policy(config)
    grouped = {
        f"roles.{role}.learners": settings.learners for role, settings in config.roles.items() if settings.learners
    }
    if config.shard and grouped:
        raise ConfigurationError(
            f"shard = true divides what one group of learners holds; drop it, or {', '.join(grouped)}"
        )
    check_shards(config)
    numbers = grouped | ({"learners": config.learners} if config.learners > 1 else {})
    for name, number in numbers.items():
        if config.cluster is None:
            raise ConfigurationError(f"{name} = {number} run as processes of this machine: add --cluster local")
        if config.cluster.startswith("ray://"):
            raise ConfigurationError(
                f"{name} = {number} exchange gradients with this process, which must be on a node of the cluster: "
                "start it there with --cluster auto"
            )
        if config.leaves % number:
            raise ConfigurationError(
                f"leaves = {config.leaves} are divided among {name} = {number}, a power of two of at most that many: "
                f"add --leaves {max(4, number)}"
            )


def _plain(state: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.detach().cpu().clone() for name, value in state.items()}
