"""PM4GRPO's claims."""

from __future__ import annotations

import contextlib
import importlib
import io
from dataclasses import replace
from statistics import fmean
from typing import Any

from hocket.lab.bench import Bench
from hocket.lab.claims.harness import Claims, Finding, each, gap, runs, say
from hocket.lab.toys.recorded_answers import lines, said, shaped
from hocket.lab.world import Answer, World
from hocket.methods.base.gspo import GSPO
from hocket.methods.group_relative.pm4grpo import PM4GRPO, activities, conformance, harmonic_mean

claim = Claims("pm4grpo", "PM4GRPO, arXiv:2510.25065, released checker")


def of(policy: str, teacher: str) -> float:
    """The conformance of two traces of one-letter activities."""
    return harmonic_mean(*conformance(tuple(policy), tuple(teacher)))


def own_words(policy: str, teacher: str) -> tuple[float, float]:
    """Fitness and precision by pm4py's simplified interface on data frames."""
    import pm4py

    pandas: Any = importlib.import_module("pandas")

    def log(trace: str) -> Any:
        times = pandas.date_range("2020-01-01", periods=len(trace), freq="s")
        names = ("case:concept:name", "concept:name", "time:timestamp")
        return pandas.DataFrame(dict(zip(names, (["1"] * len(trace), list(trace), times), strict=True)))

    with contextlib.redirect_stderr(io.StringIO()):
        net = pm4py.discover_petri_net_inductive(log(policy))
        fitness = pm4py.fitness_alignments(log(teacher), *net)["log_fitness"]
        return float(fitness), float(pm4py.precision_alignments(log(teacher), *net))


@claim("equal traces give 1, disjoint ones 0, as pm4py counts", slow=True)
def equal_traces_give_1_disjoint_ones_0_as_pm4py_counts() -> Finding:
    equal = [("abcd", "abcd"), ("a", "a"), ("badc", "badc")]
    pairs = [*equal, ("abc", "xyz"), ("abcd", "acbd"), ("axbcd", "abcd"), ("abcbcd", "abcd")]
    off = max(gap(conformance(tuple(p), tuple(q)), own_words(p, q)) for p, q in pairs)
    same, none = [of(*pair) for pair in equal], of("abc", "xyz")
    thought = "We are asked for a sum. Add 3 and 4, it makes 7. Let me check it. "
    trace = activities(thought)
    row = said("q", f"<think>{thought}</think><answer>7</answer>", 1.0, info={"teacher": trace})
    (reward,) = shaped(PM4GRPO, [row])
    holds = off < 1e-9 and same == [1.0] * 3 and none == 0.0 and trace == ("restate", "derive", "check") and reward == 3
    labels = f"a text labelled {', '.join(trace)} with the same teacher earns 1 + 1 + 1 = {reward:.3f}"
    return Finding(holds, lines(difference_to_pm4py=off, equal_traces=same, disjoint=none) + f"; {labels}")


@claim("repeats and leading activities: the measure's pitfalls", "measured here")
def repeats_and_leading_activities_the_measures_pitfalls() -> Finding:
    itself = of("abcbcd", "abcbcd")
    to_abcd = {trace: of(trace, "abcd") for trace in ("xabcd", "axbcd", "abcbcd", "abcdd")}
    leading, *rising = to_abcd.values()
    holds = abs(itself - 0.857) < 1e-3 and leading == 0.0 and rising[0] < rising[1] < rising[2]
    return Finding(holds, say(abcbcd_against_itself=itself) + f"; against abcd {say(**to_abcd)} ({rising[-1]:.5f})")


SENTENCES = (
    *("we are asked for the total", "add 3 and 4", "check it once more", "therefore it is 7", "therefore it is 9"),
    *("hm, wait", "let me see", "this is fine", "no matter"),
)
TEACHER = ("restate", "derive", "check", "conclude")


def spoken(answer: Answer) -> str:
    return ". ".join(SENTENCES[token] for token in answer)


