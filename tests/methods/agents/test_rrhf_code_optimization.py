"""Ranked programs: the tests of the task, its candidates and what it reads."""

from __future__ import annotations

import ast
from collections.abc import Mapping

import numpy as np

from hocket import tasks
from hocket.core.keys import Key
from hocket.lab.claims.claim import Finding
from hocket.methods.agents.rrhf_code_optimization import POINTS, CheaperPrograms, compiled, value
from hocket.tasks.split import split_of
from hocket.types import Scenario, Trajectory, Turn


def polynomial(program: ast.expr) -> Mapping[int, int]:
    """Coefficients by power, expanded without evaluating at points."""
    if isinstance(program, ast.Constant):
        return {0: program.value} if program.value else {}  # type: ignore[dict-item]
    if isinstance(program, ast.Name):
        return {1: 1}
    found: dict[int, int] = {}
    if isinstance(program, ast.UnaryOp):
        found = {power: -factor for power, factor in polynomial(program.operand).items()}
    elif isinstance(program, ast.BinOp):
        left, right = polynomial(program.left), polynomial(program.right)
        if isinstance(program.op, ast.Mult):
            for one, first in left.items():
                for other, second in right.items():
                    found[one + other] = found.get(one + other, 0) + first * second
        else:
            sign = -1 if isinstance(program.op, ast.Sub) else 1
            found = {power: left.get(power, 0) + sign * right.get(power, 0) for power in {*left, *right}}
    return {power: factor for power, factor in found.items() if factor}


def written(key: Key, depth: int) -> str:
    """A random program."""
    rng = key.numpy()
    if depth == 0 or rng.random() < 0.2:
        return "x" if rng.random() < 0.5 else str(int(rng.integers(0, 4)))
    parts = [written(key.derive(side), depth - 1) for side in ("left", "right")]
    return f"({parts[0]}{rng.choice(['+', '-', '*'])}{parts[1]})" if rng.random() < 0.9 else f"(-{parts[0]})"


def test_two_programs_pass_each_others_tests_if_they_are_one_polynomial() -> None:
    programs = [compiled(written(Key.of(number), 2)) for number in range(90)]
    same = agreed = 0
    for one in programs:
        for other in programs:
            assert one is not None
            assert other is not None
            equal = polynomial(one) == polynomial(other)
            agreed += equal == all(value(one, x) == value(other, x) for x in POINTS)
            same += equal
    assert agreed == len(programs) ** 2
    assert 100 < same < agreed / 2


def test_the_candidates_are_five_of_falling_worth() -> None:
    task, found = tasks.find("cheaper-programs"), set()
    for number in range(60):
        scenario = task.scenario("train", number)
        scores = scenario.metadata["scores"]
        best = scenario.metadata["responses"][scores.index(max(scores))]
        found.add(tuple(round(one, 3) for one in sorted(scores)))
        if best != f"<answer>{scenario.answer}</answer>":
            return Finding(False, f"{scenario.answer} is not the best")
    shaped = all(one[:3] == (-1.0, 0.0, 1.0) and 1 < one[3] < one[4] for one in found)
    orders = {tuple(task.scenario("train", number).metadata["scores"]) for number in range(60)}
    assert shaped
    assert len(orders) > 20
    return None


def test_candidates_are_written_both_ways() -> None:
    task = tasks.find("cheaper-programs?terms=3")
    off, halves, broken = set[tuple[int, int]](), set[bool](), set[bool]()
    for number in range(80):
        scenario = task.scenario("eval", number)
        ranked = sorted(zip(scenario.metadata["scores"], scenario.metadata["responses"], strict=True))
        said = [text.removeprefix("<answer>").removesuffix("</answer>") for _, text in ranked]
        wrong, slow = (polynomial(program) for one in said[1:3] if (program := compiled(one)) is not None)
        off |= {(power, by) for power in (0, 1) if (by := wrong.get(power, 0) - slow.get(power, 0))}
        halves.add(said[3].count("x") == 1)
        broken.add(said[0].endswith("+"))
        if split_of(scenario.metadata["slow"]) != "eval":
            return Finding(False, scenario.metadata["slow"])
    both = halves == broken == {True, False}
    named = task.name == "cheaper-programs?terms=3" and tasks.find("cheaper-programs").name == "cheaper-programs"
    assert both
    assert named
    assert off == {(power, by) for power in (0, 1) for by in (-2, -1, 1, 2)}
    return None


def test_the_task_reads_what_stands_between_answer_tags() -> None:
    task = CheaperPrograms()
    wanted = {
        "<answer>7*x+7</answer>": (1.6, 1.0, 1.0, 0.6, 1.0),
        "<answer>3*x+4*x+2+5</answer>": (1.0, 1.0, 1.0, 0.0, 0.0),
        "<answer>3*x+4*x+2+5+0</answer>": (0.8, 1.0, 1.0, 0.0, 0.0),
        "<answer>8*x+7</answer>": (0.0, 1.0, 0.0, 0.0, 0.0),
        "<answer>7x+7</answer>": (-1.0, 0.0, 0.0, 0.0, 0.0),
        "7*x+7": (-1.0, 0.0, 0.0, 0.0, 0.0),
    }
    off, none = [0.0], np.zeros(1, np.int64)
    for text, figures in wanted.items():
        scenario = Scenario("s", "Fewer operations", "7*x+7", {"slow": "3*x+4*x+2+5"})
        one = Trajectory(scenario, [Turn("policy", "policy", none, none, text=text)])
        told = task.describe(one)
        found = (task.verify(text, scenario), told["compiles"], told["same"], told["saved"], task.success(one))
        off += [abs(mine - theirs) for mine, theirs in zip(found, figures, strict=True)]
    assert max(off) < 1e-12
