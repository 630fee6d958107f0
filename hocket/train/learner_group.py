"""The first process's side of several that learn together: `--cluster local --learners 2`."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

import torch

from hocket.core.batch import Batch
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key
from hocket.train import config as configuration
from hocket.train.learner import Learner
from hocket.train.learner_worker import Learn, Meet, Setup, Stand, digest
from hocket.train.settings import Config

if TYPE_CHECKING:
    from hocket.policies.family import Precision
    from hocket.train.ranks import Joined

_COMMAND = "import sys; sys.path[:] = {path!r}; from hocket.train.learner_worker import main; main({handle})"


_LAST_WORDS = 5.0
"""Seconds in which a rank that failed is heard, once the others have noticed."""


class LearnerGroup:
    """The processes that learn a run's policies together, of which this one is rank 0.

    Every rank holds all weights and makes the same step from the same numbers; a gradient's leaves are divided among
    them (`hocket.train.leaves`). The others are fresh interpreters that build the policies from the run's
    configuration, and are told weights and optimisers whenever a phase begins.

    Args:
        config: of the run. precision: of its matrix products.
    """

    def __init__(self, config: Config, precision: Precision) -> None:
        self.size = config.learners
        self._config, self._precision = config, precision
        self.processes: list[subprocess.Popen[bytes]] = []
        self._connections: list[Connection] = []
        self._ranks: Joined | None = None

    def stand(self, phase: int, learners: Mapping[str, Learner]) -> None:
        """Lets all ranks go on from the weights and optimisers as they are here, in a phase.

        Raises:
            HocketError: when a rank could not be started, or is gone.
        """
        ranks = self._started()
        weights = {name: _plain(learner.policy.module.state_dict()) for name, learner in learners.items()}
        references = {
            name: _plain(learner.reference.module.state_dict())
            for name, learner in learners.items()
            if learner.reference is not None and not learner.frozen
        }
        states = {name: learner.state() for name, learner in learners.items()}
        self._tell(Stand(phase, weights, references, states))
        self._answers()
        for learner in learners.values():
            learner.ranks, learner.group = ranks, self

    @contextmanager
    def updating(self, learner: Learner, batch: Batch, key: Key, step: int) -> Iterator[None]:
        """Has the others make the update that this process makes within, and compares the weights after it.

        Raises:
            HocketError: naming the rank that failed, is gone, or has other weights.
        """
        budget, again = (getattr(learner.policy, name, None) for name in ("token_budget", "checkpointing"))
        self._tell(Learn(learner.policy.name, batch, key, step, budget, again))
        try:
            yield
        except HocketError:
            self._answers(waiting=False)  # A rank that failed has said why before it ended.
            raise
        own = digest(learner.policy.module)
        for rank, found in enumerate(self._answers(), 1):
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
        _end(self.processes, self._connections)
        self.processes, self._connections = [], []

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
        from hocket.train.ranks import joined, opened

        for _ in range(1, self.size):
            ours, theirs = Pipe()
            command = _COMMAND.format(path=sys.path, handle=theirs.fileno())
            # A session of its own: Ctrl-C in a terminal goes to the whole foreground group.
            process = subprocess.Popen(
                [sys.executable, "-c", command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
            theirs.close()
            self.processes.append(process)
            self._connections.append(ours)
        weakref.finalize(self, _end, self.processes, self._connections)
        self._tell(Setup(configuration.plain(self._config), self._precision, torch.get_num_threads()))
        self._answers()
        store = opened(self.size)
        for rank, connection in enumerate(self._connections, 1):
            connection.send_bytes(pickle.dumps(Meet(rank, self.size, store.port)))
        ranks = joined(0, self.size, store.port, store)
        self._answers()
        return ranks

    def _tell(self, message: Setup | Stand | Learn) -> None:
        data = pickle.dumps(message)
        for rank, connection in enumerate(self._connections, 1):
            try:
                connection.send_bytes(data)
            except OSError as error:
                raise self._gone(rank) from error

    def _answers(self, *, waiting: bool = True) -> list[Any]:
        """What the others answer, rank 1 first; without `waiting`, of those that have.

        Raises:
            HocketError: when one failed or is gone.
        """
        found = []
        for rank, connection in enumerate(self._connections, 1):
            if not (waiting or connection.poll(_LAST_WORDS)):
                continue
            try:
                answer = pickle.loads(connection.recv_bytes())
            except (EOFError, OSError) as error:
                raise self._gone(rank) from error
            if isinstance(answer, BaseException):
                kind = ConfigurationError if isinstance(answer, ConfigurationError) else HocketError
                raise kind(f"learner {rank} failed: {answer}") from answer
            found.append(answer)
        return found

    def _gone(self, rank: int) -> HocketError:
        """What became of a rank, in a sentence."""
        try:
            code = self.processes[rank - 1].wait(timeout=5)
        except subprocess.TimeoutExpired:
            return HocketError(f"learner {rank} no longer answers; go on from the last checkpoint with --resume")
        how = f"with exit code {code}" if code >= 0 else f"by {signal.Signals(-code).name}"
        return HocketError(f"learner {rank} ended {how}; go on from the last checkpoint with --resume")


def check_learners(config: Config) -> None:
    """Refuses what several learners cannot do.

    Raises:
        ConfigurationError: with the mend.
    """
    if config.learners == 1:
        return
    if config.cluster != "local":
        raise ConfigurationError(f"learners = {config.learners} run as processes of this machine: add --cluster local")
    if config.leaves % config.learners:
        raise ConfigurationError(
            f"leaves = {config.leaves} are divided among learners = {config.learners}, a power of two of at most that "
            f"many: add --leaves {max(4, config.learners)}"
        )


def _plain(state: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.detach().cpu().clone() for name, value in state.items()}


def _end(processes: list[subprocess.Popen[bytes]], connections: list[Connection]) -> None:
    for connection in connections:
        connection.close()
    for process in processes:
        if process.poll() is None:
            process.kill()
            process.wait()
