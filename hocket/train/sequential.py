"""Steps that must be collected one after the other."""

from __future__ import annotations

from hocket.core.errors import ConfigurationError
from hocket.train.settings import Config


def refuse_ahead(config: Config, stage: object, whose: str) -> None:
    """Refuses to collect steps ahead for a stage with memory.

    Raises:
        ConfigurationError: naming the stage, and `whose` it is.
    """
    if config.behind:
        what = "order = arrival" if config.order == "arrival" else f"overlap = {config.overlap}"
        raise ConfigurationError(
            f"{what}: {type(stage).__name__} {whose} remembers earlier steps, so steps cannot be collected ahead; "
            "drop one of them"
        )
