"""Where a run's other processes are, as configured."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

import torch

from hocket.core.errors import ConfigurationError
from hocket.distributed.cluster.connection import Host, ThisMachine
from hocket.distributed.cluster.samplers import threads
from hocket.train.machine import device_of
from hocket.train.settings import PLACES, Config


def place_of(config: Config, learners: int) -> Host:
    """The place that `cluster` names, for so many `learners`, this process among them.

    Raises:
        ConfigurationError: when it is a Ray cluster that cannot be used.
    """
    processes = config.samplers + learners - 1
    if config.cluster is None or not processes:
        return ThisMachine()
    return place_at(config.cluster, processes=processes, cores=threads(config), devices=devices_of(config))


def devices_of(config: Config) -> Sequence[str]:
    """What CUDA calls the devices that processes of a run are dealt; none where they are told which, or to have none.

    Raises:
        ConfigurationError: when an accelerator is asked for that is not there.
    """
    if device_of(config) != torch.device("cuda"):
        return ()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return visible.split(",") if visible else [str(number) for number in range(torch.cuda.device_count())]


def place_at(cluster: str, *, processes: int, cores: int, devices: Sequence[str] = ()) -> Host:
    """A place by the name that `cluster` has for it, for so many processes of so many cores, with `devices` or none.

    Raises:
        ConfigurationError: when it is no such name, or a Ray cluster that cannot be used.
    """
    if not re.fullmatch(PLACES, cluster):
        raise ConfigurationError(f"cluster = {cluster!r}: choose local, auto or ray://HOST:PORT")
    if cluster == "local":
        return ThisMachine(devices)
    from hocket.distributed.cluster.ray import RayCluster  # Nobody else waits for Ray.

    return RayCluster(cluster, processes=processes, cores=cores, devices=bool(devices))
