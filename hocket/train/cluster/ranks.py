"""Processes that learn together, joined by gloo: the exchanges of `hocket.train.cluster.leaves`."""

from __future__ import annotations

import datetime
import os
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import Store, TCPStore

from hocket.core.errors import HocketError

PATIENCE = datetime.timedelta(seconds=600)
"""How long a rank waits for another before it gives up; a rank that has ended is noticed at once."""


LOCAL = "127.0.0.1"


class Parted(HocketError):
    """Another rank ended, for a reason that whoever started it knows."""


@dataclass(frozen=True)
class Joined:
    """This process among those that learn together; see `hocket.train.cluster.leaves.Ranks`. One group per process."""

    rank: int
    size: int

    def exchanged(self, tensor: Tensor, other: int) -> Tensor:
        """What rank `other` gives for `tensor`, of its shape and type.

        Raises:
            HocketError: when it is gone.
        """
        found = torch.empty_like(tensor)
        both = [dist.P2POp(dist.isend, tensor.contiguous(), other), dist.P2POp(dist.irecv, found, other)]
        try:
            for work in dist.batch_isend_irecv(both):
                work.wait()
        except RuntimeError as error:
            raise _gone(other) from error
        return found

    def gathered(self, tensor: Tensor) -> list[Tensor]:
        """What every rank gives, in order.

        Raises:
            HocketError: when one is gone.
        """
        plain = tensor.to(torch.uint8) if tensor.dtype == torch.bool else tensor.contiguous()
        found = [torch.empty_like(plain) for _ in range(self.size)]
        try:
            dist.all_gather(found, plain)
        except RuntimeError as error:
            raise _gone(None) from error
        return [one.to(tensor.dtype) for one in found]

    def swapped(self, given: Sequence[Tensor], sizes: Sequence[int]) -> list[Tensor]:
        """What every rank gives this one, of these sizes; `given` are flat tensors of one type, one per rank.

        Raises:
            HocketError: when one is gone.
        """
        found = [given[0].new_empty(size) for size in sizes]
        found[self.rank] = given[self.rank]
        others = [other for other in range(self.size) if other != self.rank]
        work = [dist.P2POp(dist.isend, given[other], other) for other in others if given[other].numel()]
        work += [dist.P2POp(dist.irecv, found[other], other) for other in others if sizes[other]]
        try:
            for one in dist.batch_isend_irecv(work) if work else ():
                one.wait()
        except RuntimeError as error:
            raise _gone(None) from error
        return found

    def leave(self) -> None:
        """Ends the group in this process."""
        dist.destroy_process_group()


def joined(rank: int, size: int, host: str, port: int, store: Store | None = None) -> Joined:
    """Joins the group whose first rank keeps a `store` at a port of its host."""
    if host == LOCAL:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    store = store or TCPStore(host, port, size, is_master=False, timeout=PATIENCE)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=PATIENCE)
    return Joined(rank, size)


def opened(size: int, host: str) -> TCPStore:
    """What ranks find each other by, at a free port of this machine, whose address is `host`."""
    return TCPStore(host, 0, size, is_master=True, wait_for_workers=False, timeout=PATIENCE)


def _gone(rank: int | None) -> Parted:
    who = "a learner" if rank is None else f"learner {rank}"
    return Parted(f"{who} ended while others waited for it; go on from the last checkpoint with --resume")
