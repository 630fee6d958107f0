"""One table of operations with three columns: C++ on processors, Triton on accelerators, plain torch anywhere."""

from hocket.policies.operations.table import (
    COLUMNS,
    COMPILED,
    OPERATIONS,
    Functions,
    Operation,
    OperationColumn,
    column_of,
    common_column,
    functions_for,
)

__all__ = [
    "COLUMNS",
    "COMPILED",
    "OPERATIONS",
    "Functions",
    "Operation",
    "OperationColumn",
    "column_of",
    "common_column",
    "functions_for",
]
