"""A study as one self-contained HTML page, from its JSON document."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path

from markupsafe import Markup

from hocket import __version__
from hocket.apps.report.chart import Chart, ChartLine
from hocket.apps.report.page import asset, drawn, template
from hocket.apps.studies.words import (
    COMPARED,
    Json,
    cells,
    chips,
    columns,
    equal_lines,
    facts,
    failure_lines,
    named,
    points,
    ranked,
    remarks,
    settings,
    spread,
    unit,
)

DIFFERENCES = (("final success", "difference"), ("area under the curve", "area_difference"))
"""What the pictures of differences show: a title, and the name in the document."""

TOGETHER = 6
"""Up to so many methods share a chart; more get one each, beside the baseline."""

LINES = (("reward", "Reward while training", ""), ("entropy", "Entropy", "nats"), ("length", "Length", "tokens"))


def page(outcome: Json) -> str:
    """The study as HTML."""
    names = [heading for _, heading, _ in columns(outcome)]
    return template("study.html", Path(__file__).parent).render(
        title=outcome["study"],
        css=asset("page.css"),
        js=asset("page.js"),
        chips=chips(outcome),
        facts=facts(outcome),
        remarks=remarks(outcome),
        failures=failure_lines(outcome),
        forests=[(title, forest(outcome, name)) for title, name in DIFFERENCES],
        headings=["method", names[0], *COMPARED, *names[1:]],
        plain_headings=["method", *names],
        rows=[(named(outcome, method), _rows([cells(outcome, method)])[0]) for method in ranked(outcome)],
        titles={name: m["title"] for m in outcome["methods"] for name in (m["label"], named(outcome, m))},
        equal=equal_lines(outcome),
        by_task=_by_task(outcome),
        charts=[(task, drawn(charts)) for task, charts in _charts(outcome).items()],
        folded=len(ranked(outcome)) > 2 * TOGETHER,
        searches=[_search(search) for search in outcome["searches"]],
        settings=settings(outcome),
        unit=unit(outcome),
        definitions=outcome["definitions"],
        footer=f"hocket {__version__} · {outcome['study']}",
    )


def _rows(rows: Sequence[Sequence[str]]) -> list[list[tuple[str, str]]]:
    """Cells as value and interval, which stand below each other on the page."""
    return [[(cell.partition(" (")[0], cell.partition(" (")[2].removesuffix(")")) for cell in row] for row in rows]


def forest(outcome: Json, name: str) -> Markup | None:
    """Every method's difference from the baseline with its interval, on one axis; `name` is one of `DIFFERENCES`."""
    shown = sorted(
        (method for method in ranked(outcome) if method[name] is not None),
        key=lambda method: -method[name]["value"],
    )
    if not shown:
        return None
    share = outcome["measure"] != "return"
    ends = [method[name][key] for method in shown for key in ("low", "high")]
    low, high = float(min(0.0, *ends)), float(max(0.0, *ends))
    room = 0.04 * ((high - low) or 1.0)
    low, high = low - room, high + room
    left, width, row = 190.0, 420.0, 20.0

    def x(value: float) -> float:
        return left + (value - low) / (high - low) * width

    height = row * len(shown) + 10
    parts = [f'<line x1="{x(0):.1f}" x2="{x(0):.1f}" y1="2" y2="{height - 2:g}" stroke="var(--soft)"/>']
    for number, method in enumerate(shown):
        estimate, y = method[name], row * number + 15
        colour = "var(--c0)" if estimate["low"] > 0 else "var(--c1)" if estimate["high"] < 0 else "var(--soft)"
        parts.append(f'<text x="{left - 10}" y="{y + 4}" text-anchor="end">{escape(_short(method["label"]))}</text>')
        parts.append(
            f'<line x1="{x(estimate["low"]):.1f}" x2="{x(estimate["high"]):.1f}" y1="{y}" y2="{y}" stroke="{colour}" '
            'stroke-width="6" stroke-linecap="round" opacity=".35"/>'
        )
        parts.append(f'<circle cx="{x(estimate["value"]):.1f}" cy="{y}" r="4" fill="{colour}"/>')
        parts.append(f'<text x="{left + width + 12}" y="{y + 4}">{points(estimate, share)}</text>')
    rows = [("method", "difference", "low", "high")]
    rows += [(method["label"], *(method[name][key] for key in ("value", "low", "high"))) for method in shown]
    return Markup(
        f'<svg class="whiskers forest" viewBox="0 0 790 {height:g}" role="img" aria-label="differences from the '
        f"baseline\" data-table='{escape(json.dumps(rows), quote=True)}'>{''.join(parts)}</svg>"
    )


def _short(label: str) -> str:
    return label if len(label) <= 28 else label[:27] + "…"


def _by_task(outcome: Json) -> list[tuple[str, list[tuple[str, list[tuple[str, str]]]]]]:
    """A table per task, where there are several."""
    if len(outcome["tasks"]) < 2:
        return []
    shown = columns(outcome)

    def row(method: Json, task: str) -> list[tuple[str, str]]:
        return _rows([[spread(method["by_task"][task].get(key), show) for key, _, show in shown]])[0]

    return [(task, [(m["label"], row(m, task)) for m in ranked(outcome, task)]) for task in outcome["tasks"]]


def _charts(outcome: Json) -> dict[str, list[Chart]]:
    return {task: _charts_of(outcome, task, ranked(outcome, task)) for task in outcome["tasks"]}


def _charts_of(outcome: Json, task: str, methods: Sequence[Json]) -> list[Chart]:
    """The curves of the methods that ran on a task, each beside what it is compared with where they are many."""
    if len(methods) <= TOGETHER:
        lines = [_line(outcome, task, methods, key, title, unit) for key, title, unit in LINES]
        return [_success(outcome, task, methods, "Success on unseen problems"), *lines]
    known = {method["label"]: method for method in methods}
    pairs = [(known[method["against"]], method) for method in methods if method["against"] != method["label"]]
    return [_success(outcome, task, pair, pair[1]["label"]) for pair in pairs]


def _success(outcome: Json, task: str, methods: Sequence[Json], title: str) -> Chart:
    lines = []
    for method in methods:
        curve = method["curves"][task]["success"]
        band = [(round(x), low, high) for x, _, low, high in curve]
        if curve:
            lines.append(ChartLine(method["label"], [(round(x), y) for x, y, _, _ in curve], band, marks=True))
    return Chart(title, lines, share=outcome["measure"] != "return", across=unit(outcome))


def _line(outcome: Json, task: str, methods: Sequence[Json], key: str, title: str, of: str) -> Chart:
    lines = [ChartLine(m["label"], [(round(x), y) for x, y in m["curves"][task][key]]) for m in methods]
    return Chart(title, lines, unit=of, zero=True, across=unit(outcome))


def _search(search: Json) -> Json:
    candidates = [
        ", ".join(f"{key} {value}" for key, value in candidate["settings"].items())
        + ": "
        + (
            ", ".join("–" if score is None or score != score else f"{score:.3f}" for score in candidate["scores"])
            or "–"
        )
        for candidate in search["candidates"]
    ]
    chosen = ", ".join(f"{key} {value}" for key, value in search["chosen"].items())
    if search.get("gap") is not None:
        chosen += f" ({search['tuned']:.3f} on tuning seeds, {search['tested']:.3f} on testing seeds)"
    return {**search, "candidates": candidates, "chosen": chosen}
