"""Rewards of queries: what runs, what is near, what is paid in sum."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_cases import Scripted

from hocket.agents.tools.sql import QueryResult
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.agents.claims.reasoning_sql import DEAR, problems
from hocket.methods.agents.reasoning_sql.method import (
    REASONING_SQL,
    ClauseMatch,
    JudgeFailures,
    NgramOverlap,
    SchemaLinking,
    ValidSyntax,
    clauses,
    frozen_tables,
    ngrams,
    overlap,
    used,
)
from hocket.methods.agents.reasoning_sql.reward import ExecutionMatch, ends_in_order, parsed, same_rows
from hocket.rewards.judge import NoisyJudge
from hocket.train.judges import with_judge
from hocket.types import Scenario, Trajectory, Turn

TABLES = {"author": ["id", "name", "born"], "book": ["id", "title", "price", "author_id"]}
FROZEN = frozen_tables(TABLES)
SCRIPT = """CREATE TABLE author (id INTEGER, name TEXT, born INTEGER);
INSERT INTO author VALUES (1, 'Ada', 1950), (2, 'Ben', 1960);
CREATE TABLE book (id INTEGER, title TEXT, price INTEGER, author_id INTEGER);
INSERT INTO book VALUES (1, 'Amber', 12, 1), (2, 'Basil', 30, 1), (3, 'Cedar', 41, 2), (4, 'Amber', 9, 2);"""


def scenario(gold: str, *scripts: str) -> Scenario:
    return Scenario("s", "?", gold, metadata={"databases": list(scripts or (SCRIPT,)), "tables": TABLES})


def graded(reward: object, sql: str, gold: str) -> float | None:
    return reward.verify(f"<answer>{sql}</answer>", scenario(gold))  # type: ignore[attr-defined, no-any-return]


# ---------------------------------------------------------------- execution


@pytest.mark.parametrize(
    ("sql", "gold", "right"),
    [
        ("SELECT title FROM book", "SELECT title FROM book", 1.0),
        ("SELECT title FROM book ORDER BY price", "SELECT title FROM book", 1.0),
        ("SELECT DISTINCT title FROM book", "SELECT title FROM book", 0.0),
        ("SELECT title AS t FROM book b WHERE 20 < b.price", "SELECT title FROM book WHERE price > 20", 1.0),
        ("SELECT title, price FROM book", "SELECT price, title FROM book", 0.0),
        ("SELECT title FROM book ORDER BY price", "SELECT title FROM book ORDER BY price DESC", 0.0),
        ("SELECT title FROM book", "SELECT title FROM book ORDER BY price", 0.0),
        ("SELECT title FROM book ORDER BY 0 - price", "SELECT title FROM book ORDER BY price DESC", 1.0),
        ("SELECT SUM(price) / 4.0 FROM book", "SELECT AVG(price) FROM book", 1.0),
        ("SELECT COUNT(*) * 1.0 FROM book", "SELECT COUNT(*) FROM book", 1.0),
        ("SELECT '4' FROM book LIMIT 1", "SELECT COUNT(*) FROM book", 0.0),
        ("DELETE FROM book", "SELECT title FROM book", 0.0),
        ("SELECT nope", "SELECT title FROM book", 0.0),
    ],
)
def test_execution(sql: str, gold: str, right: float) -> None:
    assert graded(ExecutionMatch(), sql, gold) == right


def test_a_query_must_be_right_in_every_database() -> None:
    other = SCRIPT.replace("'Cedar', 41", "'Cedar', 5")
    lucky = "SELECT title FROM book WHERE id IN (2, 3)"
    gold = "SELECT title FROM book WHERE price > 20"
    assert ExecutionMatch().grade(lucky, scenario(gold, SCRIPT)) == 1.0
    assert ExecutionMatch().grade(lucky, scenario(gold, SCRIPT, other)) == 0.0


def test_results_that_were_cut_are_never_the_same() -> None:
    rows = QueryResult(("a",), ((1,),))
    assert same_rows(rows, rows, ordered=True)
    assert not same_rows(QueryResult(("a",), ((1,),), False), rows, ordered=False)


def test_no_opinion_without_a_database_and_0_without_a_query() -> None:
    known = scenario("SELECT 1")
    for reward in (ExecutionMatch(), SchemaLinking(), NgramOverlap(), ValidSyntax(), ClauseMatch()):
        assert reward.verify("<answer>SELECT 1</answer>", Scenario("s", "?", "SELECT 1")) is None
        assert reward.verify("SELECT 1", known) == 0.0
        assert reward.verify("<answer> </answer>", known) == 0.0
    assert ExecutionMatch(extract="last-line").verify("so:\nSELECT 1", known) == 1.0
    with pytest.raises(ConfigurationError):
        ExecutionMatch(extract="nowhere")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError):
        NgramOverlap(n=0)


# ---------------------------------------------------------------- nearness


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT b.title FROM book AS b", {"book", "book.title"}),
        ("SELECT title, born FROM book, author", {"book", "author", "book.title", "author.born"}),
        ("SELECT * FROM author", {"author", "author.id", "author.name", "author.born"}),
        ("SELECT COUNT(*) AS n FROM book GROUP BY author_id ORDER BY n", {"book", "book.author_id"}),
        ("WITH x AS (SELECT price AS p FROM book) SELECT p FROM x", {"book", "book.price"}),
        (
            "SELECT name FROM author a WHERE EXISTS (SELECT 1 FROM book WHERE author_id = a.id)",
            {"author", "author.name", "author.id", "book", "book.author_id"},
        ),
        ("SELECT 1", set()),
        ("SELECT FROM WHERE", set()),
        ("SELECT title FROM book; SELECT 1", set()),
    ],
)
def test_tables_and_columns_used(sql: str, expected: set[str]) -> None:
    assert used(sql, FROZEN) == expected


def test_clauses_are_spelt_alike() -> None:
    one = "SELECT b.title FROM book AS b WHERE b.price > 3 ORDER BY b.price"
    other = "select TITLE from BOOK where book.price > 3 order by price"
    assert clauses(one, FROZEN) == clauses(other, FROZEN)
    assert len(clauses(one, FROZEN)) == 4
    assert graded(ClauseMatch(), "SELECT title FROM book WHERE price > 4 ORDER BY price", one) == pytest.approx(3 / 5)


def test_ngrams() -> None:
    assert ngrams("SELECT  a FROM b ;", 2) == {("select", "a"), ("a", "from"), ("from", "b")}
    assert ngrams("SELECT", 2) == {("select",)}
    assert ngrams("", 2) == frozenset()
    assert ngrams("x >= 'a b'", 1) == {("x",), (">=",), ("'a b'",)}


@given(st.frozensets(st.integers(0, 6)), st.frozensets(st.integers(0, 6)))
def test_overlap(one: frozenset[int], other: frozenset[int]) -> None:
    value = overlap(one, other)
    assert value == overlap(other, one)
    assert 0 <= value <= 1
    assert (value == 1) == (one == other)


@given(st.text(alphabet="SELCTFROMWH abc(),.*'\"=<>1;-", max_size=60))
def test_nothing_that_is_said_raises(text: str) -> None:
    known = scenario("SELECT title FROM book WHERE price > 3")
    for reward in (ExecutionMatch(), SchemaLinking(), NgramOverlap(), ValidSyntax(), ClauseMatch()):
        value = reward.verify(f"<answer>{text}</answer>", known)
        assert value is not None
        assert 0 <= value <= 1


@pytest.mark.parametrize("sql", ["(" * 3000, "SELECT " + "(" * 1500 + "1" + ")" * 1500, "a" * 10**6, "\0", "'" * 999])
def test_long_and_deep_queries_earn_nothing(sql: str) -> None:
    known = scenario("SELECT title FROM book")
    for reward in (ExecutionMatch(), SchemaLinking(), ValidSyntax(), ClauseMatch()):
        assert reward.grade(sql, known) == 0.0


def test_right_queries_earn_everything() -> None:
    for _, known in problems(20):
        for reward in (ExecutionMatch(), SchemaLinking(), NgramOverlap(), ValidSyntax(), ClauseMatch()):
            assert reward.verify(f"<answer>{known.answer}</answer>", known) == 1.0


def test_syntax_takes_parsing_and_running() -> None:
    gold = "SELECT title FROM book"
    assert graded(ValidSyntax(), "SELECT price FROM book", gold) == 1.0
    assert graded(ValidSyntax(), "SELECT price FROM shop", gold) == 0.0
    assert graded(ValidSyntax(), "SELECT 'x' FROM (SELECT 1) OUTER NATURAL LEFT JOIN (SELECT 1)", gold) == 0.0
    assert parsed("SELECT 1") is not None
    assert ends_in_order("SELECT 1 FROM (SELECT 2 ORDER BY 1)") is False


# ---------------------------------------------------------------- judged


def said(scenario: Scenario, text: str) -> Trajectory:
    """One attempt that says `text`."""
    zeros = np.zeros(1)
    return Trajectory(scenario, [Turn(agent="policy", policy="policy", observation=zeros, action=zeros, text=text)])


def test_the_judge_is_asked_about_failures_alone() -> None:
    known = scenario("SELECT title FROM book WHERE price > 20")
    texts = ["SELECT title FROM book WHERE price > 20", "SELECT title FROM book", "nonsense"]
    played = [said(known, f"<answer>{sql}</answer>") for sql in texts]
    played.append(said(Scenario("other"), "<answer>1</answer>"))
    seen: list[int] = []

    class Spy(NoisyJudge):
        async def __call__(self, trajectories, *, key):  # type: ignore[no-untyped-def]
            seen.append(len(trajectories))
            return [0.7] * len(trajectories)

    found = asyncio.run(JudgeFailures(Spy(of=ExecutionMatch()))(played, key=Key.of(0)))
    assert found == [0.0, 0.7, 0.7, None]
    assert seen == [2]
    ruled = asyncio.run(JudgeFailures(ClauseMatch())(played, key=Key.of(0)))
    assert ruled == [0.0, pytest.approx(2 / 3), 0.0, None]
    assert asyncio.run(JudgeFailures(ClauseMatch())(played[:1], key=Key.of(0))) == [0.0]
    assert JudgeFailures(ClauseMatch()).outside is False


def test_a_judge_grades_failing_queries_alone() -> None:
    gold = "SELECT title FROM book WHERE price > 20"
    texts = [gold, "SELECT title FROM book", "SELECT"]
    played = [
        Trajectory(
            scenario(gold),
            [Turn("a", "a", np.zeros(1, np.int64), np.zeros(1, np.int64), text=f"<answer>{sql}</answer>")],
        )
        for sql in texts
    ]
    judge = Scripted(lambda prompt: "6/10" if "FROM book</answer>" in prompt else "I cannot say")
    reward = with_judge(REASONING_SQL, judge).rewards[4]
    assert asyncio.run(reward(played, key=Key.of(0))) == [0.0, 0.6, None]
    assert len(judge.asked) == 2
    assert all(gold in question.prompt for question in judge.asked)


def test_a_column_that_no_table_has_counts_as_used() -> None:
    tables = frozen_tables({"book": ["title", "price"]})
    due = {
        DEAR: {"book", "book.title", "book.price"},
        "SELECT gold FROM book": {"book", "gold"},
        "SELECT title, gold AS g FROM book ORDER BY gold": {"book", "book.title", "gold"},
        "SELECT title FROM book WHERE Gold > 3": {"book", "book.title", "gold"},
        "SELECT price AS p FROM book ORDER BY p": {"book", "book.price"},
        "SELECT price FROM book ORDER BY price": {"book", "book.price"},
        "SELECT z.title FROM book": {"book"},
        "SELECT title FROM book WHERE z.price > 3": {"book", "book.title"},
        "SELECT": set(),
    }
    wrong = [sql for sql, names in due.items() if used(sql, tables) != names]
    pieces = {("expressions", "book.title"), ("from_", "from book"), ("where", "where book.price > 3")}
    same = clauses(DEAR, tables) == pieces and overlap(frozenset(), frozenset()) == 1.0
    assert not wrong
    assert same
