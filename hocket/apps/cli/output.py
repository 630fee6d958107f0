"""What commands print: progress to stderr, the result or one JSON document to stdout."""

from __future__ import annotations

import json
import math
import sys
from typing import Any

from rich.console import Console

Pairs = list[tuple[str, Any]]


def out() -> Console:
    """Where results go."""
    return Console(highlight=False, soft_wrap=not sys.stdout.isatty())


def err() -> Console:
    """Where progress goes."""
    return Console(stderr=True, highlight=False)


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
