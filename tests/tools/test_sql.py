"""The read-only SQL tool: what it gives, and what it withstands."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from hocket.agents.tools.sql import Caps, QueryError, ReadOnlySql, database, query
from hocket.core.errors import ConfigurationError

SCRIPT = """CREATE TABLE book (id INTEGER PRIMARY KEY, title TEXT, price INTEGER);
INSERT INTO book VALUES (1, 'Amber', 12), (2, 'Basil', NULL), (3, 'Cedar', 41);"""


def test_rows_and_columns() -> None:
    found = query(SCRIPT, "SELECT title, price AS cost FROM book ORDER BY id;")
    assert found.columns == ("title", "cost")
    assert found.rows == (("Amber", 12), ("Basil", None), ("Cedar", 41))
    assert found.complete


def test_joins_groups_windows_and_common_tables() -> None:
    for sql, rows in (
        ("SELECT COUNT(*), MAX(price), ROUND(AVG(price), 1) FROM book", ((3, 41, 26.5),)),
        ("WITH b AS (SELECT * FROM book WHERE price > 20) SELECT UPPER(title) FROM b", (("CEDAR",),)),
        ("SELECT title, ROW_NUMBER() OVER (ORDER BY id DESC) FROM book LIMIT 1", (("Cedar", 1),)),
        ("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4) SELECT SUM(i) FROM n", ((10,),)),
        ("SELECT a.title FROM book a JOIN book b ON a.id = b.id + 2", (("Cedar",),)),
        ("SELECT name FROM sqlite_master", (("book",),)),
    ):
        assert query(SCRIPT, sql).rows == rows


WRITES = [
    "INSERT INTO book VALUES (9, 'x', 1)",
    "UPDATE book SET price = 0",
    "DELETE FROM book",
    "DROP TABLE book",
    "CREATE TABLE t (a)",
    "CREATE TEMP TABLE t (a)",
    "CREATE VIEW v AS SELECT 1",
    "CREATE VIRTUAL TABLE t USING fts5(a)",
    "ALTER TABLE book RENAME TO b",
    "REPLACE INTO book VALUES (1, 'x', 1)",
    "WITH x AS (SELECT 1) DELETE FROM book",
    "VACUUM",
    "REINDEX",
    "ANALYZE",
    "BEGIN",
    "COMMIT",
    "SAVEPOINT s",
]
OUTSIDE = [
    "ATTACH DATABASE '{folder}/x.db' AS x",
    "ATTACH ':memory:' AS x",
    "VACUUM INTO '{folder}/x.db'",
    "PRAGMA table_info(book)",
    "PRAGMA journal_mode = WAL",
    "PRAGMA temp_store_directory = '{folder}'",
    "SELECT * FROM pragma_table_info('book')",
    "SELECT * FROM pragma_database_list",
    "SELECT load_extension('{folder}/x.so')",
    "SELECT readfile('/etc/passwd')",
    "SELECT writefile('{folder}/x', 'x')",
    "SELECT random()",
    "SELECT date('now')",
    "SELECT datetime()",
    "SELECT sqlite_version()",
    "SELECT changes()",
]
BOMBS = [
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) FROM n",
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n ORDER BY i DESC",
    "SELECT COUNT(*) FROM " + ", ".join(f"book b{n}" for n in range(12)),
    "WITH RECURSIVE n(s) AS (SELECT 'xxxxxxxx' UNION ALL SELECT s || s FROM n) SELECT LENGTH(s) FROM n",
    "SELECT printf('%.*c', 100000000, 'x')",
    "SELECT format('%100000000d', 1)",
    "SELECT zeroblob(1000000000)",
    "SELECT hex(randomblob(100000000))",
    "SELECT " + "(" * 1500 + "1" + ")" * 1500,
    "SELECT 1" + " UNION ALL SELECT 1" * 200,
    "SELECT " + "+".join(["1"] * 2000),
    "SELECT " + ", ".join(["1"] * 1000),
    "SELECT 'a' LIKE '" + "%a" * 200 + "'",
    "SELECT '" + "x" * 100_000 + "'",
]
NO_QUERY = [
    "",
    " ",
    ";",
    "-- nothing",
    "SELECT 1; SELECT 2",
    "selec 1",
    "SELECT nope FROM book",
    "SELECT 1 \0",
    "\ud800",
]


@pytest.mark.parametrize("sql", [*WRITES, *OUTSIDE, *BOMBS, *NO_QUERY])
def test_anything_but_a_modest_read_is_refused(sql: str, tmp_path: Path) -> None:
    before = query(SCRIPT, "SELECT * FROM book")
    started = time.perf_counter()
    with pytest.raises(QueryError):
        query(SCRIPT, sql.replace("{folder}", str(tmp_path)))
    assert time.perf_counter() - started < 5
    assert list(tmp_path.iterdir()) == []
    assert query(SCRIPT, "SELECT * FROM book") == before


def test_the_budget_of_steps_is_the_same_everywhere() -> None:
    counting = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {}) SELECT COUNT(*) FROM n"

    def works(rows: int) -> bool:
        try:
            return query(SCRIPT, counting.format(rows)).rows == ((rows,),)
        except QueryError:
            return False

    most = max(rows for rows in range(1000, 40_000, 1000) if works(rows))
    assert 1000 < most < 39_000
    assert [works(most), works(most + 1000)] == [True, False]
    with pytest.raises(QueryError, match="takes too long"):
        query(SCRIPT, counting.format(most + 1000))
    assert query(SCRIPT, "SELECT 1", Caps(steps=1000)).rows == ((1,),)


def test_rows_are_capped() -> None:
    counting = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 50) SELECT i FROM n"
    found = query(SCRIPT, counting, Caps(rows=10))
    assert (len(found.rows), found.complete) == (10, False)
    assert query(SCRIPT, counting, Caps(rows=50)).complete


def test_a_broken_script_is_a_mistake_of_the_task() -> None:
    with pytest.raises(ConfigurationError, match="does not run"):
        database("CREATE TABLE (")
    with pytest.raises(ConfigurationError, match="above 0"):
        Caps(rows=0)


def test_the_tool_answers_in_text() -> None:
    tool = ReadOnlySql(SCRIPT)
    answer = asyncio.run(tool({"query": "SELECT title, price FROM book"}))
    assert answer == "title | price\nAmber | 12\nBasil | null\nCedar | 41"
    assert tool.schema["function"]["name"] == tool.name


def test_the_tool_tells_what_is_wrong_and_cuts_what_is_long() -> None:
    tool = ReadOnlySql(SCRIPT, Caps(rows=2), most=60)
    assert asyncio.run(tool({"query": "DELETE FROM book"})) == "error: only reading is allowed, with common functions"
    assert asyncio.run(tool({})) == "error: sql needs a query"
    assert asyncio.run(tool({"query": "SELECT title FROM book"})).endswith("(more than 2 rows)")
    assert len(asyncio.run(tool({"query": "SELECT replace(title, 'A', '" + "x" * 300 + "') FROM book"}))) == 60
