"""What commands print: progress to stderr, the result or one JSON document to stdout."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.text import Text

Pairs = list[tuple[str, Any]]


def out() -> Console:
    """Where results go."""
    return Console(highlight=False, soft_wrap=not sys.stdout.isatty())


def err() -> Console:
    """Where progress goes."""
    return Console(stderr=True, highlight=False)


def print_lines(lines: Iterable[Text]) -> None:
    """Each on a line of its own: cut at the edge of a terminal, complete in a pipe."""
    console = out()
    for line in lines:
        console.print(line, no_wrap=True, overflow="ellipsis" if console.is_terminal else "ignore")


def emit(document: Any) -> None:
    """One JSON document on stdout; what is not a finite number is null."""
    print(json.dumps(_finite(document), indent=2, ensure_ascii=False))


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value
