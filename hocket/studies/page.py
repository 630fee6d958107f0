"""A study as a table for the terminal and as one self-contained HTML page; both from its JSON document."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup
from rich.markup import escape as unmarked
from rich.table import Table

from hocket import __version__
from hocket.report import page as report
from hocket.report.chart import Chart, Line
from hocket.report.page import asset, drawn, duration, percent, plain

Json = Mapping[str, Any]
Show = Callable[[float | None], str]

TOGETHER = 6
"""Up to so many methods share a chart; more get one each, beside the baseline."""

LINES = (("reward", "Reward while training", ""), ("entropy", "Entropy", "nats"), ("length", "Length", "tokens"))


# ---------------------------------------------------------------- figures in words


def columns(found: Json) -> list[tuple[str, str, Show]]:
    """The metrics of the tables: key, heading, and how a value is shown."""
    share = found["measure"] != "return"
    success = percent if share else plain
    known: Json = next((method["metrics"] for method in found["methods"] if method["metrics"]), {})
    passes = [name for name in known if name.startswith("pass@")]
    return [
        ("final", "final accuracy" if share else "final return", success),
        ("area", "area under curve", success),
        *((name, name, percent) for name in passes[-1:]),
        ("tokens", "tokens sampled", plain),
        ("length", "length", plain),
        ("entropy", "entropy", plain),
    ]


def ranked(found: Json) -> list[Json]:
    """The methods with runs of their own: the baseline, then by final success."""
    own = [method for method in found["methods"] if method["equal"] is None]
    return sorted(own, key=lambda m: (m["label"] != found["baseline"], -_value(m["metrics"].get("final"), -1e300)))


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
    apart = [m for m in compared if m["difference"]["low"] > 0 or m["difference"]["high"] < 0]
    told = []
    if compared:
        told.append(
            f"{len(apart)} of {len(compared)} methods differ from {found['baseline']} by an interval without 0; about "
            f"{0.05 * len(compared):.2g} would by chance if none differed."
        )
    base = next(m for m in found["methods"] if m["label"] == found["baseline"])
    if base["resolvable"] is not None and base["resolvable"] > 0:
        share = found["measure"] != "return"
        size = f"{100 * base['resolvable']:.1f} points" if share else f"{base['resolvable']:.3g}"
        told.append(f"Seeds like those of {found['baseline']} resolve differences from {size}.")
    short = [m["label"] for m in ranked(found) if _answers(m) and _answers(m) < 0.95 * found["budget"]["answers"]]
    if short:
        told.append(f"These sampled less than 95 % of the budget: {', '.join(short)}.")
    if found["without_recipe"]:
        told.append(f"No recipe has these catalogue rows: {', '.join(found['without_recipe'])}.")
    return told


def _probability(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _answers(method: Json) -> float:
    return _value(method["metrics"].get("answers"), 0.0)


# ---------------------------------------------------------------- the terminal


def table(found: Json) -> Table:
    """A row per method with runs of its own; intervals where they matter most, all others are on the page."""
    (first, heading, show), *others = columns(found)
    made = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
    made.add_column("method", no_wrap=True)
    for name in (heading, "difference", "P(better)", *(name for _, name, _ in others)):
        made.add_column(name, justify="right", no_wrap=True)
    for method in ranked(found):
        metrics = method["metrics"]
        made.add_row(
            f"[bold]{unmarked(method['label'])}[/]",
            spread(metrics.get(first), show),
            points(method["difference"], found["measure"] != "return"),
            spread(method["improvement"], _probability),
            *("–" if metrics.get(key) is None else form(metrics[key]["value"]) for key, _, form in others),
        )
    return made


COMPARED = ("difference", "P(better)", "seeds resolve")
"""Headings of the columns beside the metrics."""


def _cells(found: Json, method: Json) -> list[str]:
    """Final success, the comparison with the baseline, and the other metrics."""
    share = found["measure"] != "return"
    resolvable = method["resolvable"]
    size = "–" if resolvable is None else f"{100 * resolvable:.1f}" if share else plain(resolvable)
    first, *others = (spread(method["metrics"].get(key), show) for key, _, show in columns(found))
    return [first, points(method["difference"], share), spread(method["improvement"], _probability), size, *others]


def _rows(rows: Sequence[Sequence[str]]) -> list[list[tuple[str, str]]]:
    """Cells as value and interval, which stand below each other on the page."""
    return [[(cell.partition(" (")[0], cell.partition(" (")[2].removesuffix(")")) for cell in row] for row in rows]


# ---------------------------------------------------------------- the page


def page(found: Json) -> str:
    """The study as HTML."""
    names = [heading for _, heading, _ in columns(found)]
    return _template().render(
        title=found["study"],
        css=asset("page.css"),
        js=asset("page.js"),
        chips=_chips(found),
        facts=_facts(found),
        remarks=remarks(found),
        failures=failure_lines(found),
        forest=forest(found),
        headings=["method", names[0], *COMPARED, *names[1:]],
        plain_headings=["method", *names],
        rows=[(method["label"], _rows([_cells(found, method)])[0]) for method in ranked(found)],
        titles={method["label"]: method["title"] for method in found["methods"]},
        equal=equal_lines(found),
        by_task=_by_task(found),
        charts=[(task, drawn(charts)) for task, charts in _charts(found).items()],
        folded=len(ranked(found)) > 2 * TOGETHER,
        searches=[_search(search) for search in found["searches"]],
        settings=_settings(found),
        definitions=found["definitions"],
        footer=f"hocket {__version__} · {found['study']}",
    )


@functools.cache
def _template() -> jinja2.Template:
    folders = [Path(__file__).parent, Path(report.__file__).parent]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folders), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("study.html")


def _chips(found: Json) -> list[tuple[str, str]]:
    seeds = found["seeds"]["testing"]
    return [
        ("tasks", ", ".join(found["tasks"])),
        ("model", found["model"]),
        ("baseline", found["baseline"]),
        ("seeds", f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else str(seeds[0])),
    ]


def _facts(found: Json) -> list[tuple[str, str]]:
    budget, runs = found["budget"], found["runs"]
    return [
        ("methods", f"{len(found['methods'])}, {len(found['methods']) - len(ranked(found))} equal to the baseline"),
        ("budget of a run", f"{budget['answers']:,} answers"),
        ("testing runs", f"{runs['finished']}" + (f", {runs['failed']} failed" if runs["failed"] else "")),
        ("processor time of these", duration(runs["seconds"])),
    ]


def forest(found: Json) -> Markup | None:
    """Every method's difference from the baseline with its interval, on one axis."""
    shown = sorted(
        (method for method in ranked(found) if method["difference"] is not None),
        key=lambda method: -method["difference"]["value"],
    )
    if not shown:
        return None
    share = found["measure"] != "return"
    ends = [method["difference"][key] for method in shown for key in ("low", "high")]
    low, high = float(min(0.0, *ends)), float(max(0.0, *ends))
    room = 0.04 * ((high - low) or 1.0)
    low, high = low - room, high + room
    left, width, row = 190.0, 420.0, 20.0

    def x(value: float) -> float:
        return left + (value - low) / (high - low) * width

    height = row * len(shown) + 10
    parts = [f'<line x1="{x(0):.1f}" x2="{x(0):.1f}" y1="2" y2="{height - 2:g}" stroke="var(--soft)"/>']
    for number, method in enumerate(shown):
        estimate, y = method["difference"], row * number + 15
        colour = "var(--c0)" if estimate["low"] > 0 else "var(--c1)" if estimate["high"] < 0 else "var(--soft)"
        parts.append(f'<text x="{left - 10}" y="{y + 4}" text-anchor="end">{escape(_short(method["label"]))}</text>')
        parts.append(
            f'<line x1="{x(estimate["low"]):.1f}" x2="{x(estimate["high"]):.1f}" y1="{y}" y2="{y}" stroke="{colour}" '
            'stroke-width="6" stroke-linecap="round" opacity=".35"/>'
        )
        parts.append(f'<circle cx="{x(estimate["value"]):.1f}" cy="{y}" r="4" fill="{colour}"/>')
        parts.append(f'<text x="{left + width + 12}" y="{y + 4}">{points(estimate, share)}</text>')
    return Markup(
        f'<svg class="whiskers" style="max-width: 860px" viewBox="0 0 790 {height:g}" role="img" '
        f'aria-label="differences from the baseline">{"".join(parts)}</svg>'
    )


