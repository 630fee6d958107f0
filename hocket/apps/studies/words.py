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


def columns(found: Json) -> list[tuple[str, str, Show]]:
    """The metrics of the tables: key, heading, and how a value is shown."""
    measure = found["measure"]
    success = percent if is_share(measure) else plain
    known: Json = next((method["metrics"] for method in found["methods"] if method["metrics"]), {})
    passes = [name for name in known if name.startswith("pass@")]
    return [
        ("final", f"final {WORDS.get(measure, measure)}", success),
        ("area", "area under curve", success),
        *((name, name, percent) for name in passes[-1:]),
        ("tokens", "tokens sampled", plain),
        ("length", "length", plain),
        ("entropy", "entropy", plain),
    ]


def ranked(found: Json, task: str | None = None) -> list[Json]:
    """The methods with runs of their own (on `task`, where it is given).

    Each that others are compared with comes before these, which follow by final success; the baseline's come first.
    """
    own = [m for m in found["methods"] if m["equal"] is None and (task is None or task in m["tasks"])]
    order = [m["label"] for m in found["methods"]]
    return sorted(
        own,
        key=lambda m: (
            order.index(m["against"]),
            m["label"] != m["against"],
            -_value(m["metrics"].get("final"), -1e300),
        ),
    )


def named(found: Json, method: Json) -> str:
    """A method's label, with its tasks and what it is compared with where the study's methods differ in these."""
    words = [str(method["label"])]
    words += [f"on {', '.join(method['tasks'])}"] if method["tasks"] != found["tasks"] else []
    words += [f"against {method['against']}"] if method["against"] not in (found["baseline"], method["label"]) else []
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


def chips(found: Json) -> list[tuple[str, str]]:
    """What was compared, on what."""
    seeds = found["seeds"]["testing"]
    return [
        ("tasks", ", ".join(found["tasks"])),
        ("model", found["model"]),
        ("baseline", found["baseline"]),
        ("seeds", f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else str(seeds[0])),
    ]


def unit(found: Json) -> str:
    """What the budget counts: answers or tokens."""
    return "tokens" if "tokens" in found["budget"] else "answers"


def facts(found: Json) -> list[tuple[str, str]]:
    """How large the study was."""
    budget, runs = found["budget"], found["runs"]
    return [
        ("methods", f"{len(found['methods'])}, {len(found['methods']) - len(ranked(found))} equal to the baseline"),
        ("budget of a run", f"{budget[unit(found)]:,} {unit(found)}"),
        ("testing runs", f"{runs['finished']}" + (f", {runs['failed']} failed" if runs["failed"] else "")),
        ("processor time of these", duration(runs["seconds"])),
    ]


def settings(found: Json) -> list[tuple[str, str]]:
    """Settings of every run, and of single methods."""
    told = [("every method", ", ".join(f"{key} {value}" for key, value in found["settings"].items()) or "–")]
    taught = [f"{steps} steps on {task}" for task, steps in found["lessons"].items() if steps]
    told += [("lessons before every run", ", ".join(taught))] if taught else []
    for method in found["methods"]:
        own = ", ".join(f"{key} {value}" for key, value in method["settings"].items())
        without = f"without {', '.join(method['refused'])}" if method["refused"] else ""
        if own or without:
            told.append((method["label"], "; ".join(part for part in (own, without) if part)))
    return told


def equal_lines(found: Json) -> list[str]:
    """A sentence for each method that is the baseline under another name."""
    told = []
    for method in found["methods"]:
        equal = method["equal"]
        if equal is not None:
            lies = "equal to" if equal["relation"] == "equal" else f"{equal['factor']:.4g} times"
            told.append(
                f"{method['label']}: its gradient is {lies} that of {equal['to']} on {equal['batches']} batches, "
                "and the rest is the same; it has its figures"
            )
    return told


def failure_lines(found: Json) -> list[str]:
    """What did not finish, each reason once."""
    told: dict[str, int] = {}
    for method in found["methods"]:
        for error in method["failures"]:
            text = f"{method['label']} on {error}"
            told[text] = told.get(text, 0) + 1
    return [text if count == 1 else f"{text} ({count} runs)" for text, count in told.items()]


def remarks(found: Json) -> list[str]:
    """What a reader should know before believing the table."""
    compared = [method for method in ranked(found) if method["difference"] is not None]
    told = []
    if compared and len(found["seeds"]["testing"]) < 2:
        told.append("One seed each: intervals have no width, and nothing can be said about differences.")
    elif compared:
        ends = _apart(compared, "difference")
        others = {method["against"] for method in compared}
        other = others.pop() if len(others) == 1 else "what they are compared with"
        told.append(
            f"{sum(ends)} of {len(compared)} methods differ from {other} in final success by an interval "
            f"without 0, {ends[0]} above and {ends[1]} below; about {0.05 * len(compared):.2g} would by chance if none "
            "differed."
        )
        soon = _apart(compared, "area_difference")
        told.append(f"By the area under the curve it is {sum(soon)}: {soon[0]} above and {soon[1]} below.")
    base = next(m for m in found["methods"] if m["label"] == found["baseline"])
    if base["resolvable"] is not None and base["resolvable"] > 0:
        share = found["measure"] != "return"
        size = f"{100 * base['resolvable']:.1f} points" if share else f"{base['resolvable']:.3g}"
        told.append(f"Seeds like those of {found['baseline']} resolve differences from {size}.")
    budget = 0.95 * found["budget"][unit(found)]
    short = [m["label"] for m in ranked(found) if 0 < _used(found, m) < budget]
    if short:
        told.append(f"These sampled less than 95 % of the budget: {', '.join(short)}.")
    if found["without_recipe"]:
        told.append(f"No recipe has these catalogue rows: {', '.join(found['without_recipe'])}.")
    return told


def _apart(methods: Sequence[Json], name: str) -> tuple[int, int]:
    """How many methods lie above the baseline, and below it, by an interval without 0."""
    return sum(m[name]["low"] > 0 for m in methods), sum(m[name]["high"] < 0 for m in methods)


def probability(value: float | None) -> str:
    """A probability of improvement."""
    return "–" if value is None else f"{value:.2f}"


def _used(found: Json, method: Json) -> float:
    return _value(method["metrics"].get(unit(found)), 0.0)


def cells(found: Json, method: Json) -> list[str]:
    """A method's row: final success, the comparison with the baseline as `COMPARED` names it, the other metrics."""
    share = found["measure"] != "return"
    resolvable = method["resolvable"]
    size = "–" if resolvable is None else f"{100 * resolvable:.1f}" if share else plain(resolvable)
    first, *others = (spread(method["metrics"].get(key), show) for key, _, show in columns(found))
    ends, soon = (points(method[name], share) for name in ("difference", "area_difference"))
    return [first, ends, spread(method["improvement"], probability), size, soon, *others]
