"""What a server takes on at most."""

from __future__ import annotations

from dataclasses import dataclass, fields

from hocket.core.errors import ConfigurationError


@dataclass(frozen=True)
class Bounds:
    """Limits of a server. What goes beyond them is refused, cut, or closed.

    Attributes:
        body_bytes: of a request. messages: of a conversation. tokens: of one answer; also how long an answer may
            be that does not say.
        requests: worked on at the same time; further ones are told to come back. connections: open at the same time.
        head_seconds: until the head of a request is there. body_seconds: until its body is.
        write_seconds: that a reader may let the server wait for it. idle_seconds: that a connection may rest.
        work_seconds: for one request, waiting included; None is no limit.
    """

    body_bytes: int = 2**20
    messages: int = 512
    tokens: int = 1024
    requests: int = 512
    connections: int = 1024
    head_seconds: float = 10.0
    body_seconds: float = 20.0
    write_seconds: float = 30.0
    idle_seconds: float = 30.0
    work_seconds: float | None = 600.0

    def __post_init__(self) -> None:
        for setting in fields(self):
            value = getattr(self, setting.name)
            if value is not None and value <= 0:
                raise ConfigurationError(f"{setting.name} must be above 0, not {value}")
