"""A node of a swarm that is a process of its own, on this machine or another; the others are found by `Mesh`."""

from __future__ import annotations

import ipaddress
import os
import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from hocket.core.cache import cache_folder
from hocket.core.errors import ConfigurationError, HocketError
from hocket.distributed.cluster.weights import taken
from hocket.distributed.swarm.blobs import MissingPiece
from hocket.distributed.swarm.command import Pairs, SwarmSettings, node_run, report_of
from hocket.distributed.swarm.lines import parse_place
from hocket.distributed.swarm.mesh import Mesh
from hocket.distributed.swarm.node import NodeSharing
from hocket.distributed.swarm.pool import NodeInbox
from hocket.stages import Metrics, Policy

TRIED = 32
"""Announcements of weights that a node tries to take, the newest first."""

WEIGHTS = "weights"
"""What nodes announce their weights as."""


def key_of(host: str, variable: str | None) -> bytes:
    """The secret that the nodes share, from an environment variable; without one, this user's own on this machine.

    Raises:
        ConfigurationError: when it is empty, or missing where others than this machine can reach the node.
    """
    if variable is not None:
        secret = os.environ.get(variable, "")
        if len(secret) < 16:
            raise ConfigurationError(f"key-variable = {variable}: it must hold a secret of 16 letters or more")
        return secret.encode()
    try:
        alone = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        alone = False
    if not alone:
        raise ConfigurationError(
            f"listen = {host}: others can reach this node; name an environment variable with a secret that all nodes "
            "share, --key-variable NAME"
        )
    return _own_key(cache_folder("swarm") / "key")


def _own_key(file: Path) -> bytes:
    """What nodes of one user on one machine have in common: a secret in a file that only this user reads."""
    try:
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=file.parent) as new:  # Nobody else may read it.
                new.write(secrets.token_hex().encode())
                new.flush()
                with suppress(FileExistsError):  # Another node was first.
                    os.link(new.name, file)
        return file.read_bytes()
    except OSError as error:
        raise ConfigurationError(
            f"{file}: the secret of this user's nodes cannot be kept there ({error.strerror}); name an environment "
            "variable with one, --key-variable NAME, or another place in XDG_CACHE_HOME"
        ) from error


def _trained(policies: dict[str, Policy]) -> dict[str, Tensor]:
    """What of policies is trained, by `POLICY|NAME`."""
    return {
        f"{p}|{name}": weight for p, policy in policies.items() for name, weight in taken(policy, whole=False).items()
    }


def weights_of(policies: dict[str, Policy]) -> bytes:
    """What of policies is trained, in the format of safetensors."""
    data: bytes = safetensors.torch.save(
        {name: weight.cpu().contiguous() for name, weight in _trained(policies).items()}
    )
    return data


def set_weights(policies: dict[str, Policy], data: bytes) -> None:
    """The inverse.

    Raises:
        MissingPiece: when they are weights of another model.
    """
    try:
        theirs = safetensors.torch.load(data)
    except (SafetensorError, ValueError) as error:
        raise MissingPiece(f"no weights: {error}") from error
    ours = _trained(policies)
    shapes = {name: (weight.shape, weight.dtype) for name, weight in theirs.items()}
    if shapes != {name: (weight.shape, weight.dtype) for name, weight in ours.items()}:
        raise MissingPiece("these are weights of another model")
    for name, weight in ours.items():
        weight.copy_(theirs[name])
    for policy in policies.values():
        policy.version += 1