def _short(label: str) -> str:
    return label if len(label) <= 28 else label[:27] + "…"


def _by_task(found: Json) -> list[tuple[str, list[tuple[str, list[tuple[str, str]]]]]]:
    """A table per task, where there are several."""
    if len(found["tasks"]) < 2:
        return []
    shown = columns(found)

    def row(method: Json, task: str) -> list[tuple[str, str]]:
        return _rows([[spread(method["by_task"][task].get(key), show) for key, _, show in shown]])[0]

    return [(task, [(m["label"], row(m, task)) for m in ranked(found)]) for task in found["tasks"]]


def _charts(found: Json) -> dict[str, list[Chart]]:
    methods = ranked(found)
    if len(methods) > TOGETHER:
        return {
            task: [_success(found, task, [methods[0], method], method["label"]) for method in methods[1:]]
            for task in found["tasks"]
        }
    return {
        task: [
            _success(found, task, methods, "Success on unseen problems"),
            *(_line(task, methods, key, title, unit) for key, title, unit in LINES),
        ]
        for task in found["tasks"]
    }


def _success(found: Json, task: str, methods: Sequence[Json], title: str) -> Chart:
    lines = []
    for method in methods:
        curve = method["curves"][task]["success"]
        band = [(round(x), low, high) for x, _, low, high in curve]
        lines.append(Line(method["label"], [(round(x), y) for x, y, _, _ in curve], band, marks=True))
    return Chart(title, lines, share=found["measure"] != "return", across="answers")


def _line(task: str, methods: Sequence[Json], key: str, title: str, unit: str) -> Chart:
    lines = [Line(m["label"], [(round(x), y) for x, y in m["curves"][task][key]]) for m in methods]
    return Chart(title, lines, unit=unit, zero=True, across="answers")


def _search(search: Json) -> Json:
    candidates = [
        ", ".join(f"{key} {value}" for key, value in one["settings"].items())
        + ": "
        + (", ".join("–" if score is None or score != score else f"{score:.3f}" for score in one["scores"]) or "–")
        for one in search["candidates"]
    ]
    chosen = ", ".join(f"{key} {value}" for key, value in search["chosen"].items())
    return {**search, "candidates": candidates, "chosen": chosen}


def _settings(found: Json) -> list[tuple[str, str]]:
    """Settings of every run, and of single methods."""
    told = [("every method", ", ".join(f"{key} {value}" for key, value in found["settings"].items()) or "–")]
    for method in found["methods"]:
        own = ", ".join(f"{key} {value}" for key, value in method["settings"].items())
        without = f"without {', '.join(method['refused'])}" if method["refused"] else ""
        if own or without:
            told.append((method["label"], "; ".join(part for part in (own, without) if part)))
    return told
