"""The first process's side of a second one that samples: the process, and engines that ask it."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import signal
import subprocess
import sys
import weakref
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from hocket.core.errors import HocketError
from hocket.core.waits import waiting_for
from hocket.engine.barrier import Barrier
from hocket.engine.requests import Request, Sample
from hocket.recipes import find as find_recipe
from hocket.train.sampler_worker import Draw, SamplerSetup, SharedLoad
from hocket.train.settings import Config
from hocket.train.shared_weights import SharedWeights

if TYPE_CHECKING:
    from hocket.policies.causal_lm import CausalLM

_COMMAND = "import sys; sys.path[:] = {path!r}; from hocket.train.sampler_worker import main; main({handle})"


class SamplerProcess:
    """A process with copies of some policies. One thread at a time may talk to it.

    It is a fresh interpreter, not a fork and not the caller's main module run again, so it can be started from scripts
    and notebooks alike.

    Attributes:
        weights: what it samples from. loaded: whether it has taken them since it was started.
        failure: why it is gone, once it is. peak: its peak resident memory so far, MiB.
    """

    def __init__(self, config: Config, models: Mapping[str, str | None], policies: Mapping[str, CausalLM]) -> None:
        self.weights = SharedWeights(policies)
        self.loaded = False
        self.failure: HocketError | None = None
        self.peak = 0.0
        self._policies = policies
        # Recipe, rewards and workflow may be of the user's own files; the second process has no use for them.
        self._config = dataclasses.replace(
            config, recipe=find_recipe("grpo"), plan=(), reward=(), workflow=None, roles={}
        )
        self._models = models
        self._connection: Connection | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._ready = False

    def start(self) -> None:
        """Starts the process and does not wait for it; starting twice does nothing. After `close` it starts anew."""
        if self._process is not None:
            return
        self._ready = self.loaded = False
        self.failure = None
        ours, theirs = Pipe()
        command = _COMMAND.format(path=sys.path, handle=theirs.fileno())
        # A session of its own: Ctrl-C in a terminal goes to the whole foreground group.
        self._process = subprocess.Popen(
            [sys.executable, "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(), self.weights.handle),
            start_new_session=True,
        )
        theirs.close()
        self._connection = ours
        weakref.finalize(self, _end, self._process, ours)  # Also when the run is dropped, or the interpreter ends.
        self._send(self._setup())

    @property
    def process_id(self) -> int | None:
        """Of the second process; None before it was started."""
        return None if self._process is None else self._process.pid

    def load(self, versions: Mapping[str, int], threads: int) -> None:
        """Lets it take the weights that are in `weights`, which are of these versions, and compute on `threads`.

        Raises:
            HocketError: when it is gone, or could not read the models.
        """
        self.start()
        if not self._ready:
            self._whole(self._receive())
            self._ready = True
        self._send(SharedLoad(versions, threads))
        self.peak = float(self._whole(self._receive()))
        self.loaded = True

    def sample(self, policy: str, requests: Sequence[Request]) -> list[Sample | BaseException]:
        """Samples from the weights it was last given: one sample or error per request, in order.

        Raises:
            HocketError: when it is gone.
        """
        # Messages are for servers that know only text, and may hold anything.
        self._send(Draw(policy, [dataclasses.replace(request, messages=()) for request in requests]))
        answer = self._whole(self._receive())
        assert isinstance(answer, list)
        return answer

    def close(self) -> None:
        """Ends the process; whoever waits for it gets an error."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
            self.loaded = False

    def _setup(self) -> SamplerSetup:
        precisions = {name: policy.precision for name, policy in self._policies.items()}
        weights = self.weights
        return SamplerSetup(self._config, self._models, precisions, weights.layout, weights.handle)

    # ------------------------------------------------------------ the line

    def _send(self, message: Any) -> None:
        assert self._connection is not None, "the process was not started"
        try:
            self._connection.send(message)
        except OSError as error:
            raise self._gone() from error

    def _receive(self) -> Any:
        assert self._connection is not None, "the process was not started"
        try:
            with waiting_for("the process that samples"):
                return self._connection.recv()
        except (EOFError, OSError) as error:
            raise self._gone() from error

    def _whole(self, answer: Any) -> Any:
        """An answer that is no error of the process as a whole."""
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _gone(self) -> HocketError:
        """What became of the process, in a sentence."""
        process = self._process
        if process is None:
            return HocketError("the sampling process was closed")
        try:
            code = process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        how = f"with exit code {code}" if code >= 0 else f"by {signal.Signals(-code).name}"
        why = ", as when memory runs out" if code == -signal.SIGKILL else ""
        self.failure = HocketError(
            f"the sampling process ended {how}{why}; continue from the last checkpoint with --resume"
        )
        return self.failure


def _end(process: subprocess.Popen[bytes], connection: Connection) -> None:
    with contextlib.suppress(OSError):
        connection.close()
    if process.poll() is None:
        process.kill()
        process.wait()


class SamplerEngine:
    """Samples in the second process; implements `hocket.engine.requests.Engine`.

    What waits is sent over as one batch when every live workflow waits, as `LocalEngine` would run it. A sample's
    `version` is that of the weights last published.

    Args:
        process: where the policy's copy is. policy: its name. barrier: shared by the engines of one run.
    """

    def __init__(self, process: SamplerProcess, policy: str, barrier: Barrier) -> None:
        self.process, self.policy, self.barrier = process, policy, barrier
        barrier.serve(self._run_pending)
        self._pending: list[tuple[Request, asyncio.Future[Sample]]] = []

    def episode(self) -> AbstractAsyncContextManager[None]:
        """Marks a live workflow in the shared barrier."""
        return self.barrier.episode()

    async def submit(self, request: Request) -> Sample:
        """Waits for one continuation; see `hocket.engine.requests.Engine`."""
        future: asyncio.Future[Sample] = asyncio.get_running_loop().create_future()
        entry = (request, future)
        self._pending.append(entry)
        try:
            async with self.barrier.waiting():
                return await future
        finally:
            if entry in self._pending:
                self._pending.remove(entry)

    def sample(self, requests: Sequence[Request]) -> list[Sample]:
        """Samples all requests now; results in the order given. The first error is raised."""
        samples: list[Sample] = []
        for outcome in self.process.sample(self.policy, requests):
            if isinstance(outcome, BaseException):
                raise outcome
            samples.append(outcome)
        return samples

    def _run_pending(self) -> bool:
        """Sends what is pending as one batch; says whether there was anything."""
        pending = [(request, future) for request, future in self._pending if not future.done()]
        self._pending.clear()
        if not pending:
            return False
        try:
            outcomes = self.process.sample(self.policy, [request for request, _ in pending])
        except Exception as error:
            outcomes = [error] * len(pending)
        for (_, future), outcome in zip(pending, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
        return True
