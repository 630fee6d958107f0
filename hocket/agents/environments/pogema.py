"""The package `pogema` (Skrynnik et al., arXiv:2407.14931), whose instances, moves and views are upstream's own.

It pins numpy and gymnasium to old versions, so it stands in an environment of its own, without `hocket[control]`. The
native `mapf:` worlds need no package, and are many times faster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from hocket.agents.environments.parallel_pettingzoo import ZooTeam
from hocket.core.errors import ConfigurationError, nearest

ON_TARGET = {"lifelong": "restart", "once": "finish", "together": "nothing"}
"""What upstream calls what becomes of those who reach their goal: another goal, an end, or waiting for the others."""


@dataclass(frozen=True)
class Pogema(ZooTeam):
    """Upstream's parallel environment, in which a seed names an instance.

    Attributes:
        module: `lifelong`, `once`, where those who arrive leave, or `together`, where all must stand on their goals.
        settings: of upstream's `GridConfig`.
    """

    leads: ClassVar[str] = "sampled"

    def __post_init__(self) -> None:
        if self.module not in ON_TARGET:
            hint = nearest(self.module, ON_TARGET) or f"; choose from {', '.join(ON_TARGET)}"
            raise ConfigurationError(f"there is no task {self.name!r}{hint}")
        super().__post_init__()

    @property
    def name(self) -> str:
        return f"pogema:{self.module}"

    def new(self) -> Any:
        """Opens one environment."""
        try:
            from pogema import GridConfig
            from pogema.integrations.pettingzoo import parallel_env
        except ImportError as error:
            raise ConfigurationError(
                f"task {self.name} needs the package pogema ({error}): pip install 'hocket[paths]' in an environment "
                "of its own, for it pins gymnasium below what hocket[control] needs; or use mapf:lifelong or mapf:once"
            ) from None
        settings = {**self.settings, "on_target": ON_TARGET[self.module]}
        try:
            return _Seeded(parallel_env, GridConfig, settings)
        except (ValueError, OverflowError) as error:
            raise ConfigurationError(f"task {self.name}: {' '.join(str(error).split())}") from None


class _Seeded:
    """An environment made anew from every seed: upstream's own `reset` plays the instance that it was made with."""

    def __init__(self, make: Any, form: Any, settings: dict[str, Any]) -> None:
        self._make, self._form, self._given = make, form, settings
        self._course = make(form(**settings, seed=0))

    def reset(self, seed: int) -> Any:
        self._course = self._make(self._form(**self._given, seed=seed))
        return self._course.reset()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._course, name)