PROCEDURE = World(
    # Restate, derive, check, conclude: right if all four sentences stand in this order, the right conclusion last.
    *(1, len(SENTENCES), 4, lambda question, answer: float(answer == (0, 1, 2, 3))),
    context="last",
    text=lambda question, answer: f"<think>{spoken(answer)}</think><answer>7</answer>",
    metadata=lambda question: {"teacher": TEACHER},
)


def ordered(question: int, answer: Answer) -> float:
    """Whether all four activities stand in the teacher's order."""
    trace = iter(activities(spoken(answer)))
    return float(all(name in trace for name in TEACHER))


@claim("adherence and accuracy above outcome only, not with a shuffled teacher", slow=True)
def adherence_and_accuracy_above_outcome_only_not_with_a_shuffled() -> Finding:
    other = replace(PROCEDURE, metadata=lambda question: {"teacher": ("conclude", "check", "restate", "derive")})
    taught, outcome = (recipe.but({"rollout.samples": 16}) for recipe in (PM4GRPO, GSPO))
    made = runs(PROCEDURE, taught.but(name="taught"), outcome.but(name="outcome"), steps=75, lr=0.1)
    made |= runs(other, taught.but(name="shuffled"), steps=75, lr=0.1)
    keeps, right = each(made, lambda bench: bench.expected(ordered)), each(made, Bench.success)
    holds = all(fmean(of["taught"]) > fmean(of["outcome"]) + 0.4 for of in (keeps, right))
    holds &= all(max(of["shuffled"]) <= max(of["outcome"]) + 0.01 for of in (keeps, right))
    return Finding(holds, f"adherence {lines(**keeps)}; accuracy {lines(**right)}")


@claim("conformance is 2 f q / (f + q) of fitness and precision, 0 of two zeros, and 0 where either trace is empty")
def conformance_is_2_f_q_of_fitness_and_precision_0_of_two_zeros() -> Finding:
    means = [harmonic_mean(*pair) for pair in ((0.5, 1.0), (0.75, 0.25), (1.0, 0.0), (0.0, 1.0), (0.0, 0.0))]
    empty = [conformance(*pair) for pair in (((), ("a",)), (("a",), ()), ((), ()))]
    off = gap(means, [2 / 3, 0.375, 0.0, 0.0, 0.0])
    return Finding(off < 1e-15 and empty == [(0.0, 0.0)] * 3, say(off_by_hand=off, of_an_empty_trace=str(empty)))


@claim("as shipped form, answer and conformance count 1 each, and rules of one's own name what theirs do not")
def as_shipped_form_answer_and_conformance_count_1_each_and_rules() -> Finding:
    thought = "We are asked for a sum. Add 3 and 4. Check it."
    texts = (f"<think>{thought}</think><answer>7</answer>", f"{thought}<answer>7</answer>", "<think></think>", None)
    rows = [said("q", "", float(n == 0), info={"teacher": ("restate", "derive", "check")}) for n in range(4)]
    rows = [{**row, "text": text} for row, text in zip(rows, texts, strict=True)]
    untaught = [{**row, "info": {"teacher": None}} for row in rows]
    own = PM4GRPO.but({"shaping.1.rules": (("restate", "sum"), ("derive", "3"), ("check", "it"))})
    spelt = [said("q", text, info={"teacher": "sum. 3. it"}) for text in ("one sum, then 3 of it. 3; it", "it")]
    paid = {"shipped": shaped(PM4GRPO, rows), "without_teacher": shaped(PM4GRPO, untaught), "own": shaped(own, spelt)}
    (first, second), holds = paid.pop("own"), paid["shipped"] == [3.0, 1.0, 0.0, 0.0]
    holds &= paid["without_teacher"] == [2.0, 0.0, 0.0, 0.0] and first == 1.0 > second
    return Finding(holds, say(**{name: str(row) for name, row in paid.items()}, own_rules=str([first, second])))


claim.spares("fitness + precision -> fitness", "without fitness the product is 0 as well")

claim.shipped(PM4GRPO, without={"shaping.1.weight": 0.0}, task="worked_sums")
claim.shipped(
    PM4GRPO,
    without={"shaping.1.weight": 0.0},
    task="worked_sums",
    settings={"judge": "smollm2"},
    sees=lambda run: {"questions": run.mean("judge/questions")},
)
