"""Extracted methods: tests that are computed here, and the task."""

from __future__ import annotations

import ast

import hocket
from hocket.agents.tools.sandbox import Sandbox
from hocket.methods.agents.claims.extract_method_ppo import ASKED, CASES, SANDBOX, TESTS, _tests, _turn
from hocket.methods.agents.extract_method_ppo import ExtractMethod, parsed, passes, plain, program_in
from hocket.rewards.code_tests import CodeTests
from hocket.tasks.split import split_of
from hocket.types import Trajectory


def test_computed_tests_come_out_as_in_the_sandbox() -> None:
    here, apart = [], []
    beyond = {
        "def f(a,b):\n return sum([a, a, b])": True,
        "def f(a,b):\n for _ in range(2): b = b + a\n return b": True,
        "def f(a,b):\n while True: pass": False,
        "def f(a,b):\n c=f\n return 2*a+b": True,
        "def f(a,b):\n g=a\n return g(a)+a+b\ndef g(a):\n return a": False,
        "def f(a:int,b):\n return 2*a+b": True,
        "def f(a:number,b):\n return 2*a+b": False,
        "def f(a,b):\n def g(a):\n  return a\n return g(a)+a+b": True,
        "def f(a,b)->int:\n return 2*a+b": True,
        "import os\ndef f(a,b): return 2*a+b": True,
        "def f(a, b=1):\n return 2*a+b": True,
        "def f(*a):\n return 2*a[0]+a[1]": True,
        "f = lambda a, b: 2*a+b": True,
    }
    arithmetic = [
        *(program_in(text) for text in CASES if parsed(text) is not None and len(text) < 200),
        "def f(a,b):\n return f(a,b)",
        "def f(a,b):\n c=a\n return 2*c+b\n return 0",
        "def f(a,b):\n return 2*a+b\ndef f(a,b):\n return 7",
        "def f(a):\n return 2*a",
        "def f(a,b):\n return 2*a+b+c",
    ]
    tests = CodeTests(sandbox=Sandbox(cpu=1.0))
    for source in arithmetic:
        program = ast.parse(source)
        if plain(program):
            here.append(passes(program, source, TESTS, SANDBOX))
            verdict = tests.judge(f"```python\n{source}\n```", ASKED)
            assert verdict is not None
            apart.append(all(verdict.passed))
    told = [passes(ast.parse(source), source, TESTS, Sandbox(cpu=1.0)) for source in beyond]
    computed = [plain(ast.parse(source)) for source in beyond]
    holds = here == apart and len(here) >= 15 and told == list(beyond.values()) and not any(computed)
    assert holds


def test_the_task() -> None:
    task, clean, rates, wrong = ExtractMethod(), ExtractMethod(flaws=0.0), dict.fromkeys((1.0, 0.5, 0.2, 0.0), 0.0), 0
    for number in range(400):
        one = task.scenario("train", number)
        worth = task.verify(one.metadata["demonstration"], one)
        assert worth is not None
        rates[worth] += 1 / 400
        wrong += one.metadata["tests"] != _tests(one.metadata["function"])
        wrong += str(one.prompt) != f"Extract g:\n{one.metadata['function']}"
        wrong += split_of(one.metadata["function"]) != "train"
    unseen = [clean.scenario("eval", number) for number in range(40)]
    wrong += sum(clean.verify(one.metadata["demonstration"], one) != 1.0 for one in unseen)
    wrong += sum(split_of(one.metadata["function"]) != "eval" for one in unseen)
    # Of flaws that are drawn in turn the first counts.
    left, wanted = 1.0, {1.0: 0.8 * 0.85 * 0.8 * 0.9, 0.5: 0.2 + 0.8 * 0.15, 0.2: 0.8 * 0.85 * 0.2}
    wanted[0.0] = left - sum(wanted.values())
    near = all(abs(rates[worth] - rate) < 0.06 for worth, rate in wanted.items())
    try:
        said = str(ExtractMethod(flaws=2))
    except hocket.ConfigurationError as error:
        said = str(error)
    good = Trajectory(unseen[0], [_turn(unseen[0].metadata["demonstration"])])
    bad = Trajectory(unseen[0], [_turn(unseen[0].metadata["function"])])
    told = task.describe(bad) == {"parses": 1.0, "tests": 1.0, "extracted": 0.0}
    names = [one.name for one in (task, clean)] == ["extract-method", "extract-method?flaws=0"]
    holds = wrong == 0 and near and told and names and task.success(good) == 1.0 and task.success(bad) == 0.0
    assert holds
    assert "flaws lies in 0 to 1, not 2" in said
