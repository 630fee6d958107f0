"""RRHF for cheaper programs: rank candidates by tests and cost, imitate the best (Duan et al., arXiv:2312.05657).

Candidates of each slow program are scored by whether they compile, whether they pass its tests, and how fast they are.
RRHF (Yuan et al., arXiv:2304.05302) wants the mean log-probs of a program's candidates in the order of their scores:
the hinge of `hocket.objectives.links` without a margin, beside the cross-entropy of the best candidate
(`BestLikelihood`). There is no critic, no reference and no ratio, and of the scores only their order is read.

Programs here are expressions in x with `+`, `-` and `*`. What they cost is the number of operations, so that a score
is the same on every machine, and a test compares values at fixed points (`CheaperPrograms`).
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch

from hocket.core.batch import Batch, GroupBy
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.options import checked
from hocket.core.signals import returns
from hocket.credit.pairs import AllPairs, members_by_group
from hocket.methods.base.conventions import COMMON
from hocket.objectives.likelihood import NegativeLogLikelihood
from hocket.objectives.links import Hinge
from hocket.objectives.measures import Likelihood
from hocket.objectives.preference import Pairwise
from hocket.recipe import Recipe
from hocket.rollout.demonstrations import Ranked
from hocket.stages import Split
from hocket.tasks.arithmetic import tagged_answer
from hocket.tasks.form import TaskForm
from hocket.tasks.split import split_of
from hocket.tasks.text import TextTask, check_number
from hocket.types import Evaluation, Scenario, Terms, Trajectory

POINTS = (-7, -2, 0, 1, 3, 11)
"""Where two programs are compared: the unit tests."""

LONGEST = 200
"""Characters of a program; longer ones do not compile."""

STEPS = 240
"""Training steps: the shipped model writes no program at first, and after 40 still none."""

BROKEN, WRONG, SAME = -1.0, 0.0, 1.0
"""Scores of what does not compile, computes another function, and computes the same at the same cost."""

_SIGNS: Mapping[type[ast.operator], int] = {ast.Add: 0, ast.Sub: 1, ast.Mult: 2}


def compiled(text: str) -> ast.expr | None:
    """The expression that a program is; None for what is none: only x, integers, `+`, `-` and `*` may occur."""
    if len(text) > LONGEST:
        return None
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    return tree if all(_allowed(node) for node in ast.walk(tree)) else None


def _allowed(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return type(node.value) is int
    if isinstance(node, ast.Name):
        return node.id == "x"
    return isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Add, ast.Sub, ast.Mult, ast.USub, ast.Load))


def operations(program: ast.expr) -> int:
    """What a program costs: its operations, a sign included."""
    return sum(isinstance(node, (ast.BinOp, ast.UnaryOp)) for node in ast.walk(program))


def value(program: ast.expr, x: int) -> int:
    """What it computes."""
    if isinstance(program, ast.Constant):
        assert isinstance(program.value, int)  # `compiled` lets no other pass.
        return program.value
    if isinstance(program, ast.UnaryOp):
        return -value(program.operand, x)
    if isinstance(program, ast.BinOp):
        left, right = value(program.left, x), value(program.right, x)
        return (left + right, left - right, left * right)[_SIGNS[type(program.op)]]
    return x


def score(text: str, slow: str) -> float:
    """What a candidate is worth in place of `slow`: see `BROKEN`; the same function earns the share of cost saved too.

    `1 + (c(slow) - c(candidate)) / c(slow)`, c the operations; below 1 for a candidate that costs more.
    """
    program, given = compiled(text), compiled(slow)
    assert given is not None
    if program is None:
        return BROKEN
    if any(value(program, x) != value(given, x) for x in POINTS):
        return WRONG
    cost = operations(given)
    return max(SAME / 2, SAME + (cost - operations(program)) / cost)


# ---------------------------------------------------------------- what is asked


class CheaperPrograms(TextTask):
    """Sums of multiples of x and of numbers, to be written with fewer operations between answer tags.

    A scenario's metadata hold `slow`, the program as it is; five candidates (`responses`) and their `scores`: one with
    as few operations as can be, one half simplified, the slow one, one that computes something else, and one that does
    not compile, in an order drawn. The answer is the first of these. The reward is `score`.

    Args:
        terms: multiples of x, and as many numbers.
    """

    def __init__(self, terms: int = 2) -> None:
        if not 2 <= terms <= 4:
            raise ConfigurationError(f"task cheaper-programs: terms must lie in 2 to 4, not {terms}")
        self.name = "cheaper-programs" + (f"?terms={terms}" if terms != 2 else "")
        self.terms = terms

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        rng = Key.of(0).derive("cheaper-programs", self.terms, split, number).numpy()
        slow, said = self._drawn(rng)
        while split_of(slow) != split:
            slow, said = self._drawn(rng)
        scores = [score(program, slow) for program in said]
        told = {
            "slow": slow,
            "responses": [f"<answer>{program}</answer>" for program in said],
            "scores": scores,
        }
        best = said[scores.index(max(scores))]
        prompt = f"Fewer operations: {slow}"
        return Scenario(f"{self.name}/{split}/{number}", prompt, best, told, seed=number)

    def _drawn(self, rng: np.random.Generator) -> tuple[str, list[str]]:
        """A program and its candidates."""
        factors, numbers = rng.integers(1, 10, size=(2, self.terms)).tolist()
        written, rest = [f"{factor}*x" for factor in factors], [str(number) for number in numbers]
        whole, total = f"{sum(factors)}*x", str(sum(numbers))
        off = int(rng.choice([-2, -1, 1, 2]))
        said = [
            f"{whole}+{total}",
            "+".join([whole, *rest] if rng.random() < 0.5 else [*written, total]),
            "+".join([*written, *rest]),
            f"{sum(factors) + off}*x+{total}" if rng.random() < 0.5 else f"{whole}+{sum(numbers) + off}",
            f"{whole}+" if rng.random() < 0.5 else f"{sum(factors)}x+{total}",
        ]
        return said[2], [said[place] for place in rng.permutation(len(said)).tolist()]

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "steps": STEPS, "decoding.max_tokens": 48}

    def verify(self, text: str, scenario: Scenario) -> float:
        return score(tagged_answer(text) or "", scenario.metadata["slow"])

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """`compiles`; `same`: the same function is computed; `saved`: the share of operations it does without."""
        worth = self.verify(trajectory.answer, trajectory.scenario)
        same = worth > WRONG
        return {
            "compiles": float(worth > BROKEN),
            "same": float(same),
            "saved": max(0.0, worth - SAME) if same else 0.0,
        }

    def success(self, trajectory: Trajectory) -> float:
        """1 for a program that computes the same with fewer operations."""
        return float(self.verify(trajectory.answer, trajectory.scenario) > SAME)


def from_settings(name: str, settings: Mapping[str, str]) -> CheaperPrograms:
    """The task with these settings."""
    return CheaperPrograms(**checked(name, settings, {"terms": int}))


CHEAPER_PROGRAMS = TaskForm(
    name="cheaper-programs",
    description="small programs to be written with fewer operations, with ranked candidates, e.g. ?terms=2",
    make=from_settings,
)


# ---------------------------------------------------------------- how it is learnt


@dataclass(frozen=True)
class BestLikelihood(NegativeLogLikelihood):
    """Minimises -log pi(a) of the best candidate of each scenario alone; of equals the first counts.

    A scenario whose candidates are all worth the same has no best one.
    """

    compares_pairs: ClassVar[bool] = True

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        seen, worth = batch.occurrences, returns(batch)
        lists = members_by_group(batch, GroupBy("scenario"))
        best = [max(members, key=lambda place: float(worth[place])) for members in lists]
        best = [one for one, members in zip(best, lists, strict=True) if bool((worth[members] < worth[one]).any())]
        kept = torch.isin(seen.trajectory, torch.tensor(best, dtype=torch.long)).to(seen.weight.dtype)
        alone = replace(seen, weight=seen.weight * kept, pairs=None)
        return super().__call__(now, batch.but(occurrences=alone))


RRHF_CODE_OPTIMIZATION = Recipe(
    name="rrhf-code-optimization",
    title="RRHF on programs ranked by tests and cost",
    source="Duan et al., arXiv:2312.05657; the loss of Yuan et al., arXiv:2304.05302, equations 2 to 4",
    family="agents",
    catalogue_ids=("rrhf-code-optimization",),
    axes=("objective", "reward"),
    formula="L = mean_lists sum_{r_i < r_j} max(0, p_i - p_j) - sum_t log pi(y_best,t),  p = mean_t log pi(y_t)",
    conventions={
        **COMMON,
        "aggregation": "objective.coefficient = 10 times the mean over pairs, which for five candidates without ties "
        "is the paper's sum over a list's pairs",
        "imitation": "of the best candidate, of equals the first; sum over its decisions, mean over lists, as in the "
        "RRHF paper. Its code has the mean over decisions and a hundred times the ranking",
        "order": "strict: equal scores make no pair",
        "ranking": "what it costs hangs on the coefficient. One run each of the shipped base, functions kept and "
        "unseen pairs told right: with imitation averaged over tokens, 250 steps, 99.9% and 59% at 0, 97% and 84% at "
        "1, 2% and 77% at 10; as shipped, imitation summed, 90% and 81% after 224",
        "score": "-1 for what does not compile, 0 for another function, else 1 and the share of operations saved; the "
        "paper's is tests passed and speed-up",
        "cost": "operations in place of seconds, so that scores are the same everywhere",
        "candidates": "recorded ones of the task; of the policy's own samples with rollout = independent",
        "reference": "none; neither a KL nor a ratio",
    },
    task="cheaper-programs",
    rollout=Ranked(),
    credit=AllPairs(),
    objective=Pairwise(
        beta=1.0, margin=-1.0, coefficient=10.0, link=Hinge(), measure=Likelihood(length_normalised=True)
    ),
    regularisers=(BestLikelihood(aggregate="sequence-sum"),),
)
