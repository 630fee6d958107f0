"""Pages whose figures are what checks find."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hocket.core.errors import ConfigurationError
from hocket.lab.claims.claim import Check

DOCS = Path(__file__).parents[3] / "docs"
"""The pages of the checkout that this module lies in."""


def filled(text: str, checks: Sequence[Check]) -> str:
    """`text` with `{figures}` replaced by a line per check, as they come out now; recipes as shipped have none.

    Raises:
        ConfigurationError: when one does not hold: a page tells what does.
    """
    verdicts = [check() for check in checks if not check.shipped]
    failed = [verdict.claim for verdict in verdicts if not verdict.holds]
    if failed:
        raise ConfigurationError(f"the page tells what holds, but this does not: {failed[0]}")
    lines = [f"- *{verdict.claim[0].upper()}{verdict.claim[1:]}.* {verdict.saw}." for verdict in verdicts]
    return text.replace("{figures}", "\n".join(lines))


def write(name: str, text: str, checks: Sequence[Check]) -> None:
    """Writes `docs/NAME.md` of the checkout this module lies in."""
    DOCS.joinpath(f"{name}.md").write_text(filled(text, checks))
