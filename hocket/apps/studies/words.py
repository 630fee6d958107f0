"""A study's figures in words, from its JSON document: what the terminal, the page and the text file share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hocket.apps.report.page import duration, percent, plain
from hocket.train.kinds import is_share
from hocket.train.kinds.words import WORDS

Json = Mapping[str, Any]
Show = Callable[[float | None], str]

COMPARED = ("difference", "P(better)", "seeds resolve", "area: difference")
"""Headings of the columns beside the metrics."""


def columns(outcome: Json) -> list[tuple[str, str, Show]]:
    """The metrics of the tables: key, heading, and how a value is shown."""
    measure = outcome["measure"]
    success = percent if is_share(measure) else plain
    known: Json = next((method["metrics"] for method in outcome["methods"] if method["metrics"]), {})
    passes = [name for name in known if name.startswith("pass@")]
    return [
        ("final", f"final {WORDS.get(measure, measure)}", success),
        ("area", "area under curve", success),
        *((name, name, percent) for name in passes[-1:]),
        ("tokens", "tokens sampled", plain),
        ("length", "length", plain),
        ("entropy", "entropy", plain),
    ]


def ranked(outcome: Json, task: str | None = None) -> list[Json]:
    """The methods with runs of their own (on `task`, where it is given).

    Each that others are compared with comes before these, which follow by final success; the baseline's come first.
    """
    methods = [m for m in outcome["methods"] if m["equal"] is None and (task is None or task in m["tasks"])]
    order = [m["label"] for m in outcome["methods"]]
    return sorted(
        methods,
        key=lambda m: (
            order.index(m["against"]),
            m["label"] != m["against"],
            -_value(m["metrics"].get("final"), -1e300),
        ),
    )


def named(outcome: Json, method: Json) -> str:
    """A method's label, with its tasks and what it is compared with where the study's methods differ in these."""
    words = [str(method["label"])]
    words += [f"on {', '.join(method['tasks'])}"] if method["tasks"] != outcome["tasks"] else []
    words += [f"against {method['against']}"] if method["against"] not in (outcome["baseline"], method["label"]) else []
    return ", ".join(words)


def _value(estimate: Json | None, absent: float) -> float:
    return absent if estimate is None else float(estimate["value"])


def spread(estimate: Json | None, show: Show) -> str:
    """A value with its interval."""
    if estimate is None:
        return "–"
    return f"{show(estimate['value'])} ({_ends(estimate, show)})"


def _ends(estimate: Json, show: Show) -> str:
    low, high = show(estimate["low"]), show(estimate["high"])
    return f"{low.removesuffix(' %')}–{high.removesuffix(' %')}"


def points(estimate: Json | None, share: bool) -> str:
    """A difference in points with its interval."""
    if estimate is None:
        return "–"
    factor, form = (100, "+.1f") if share else (1, "+.3g")
    value, low, high = (format(factor * estimate[key], form).replace("-", "−") for key in ("value", "low", "high"))
    return f"{value} ({low} to {high})"


def chips(outcome: Json) -> list[tuple[str, str]]:
    """What was compared, on what."""
    seeds = outcome["seeds"]["testing"]
    return [
        ("tasks", ", ".join(outcome["tasks"])),
        ("model", outcome["model"]),
        ("baseline", outcome["baseline"]),
        ("seeds", f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else str(seeds[0])),
    ]


def unit(outcome: Json) -> str:
    """What the budget counts: answers or tokens."""
    return "tokens" if "tokens" in outcome["budget"] else "answers"


def facts(outcome: Json) -> list[tuple[str, str]]:
    """How large the study was."""
    budget, runs = outcome["budget"], outcome["runs"]
    return [
        (
            "methods",
            f"{len(outcome['methods'])}, {len(outcome['methods']) - len(ranked(outcome))} equal to the baseline",
        ),
        ("budget of a run", f"{budget[unit(outcome)]:,} {unit(outcome)}"),
        ("testing runs", f"{runs['finished']}" + (f", {runs['failed']} failed" if runs["failed"] else "")),
        ("processor time of these", duration(runs["seconds"])),
    ]


def settings(outcome: Json) -> list[tuple[str, str]]:
    """Settings of every run, and of single methods."""
    lines = [("every method", ", ".join(f"{key} {value}" for key, value in outcome["settings"].items()) or "–")]
    taught = [f"{steps} steps on {task}" for task, steps in outcome["lessons"].items() if steps]
    lines += [("lessons before every run", ", ".join(taught))] if taught else []
    for method in outcome["methods"]:
        changes = ", ".join(f"{key} {value}" for key, value in method["settings"].items())
        without = f"without {', '.join(method['refused'])}" if method["refused"] else ""
        if changes or without:
            lines.append((method["label"], "; ".join(part for part in (changes, without) if part)))
    return lines


def equal_lines(outcome: Json) -> list[str]:
    """A sentence for each method that is the baseline under another name."""
    sentences = []
    for method in outcome["methods"]:
        equal = method["equal"]
        if equal is not None:
            lies = "equal to" if equal["relation"] == "equal" else f"{equal['factor']:.4g} times"
            sentences.append(
                f"{method['label']}: its gradient is {lies} that of {equal['to']} on {equal['batches']} batches, "
                "and the rest is the same; it has its figures"
            )
    return sentences


def failure_lines(outcome: Json) -> list[str]:
    """What did not finish, each reason once."""
    counts: dict[str, int] = {}
    for method in outcome["methods"]:
        for error in method["failures"]:
            text = f"{method['label']} on {error}"
            counts[text] = counts.get(text, 0) + 1
    return [text if count == 1 else f"{text} ({count} runs)" for text, count in counts.items()]


def remarks(outcome: Json) -> list[str]:
    """What a reader should know before believing the table."""
    compared = [method for method in ranked(outcome) if method["difference"] is not None]
    sentences = []
    if compared and len(outcome["seeds"]["testing"]) < 2:
        sentences.append("One seed each: intervals have no width, and nothing can be said about differences.")
    elif compared:
        ends = _apart(compared, "difference")
        others = {method["against"] for method in compared}
        other = others.pop() if len(others) == 1 else "what they are compared with"
        sentences.append(
            f"{sum(ends)} of {len(compared)} methods differ from {other} in final success by an interval "
            f"without 0, {ends[0]} above and {ends[1]} below; about {0.05 * len(compared):.2g} would by chance if none "
            "differed."
        )
        soon = _apart(compared, "area_difference")
        sentences.append(f"By the area under the curve it is {sum(soon)}: {soon[0]} above and {soon[1]} below.")
    base = next(m for m in outcome["methods"] if m["label"] == outcome["baseline"])
    if base["resolvable"] is not None and base["resolvable"] > 0:
        share = outcome["measure"] != "return"
        size = f"{100 * base['resolvable']:.1f} points" if share else f"{base['resolvable']:.3g}"
        sentences.append(f"Seeds like those of {outcome['baseline']} resolve differences from {size}.")
    budget = 0.95 * outcome["budget"][unit(outcome)]
    short = [m["label"] for m in ranked(outcome) if 0 < _used(outcome, m) < budget]
    if short:
        sentences.append(f"These sampled less than 95 % of the budget: {', '.join(short)}.")
    if outcome["without_recipe"]:
        sentences.append(f"No recipe has these catalogue rows: {', '.join(outcome['without_recipe'])}.")
    return sentences


def _apart(methods: Sequence[Json], name: str) -> tuple[int, int]:
    """How many methods lie above the baseline, and below it, by an interval without 0."""
    return sum(m[name]["low"] > 0 for m in methods), sum(m[name]["high"] < 0 for m in methods)


def probability(value: float | None) -> str:
    """A probability of improvement."""
    return "–" if value is None else f"{value:.2f}"


def _used(outcome: Json, method: Json) -> float:
    return _value(method["metrics"].get(unit(outcome)), 0.0)


def cells(outcome: Json, method: Json) -> list[str]:
    """A method's row: final success, the comparison with the baseline as `COMPARED` names it, the other metrics."""
    share = outcome["measure"] != "return"
    resolvable = method["resolvable"]
    size = "–" if resolvable is None else f"{100 * resolvable:.1f}" if share else plain(resolvable)
    first, *others = (spread(method["metrics"].get(key), show) for key, _, show in columns(outcome))
    ends, soon = (points(method[name], share) for name in ("difference", "area_difference"))
    return [first, ends, spread(method["improvement"], probability), size, soon, *others]
