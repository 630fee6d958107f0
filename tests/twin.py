"""The twin of a device on the processor: a column of operations that an accelerator uses, alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hocket.policies.operations import table


@contextmanager
def column_alone(name: str) -> Iterator[None]:
    """Only the column of this name computes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table, "COLUMNS", tuple(column for column in table.COLUMNS if column.name == name))
        for choice in (table._column_of, table._functions_for):
            choice.cache_clear()
        try:
            yield
        finally:
            for choice in (table._column_of, table._functions_for):
                choice.cache_clear()
