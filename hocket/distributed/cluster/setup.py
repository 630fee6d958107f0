"""What every other process of a run is told first, and what it makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from hocket.policies.family import Precision
    from hocket.stages import Player, Policy, Task
    from hocket.train.settings import Config


@dataclass(frozen=True)
class Setup:
    """The run, as its `config.yaml` has it, and how to compute."""

    config: Mapping[str, Any]
    precision: Precision
    threads: int


class BuiltRun(NamedTuple):
    """The policies of a run before any training, and what plays them."""

    config: Config
    task: Task
    policies: Mapping[str, Policy]
    player: Player


def built(setup: Setup) -> BuiltRun:
    """Builds in this process what the run's configuration names.

    Raises:
        ConfigurationError: when something that it names is not here.
    """
    from hocket import tasks
    from hocket.train.config import loaded
    from hocket.train.kinds import kind_of
    from hocket.train.machine import compute_in
    from hocket.train.models import attach_media

    compute_in(setup.precision, setup.threads)
    task = tasks.find(str(setup.config["task"]))
    config = loaded(setup.config, task)
    attach_media(config)
    policies, player = kind_of(task, config).build(config, task, workflow=None, journal=None, precision=setup.precision)
    return BuiltRun(config, task, policies, player)
