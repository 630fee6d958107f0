"""Reasoning-SQL's claims."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cache
from statistics import fmean
from typing import Any

import numpy as np

from hocket.core.keys import Key
from hocket.core.signals import returns
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import SEEDS, Claims, Finding, below, gap, say
from hocket.lab.microscope import RecordedBatch
from hocket.lab.toys.instances import Instances
from hocket.lab.toys.recorded_answers import document
from hocket.lab.world import Answer
from hocket.methods.agents.reasoning_sql.method import REASONING_SQL, frozen_tables, ngrams, overlap, used
from hocket.methods.agents.reasoning_sql.questions import SqlProblem, draw_problem
from hocket.methods.agents.reasoning_sql.reward import ExecutionMatch
from hocket.recipe import Recipe
from hocket.rewards.judging import Answer as Said
from hocket.rewards.judging import Judge, Question
from hocket.train.aio import run_async
from hocket.types import Scenario, Trajectory, Turn

claim = Claims("reasoning-sql", "catalogue; the forms are chosen here")
WRAPPED = "<think>t</think><answer>{}</answer>"


@claim("hand cases give the expected overlaps")
def hand_cases_give_the_expected_overlaps() -> Finding:
    gold = "SELECT b.title FROM book AS b WHERE b.price > 3"
    tables = frozen_tables({"author": ["id", "name", "born"], "book": ["id", "title", "price", "author_id"]})
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
    overlaps = [(sql, overlap(used(sql, tables), used(gold, tables)), share) for sql, share in linked.items()]
    overlaps += [(sql, overlap(ngrams(sql, 2), ngrams(gold, 2)), share) for sql, share in paired.items()]
    wrong = [f"{sql!r} is {value:.3f}, not {share:.3f}" for sql, value, share in overlaps if abs(value - share) > 1e-12]
    return Finding(not wrong, say(cases_of_linking=len(linked), of_ngrams=len(paired), wrong="; ".join(wrong) or 0))


def problems(count: int) -> list[tuple[SqlProblem, Scenario]]:
    """Problems over random schemas, as scenarios."""
    drawn = []
    for number in range(count):
        problem = draw_problem(3, Key.of(0).derive("checks of sql", number))
        tables = {table.name: [column.name for column in table.columns] for table in problem.schema.tables}
        metadata = {"databases": list(problem.databases), "tables": tables}
        drawn.append((problem, Scenario(f"sql/{number}", problem.asked.text, problem.asked.sql, metadata=metadata)))
    return drawn


def rewrites(problem: SqlProblem) -> list[str]:
    """The same query in other words: aliases, flipped comparisons, another order of conditions and tables."""
    sql, schema = problem.asked.sql, problem.schema
    parent, child = schema.parent.name, schema.child.name
    before, where, condition = sql.partition(" WHERE ")
    lower = sql.lower() if "'" not in sql else sql
    texts = [lower, f"SELECT * FROM ({sql})", sql.replace("SELECT ", "SELECT\n\t") + ";"]
    if "JOIN" in sql:
        link, back = f"{child}.{schema.link} = {parent}.id", f"{parent}.id = {child}.{schema.link}"
        joined = f"{child} JOIN {parent} ON {link}"
        texts.append(sql.replace(joined, f"{parent} JOIN {child} ON {back}"))
        listed = sql.replace(joined, f"{parent} AS p, {child} AS c")
        listed = listed.replace(f"{child}.", "c.").replace(f"{parent}.", "p.")
        listed = listed.replace(" WHERE ", f" WHERE c.{schema.link} = p.id AND ")
        texts.append(listed if where else sql.replace(link, back))
    else:
        table = parent if f"FROM {parent}" in sql else child
        texts += [sql.replace(f"FROM {table}", f"FROM {table}{more}") for more in (" AS t", ", (SELECT 1 AS one)")]
    if where:
        # `a > 3` as `3 < a`, the last condition first.
        parts = [one.split(" ", 2) for one in reversed(condition.split(" AND "))]
        turned = " AND ".join(f"{right} {({'>': '<', '<': '>', '=': '='})[sign]} {left}" for left, sign, right in parts)
        texts.append(f"{before} WHERE {turned}")
    return [one for one in dict.fromkeys(texts) if one != sql]


@claim("alias and clause-order rewrites keep execution reward 1")
def alias_and_clause_order_rewrites_keep_execution_reward_1() -> Finding:
    graded = [(sql, one.answer, ExecutionMatch().grade(sql, one)) for p, one in problems(80) for sql in rewrites(p)]
    broken = [f"{sql!r} for {answer!r}" for sql, answer, grade in graded if grade != 1.0]
    return Finding(not broken, say(rewrites_of_80_queries=len(graded), broken="; ".join(broken[:2]) or 0))


def worth(scenario: Scenario, texts: Sequence[str], recipe: Recipe = REASONING_SQL) -> list[float]:
    """What the recipe pays for each answer to a scenario, before groups are compared."""
    zeros = np.zeros(1)
    turns = [Turn(agent="policy", policy="policy", observation=zeros, action=zeros, text=text) for text in texts]
    tried = [Trajectory(scenario, [turn]) for turn in turns]
    scores = {one.name: run_async(one(tried, key=Key.of(0))) for one in recipe.rewards}.items()
    rows = [
        {"group": scenario.id, "logp": [-1.0], "text": text, "scores": {k: float(v[n] or 0.0) for k, v in scores}}
        for n, text in enumerate(texts)
    ]
    weights = {one.name: one.weight for one in recipe.rewards}
    batch, _ = recipe.compute_credit(RecordedBatch(document(rows)).batch, recipe.init(), weights)
    return list(map(float, returns(batch)))


SHOP = "CREATE TABLE book (title TEXT, price INTEGER); INSERT INTO book VALUES ('Amber', 2), ('Basil', 5)"
DEAR = "SELECT b.title FROM book AS b WHERE b.price > 3"


@claim("what an answer is paid is the sum of its parts, by hand; a judge's grade stands in for the rule where it fails")
def what_an_answer_is_paid_is_the_sum_of_its_parts_by_hand_a_judges() -> Finding:
    class Grades(Judge):
        def ask(self, questions: Sequence[Question]) -> list[Said]:
            return [Said("7") for _ in questions]

    scenario = Scenario("s", "?", DEAR, metadata={"databases": [SHOP], "tables": {"book": ["title", "price"]}})
    texts = [WRAPPED.format(DEAR), WRAPPED.format("SELECT title FROM book"), "<answer>SELECT</answer>"]
    # Of 9 and 3 pairs of tokens one is the same; of three clauses two are, as of three names.
    shares = [(1.0, 1.0, 1.0, 1.0, 0.0, 1.0), (0.0, 2 / 3, 1 / 11, 1.0, 2 / 3, 1.0), (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)]
    due = [float(np.dot((4.5, 1.0, 1.0, 0.5, 1.0, 0.5), one)) for one in shares]
    ruled = worth(scenario, texts)
    graded = worth(scenario, texts, REASONING_SQL.but({"rewards.4.judge.judge": Grades("grades")}))
    judged = [due[0], due[1] - 2 / 3 + 0.7, 0.7]
    return below(1e-6, by_rule=gap(ruled, due), by_judge=gap(graded, judged))


OTHERS = [one.weight for one in REASONING_SQL.rewards[1:]]
REST = sum(OTHERS) + float(getattr(REASONING_SQL.shaping[0], "weight", 0))


@claim("with w_exec above the sum of the rest every correct query outscores every wrong one")
def with_w_exec_above_the_sum_of_the_rest_every_correct_query() -> Finding:
    known, leads, pairs = problems(10), [], 0
    for problem, scenario in known:
        sql = problem.asked.sql
        candidates = [sql, *rewrites(problem)]
        candidates += [other.asked.sql for other, _ in known] + [one.swapcase() for one in candidates]
        candidates += [sql.partition(part)[0] for part in (" WHERE ", " AND ", " ORDER ", " LIMIT ", " GROUP ")]
        candidates += ["", "SELECT", "SELECT 1"]
        texts = [form.format(one) for one in dict.fromkeys(candidates) for form in (WRAPPED, "<answer>{}</answer>")]
        paid: dict[bool, list[float]] = {True: [], False: []}
        for text, value in zip(texts, worth(scenario, texts), strict=True):
            paid[ExecutionMatch().verify(text, scenario) == 1.0].append(value)
        leads.append(min(paid[True]) - max(paid[False]))
        pairs += len(paid[True]) * len(paid[False])
    weight = REASONING_SQL.rewards[0].weight
    figures = say(weight_of_execution=weight, of_the_rest=REST, pairs=pairs, least_lead=min(leads))
    return Finding(min(leads) > 0 and weight > REST, figures)


@claim("with w_exec just below that sum there is a counterexample")
def with_w_exec_just_below_that_sum_there_is_a_counterexample() -> Finding:
    shop = "CREATE TABLE shop (id INTEGER, name TEXT, street TEXT); INSERT INTO shop VALUES (1, 'Elm', 'High')"
    metadata = {"databases": [shop], "tables": {"shop": ["id", "name", "street"]}}
    scenario = Scenario("shop", "?", "SELECT name FROM shop WHERE street = 'High'", metadata=metadata)
    # Right, but in a spelling of joins that SQLite knows and sqlglot does not, about no table, and without a thought.
    right = "<answer>SELECT 'Elm' FROM (SELECT 1) OUTER NATURAL LEFT JOIN (SELECT 1)</answer>"
    texts = [right, WRAPPED.format("SELECT name FROM shop WHERE street = 'high'")]
    # Just above and below the sum, and well above the largest other weight alone.
    weights = (REST + 0.01, REST - 0.01, max(OTHERS) + 0.5)
    paid = {one: worth(scenario, texts, REASONING_SQL.but({"rewards.0.weight": one})) for one in weights}
    figures = {f"execution {one:g}": f"right {good:.2f} wrong {bad:.2f}" for one, (good, bad) in paid.items()}
    return Finding([good > bad for good, bad in paid.values()] == [True, False, False], say(**figures))


# A query is one piece of each; 1024 in all, of which few are right.
GRAMMAR: tuple[tuple[str, ...], ...] = (
    ("SELECT title", "SELECT price", "SELECT pages", "SELECT COUNT(*)"),
    ("FROM book", "FROM author", "FROM shop", "FROM books"),
    ("WHERE price", "WHERE pages", "WHERE form", "WHERE title"),
    (">", "<", "=", "IS"),
    ("20", "300", "'novel'", "NULL"),
)
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
METADATA: dict[str, Any] = {"databases": [BOOKS], "tables": COLUMNS}


def query_of(answer: Answer) -> str:
    """The query that an answer spells."""
    return " ".join(pieces[token] for pieces, token in zip(GRAMMAR, answer, strict=False))


@cache
def right_answers(question: int) -> frozenset[Answer]:
    """The answers that bring the right rows."""
    scenario, every = Scenario("q", "?", ASKED[question], metadata=METADATA), itertools.product(range(4), repeat=5)
    return frozenset(answer for answer in every if ExecutionMatch().grade(query_of(answer), scenario) == 1.0)


# Queries from the grammar, one question per member of `ASKED`; nothing is known of where a piece stands best.
QUERIES = Instances(
    *(len(ASKED), 4, len(GRAMMAR), lambda question, answer: 0.0),
    correct=lambda question, answer: float(answer in right_answers(question)),
    text=lambda question, answer: WRAPPED.format(query_of(answer)),
    count=len(ASKED),
    about=lambda number: {"question": number, "answer": ASKED[number], **METADATA},
)


def learnt(recipe: Recipe) -> tuple[list[float], list[int]]:
    """By seed: the share of groups without signal in the first 70 of 140 steps, and the first step at 0.8 (or 141)."""
    benches = [Bench(QUERIES, recipe, seed=seed, steps=140, prompts=3).run(140, every=5) for seed in SEEDS]
    counts = [[fmean(one[f"groups/{k}"] for one in b.history[:70]) for k in ("with_signal", "total")] for b in benches]
    return [1 - some / all_ for some, all_ in counts], [bench.first(0.8) or 141 for bench in benches]


@claim("fewer zero-variance groups, and a fixed accuracy in fewer steps", slow=True)
def fewer_zero_variance_groups_and_a_fixed_accuracy_in_fewer_steps() -> Finding:
    partial, sooner = learnt(REASONING_SQL)
    bare, later = learnt(REASONING_SQL.but({"rewards": (REASONING_SQL.rewards[0],), "shaping": ()}))
    chance = " ".join(f"{len(right_answers(question)) / 4**5:.4f}" for question in range(3))
    idle = {"groups_without_variance": partial, "with_execution_alone": bare}
    steps = {"steps_to_accuracy_0.8": str(sooner), "with_execution_alone, 141 is never": str(later)}
    holds = max(partial) < min(bare) - 0.2 and max(sooner) < min(later)
    return Finding(holds, f"{say(chance_of_a_right_query=chance, **idle)}, {say(**steps)}")


REWARDED = ("execution", "linking", "ngrams", "syntax", "judge")

claim.spares("reasoning-sql: rewards.4.judge.rule.weight = 40.0", "what counts is the weight of the reward around it")
claim.spares("reasoning-sql: rewards.4.judge.rule.weight = 0.0", "what counts is the weight of the reward around it")
claim.spares("reasoning-sql: rewards.4.judge.weight = 40.0", "what counts is the weight of the reward around it")
claim.spares("reasoning-sql: rewards.4.judge.weight = 0.0", "what counts is the weight of the reward around it")
claim.spares("reasoning-sql: rewards.4.execution.weight = 40.0", "what counts is the weight of the reward around it")
claim.spares("reasoning-sql: rewards.4.execution.weight = 0.0", "what counts is the weight of the reward around it")
claim.shipped(
    REASONING_SQL,
    "rewards",
    first={"recipe": "sft", "steps": 80, "task": "lessons:sql"},
    settings={"curriculum.prompts": 8, "judge": "smollm2"},
    sees=lambda run: {name: run.mean(f"reward/{name}") for name in REWARDED} | {"asked": run.mean("judge/questions")},
)
