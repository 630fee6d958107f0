"""How good an SQL query is: does it bring the right rows, and if not, how near it comes.

The right query is the scenario's answer; `metadata["databases"]` are scripts that make the databases it is tried on,
and `metadata["tables"]` names the columns of each table. Parts of Reasoning-SQL (Pourreza et al., arXiv 2503.23157),
whose abstract names them; the forms are chosen here and stated with each.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any, ClassVar

from hocket.agents.tools.sql import QueryError, QueryResult, Value, query
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.rewards.opinions import Opinions
from hocket.rewards.verifiers import EXTRACTIONS, Extraction, check_extraction
from hocket.stages import Reward
from hocket.types import Scenario, Trajectory

_LONGEST = 4000


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
        check_extraction(self.extract)

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


def same_rows(one: QueryResult, other: QueryResult, *, ordered: bool) -> bool:
    """Whether two results hold the same rows equally often; in the same order if `ordered`."""
    if not (one.complete and other.complete):
        return False
    left, right = ([tuple(map(_plain, row)) for row in rows.rows] for rows in (one, other))
    return left == right if ordered else Counter(left) == Counter(right)


def _plain(value: Value) -> Value:
    return round(value, 6) if isinstance(value, float) else value


# ---------------------------------------------------------------- nearness


# ---------------------------------------------------------------- judged


# ---------------------------------------------------------------- parsing


def _sqlglot() -> ModuleType:
    try:
        import sqlglot
        import sqlglot.optimizer.qualify
        import sqlglot.optimizer.scope
    except ImportError:
        raise ConfigurationError("rewards of SQL need sqlglot; pip install 'hocket[sql]'") from None
    return sqlglot


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


def ends_in_order(sql: str) -> bool:
    """Whether the outermost query has ORDER BY."""
    tree = parsed(sql)
    return tree is not None and tree.args.get("order") is not None
