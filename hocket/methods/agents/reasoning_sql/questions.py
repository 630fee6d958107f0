"""Random schemas of two tables, data for them, and questions in words with the query that answers each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from hocket.agents.tools.sql import Value, query
from hocket.core.keys import Key

Cell = str | int
Rows = tuple[tuple[Value, ...], ...]
Sort = Literal["key", "name", "category", "number", "link"]


@dataclass(frozen=True)
class Column:
    """A column: its name, what it holds, and the words of a category or the bounds of a number."""

    name: str
    sort: Sort
    words: tuple[str, ...] = ()
    low: int = 0
    high: int = 0


@dataclass(frozen=True)
class SqlTable:
    """A table; `plural` is what its rows are called."""

    name: str
    plural: str
    columns: tuple[Column, ...]

    def of(self, *sorts: Sort) -> tuple[Column, ...]:
        """Its columns of these sorts."""
        return tuple(column for column in self.columns if column.sort in sorts)


def _kind(name: str, plural: str, called: str, names: str, categories: str, numbers: str) -> SqlTable:
    """`categories` as `country:Norway/Chile`, `numbers` as `price:1-99`, several with spaces between."""
    columns = [Column(called, "name", tuple(names.split()))]
    for part in categories.split():
        of, _, words = part.partition(":")
        columns.append(Column(of, "category", tuple(words.split("/"))))
    for part in numbers.split():
        of, _, bounds = part.partition(":")
        low, _, high = bounds.partition("-")
        columns.append(Column(of, "number", low=int(low), high=int(high)))
    return SqlTable(name, plural, tuple(columns))


_PEOPLE = "Ada Ben Cora Dan Eva Finn Gita Hugo Ines Jon Kira Leo Mara Nils Olga Paul Rosa Sven Tara Uwe Vera Will"
_PLACES = "Alba Brim Corso Delta Elm Fjord Gate Hill Isle Jetty Knoll Lake Mill North Orchard Pier Quay Ridge Spire"
_THINGS = "Amber Basil Cedar Daisy Ebony Fern Ginger Hazel Iris Juniper Kale Lotus Maple Nettle Olive Poppy Quince Rose"

PAIRS: tuple[tuple[SqlTable, SqlTable], ...] = (
    (
        _kind("author", "authors", "name", _PEOPLE, "country:Norway/Chile/Kenya/Japan", "born:1900-1990 prizes:0-20"),
        _kind(
            "book",
            "books",
            "title",
            _THINGS,
            "language:French/Greek/Thai form:novel/essay/poem",
            "price:5-60 pages:80-900",
        ),
    ),
    (
        _kind(
            "team", "teams", "name", _PLACES, "city:Oslo/Lima/Cairo league:first/second", "founded:1880-2000 wins:0-40"
        ),
        _kind("player", "players", "name", _PEOPLE, "place:keeper/back/wing foot:left/right", "age:17-40 goals:0-50"),
    ),
    (
        _kind(
            "shop", "shops", "name", _PLACES, "street:High/Low/Park owner:Kim/Lee/Roy", "staff:1-40 opened:1950-2020"
        ),
        _kind(
            "product",
            "products",
            "name",
            _THINGS,
            "colour:red/blue/green size:small/large",
            "price:1-99 stock:0-500 weight:1-60",
        ),
    ),
    (
        _kind(
            "school",
            "schools",
            "name",
            _PLACES,
            "town:Bonn/Turin/Lyon kind:public/private",
            "rooms:5-80 built:1850-2010",
        ),
        _kind("pupil", "pupils", "name", _PEOPLE, "club:chess/choir/drama house:east/west", "age:6-19 score:0-100"),
    ),
    (
        _kind(
            "museum", "museums", "name", _PLACES, "city:Rome/Delhi/Quito style:old/modern", "visits:100-999 fee:0-30"
        ),
        _kind(
            "picture",
            "pictures",
            "title",
            _THINGS,
            "material:oil/ink/chalk room:red/gold",
            "year:1500-2000 value:10-900",
        ),
    ),
)


@dataclass(frozen=True)
class Schema:
    """A table and another that points to it."""

    parent: SqlTable
    child: SqlTable

    @property
    def tables(self) -> tuple[SqlTable, SqlTable]:
        return self.parent, self.child

    @property
    def link(self) -> str:
        """The child's column that holds the parent's id."""
        return f"{self.parent.name}_id"

    @property
    def text(self) -> str:
        """As a prompt shows it, a table a line."""
        return "\n".join(f"{table.name}({', '.join(column.name for column in table.columns)})" for table in self.tables)


@dataclass(frozen=True)
class Asked:
    """A question and the query that answers it."""

    text: str
    sql: str


def draw_schema(rng: np.random.Generator) -> Schema:
    """One of `PAIRS` with some of its columns, in a drawn order."""
    parent, child = PAIRS[int(rng.integers(len(PAIRS)))]
    parent, child = _narrowed(parent, rng), _narrowed(child, rng)
    return Schema(parent, replace(child, columns=(*child.columns, Column(f"{parent.name}_id", "link"))))


def _narrowed(table: SqlTable, rng: np.random.Generator) -> SqlTable:
    kept = [*table.of("name"), *_some(table.of("category"), rng), *_some(table.of("number"), rng)]
    shuffled = [kept[place] for place in rng.permutation(len(kept)).tolist()]
    return replace(table, columns=(Column("id", "key"), *shuffled))


def _some(columns: Sequence[Column], rng: np.random.Generator) -> list[Column]:
    count = int(rng.integers(1, len(columns) + 1))
    return [columns[place] for place in sorted(rng.permutation(len(columns))[:count].tolist())]


# ---------------------------------------------------------------- data


def draw_database(schema: Schema, rng: np.random.Generator) -> str:
    """A script that makes the tables and fills them. Names and numbers differ within a column, so orders are clear."""
    parents, children = int(rng.integers(4, 7)), int(rng.integers(8, 13))
    lines = []
    for table, count in ((schema.parent, parents), (schema.child, children)):
        kinds = {"key": "INTEGER PRIMARY KEY", "number": "INTEGER", "link": "INTEGER"}
        columns = ", ".join(f"{column.name} {kinds.get(column.sort, 'TEXT')}" for column in table.columns)
        lines.append(f"CREATE TABLE {table.name} ({columns});")
        filled = [_values(column, count, parents, rng) for column in table.columns]
        rows = ", ".join(f"({', '.join(map(_literal, row))})" for row in zip(*filled, strict=True))
        lines.append(f"INSERT INTO {table.name} VALUES {rows};")
    return "\n".join(lines)


def _values(column: Column, count: int, parents: int, rng: np.random.Generator) -> list[Cell]:
    if column.sort == "key":
        return list(range(1, count + 1))
    if column.sort == "link":
        return [1 + int(number) for number in rng.integers(parents, size=count)]
    if column.sort == "category":
        return [column.words[int(number)] for number in rng.integers(len(column.words), size=count)]
    if column.sort == "name":
        return [column.words[place] for place in rng.permutation(len(column.words))[:count].tolist()]
    return [column.low + place for place in rng.permutation(column.high - column.low + 1)[:count].tolist()]


def _literal(value: Cell) -> str:
    return str(value) if isinstance(value, int) else f"'{value}'"


# ---------------------------------------------------------------- questions

Form = Callable[[Schema, np.random.Generator], Asked]


def _one(columns: Sequence[Column], rng: np.random.Generator) -> Column:
    return columns[int(rng.integers(len(columns)))]


def _side(schema: Schema, rng: np.random.Generator) -> SqlTable:
    return schema.tables[int(rng.integers(2))]


def _condition(table: SqlTable, rng: np.random.Generator, prefix: str = "") -> tuple[str, str]:
    """A condition in words and in SQL."""
    column = _one(table.of("category", "number"), rng)
    if column.sort == "category":
        word = column.words[int(rng.integers(len(column.words)))]
        return f"{column.name} is {word}", f"{prefix}{column.name} = '{word}'"
    bound = int(rng.integers(column.low + 1, column.high))
    words, sign = (("above", ">"), ("below", "<"))[int(rng.integers(2))]
    return f"{column.name} is {words} {bound}", f"{prefix}{column.name} {sign} {bound}"


def listed(schema: Schema, rng: np.random.Generator) -> Asked:
    """A column of the rows that meet a condition."""
    table = _side(schema, rng)
    shown, (words, sql) = _one(table.of("name", "category", "number"), rng), _condition(table, rng)
    return Asked(
        f"What is the {shown.name} of all {table.plural} whose {words}?",
        f"SELECT {shown.name} FROM {table.name} WHERE {sql}",
    )


def narrowed(schema: Schema, rng: np.random.Generator) -> Asked:
    """A column of the rows that meet two conditions."""
    table = _side(schema, rng)
    name = table.of("name")[0]
    (first, one), (second, other) = _condition(table, rng), _condition(table, rng)
    return Asked(
        f"What is the {name.name} of all {table.plural} whose {first} and whose {second}?",
        f"SELECT {name.name} FROM {table.name} WHERE {one} AND {other}",
    )


def counted(schema: Schema, rng: np.random.Generator) -> Asked:
    """How many rows meet a condition."""
    table = _side(schema, rng)
    words, sql = _condition(table, rng)
    return Asked(f"How many {table.plural} are there whose {words}?", f"SELECT COUNT(*) FROM {table.name} WHERE {sql}")


def summed_up(schema: Schema, rng: np.random.Generator) -> Asked:
    """One number of a column of numbers."""
    table = _side(schema, rng)
    column = _one(table.of("number"), rng)
    words, call = (("highest", "MAX"), ("lowest", "MIN"), ("average", "AVG"), ("total", "SUM"))[int(rng.integers(4))]
    return Asked(
        f"What is the {words} {column.name} of all {table.plural}?", f"SELECT {call}({column.name}) FROM {table.name}"
    )


def ranked(schema: Schema, rng: np.random.Generator) -> Asked:
    """Names in the order of a number, all or the first few."""
    table = _side(schema, rng)
    name, number = table.of("name")[0], _one(table.of("number"), rng)
    words, way = (("highest", " DESC"), ("lowest", ""))[int(rng.integers(2))]
    count = int(rng.integers(0, 4))
    which, limit = (f"the {count} {table.plural}", f" LIMIT {count}") if count > 1 else (f"all {table.plural}", "")
    return Asked(
        f"What is the {name.name} of {which}, in order of {number.name}, {words} first?",
        f"SELECT {name.name} FROM {table.name} ORDER BY {number.name}{way}{limit}",
    )


def grouped(schema: Schema, rng: np.random.Generator) -> Asked:
    """How many rows, or which number of them, for each word of a category."""
    table = _side(schema, rng)
    by, number = _one(table.of("category"), rng), _one(table.of("number"), rng)
    words, sql = (
        (f"how many {table.plural} are there", "COUNT(*)"),
        (f"what is the highest {number.name}", f"MAX({number.name})"),
        (f"what is the average {number.name}", f"AVG({number.name})"),
    )[int(rng.integers(3))]
    return Asked(
        f"For each {by.name} of {table.plural}, {words}?",
        f"SELECT {by.name}, {sql} FROM {table.name} GROUP BY {by.name}",
    )


def joined(schema: Schema, rng: np.random.Generator) -> Asked:
    """A column of the children of parents that meet a condition."""
    parent, child = schema.tables
    shown, (words, sql) = _one(child.of("name", "category", "number"), rng), _condition(parent, rng, f"{parent.name}.")
    return Asked(
        f"What is the {shown.name} of all {child.plural} of {parent.plural} whose {words}?",
        f"SELECT {child.name}.{shown.name} FROM {_joined(schema)} WHERE {sql}",
    )


def joined_groups(schema: Schema, rng: np.random.Generator) -> Asked:
    """How many children, or which number of them, each parent that has any has."""
    parent, child = schema.tables
    name, number = parent.of("name")[0], _one(child.of("number"), rng)
    words, sql = (
        (f"how many {child.plural} are there", "COUNT(*)"),
        (f"what is the total {number.name} of its {child.plural}", f"SUM({child.name}.{number.name})"),
    )[int(rng.integers(2))]
    return Asked(
        f"For the {name.name} of each {parent.name} with {child.plural}, {words}?",
        f"SELECT {parent.name}.{name.name}, {sql} FROM {_joined(schema)} GROUP BY {parent.name}.id",
    )


def _joined(schema: Schema) -> str:
    parent, child = schema.tables
    return f"{child.name} JOIN {parent.name} ON {child.name}.{schema.link} = {parent.name}.id"


LEVELS: Mapping[int, tuple[Form, ...]] = {
    1: (listed, counted),
    2: (listed, narrowed, counted, summed_up, ranked, grouped),
    3: (listed, narrowed, counted, summed_up, ranked, grouped, joined, joined_groups),
}
"""Forms of questions by level: conditions; then numbers, orders and groups; then two tables."""

DATABASES, HELD = 2, 2
"""Databases of a problem, and further ones, so that neither the rows of the first nor their ids are an answer."""

TRIES = 30
"""Draws of the further ones."""


@dataclass(frozen=True)
class SqlProblem:
    """A question about a schema, and the databases that its query must be right on."""

    schema: Schema
    asked: Asked
    databases: tuple[str, ...]


def draw_problem(level: int, key: Key) -> SqlProblem:
    """A problem whose answer tells something: in every database some rows come, and others than in the others."""
    rng = key.numpy()
    while True:
        schema = draw_schema(rng)
        asked = LEVELS[level][int(rng.integers(len(LEVELS[level])))](schema, rng)
        databases = tuple(draw_database(schema, rng) for _ in range(DATABASES))
        answers = [query(script, asked.sql).rows for script in databases]
        if len(set(answers)) == DATABASES and all(_tells(rows) for rows in answers):
            return SqlProblem(schema, asked, (*databases, *_further(schema, asked, answers, rng)))


def _further(schema: Schema, asked: Asked, answers: Sequence[Rows], rng: np.random.Generator) -> list[str]:
    """Databases in which the answer has rows, and others than those known, in whatever order.

    Fewer than `HELD` where the answer has hardly any others.
    """
    found, known = list[str](), [Counter(rows) for rows in answers]
    for _ in range(TRIES):
        script = draw_database(schema, rng)
        rows = query(script, asked.sql).rows
        if _tells(rows) and Counter(rows) not in known:
            found.append(script)
            known.append(Counter(rows))
        if len(found) == HELD:
            break
    return found


def _tells(rows: Sequence[Sequence[Value]]) -> bool:
    return bool(rows) and not any(value in (None, 0) for value in rows[0])
