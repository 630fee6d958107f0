"""Reasoning-SQL: GRPO for SQL with partial rewards (Pourreza et al., arXiv:2503.23157).

Besides the execution's result a query earns for the tables and columns it uses (`SchemaLinking`), n-grams shared with
the right one (`NgramOverlap`), running at all (`ValidSyntax`), a judge's view where it fails (`JudgeFailures`) and its
tags, so that few groups are all equal; weights keep a right query ahead of any partial credit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from hocket.agents.tools.sql import QueryError, query
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.agents.reasoning_sql.reward import ExecutionMatch, QueryReward, _sqlglot, parsed
from hocket.methods.base.grpo import GRPO
from hocket.rewards.judging import JudgedBy
from hocket.rewards.tags import TagFormat
from hocket.stages import Reward
from hocket.types import Scenario, Trajectory

Tables = Mapping[str, Sequence[str]]
"""Columns by table."""


_TOKEN = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|\w+(?:\.\w+)?|<>|[<>!=]=|\|\||\S")


@dataclass(frozen=True)
class SchemaLinking(QueryReward):
    """`|T_pred & T_gold| / |T_pred | T_gold|` over the tables and columns used.

    A column is that of its table, whatever its alias; `*` is every column. A query that cannot be parsed uses nothing.
    """

    name: str = "linking"

    def grade(self, sql: str, scenario: Scenario) -> float:
        tables = frozen_tables(scenario.metadata.get("tables", {}))
        return overlap(used(sql, tables), used(str(scenario.answer), tables))


def ngrams(sql: str, n: int) -> frozenset[tuple[str, ...]]:
    """The distinct runs of n tokens, lower case; of a shorter query, the whole."""
    tokens = [token.lower() for token in _TOKEN.findall(sql.strip().rstrip(";"))]
    return frozenset(tuple(tokens[at : at + n]) for at in range(max(1, len(tokens) - n + 1)) if tokens)


@dataclass(frozen=True)
class NgramOverlap(QueryReward):
    """The same overlap over the n-grams of the queries' tokens, case ignored."""

    name: str = "ngrams"
    n: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n < 1:
            raise ConfigurationError(f"n must be at least 1, not {self.n}")

    def grade(self, sql: str, scenario: Scenario) -> float:
        return overlap(ngrams(sql, self.n), ngrams(str(scenario.answer), self.n))


@dataclass(frozen=True)
class ValidSyntax(QueryReward):
    """1 if the query parses and runs in the first database, else 0."""

    name: str = "syntax"

    def grade(self, sql: str, scenario: Scenario) -> float:
        try:
            query(scenario.metadata["databases"][0], sql)
        except QueryError:
            return 0.0
        return float(parsed(sql) is not None)


def overlap(one: frozenset[Any], other: frozenset[Any]) -> float:
    """`|A & B| / |A | B|`; 1 for two empty sets."""
    return len(one & other) / len(one | other) if one | other else 1.0


@dataclass(frozen=True)
class JudgeFailures(Reward):
    """Asks a judge about the queries that fail on execution; 0 for those that do not.

    Attributes:
        judge: any reward in [0, 1]: a model behind an endpoint, a fitted `TextJudge`, or the rule `ClauseMatch`.
        execution: what counts as failing.
    """

    judge: Reward
    execution: ExecutionMatch = ExecutionMatch()
    name: str = "judge"
    weight: float = 1.0

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        verdicts = await self.execution(trajectories, key=key)
        failed = [one for one, right in zip(trajectories, verdicts, strict=True) if right == 0.0]
        judged = iter(await self.judge(failed, key=key) if failed else ())
        return [next(judged) if right == 0.0 else (None if right is None else 0.0) for right in verdicts]


@lru_cache(maxsize=4096)
def clauses(sql: str, tables: FrozenTables) -> frozenset[tuple[str, str]]:
    """The clauses of a query, each in one spelling without aliases; nothing if it cannot be parsed."""
    tree = qualified(sql, tables)
    if tree is None:
        return frozenset()
    tree = tree.copy()
    for scope in _scopes(tree):
        of = _tables_of(scope)
        for column in scope.columns:
            if column.table in of:
                column.set("table", _sqlglot().exp.to_identifier(of[column.table]))
        for table in scope.tables:
            table.set("alias", None)
    pieces = ((clause, piece) for clause, part in tree.args.items() for piece in _listed(part))
    return frozenset((clause, _spelt(piece)) for clause, piece in pieces)


@dataclass(frozen=True)
class ClauseMatch(QueryReward):
    """The share of clauses that are those of the right query, of all clauses that either has: a judge made of rules."""

    name: str = "clauses"

    def grade(self, sql: str, scenario: Scenario) -> float:
        tables = frozen_tables(scenario.metadata.get("tables", {}))
        return overlap(clauses(sql, tables), clauses(str(scenario.answer), tables))


