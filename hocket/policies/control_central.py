"""Critics of control policies that read the joint state of all agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from hocket.core.batch import Batch
from hocket.core.errors import ConfigurationError
from hocket.core.policy_parts import CentralCritic
from hocket.policies.control_networks import Normaliser, reader
from hocket.policies.control_parts import ControlPart, PartHost


@dataclass(frozen=True)
class JointState(ControlPart):
    """The critic reads the joint state of all agents before what its agent sees; what acts never does.

    It is the agent-specific global state of Yu et al. (arXiv 2103.01955). `CentralCritic` is how stages ask for it.
    """

    needed: ClassVar[str] = CentralCritic.needed
    advice: ClassVar[str] = CentralCritic.advice

    def begin(self, host: PartHost) -> None:
        if not host.joint:
            raise ConfigurationError(
                "a central critic reads the joint state of all agents, and this environment offers none; use ippo, "
                "whose critic reads what its agent sees"
            )
        if host.module.critic is not None:
            raise ConfigurationError(f"policy {host.name!r} has a critic of its observations already; train it anew")
        ranges = getattr(host.spaces, "joint_ranges", ())
        host.module.whole = reader(host.joint, ranges, normalise=host.network.normalise)

    def config(self, host: PartHost) -> Mapping[str, Any]:
        return {"joint": host.joint}

    def before(self, host: PartHost) -> int:
        return host.joint

    def read(self, host: PartHost, batch: Batch, chosen: Tensor, seen: Tensor, *, critic: bool) -> Tensor:
        return torch.cat([_as_read(host, self._recorded(host, batch)[chosen]), seen], 1) if critic else seen

    def read_last(self, host: PartHost, batch: Batch, rows: Sequence[int], last: Tensor, seen: Tensor) -> Tensor:
        joint = np.stack([np.asarray(batch.final_joint[row], np.float32) for row in rows])
        return torch.cat([_as_read(host, torch.from_numpy(joint)), seen], 1)

    def observe(self, host: PartHost, batch: Batch, mine: Tensor) -> None:
        if isinstance(host.module.whole, Normaliser):
            host.module.whole.observe(self._recorded(host, batch)[mine])

    def _recorded(self, host: PartHost, batch: Batch) -> Tensor:
        """The joint state before each decision, `[T, S]`; 0 for turns of other worlds."""
        return host.cached("joint", batch.joint, lambda: _recorded(batch, host.joint))


def _recorded(batch: Batch, size: int) -> Tensor:
    if not batch.joint:
        raise ConfigurationError("a central critic reads the joint state, which these turns were recorded without")
    lengths = torch.bincount(batch.turn, minlength=batch.turns).tolist()
    rows = [
        state if state is not None and state.shape == (length, size) else np.zeros((length, size))
        for state, length in zip(batch.joint, lengths, strict=True)
    ]
    return torch.from_numpy(np.concatenate(rows or [np.zeros((0, size))]).astype(np.float32))


def _as_read(host: PartHost, joint: Tensor) -> Tensor:
    return joint if host.module.whole is None else host.module.whole(joint)
