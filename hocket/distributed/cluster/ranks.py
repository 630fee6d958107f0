"""Processes that learn together, joined by gloo: the exchanges of `hocket.distributed.cluster.leaves`.

What is on devices goes from one to the other by NCCL where every rank has a device of its own, else by way of the host.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import FileStore, Store

from hocket.core.errors import HocketError

PATIENCE = datetime.timedelta(seconds=600)
"""How long a rank waits for another before it gives up; a rank that has ended is noticed at once."""

_LOOPBACK = dict.fromkeys(("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"), "lo0" if sys.platform == "darwin" else "lo")
"""By these variables gloo and NCCL are given the interface of their sockets, which have no secret."""


class Parted(HocketError):
    """Another rank ended, for a reason that whoever started it knows."""


class Rendezvous(Protocol):
    """What ranks find each other by; it goes to each of them as part of a message.

    Attributes:
        alone: all of them are on this machine.
    """

    @property
    def alone(self) -> bool: ...

    def store(self) -> Store:
        """This process's way to it."""
        ...


@dataclass(frozen=True)
class FolderRendezvous:
    """Ranks of this machine meet in a file. Nothing listens, and whoever may not enter the folder has no part in it."""

    path: str
    alone = True

    def store(self) -> Store:
        store = FileStore(str(Path(self.path) / "ranks"))
        store.set_timeout(PATIENCE)
        return store


@dataclass(frozen=True)
class RankProcess:
    """This process among those that learn together; see `hocket.distributed.cluster.leaves.Ranks`. One group per
    process.

    Attributes:
        direct: what is on devices goes by NCCL. store: by which ranks have met; torch itself keeps none alive that is
            written in Python.
    """

    rank: int
    size: int
    direct: bool = False
    store: Store | None = field(default=None, repr=False, compare=False)

    def exchanged(self, tensor: Tensor, other: int) -> Tensor:
        """What rank `other` gives for `tensor`, of its shape and type.

        Raises:
            HocketError: when it is gone.
        """
        sent = self._sendable(tensor)
        received = torch.empty_like(sent)
        both = [dist.P2POp(dist.isend, sent, other), dist.P2POp(dist.irecv, received, other)]
        try:
            for work in dist.batch_isend_irecv(both):
                work.wait()
        except RuntimeError as error:
            raise _gone(other) from error
        return received.to(tensor.device)

    def gathered(self, tensor: Tensor) -> list[Tensor]:
        """What every rank gives, in order.

        Raises:
            HocketError: when one is gone.
        """
        plain = self._sendable(tensor.to(torch.uint8) if tensor.dtype == torch.bool else tensor)
        received = [torch.empty_like(plain) for _ in range(self.size)]
        try:
            dist.all_gather(received, plain)
        except RuntimeError as error:
            raise _gone(None) from error
        return [part.to(tensor.device, tensor.dtype) for part in received]

    def swapped(self, tensors: Sequence[Tensor], sizes: Sequence[int]) -> list[Tensor]:
        """What every rank gives this one, of these sizes; `given` are flat tensors of one type, one per rank.

        Raises:
            HocketError: when one is gone.
        """
        sent = [self._sendable(tensor) for tensor in tensors]
        received = [sent[0].new_empty(size) for size in sizes]
        received[self.rank] = sent[self.rank]
        others = [other for other in range(self.size) if other != self.rank]
        work = [dist.P2POp(dist.isend, sent[other], other) for other in others if sent[other].numel()]
        work += [dist.P2POp(dist.irecv, received[other], other) for other in others if sizes[other]]
        try:
            for request in dist.batch_isend_irecv(work) if work else ():
                request.wait()
        except RuntimeError as error:
            raise _gone(None) from error
        return [tensor.to(tensors[0].device) for tensor in received]

    def _sendable(self, tensor: Tensor) -> Tensor:
        return (tensor if self.direct else tensor.cpu()).contiguous()

    def leave(self) -> None:
        """Ends the group in this process."""
        dist.destroy_process_group()


def joined(rank: int, size: int, rendezvous: Rendezvous, *, device: torch.device) -> RankProcess:
    """Joins the group that meets there; this rank's policies are on `device`.

    Ranks of one machine exchange over its loopback, whatever the environment says.
    """
    with _environment(_LOOPBACK) if rendezvous.alone else nullcontext():
        return _joined(rank, size, rendezvous.store(), device)


def _joined(rank: int, size: int, store: Store, device: torch.device) -> RankProcess:
    able = device.type == "cuda" and dist.is_nccl_available()
    backend = "cpu:gloo,cuda:nccl" if able else "gloo"
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=PATIENCE)
    plain = RankProcess(rank, size, store=store)
    named = [bytes(device_name.tolist()) for device_name in plain.gathered(_named(device) if able else _NAMELESS)]
    if bytes(_NAMELESS.tolist()) in named or len(set(named)) < size:
        return plain
    dist.all_reduce(torch.zeros(1, device=device))  # All ranks open it together; later they speak in pairs.
    return RankProcess(rank, size, direct=True, store=store)


_NAMELESS = torch.zeros(16, dtype=torch.uint8)


def _named(device: torch.device) -> Tensor:
    """Tells a CUDA device from others as NCCL does: by host, which the variable may say, and device."""
    text = f"{os.environ.get('NCCL_HOSTID', '')} {torch.cuda.get_device_properties(device).uuid}"
    return torch.frombuffer(bytearray(hashlib.blake2b(text.encode(), digest_size=16).digest()), dtype=torch.uint8)


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """The environment variables have these values meanwhile."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _gone(rank: int | None) -> Parted:
    who = "a learner" if rank is None else f"learner {rank}"
    return Parted(f"{who} ended while others waited for it; go on from the last checkpoint with --resume")
