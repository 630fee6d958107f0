"""Where a run's other processes are, as configured."""

from __future__ import annotations

from hocket.train.cluster.line import Place, ThisMachine
from hocket.train.cluster.samplers import threads
from hocket.train.settings import Config


def place_of(config: Config) -> Place:
    """The place that `cluster` names.

    Raises:
        ConfigurationError: when it is a Ray cluster that cannot be used.
    """
    processes = config.samplers + config.learners - 1
    if config.cluster is None or config.cluster == "local" or not processes:
        return ThisMachine()
    from hocket.train.cluster.ray import RayCluster  # Nobody else waits for Ray.

    return RayCluster(config.cluster, processes=processes, cores=threads(config))
