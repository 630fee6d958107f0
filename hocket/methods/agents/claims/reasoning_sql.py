"""What reasoning-sql claims."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from functools import cache
from statistics import fmean
from typing import Any

import numpy as np

from hocket.core.keys import Key
from hocket.core.signals import returns
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.microscope import Reading
from hocket.lab.toys.rewarded import SEEDS, document
from hocket.lab.toys.toys import Instances
from hocket.lab.world import Answer
from hocket.methods.agents.reasoning_sql import REASONING_SQL, frozen_tables, ngrams, overlap, used
from hocket.recipe import Recipe
from hocket.rewards.sql import ExecutionMatch
from hocket.tasks.sql_questions import Problem, draw_problem
from hocket.types import Scenario, Trajectory, Turn

claim = Claims("reasoning-sql", "catalogue; the forms are chosen here")


TABLES = {"author": ["id", "name", "born"], "book": ["id", "title", "price", "author_id"]}
WRAPPED = "<think>t</think><answer>{}</answer>"


@claim("hand cases give the expected overlaps")
def overlaps_by_hand() -> Finding:
    """Hand cases give the expected overlaps."""
    gold = "SELECT b.title FROM book AS b WHERE b.price > 3"
    tables, wrong = frozen_tables(TABLES), []
    # Of the right query: book, book.title, book.price; and select b.title from book as b where b.price > 3: 9 pairs.
    linked = {
        "select title from book where 3 < price": 3 / 3,
        "SELECT title FROM book": 2 / 3,
        "SELECT * FROM book": 3 / 5,
        "SELECT x.price FROM book x JOIN author a ON a.id = x.author_id": 2 / 6,
        "SELECT name FROM author": 0 / 5,
        "SELECT title FROM (SELECT title FROM book WHERE price > 3)": 3 / 3,
        "SELECT": 0.0,
    }
    paired = {
        "select b.title from book as b where b.price > 3": 9 / 9,
        "SELECT b.title FROM book AS b WHERE b.price > 4": 8 / 10,
        "SELECT b.title FROM book": 3 / 9,
        "SELECT name FROM author": 0 / 12,
    }
    for sql, wanted in linked.items():
        found = overlap(used(sql, tables), used(gold, tables))
        if abs(found - wanted) > 1e-12:
            wrong.append(f"linking of {sql!r} is {found:.3f}, not {wanted:.3f}")
    for sql, wanted in paired.items():
        found = overlap(ngrams(sql, 2), ngrams(gold, 2))
        if abs(found - wanted) > 1e-12:
            wrong.append(f"n-grams of {sql!r} are {found:.3f}, not {wanted:.3f}")
    return Finding(not wrong, "; ".join(wrong) or f"{len(linked)} cases of linking and {len(paired)} of n-grams")


def problems(count: int) -> list[tuple[Problem, Scenario]]:
    """Problems over random schemas, as scenarios."""
    found = []
    for number in range(count):
        problem = draw_problem(3, Key.of(0).derive("checks of sql", number))
        tables = {table.name: [column.name for column in table.columns] for table in problem.schema.tables}
        metadata = {"databases": list(problem.databases), "tables": tables}
        found.append((problem, Scenario(f"sql/{number}", problem.asked.text, problem.asked.sql, metadata=metadata)))
    return found


def rewrites(problem: Problem) -> list[str]:
    """The same query in other words: aliases, flipped comparisons, another order of conditions and tables."""
    sql, schema = problem.asked.sql, problem.schema
    parent, child = schema.parent.name, schema.child.name
    found = [
        sql.lower() if "'" not in sql else sql,
        f"SELECT * FROM ({sql})",
        sql.replace("SELECT ", "SELECT\n\t") + ";",
    ]
    if "JOIN" in sql:
        link = f"{child}.{schema.link} = {parent}.id"
        turned = f"{parent} JOIN {child} ON {parent}.id = {child}.{schema.link}"
        found.append(sql.replace(f"{child} JOIN {parent} ON {link}", turned))
        found.append(
            sql.replace(f"{child} JOIN {parent} ON {link}", f"{parent} AS p, {child} AS c")
            .replace(f"{child}.", "c.")
            .replace(f"{parent}.", "p.")
            .replace(" WHERE ", f" WHERE c.{schema.link} = p.id AND ")
            if " WHERE " in sql
            else sql.replace(f"{child}.{schema.link} = {parent}.id", f"{parent}.id = {child}.{schema.link}")
        )
    else:
        table = parent if f"FROM {parent}" in sql else child
        found.append(sql.replace(f"FROM {table}", f"FROM {table} AS t"))
        found.append(sql.replace(f"FROM {table}", f"FROM {table}, (SELECT 1 AS one)"))
    if " WHERE " in sql:
        before, _, condition = sql.partition(" WHERE ")
        parts = condition.split(" AND ")
        found.append(f"{before} WHERE {' AND '.join(map(flipped, reversed(parts)))}")
    return [one for one in dict.fromkeys(found) if one != sql]


def flipped(condition: str) -> str:
    """`a > 3` as `3 < a`."""
    left, sign, right = condition.split(" ", 2)
    return f"{right} {({'>': '<', '<': '>', '=': '='})[sign]} {left}"


@claim("alias and clause-order rewrites keep execution reward 1")
def rewrites_keep_execution() -> Finding:
    """Alias and clause-order rewrites keep execution 1."""
    reward, count, broken = ExecutionMatch(), 0, []
    for problem, scenario in problems(80):
        for sql in rewrites(problem):
            count += 1
            if reward.grade(sql, scenario) != 1.0:
                broken.append(f"{sql!r} for {scenario.answer!r}")
    return Finding(not broken, "; ".join(broken[:2]) or f"{count} rewrites of 80 queries over random schemas")


def said(scenario: Scenario, text: str) -> Trajectory:
    """One attempt that says `text`."""
    zeros = np.zeros(1)
    return Trajectory(scenario, [Turn(agent="policy", policy="policy", observation=zeros, action=zeros, text=text)])


def worth(scenario: Scenario, texts: Sequence[str], recipe: Recipe = REASONING_SQL) -> list[float]:
    """What the recipe pays for each answer to a scenario, before groups are compared."""
    played = [said(scenario, text) for text in texts]

    async def scored() -> dict[str, Sequence[float | None]]:
        return {one.name: await one(played, key=Key.of(0)) for one in recipe.rewards}

    scores = asyncio.run(scored())
    rows = [
        {
            "group": scenario.id,
            "logp": [-1.0],
            "text": text,
            "scores": {name: float(values[number] or 0.0) for name, values in scores.items()},
        }
        for number, text in enumerate(texts)
    ]
    weights = {one.name: one.weight for one in recipe.rewards}
    batch, _ = recipe.assess(Reading(document(rows)).batch, recipe.init(), weights)
    return [float(value) for value in returns(batch)]


def weighted(execution: float) -> Recipe:
    """The recipe with another weight of execution."""
    first: Any = REASONING_SQL.rewards[0]
    assert isinstance(first, ExecutionMatch)
    return REASONING_SQL.but({"rewards.0.weight": execution})


def rest() -> float:
    """The sum of all other weights."""
    return sum(one.weight for one in REASONING_SQL.rewards[1:]) + float(getattr(REASONING_SQL.shaping[0], "weight", 0))


@claim("with w_exec above the sum of the rest every correct query outscores every wrong one")
def right_outscores_wrong() -> Finding:
    """With w_exec above the sum of the rest, every correct query outscores every wrong one."""
    known, smallest, pairs = problems(10), float("inf"), 0
    for problem, scenario in known:
        answers = [problem.asked.sql, *rewrites(problem)]
        others = [other.asked.sql for other, _ in known] + [sql.swapcase() for sql in answers]
        others += [
            problem.asked.sql.partition(part)[0] for part in (" WHERE ", " AND ", " ORDER ", " LIMIT ", " GROUP ")
        ]
        candidates = [*answers, *others, "", "SELECT", "SELECT 1"]
        texts = [form.format(sql) for sql in dict.fromkeys(candidates) for form in (WRAPPED, "<answer>{}</answer>")]
        right = [ExecutionMatch().verify(text, scenario) == 1.0 for text in texts]
        value = worth(scenario, texts)
        good = [v for v, ok in zip(value, right, strict=True) if ok]
        bad = [v for v, ok in zip(value, right, strict=True) if not ok]
        smallest = min(smallest, min(good) - max(bad))
        pairs += len(good) * len(bad)
    weight = REASONING_SQL.rewards[0].weight
    return Finding(
        smallest > 0 and weight > rest(),
        f"execution {weight:g} against {rest():g} in all: over {pairs} pairs the smallest lead is {smallest:.2f}",
    )


SHOP = "CREATE TABLE shop (id INTEGER, name TEXT, street TEXT); INSERT INTO shop VALUES (1, 'Elm', 'High')"


@claim("with w_exec just below that sum there is a counterexample")
def below_the_sum() -> Finding:
    """With w_exec just below that sum there is a counterexample."""
    scenario = Scenario(
        "shop",
        "?",
        "SELECT name FROM shop WHERE street = 'High'",
        metadata={"databases": [SHOP], "tables": {"shop": ["id", "name", "street"]}},
    )
    # Right, but in a spelling of joins that SQLite knows and sqlglot does not, about no table, and without a thought.
    right = "<answer>SELECT 'Elm' FROM (SELECT 1) OUTER NATURAL LEFT JOIN (SELECT 1)</answer>"
    wrong = WRAPPED.format("SELECT name FROM shop WHERE street = 'high'")
    saw, order = [], []
    for weight in (rest() + 0.01, rest() - 0.01):
        good, bad = worth(scenario, [right, wrong], weighted(weight))
        order.append(good > bad)
        saw.append(f"execution {weight:g}: right {good:.2f}, wrong {bad:.2f}")
    largest = max(one.weight for one in REASONING_SQL.rewards[1:])
    good, bad = worth(scenario, [right, wrong], weighted(largest + 0.5))
    saw.append(f"above the largest other weight alone, {largest + 0.5:g}: right {good:.2f}, wrong {bad:.2f}")
    return Finding(order == [True, False] and good < bad, "; ".join(saw))


GRAMMAR: tuple[tuple[str, ...], ...] = (
    ("SELECT title", "SELECT price", "SELECT pages", "SELECT COUNT(*)"),
    ("FROM book", "FROM author", "FROM shop", "FROM books"),
    ("WHERE price", "WHERE pages", "WHERE form", "WHERE title"),
    (">", "<", "=", "IS"),
    ("20", "300", "'novel'", "NULL"),
)
"""A query is one piece of each; 1024 in all, of which few are right."""


ASKED = (
    "SELECT title FROM book WHERE price > 20",
    "SELECT COUNT(*) FROM book WHERE form = 'novel'",
    "SELECT price FROM book WHERE pages < 300",
)
BOOKS = """CREATE TABLE book (id INTEGER, title TEXT, price INTEGER, pages INTEGER, form TEXT);
INSERT INTO book VALUES (1, 'Amber', 12, 300, 'novel'), (2, 'Basil', 25, 120, 'essay'), (3, 'Cedar', 41, 310, 'novel'),
(4, 'Daisy', 20, 450, 'poem'), (5, 'Ebony', 33, 90, 'novel');
CREATE TABLE author (id INTEGER, name TEXT, born INTEGER); INSERT INTO author VALUES (1, 'Ada', 1950);"""


COLUMNS = {"book": ["id", "title", "price", "pages", "form"], "author": ["id", "name", "born"]}


def query_of(answer: Answer) -> str:
    """The query that an answer spells."""
    return " ".join(pieces[token] for pieces, token in zip(GRAMMAR, answer, strict=False))


@cache
def right_answers(question: int) -> frozenset[Answer]:
    """The answers that bring the right rows."""
    scenario = about_scenario(question)
    every = itertools.product(range(4), repeat=len(GRAMMAR))
    return frozenset(answer for answer in every if ExecutionMatch().grade(query_of(answer), scenario) == 1.0)


def about_scenario(question: int) -> Scenario:
    """One of `ASKED` as a scenario."""
    return Scenario("q", "?", ASKED[question], metadata={"databases": [BOOKS], "tables": COLUMNS})


def grammar_world() -> Instances:
    """Queries from the grammar, one question per member of `ASKED`; nothing is known of where a piece stands best."""
    return Instances(
        questions=len(ASKED),
        tokens=4,
        horizon=len(GRAMMAR),
        reward=lambda question, answer: 0.0,
        correct=lambda question, answer: float(answer in right_answers(question)),
        context="prefix",
        text=lambda question, answer: WRAPPED.format(query_of(answer)),
        count=len(ASKED),
        about=lambda number: {"question": number, "answer": ASKED[number], **about_scenario(number).metadata},
    )


STEPS, TARGET = 140, 0.8


def learnt(recipe: Recipe) -> tuple[list[float], list[int]]:
    """By seed: the share of groups with signal over the first half, and the first step at the target (or beyond)."""
    signal, first = [], []
    for seed in SEEDS:
        bench = Bench(grammar_world(), recipe, seed=seed, steps=STEPS, prompts=len(ASKED))
        bench.run(STEPS, every=5)
        early = bench.history[: STEPS // 2]
        signal.append(
            fmean(step["groups/with_signal"] for step in early) / fmean(step["groups/total"] for step in early)
        )
        first.append(bench.first(TARGET) or STEPS + 1)
    return signal, first


@claim("fewer zero-variance groups, and a fixed accuracy in fewer steps", slow=True)
def learns_sooner() -> Finding:
    """Fewer zero-variance groups than with execution alone, and a fixed accuracy in fewer steps."""
    alone = REASONING_SQL.but({"rewards": (REASONING_SQL.rewards[0],), "shaping": ()})
    partial, sooner = learnt(REASONING_SQL)
    bare, later = learnt(alone)
    share = [len(right_answers(question)) / 4 ** len(GRAMMAR) for question in range(len(ASKED))]
    chance = ", ".join(f"{one:.4f}" for one in share)
    return Finding(
        min(partial) > max(bare) + 0.2 and max(sooner) < min(later),
        f"5 seeds, chance of a right query {chance}: groups without variance {1 - fmean(partial):.2f} against "
        f"{1 - fmean(bare):.2f} with execution alone in the first {STEPS // 2} steps; steps to accuracy {TARGET}: "
        f"{sooner} against {['never' if step > STEPS else step for step in later]} of {STEPS}",
    )
