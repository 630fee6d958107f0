"""What pm4grpo claims."""

from __future__ import annotations

import contextlib
import importlib
import io
from collections.abc import Callable
from dataclasses import replace
from statistics import fmean
from typing import Any

from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.toys.graded_rewards import runs
from hocket.lab.toys.rewarded import apart, line, said, shaped
from hocket.lab.world import Answer, World
from hocket.methods.base.gspo import GSPO
from hocket.methods.group_relative.pm4grpo import PM4GRPO, activities, conformance, harmonic_mean

claim = Claims("pm4grpo", "PM4GRPO, arXiv:2510.25065, released checker")


def needs_pm4py(run: Callable[[], Finding]) -> Callable[[], Finding]:
    """A check that says so, and does not hold, where pm4py is not installed."""

    def checked() -> Finding:
        if importlib.util.find_spec("pm4py") is None:
            return Finding(False, "not run: pm4py is not installed (pip install 'hocket[process]')")
        return run()

    checked.__name__ = run.__name__
    return checked


def of(policy: str, teacher: str) -> float:
    """The conformance of two traces of one-letter activities."""
    return harmonic_mean(*conformance(tuple(policy), tuple(teacher)))


def own_words(policy: str, teacher: str) -> tuple[float, float]:
    """Fitness and precision by pm4py's simplified interface on data frames."""
    import pm4py

    pandas: Any = importlib.import_module("pandas")

    def log(trace: str) -> Any:
        times = pandas.date_range("2020-01-01", periods=len(trace), freq="s")
        return pandas.DataFrame(
            {"case:concept:name": ["1"] * len(trace), "concept:name": list(trace), "time:timestamp": times}
        )

    with contextlib.redirect_stderr(io.StringIO()):
        net = pm4py.discover_petri_net_inductive(log(policy))
        fitness = pm4py.fitness_alignments(log(teacher), *net)["log_fitness"]
        return float(fitness), float(pm4py.precision_alignments(log(teacher), *net))


@claim("equal traces give 1, disjoint ones 0, as pm4py counts", slow=True)
@needs_pm4py
def conformance_is_pm4py() -> Finding:
    """Traces with and without repeats, equal, disjoint and mixed, through the reward and through pm4py itself."""
    pairs = [
        ("abcd", "abcd"),
        ("a", "a"),
        ("badc", "badc"),
        ("abc", "xyz"),
        ("abcd", "acbd"),
        ("axbcd", "abcd"),
        ("abcbcd", "abcd"),
    ]
    worst = max(apart(conformance(tuple(p), tuple(q)), own_words(p, q)) for p, q in pairs)
    same, none = [of(*pair) for pair in pairs[:3]], of("abc", "xyz")
    text = "We are asked for a sum. Add 3 and 4, it makes 7. Let me check it. <answer>7</answer>"
    trace = activities(text.split("<answer>")[0])
    rows = [said("q", f"<think>{text.split('<answer>')[0]}</think><answer>7</answer>", 1.0, info={"teacher": trace})]
    reward = shaped(PM4GRPO, rows)[0]
    return Finding(
        worst < 1e-9
        and same == [1.0] * 3
        and none == 0.0
        and trace == ("restate", "derive", "check")
        and reward == 3.0,
        f"largest difference to pm4py {worst:.0e}; equal traces {line(same)}, disjoint ones {none}; a text labelled "
        f"{', '.join(trace)} with the same teacher earns 1 + 1 + 1 = {reward:.3f}",
    )


@claim("repeats and leading activities: the measure's pitfalls", "measured here")
@needs_pm4py
def pitfalls_are_kept() -> Finding:
    """Repeats against themselves, one leading activity too many, and further repeats."""
    itself, leading = of("abcbcd", "abcbcd"), of("xabcd", "abcd")
    rising = [of(trace, "abcd") for trace in ("xabcd", "axbcd", "abcbcd", "abcdd")]
    return Finding(
        abs(itself - 0.857) < 1e-3 and leading == 0.0 and rising[1] < rising[2] < rising[3],
        f"abcbcd against itself {itself:.3f}; xabcd against abcd {leading:.3f}; against abcd axbcd {rising[1]:.3f}, "
        f"abcbcd {rising[2]:.3f}, abcdd {rising[3]:.5f}: repeats are not monotone",
    )


SENTENCES = (
    "we are asked for the total",
    "add 3 and 4",
    "check it once more",
    "therefore it is 7",
    "therefore it is 9",
    "hm, wait",
    "let me see",
    "this is fine",
    "no matter",
)
TEACHER = ("restate", "derive", "check", "conclude")


def procedure() -> World:
    """Restate, derive, check, conclude: right if all four sentences stand in this order, the right conclusion last."""
    return World(
        questions=1,
        tokens=len(SENTENCES),
        horizon=4,
        context="last",
        reward=lambda question, answer: float(answer == (0, 1, 2, 3)),
        text=lambda question, answer: (
            "<think>" + ". ".join(SENTENCES[token] for token in answer) + "</think><answer>7</answer>"
        ),
        metadata=lambda question: {"teacher": TEACHER},
    )


def adherence(bench: Bench) -> float:
    """The chance of all four activities standing in the teacher's order."""

    def ordered(question: int, answer: Answer) -> float:
        trace = iter(activities(". ".join(SENTENCES[token] for token in answer)))
        return float(all(name in trace for name in TEACHER))

    return bench.expected(ordered)


@claim("adherence and accuracy above outcome only, not with a shuffled teacher", slow=True)
@needs_pm4py
def procedure_is_learnt() -> Finding:
    """Outcome alone, the teacher's log, and the same log shuffled."""
    world, steps = procedure(), 75
    shuffled = replace(world, metadata=lambda question: {"teacher": ("conclude", "check", "restate", "derive")})
    sides = {
        name: runs(which, recipe.but({"rollout.samples": 16}), steps, every=steps, lr=0.1)
        for name, which, recipe in (
            ("taught", world, PM4GRPO),
            ("outcome", world, GSPO),
            ("shuffled", shuffled, PM4GRPO),
        )
    }
    keeps = {name: [adherence(bench) for bench in side] for name, side in sides.items()}
    right = {name: [bench.success() for bench in side] for name, side in sides.items()}
    return Finding(
        fmean(keeps["taught"]) > fmean(keeps["outcome"]) + 0.4
        and fmean(right["taught"]) > fmean(right["outcome"]) + 0.4
        and max(right["shuffled"]) <= max(right["outcome"]) + 0.01
        and max(keeps["shuffled"]) <= max(keeps["outcome"]) + 0.01,
        f"adherence {line(keeps['taught'])}, outcome only {line(keeps['outcome'])}, shuffled teacher "
        f"{line(keeps['shuffled'])}; accuracy {line(right['taught'])}, {line(right['outcome'])}, "
        f"{line(right['shuffled'])}",
    )