FrozenTables = tuple[tuple[str, tuple[str, ...]], ...]


def frozen_tables(tables: Tables) -> FrozenTables:
    """Columns by table as a value that can be remembered."""
    return tuple(sorted((name, tuple(columns)) for name, columns in tables.items()))


@lru_cache(maxsize=4096)
def qualified(sql: str, tables: FrozenTables) -> Any:
    """The tree with every column given its table and every `*` written out; the plain tree where that fails."""
    sqlglot, tree = _sqlglot(), parsed(sql)
    if tree is None:
        return None
    schema = {name: dict.fromkeys(columns, "text") for name, columns in tables}
    try:
        return sqlglot.optimizer.qualify.qualify(
            tree.copy(),
            schema=schema,
            dialect="sqlite",
            validate_qualify_columns=False,
            quote_identifiers=False,
        )
    except (sqlglot.errors.SqlglotError, RecursionError, ValueError, AttributeError, KeyError):
        return tree


@lru_cache(maxsize=4096)
def used(sql: str, tables: FrozenTables) -> frozenset[str]:
    """The tables and columns (`table.column`) that a query uses; nothing if it cannot be parsed."""
    sqlglot, tree = _sqlglot(), qualified(sql, tables)
    if tree is None:
        return frozenset()
    made_up = {str(alias.alias).lower() for alias in tree.find_all(sqlglot.exp.Alias) if not _is_itself(alias)}
    found: set[str] = set()
    for scope in _scopes(tree):
        of = _tables_of(scope)
        found.update(of.values())
        for column in scope.columns:
            if column.table in of:
                found.add(f"{of[column.table]}.{column.name.lower()}")
            elif not column.table and column.name.lower() not in made_up:
                found.add(column.name.lower())
    return frozenset(found)


def _is_itself(alias: Any) -> bool:
    """Whether it calls a column of no known table by its own name, as is done for all that are selected."""
    column = alias.this
    return isinstance(column, _sqlglot().exp.Column) and not column.table and column.name == alias.alias


def _scopes(tree: Any) -> list[Any]:
    sqlglot = _sqlglot()
    try:
        return list(sqlglot.optimizer.scope.traverse_scope(tree))
    except (sqlglot.errors.SqlglotError, RecursionError):
        return []


def _tables_of(scope: Any) -> dict[str, str]:
    """Tables by the alias that a part of a query gives them."""
    table = _sqlglot().exp.Table
    return {alias: one.name.lower() for alias, one in scope.sources.items() if isinstance(one, table)}


def _listed(part: Any) -> list[Any]:
    pieces = part if isinstance(part, list) else [part]
    return [piece for piece in pieces if piece is not None and piece is not False]


def _spelt(piece: Any) -> str:
    plain = piece.unalias() if hasattr(piece, "unalias") else piece
    return plain.sql(dialect="sqlite").lower() if hasattr(plain, "sql") else str(plain)


NEAR = (
    "Here are a question, the right SQL query and another query that gives a wrong result. How near is the other query "
    "to the right one, in its tables, columns, joins and conditions?\n\nQuestion:\n{prompt}\n\nRight query:\n{answer}"
    "\n\nOther query:\n{text}\n"
)


REASONING_SQL = GRPO.but(
    name="reasoning-sql",
    title="Partial rewards for text-to-SQL",
    source="Pourreza et al., Reasoning-SQL, arXiv:2503.23157",
    catalogue_ids=("reasoning-sql",),
    axes=("reward", "environment", "objective"),
    formula="R = 4.5 execution + linking + ngrams + judge (if execution = 0) + 0.5 syntax + 0.5 tags, "
    "linking = |T_pred & T_gold| / |T_pred | T_gold| over tables and columns",
    conventions={
        **GRPO.conventions,
        "weights": "ours: 4.5 for execution exceeds the sum 4 of all others, so partial credit never outranks a right "
        "query; the abstract gives none",
        "execution": "equal multisets of rows in every database of the scenario, lists after ORDER BY",
        "linking": "columns belong to their table whatever the alias, * is every column",
        "n-grams": "overlap of the sets of token pairs, case ignored",
        "syntax": "parses and runs",
        "judge": "of queries that fail on execution; --judge grades them from 0 to 10 (`NEAR`); without one clauses "
        "are compared by rule; any reward takes its place as rewards.4.judge",
        "tags": "<think>..</think><answer>..</answer>",
    },
    task="sql",
    rewards=(
        ExecutionMatch(weight=4.5),
        SchemaLinking(weight=1.0),
        NgramOverlap(weight=1.0),
        ValidSyntax(weight=0.5),
        JudgeFailures(JudgedBy(ClauseMatch(), NEAR, scale=10), weight=1.0),
    ),
    shaping=(TagFormat(weight=0.5),),
)