class NodeProcess:
    """One node, which takes its steps at its own pace.

    Args:
        settings: of the swarm; `nodes` counts for nothing. number: tells its seed and data from the others'.
        listen: `HOST` or `HOST:PORT`. join: places of nodes that are there already.
        key_variable: names the environment variable with the nodes' secret.
        publish: after how many steps its weights are published; 0 never. adopt: begin from the newest weights that
            another node has published.
        pairs, report: as of `SwarmRun`.

    Attributes:
        name: of the node. trainer: its run. mesh: the others. adopted: whose weights it began from.

    Raises:
        ConfigurationError: for settings that do not go together, or a place that is taken or silent.
    """

    def __init__(
        self,
        settings: SwarmSettings,
        number: int,
        *,
        listen: str,
        join: list[str],
        key_variable: str | None = None,
        publish: int = 0,
        adopt: bool = False,
        pairs: Pairs = (),
        report: Callable[[Path], object] | None = None,
    ) -> None:
        if settings.average or settings.attackers:
            raise ConfigurationError("nodes of their own processes neither attack nor average; leave out --listen")
        if number < 0 or publish < 0:
            raise ConfigurationError(f"number = {number}, publish = {publish}: neither may be below 0")
        host, port = parse_place(listen)
        self.settings, self.name, self._publish = settings, f"node-{number}", publish
        self.mesh = Mesh(self.name, host, port, key=key_of(host, key_variable))
        try:
            self.mesh.join(*join)
            folder = Path(settings.out or "runs/swarm")
            self.trainer = node_run(settings, number, self.name, folder, pairs, report)
        except BaseException:
            self.mesh.vanish()
            raise
        self.pool, self._lives = NodeInbox(self.trainer.task, recompute=not settings.trust), dict[str, str]()
        self.line = NodeSharing(self.name, self.pool, self.mesh.send)
        self.trainer.join(self.line)
        self.rows: list[Metrics] = []
        self.adopted = self._adopt() if adopt else None

    @property
    def _policies(self) -> dict[str, Policy]:
        return {name: learner.policy for name, learner in self.trainer.parts.learners.items() if not learner.frozen}

    def _adopt(self) -> str | None:
        for node, address in self.mesh.newest(WEIGHTS)[:TRIED]:
            try:
                set_weights(self._policies, self.mesh.fetch(address))
            except HocketError as error:
                self.trainer.say(f"the weights of {node} cannot be taken: {error}")
            else:
                self.trainer.say(f"begins from the weights of {node}")
                return node
        return None

    @property
    def rounds(self) -> int:
        """Steps made."""
        return len(self.rows)

    @property
    def total_steps(self) -> int:
        """Steps to make."""
        return self.trainer.total_steps

    def begin(self) -> None:
        """Measures itself before training."""
        with self._among_others():
            self.trainer.step()

    def round(self) -> Metrics:
        """Hears what has come, makes a step, and tells of it."""
        with self._among_others():
            return self._round()

    @contextmanager
    def _among_others(self) -> Iterator[None]:
        """Whatever ends a node also ends its lines."""
        try:
            yield
        except BaseException:
            self.mesh.vanish()
            raise

    def _round(self) -> Metrics:
        self.mesh.gossip()
        self.line.begin()
        lives = self.mesh.lives()
        for sender in [node for node, life in self._lives.items() if lives.get(node, life) != life]:
            self.pool.forget(sender)
        self._lives |= lives
        for sender, data in self.mesh.drained():
            self.pool.receive(sender, data)
        self.rows.append(row := self.trainer.step())
        if self._publish and len(self.rows) % self._publish == 0:
            self.mesh.publish(WEIGHTS, weights_of(self._policies))
        names = ("reward/own", "reward/shared", "shared/groups", "length/mean")
        return {
            **{name: float(row[name]) for name in names if name in row},
            "nodes": float(len(self.mesh.others()) + 1),
        }

    def finish(self, reason: str) -> dict[str, Any]:
        """Leaves the others, ends the run, and returns what came of it."""
        self.mesh.close()
        self.trainer.finish(reason)
        report = report_of(self.trainer, self.rows, self.line)
        report |= {"adopted": self.adopted, "lines": dict(self.mesh.counts)}
        return {
            "nodes": {self.name: report},
            "rounds": len(self.rows),
            "reason": reason,
            "path": str(self.trainer.folder.path),
        }
