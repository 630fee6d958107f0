"""Names and addresses of machines, as they stand in requests and flags."""

from __future__ import annotations

import ipaddress
import re

_AUTHORITY = re.compile(r"(?P<name>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:(?P<port>[0-9]{1,5}))?")


def addressed(authority: str) -> str | None:
    """The name or address in a Host header, `NAME` or `NAME:PORT`, an IPv6 one without its brackets; None for no such.

    Nothing is guessed: what is written otherwise is not read as what it resembles.
    """
    match = _AUTHORITY.fullmatch(authority)
    if match is None or int(match["port"] or 0) >= 2**16:
        return None
    return match["name"].strip("[]").lower()


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an interface."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
