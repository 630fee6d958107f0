"""How good an SQL query is: does it bring the right rows, and if not, how near it comes.

The right query is the scenario's answer; `metadata["databases"]` are scripts that make the databases it is tried on,
and `metadata["tables"]` names the columns of each table. Parts of Reasoning-SQL (Pourreza et al., arXiv 2503.23157),
whose abstract names them; the forms are chosen here and stated with each.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any, ClassVar

from hocket.errors import ConfigurationError, nearest
from hocket.keys import Key
from hocket.rewards.opinions import Opinions
from hocket.rewards.verifiers import EXTRACTIONS, Extraction
from hocket.stages import Reward
from hocket.tools.sql import QueryError, Rows, Value, query
from hocket.types import Scenario, Trajectory

Tables = Mapping[str, Sequence[str]]
"""Columns by table."""

_LONGEST = 4000
_TOKEN = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|\w+(?:\.\w+)?|<>|[<>!=]=|\|\||\S")


@dataclass(frozen=True)
class QueryReward(Reward):
    """A grade of the query extracted from the last turn; 0 without one, no opinion where the scenario has no database.

    A subclass gives `grade`.
    """

    name: str = "query"
    weight: float = 1.0
    extract: Extraction = "answer-tag"
    outside: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.extract not in EXTRACTIONS:
            raise ConfigurationError(f"extract = {self.extract!r} is unknown{nearest(self.extract, EXTRACTIONS)}")

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Opinions:
        return Opinions(self.verify(trajectory.text, trajectory.scenario) for trajectory in trajectories)

    def verify(self, text: str, scenario: Scenario) -> float | None:
        """The grade of one completion."""
        if not scenario.metadata.get("databases") or scenario.answer is None:
            return None
        said = EXTRACTIONS[self.extract](text)
        return 0.0 if said is None or not said.strip() else self.grade(said.strip(), scenario)

    @abstractmethod
    def grade(self, sql: str, scenario: Scenario) -> float:
        """The grade of a query, in [0, 1]."""


# ---------------------------------------------------------------- execution


@dataclass(frozen=True)
class ExecutionMatch(QueryReward):
    """1 if the query brings the rows of the right one in every database, else 0.

    Rows count as often as they come; their order matters where the right query ends in ORDER BY. Names of columns do
    not matter, their order does; numbers are equal up to 1e-6.
    """

    name: str = "execution"

    def grade(self, sql: str, scenario: Scenario) -> float:
        return float(brings_same(sql, str(scenario.answer), tuple(scenario.metadata["databases"])))


@lru_cache(maxsize=4096)
def brings_same(sql: str, right: str, databases: tuple[str, ...]) -> bool:
    """Whether two queries bring the same rows in every database; one that does not run brings nothing."""
    try:
        found = [(query(script, sql), query(script, right)) for script in databases]
    except QueryError:
        return False
    ordered = ends_in_order(right)
    return all(same_rows(mine, wanted, ordered=ordered) for mine, wanted in found)


def same_rows(one: Rows, other: Rows, *, ordered: bool) -> bool:
    """Whether two results hold the same rows equally often; in the same order if `ordered`."""
    if not (one.complete and other.complete):
        return False
    left, right = ([tuple(map(_plain, row)) for row in rows.rows] for rows in (one, other))
    return left == right if ordered else Counter(left) == Counter(right)


def _plain(value: Value) -> Value:
    return round(value, 6) if isinstance(value, float) else value


# ---------------------------------------------------------------- nearness


@dataclass(frozen=True)
class SchemaLinking(QueryReward):
    """`|T_pred & T_gold| / |T_pred | T_gold|` over the tables and columns used.

    A column is that of its table, whatever its alias; `*` is every column. A query that cannot be parsed uses nothing.
    """

    name: str = "linking"

    def grade(self, sql: str, scenario: Scenario) -> float:
        tables = frozen_tables(scenario.metadata.get("tables", {}))
        return overlap(used(sql, tables), used(str(scenario.answer), tables))


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


def ngrams(sql: str, n: int) -> frozenset[tuple[str, ...]]:
    """The distinct runs of n tokens, lower case; of a shorter query, the whole."""
    tokens = [token.lower() for token in _TOKEN.findall(sql.strip().rstrip(";"))]
    return frozenset(tuple(tokens[at : at + n]) for at in range(max(1, len(tokens) - n + 1)) if tokens)


# ---------------------------------------------------------------- judged


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


@dataclass(frozen=True)
class ClauseMatch(QueryReward):
    """The share of clauses that are those of the right query, of all clauses that either has: a judge made of rules."""

    name: str = "clauses"

    def grade(self, sql: str, scenario: Scenario) -> float:
        tables = frozen_tables(scenario.metadata.get("tables", {}))
        return overlap(clauses(sql, tables), clauses(str(scenario.answer), tables))


# ---------------------------------------------------------------- parsing


def _sqlglot() -> ModuleType:
    try:
        import sqlglot
        import sqlglot.optimizer.qualify
        import sqlglot.optimizer.scope
    except ImportError:
        raise ConfigurationError("rewards of SQL need sqlglot; pip install 'hocket[sql]'") from None
    return sqlglot


FrozenTables = tuple[tuple[str, tuple[str, ...]], ...]


def frozen_tables(tables: Tables) -> FrozenTables:
    """Columns by table as a value that can be remembered."""
    return tuple(sorted((name, tuple(columns)) for name, columns in tables.items()))


@lru_cache(maxsize=4096)
def parsed(sql: str) -> Any:
    """The syntax tree of one statement, never to be changed; None if it cannot be parsed."""
    sqlglot = _sqlglot()
    if len(sql) > _LONGEST:
        return None
    try:
        trees = sqlglot.parse(sql, dialect="sqlite")
    except (sqlglot.errors.SqlglotError, RecursionError):
        return None
    return trees[0] if len(trees) == 1 else None


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
    made_up = {str(alias.alias).lower() for alias in tree.find_all(sqlglot.exp.Alias)}
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


def ends_in_order(sql: str) -> bool:
    """Whether the outermost query has ORDER BY."""
    tree = parsed(sql)
    return tree is not None and tree.args.get("order") is not None
