"""Questions about small databases."""

from __future__ import annotations

import json
import re

import pytest

from hocket.agents.tools.sql import query
from hocket.agents.workflows.single import SingleTurn
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.agents.reasoning_sql.questions import LEVELS, draw_problem
from hocket.methods.agents.reasoning_sql.reward import brings_same
from hocket.tasks import find
from hocket.tasks.split import split_of
from hocket.testing import rehearse


@pytest.mark.parametrize("level", sorted(LEVELS))
def test_the_right_query_is_right_and_tells_something(level: int) -> None:
    task = find(f"sql?level={level}")
    for split in ("train", "eval"):
        for number in range(12):
            scenario = task.scenario(split, number)
            assert split_of(str(scenario.prompt)) == split
            assert task.verify(f"<answer>{scenario.answer}</answer>", scenario) == 1.0  # type: ignore[attr-defined]
            found = [query(script, scenario.answer).rows for script in scenario.metadata["databases"]]
            assert all(found)
            assert len(set(found)) == len(found)
            json.dumps(scenario.metadata)


def test_orders_are_clear() -> None:
    for number in range(150):
        problem = draw_problem(3, Key.of(number))
        if "ORDER BY" in problem.asked.sql:
            column = problem.asked.sql.split("ORDER BY ")[1].split()[0]
            table = problem.asked.sql.split("FROM ")[1].split()[0]
            for script in problem.databases:
                rows = query(script, f"SELECT {column} FROM {table}").rows
                assert len(set(rows)) == len(rows)


def test_every_form_of_its_level_is_asked() -> None:
    sql = [draw_problem(3, Key.of(number)).asked.sql for number in range(200)]
    for word in ("WHERE", " AND ", "COUNT(*)", "MAX(", "ORDER BY", "GROUP BY", "JOIN"):
        assert any(word in one for one in sql)
    assert not any("JOIN" in draw_problem(2, Key.of(number)).asked.sql for number in range(100))


def test_a_shorter_answer_that_happens_to_fit_one_database_is_wrong() -> None:
    task = find("sql?level=1")
    scenario = task.scenario("train", 0)
    values = query(scenario.metadata["databases"][0], scenario.answer).rows
    constant = " UNION ALL ".join(f"SELECT {row[0]!r}" for row in values)
    assert task.verify(f"<answer>{constant}</answer>", scenario) == 0.0  # type: ignore[attr-defined]


def test_neither_the_rows_of_the_shown_database_nor_their_ids_are_an_answer() -> None:
    """The tool shows the first database: a table of its rows, and its ids for them, are put to all."""
    tried = right = 0
    for number in range(150):
        problem = draw_problem(1 + number % 3, Key.of(number))
        found = re.match(r"SELECT (?:MAX|MIN)?\(?([\w.]+)\)? FROM (\w+)(?: WHERE| ORDER|$)", problem.asked.sql)
        if found is None:
            continue
        first, (column, table) = problem.databases[0], found.groups()
        wanted = [row[0] for row in query(first, problem.asked.sql).rows]
        ids = {value: key for key, value in query(first, f"SELECT id, {column} FROM {table}").rows}
        for sql in (
            " UNION ALL ".join(f"SELECT {value!r}" for value in wanted[:15]),
            " UNION ALL ".join(f"SELECT {column} FROM {table} WHERE id = {ids[value]}" for value in wanted[:15]),
        ):
            tried += 1
            right += brings_same(sql, problem.asked.sql, problem.databases)
    assert tried > 100
    assert right / tried < 0.01


def test_it_is_the_same_every_time_and_played_in_one_turn() -> None:
    task = find("sql?level=2&instruct=true")
    assert task.scenario("eval", 3) == find("sql?level=2&instruct=true").scenario("eval", 3)
    scenario = task.scenario("eval", 3)
    assert scenario.messages[0]["role"] == "system"
    (played,) = rehearse(SingleTurn(), scenario, [f"<think>hm</think><answer>{scenario.answer}</answer>"])
    assert task.success(played) == 1.0


def test_queries_may_be_tried_with_the_tool() -> None:
    task = find("sql?level=1&tool=true")
    scenario = task.scenario("train", 1)
    tried = json.dumps({"name": "sql", "arguments": {"query": scenario.answer}})
    replies = [f"<tool_call>{tried}</tool_call>", f"<answer>{scenario.answer}</answer>"]
    (played,) = rehearse(task.workflow, scenario, replies)  # type: ignore[attr-defined]
    shown = played.info["calls"][0]["result"]
    (first, *_) = query(scenario.metadata["databases"][0], scenario.answer).rows
    assert str(first[0]) in shown
    assert task.success(played) == 1.0


def test_unknown_levels_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="levels 1, 2, 3"):
        find("sql?level=9")
