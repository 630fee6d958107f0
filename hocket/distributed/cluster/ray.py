"""Processes of a Ray cluster: `--cluster auto` on one of its nodes, `--cluster ray://HOST:10001` from elsewhere."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import importlib.resources
import ipaddress
import os
import platform
import socket
import threading
import uuid
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import torch

from hocket.core.errors import ConfigurationError
from hocket.distributed.cluster import connection
from hocket.distributed.cluster.connection import PeerLost
from hocket.distributed.cluster.weights import PackedWeights

if TYPE_CHECKING:
    from hocket.distributed.cluster.ray_store import ClusterRendezvous

NEEDED = ("hocket", "torch", "python", "kernels")
"""What must be the same on all nodes, so that they compute the same."""


def versions() -> dict[str, str]:
    """What this process computes with, and where it is."""
    kernels = importlib.resources.files("hocket.policies.kernels") / "kernels.cpp"
    return {
        "hocket": importlib.metadata.version("hocket"),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "kernels": hashlib.blake2b(kernels.read_bytes(), digest_size=6).hexdigest(),
        "host": socket.gethostname(),
        "process": str(os.getpid()),
    }


class RayServer:
    """What a process of the cluster runs: the worker of a module, and signs of life beside it."""

    def __init__(self, module: str) -> None:
        self._worker = importlib.import_module(module).Worker()

    def versions(self) -> dict[str, str]:
        return versions()

    def answer(self, message: bytes, *beside: PackedWeights) -> bytes:
        """Does what a message says. A worker that failed ends once its last answer is on its way."""
        answer: bytes = self._worker.answered(message, *(weights.writable() for weights in beside))
        if getattr(self._worker, "failed", False):
            threading.Timer(1.0, os._exit, (1,)).start()
        return answer

    def beat(self) -> None:
        """A sign of life."""


class CoreReservation:
    """Computes nothing."""


class RayCluster:
    """A Ray cluster that is running.

    Args:
        address: `auto` for the one that this machine is a node of, or `ray://HOST:PORT` of its head.
        processes: how many will be started. cores: of each. devices: whether they compute on accelerators.

    Attributes:
        inside: this process is on one of its nodes, which the others can reach.
        cores: of all its nodes.

    Raises:
        ConfigurationError: when Ray is missing, no cluster answers, it has too few cores or no accelerator, or anybody
            might use it.
    """

    def __init__(self, address: str, *, processes: int, cores: int, devices: bool = False) -> None:
        self._ray, self._each = _imported(), cores
        self._store: weakref.WeakKeyDictionary[PackedWeights, Any] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()  # A thread for each sampler.
        _join(self._ray, address)
        _check_guarded(self._ray, address)
        self.cores = int(self._ray.cluster_resources().get("CPU", 0))
        if self.cores < processes * cores:
            raise ConfigurationError(
                f"cluster = {address}: {processes} processes of {cores} cores are more than its {self.cores} cores; "
                "lower samplers, learners, workers or threads, or add nodes"
            )
        self.inside = not address.startswith("ray://")
        self._device = self._share(address, processes + self.inside) if devices else 0.0
        self._own = self._reserved() if self._device and self.inside else None

    def line(self, name: str, module: str) -> RayLine:
        return RayLine(self._ray, name, module, {"num_cpus": self._each, "num_gpus": self._device}, self._stored)

    @contextlib.contextmanager
    def rendezvous(self) -> Iterator[ClusterRendezvous]:
        from hocket.distributed.cluster.ray_store import ClusterRendezvous, Table

        name = f"hocket-{uuid.uuid4().hex}"
        actor = self._ray.remote(num_cpus=0)(Table).options(name=name).remote()
        try:
            yield ClusterRendezvous(name)
        finally:
            with contextlib.suppress(Exception):  # It is gone, or Ray is.
                self._ray.kill(actor)

    def _stored(self, weights: PackedWeights) -> Any:
        """Weights in Ray's store, from which each node fetches them once, for as long as they are held here."""
        with self._lock:
            if weights not in self._store:
                self._store[weights] = self._ray.put(weights)
            return self._store[weights]

    def _share(self, address: str, processes: int) -> float:
        """What part of a device each of so many processes has: a whole one where there are enough."""
        count = int(self._ray.cluster_resources().get("GPU", 0))
        if not count:
            raise ConfigurationError(
                f"cluster = {address}: this process computes on an accelerator and Ray knows of none; start the nodes "
                "with --num-gpus, or take --device cpu"
            )
        return 1.0 if count >= processes else int(100 * count / processes) / 100

    def _reserved(self) -> Any:
        """Has Ray give this process's own device, its node's first, to nobody else; held as long as this."""
        strategies = self._ray.util.scheduling_strategies
        strategy = strategies.NodeAffinitySchedulingStrategy(self._ray.get_runtime_context().get_node_id(), soft=False)
        kind = self._ray.remote(num_cpus=0, num_gpus=self._device, scheduling_strategy=strategy)(CoreReservation)
        return kind.remote()


