"""The first process's side of several that learn together: `--cluster local --learners 2`."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import torch

from hocket.core.batch import Batch
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key
from hocket.train import config as configuration
from hocket.train.cluster.divided import check_shards, check_shared, divide, restore, share_of
from hocket.train.cluster.learner_worker import Divide, Learn, Meet, Question, Stand, held
from hocket.train.cluster.line import Gone, Line, Place
from hocket.train.cluster.setup import Setup
from hocket.train.cluster.shards import Meeting
from hocket.train.learner import Learner
from hocket.train.settings import Config

if TYPE_CHECKING:
    from hocket.policies.family import Precision
    from hocket.train.cluster.ranks import Joined

_WORKER = "hocket.train.cluster.learner_worker"

_RESUME = "go on from the last checkpoint with --resume"

_LAST_WORDS = 5.0
"""Seconds in which a rank that failed is heard, once the others have noticed."""


class LearnerGroup:
    """The processes that learn a run's policies together, of which this one is rank 0.

    Every rank makes the same step from the same numbers; a gradient's leaves are divided among them
    (`hocket.train.cluster.leaves`), and with `shard` what they hold too (`hocket.train.cluster.divided`). The others
    are fresh interpreters that build the policies from the run's configuration, and are told weights and optimisers
    whenever a phase begins.

    Args:
        config: of the run. precision: of its matrix products. place: where the others are.
    """

    def __init__(self, config: Config, precision: Precision, place: Place) -> None:
        self.size, self._place = config.learners, place
        self._config, self._precision = config, precision
        self.lines: list[Line] = []
        self._ranks: Joined | None = None
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

    def _repeat(self, phase: int, learners: Mapping[str, Learner]) -> None:
        """All ranks hold what this one does."""
        weights = {name: _plain(learner.policy.module.state_dict()) for name, learner in learners.items()}
        references = {
            name: _plain(learner.reference.module.state_dict())
            for name, learner in learners.items()
            if learner.reference is not None and not learner.frozen
        }
        states = {name: learner.state() for name, learner in learners.items()}
        self._tell(Stand(phase, weights, references, states))
        self._answers()

    def _divide(self, phase: int, learners: Mapping[str, Learner], ranks: Joined) -> None:
        """Every rank holds its shares, this one too."""
        check_shared(learners)
        for rank, line in enumerate(self.lines, 1):
            shares = {name: share_of(learner, rank, self.size) for name, learner in learners.items()}
            _send(line, pickle.dumps(Divide(phase, shares)))
        self._meeting = Meeting(ranks, self._asked)
        divide(learners, self._meeting)
        self._answers()

    def gather(self, learners: Mapping[str, Learner]) -> None:
        """Has this rank hold the whole again where every one holds its shares.

        Raises:
            Gone: when one is.
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
        budget, again = (getattr(learner.policy, name, None) for name in ("token_budget", "checkpointing"))
        meeting = learner.meeting
        with nullcontext() if meeting is None else meeting.lock:  # Nobody else may ask meanwhile.
            self._tell(Learn(learner.policy.name, batch, key, step, budget, again))
            try:
                with nullcontext() if meeting is None else meeting.jointly():
                    yield
            except HocketError:
                self._answers(waiting=False)  # A rank that failed has said why before it ended.
                raise
            answers = self._answers()
        own = held(learner)
        for rank, found in enumerate(answers, 1):
            if found != own:
                raise HocketError(
                    f"learner {rank} has other weights than learner 0 after the same update of "
                    f"{learner.policy.name!r}; see `hocket doctor`, and go on from the last checkpoint with --resume"
                )

    def close(self) -> None:
        """Ends the other processes."""
        if self._ranks is not None:
            self._ranks.leave()
            self._ranks = None
        for line in self.lines:
            line.close()
        self.lines = []

    # ------------------------------------------------------------ processes

    def _started(self) -> Joined:
        if self._ranks is None:
            try:
                self._ranks = self._start()
            except BaseException:
                self.close()
                raise
        return self._ranks

    def _start(self) -> Joined:
        from hocket.train.cluster.ranks import joined, opened

        place = self._place
        self.lines = [place.line(f"learner {rank}", _WORKER) for rank in range(1, self.size)]
        self._tell(Setup(configuration.plain(self._config), self._precision, torch.get_num_threads()))
        self._answers()
        store = opened(self.size, place.host)
        for rank, line in enumerate(self.lines, 1):
            line.send(pickle.dumps(Meet(rank, self.size, place.host, store.port)))
        ranks = joined(0, self.size, place.host, store.port, store)
        self._answers()
        return ranks

    def _tell(self, message: Setup | Stand | Question | Learn) -> None:
        data = pickle.dumps(message)
        for line in self.lines:
            _send(line, data)

    def _answers(self, *, waiting: bool = True) -> list[Any]:
        """What the others answer, rank 1 first; without `waiting`, of those that have.

        Raises:
            Gone: when one is. HocketError: when one failed.
        """
        found, failed = [], []
        for line in self.lines:
            if not (waiting or line.ready(_LAST_WORDS)):
                continue
            try:
                answer = pickle.loads(line.receive())
            except Gone as error:
                raise Gone(f"{error}; {_RESUME}") from error  # What others say of it they merely noticed.
            if isinstance(answer, BaseException):
                failed.append((line.name, answer))
            found.append(answer)
        for name, problem in failed:
            kind = ConfigurationError if isinstance(problem, ConfigurationError) else HocketError
            raise kind(f"{name} failed: {problem}") from problem
        return found


def _send(line: Line, data: bytes) -> None:
    try:
        line.send(data)
    except Gone as error:
        raise Gone(f"{error}; {_RESUME}") from error


def check_learners(config: Config) -> None:
    """Refuses what several learners cannot do.

    Raises:
        ConfigurationError: with the mend.
    """
    check_shards(config)
    if config.learners == 1:
        return
    if config.cluster is None:
        raise ConfigurationError(f"learners = {config.learners} run as processes of this machine: add --cluster local")
    if config.cluster.startswith("ray://"):
        raise ConfigurationError(
            f"learners = {config.learners} exchange gradients with this process, which must be on a node of the "
            "cluster: start it there with --cluster auto"
        )
    if config.leaves % config.learners:
        raise ConfigurationError(
            f"leaves = {config.leaves} are divided among learners = {config.learners}, a power of two of at most that "
            f"many: add --leaves {max(4, config.learners)}"
        )


def _plain(state: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.detach().cpu().clone() for name, value in state.items()}