class RayLine:
    """A process of a Ray cluster."""

    def __init__(
        self, ray: Any, name: str, module: str, needs: Mapping[str, float], stored: Callable[[PackedWeights], Any]
    ) -> None:
        self.name, self._ray, self._stored = name, ray, stored
        # Messages and signs of life have a thread each, so that what computes is always the same one.
        actor = ray.remote(**needs, max_restarts=0, concurrency_groups={"work": 1, "life": 1})(RayServer)
        self.actor = actor.remote(module)
        self._answers: deque[Any] = deque()
        self._checked = False

    def send(self, message: bytes, beside: Sequence[PackedWeights] = ()) -> None:
        if not self._checked:
            self._check()
        stored = [self._stored(weights) for weights in beside]
        self._answers.append(self.actor.answer.options(concurrency_group="work").remote(message, *stored))

    def receive(self) -> bytes:
        while not self.ready(connection.HEARTBEAT_SECONDS):
            self._hear(self.actor.beat.options(concurrency_group="life").remote(), connection.HEARTBEAT_TIMEOUT)
        answer: bytes = self._got(self._answers.popleft())
        return answer

    def ready(self, seconds: float) -> bool:
        return bool(self._ray.wait([self._answers[0]], timeout=seconds)[0])

    def close(self) -> None:
        with contextlib.suppress(Exception):  # It is gone, or Ray is.
            self._ray.kill(self.actor)

    def _check(self) -> None:
        """Sees that its node computes what this one does."""
        there = self._hear(self.actor.versions.options(concurrency_group="life").remote(), connection.START_TIMEOUT)
        ours = versions()
        for name in NEEDED:
            if there[name] != ours[name]:
                raise ConfigurationError(
                    f"{self.name} on {there['host']} has {name} {there[name]}, and this process {ours[name]}; install "
                    "the same on all nodes"
                )
        self._checked = True

    def _hear(self, answer: Any, seconds: float) -> Any:
        if not self._ray.wait([answer], timeout=seconds)[0]:
            self.close()
            raise PeerLost(f"{self.name} has given no sign of life for {seconds:.0f} s")
        return self._got(answer)

    def _got(self, answer: Any) -> Any:
        errors = self._ray.exceptions
        try:
            return self._ray.get(answer)
        except errors.RayActorError as error:
            raise PeerLost(f"{self.name} ended: {_first_sentence(str(error))}") from error
        except errors.RayError as error:
            raise PeerLost(f"{self.name} no longer answers: {_first_sentence(str(error))}") from error


def _imported() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise ConfigurationError("cluster: Ray is not installed; pip install 'hocket[cluster]'") from error


def _join(ray: Any, address: str) -> None:
    """Joins a cluster that runs already."""
    if ray.is_initialized():
        return
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", configure_logging=False)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        hint = (
            "start one with `ray start --head`, or" if address == "auto" else "see to the head's address and port, or"
        )
        raise ConfigurationError(
            f"cluster = {address}: no Ray cluster answers there ({_first_sentence(str(error))}); {hint} take --cluster "
            "local"
        ) from error


def _check_guarded(ray: Any, address: str) -> None:
    """Refuses a cluster that anybody who reaches its ports may run programs on."""
    host = urlsplit(address).hostname if address.startswith("ray://") else None
    alone = len([node for node in ray.nodes() if node["Alive"]]) == 1 and (host is None or _is_local(host))
    if not alone and os.environ.get("RAY_AUTH_MODE") != "token":
        raise ConfigurationError(
            f"cluster = {address}: whoever reaches a Ray cluster's ports may run anything on it; start all nodes with "
            "RAY_AUTH_MODE=token, and set it here too"
        )


def _is_local(host: str) -> bool:
    if host == "localhost":
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def _first_sentence(text: str) -> str:
    return " ".join(text.split()).partition(". ")[0].rstrip(".")[:200]
