"""Several runs side by side: as data, as a table for the terminal, and as a page of overlaid curves."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from hocket import __version__
from hocket.apps.report.chart import Chart, ChartLine
from hocket.apps.report.curves import is_number, points, success_line
from hocket.apps.report.page import asset, change, drawn, duration, measured, percent, plain, template
from hocket.apps.report.reading import RunRecord, read_run
from hocket.train.kinds import is_share
from hocket.train.kinds.words import WORDS, units_of

OVERLAID = (
    ("Reward", "reward/mean", "", False),
    ("Entropy", "entropy", "nats", False),
    ("KL to the reference", "kl/reference", "nats", False),
    ("Length of the samples", "length/mean", "{decisions}", False),
    ("Cut off at the limit", "truncated/share", "", True),
)

UNTOLD = frozenset({"run", "runs", "date"})
"""Settings that differ between any two runs."""


def compare_rows(runs: Sequence[Path]) -> list[dict[str, Any]]:
    """One JSON object per run: what it was, what it gained, what it cost, and the settings in which the runs differ.

    Raises:
        ConfigurationError: when a path is no run folder.
    """
    return _rows([read_run(path) for path in runs])


def compare_table(runs: Sequence[Path]) -> Table:
    """The comparison for a terminal: a column per run."""
    records = [read_run(path) for path in runs]
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("", style="dim", overflow="fold")
    for run in records:
        table.add_column(escape(run.name), header_style="bold", overflow="fold")
    for name, values in _lines(records):
        style = "bold" if name in ("after", "gain") else None
        table.add_row(*map(escape, (name, *values)), style=style)
    return table


def compare_page(runs: Sequence[Path]) -> str:
    """The comparison as a self-contained HTML page."""
    records = [read_run(path) for path in runs]
    return template("compare.html").render(
        title="Comparison of " + " and ".join([", ".join(run.name for run in records[:-1]), records[-1].name])
        if len(records) > 1
        else records[0].name,
        css=asset("page.css"),
        js=asset("page.js"),
        names=[run.name for run in records],
        rows=[{"name": name, "values": values} for name, values in _lines(records)],
        charts=drawn(_charts(records)),
        footer=f"hocket {__version__}",
    )


# ---------------------------------------------------------------- data


def _rows(runs: Sequence[RunRecord]) -> list[dict[str, Any]]:
    differing = differences([run.config for run in runs])
    rows = []
    for number, run in enumerate(runs):
        ends = run.summary.get("after") or {}
        before = measured(run.summary, "before", run.measure)
        after = measured(run.summary, "after", run.measure)
        tokens = [row["tokens/generated"] for row in run.trained if is_number(row.get("tokens/generated"))]
        rows.append(
            {
                "name": run.name,
                "path": str(run.path),
                **{key: run.summary.get(key) for key in ("task", "recipe", "model", "seed", "steps", "seconds")},
                "measure": run.measure,
                "before": before,
                "after": after,
                "low": ends.get("low"),
                "high": ends.get("high"),
                "n": ends.get("n"),
                "gain": None if before is None or after is None else after - before,
                "best": run.summary.get("best"),
                "tokens": sum(tokens) if tokens else None,
                "reason": run.summary.get("reason"),
                "settings": {key: values[number] for key, values in differing.items()},
            }
        )
    return rows


DESCRIPTIVE = tuple(
    f"recipe.{name}"
    for name in (
        "name",
        "title",
        "source",
        "family",
        "catalogue_ids",
        "axes",
        "parent",
        "formula",
        "conventions",
        "note",
    )
)
"""Settings that tell what a recipe is and change nothing."""


def _lines(runs: Sequence[RunRecord]) -> list[tuple[str, list[str]]]:
    """The comparison in words, a line per property; settings that do not differ are left out."""
    rows = _rows(runs)
    lines = [(name, [_word(row[name]) for row in rows]) for name in ("task", "recipe", "model", "seed", "steps")]
    lines.append(("measure", [WORDS.get(row["measure"], row["measure"]) for row in rows]))
    lines.append(("before", [_shown(row, row["before"]) for row in rows]))
    lines.append(("after", [_shown(row, row["after"]) for row in rows]))
    lines.append(("95 % interval", [_interval(row) for row in rows]))
    lines.append(("gain", [_gain(row) for row in rows]))
    lines.append((f"{_units(runs, 'total')} sampled", [plain(row["tokens"]) for row in rows]))
    lines.append(("time", [duration(row["seconds"]) for row in rows]))
    lines.append(("ended", [_word(row["reason"]) for row in rows]))
    names_above = {name for name, _ in lines}
    for key in rows[0]["settings"] if rows else ():
        if key not in names_above and not key.startswith(DESCRIPTIVE):
            lines.append((key, [_word(row["settings"][key]) for row in rows]))
    return lines


def _units(runs: Sequence[RunRecord], name: str) -> str:
    """What the decisions of all runs are called; runs of several kinds have decisions."""
    words = {str(getattr(units_of(run.measure), name)) for run in runs}
    return words.pop() if len(words) == 1 else "decisions"


def _shown(row: Mapping[str, Any], value: float | None) -> str:
    return percent(value) if is_share(row["measure"]) else plain(value)


def _interval(row: Mapping[str, Any]) -> str:
    if not (is_number(row["low"]) and is_number(row["high"])):
        return "–"
    return f"{_shown(row, row['low'])} to {_shown(row, row['high'])}"


def _gain(row: Mapping[str, Any]) -> str:
    if row["gain"] is None:
        return "–"
    return change(row["before"], row["after"], share=is_share(row["measure"]))


def _word(value: Any) -> str:
    if value is None:
        return "–"
    return value if isinstance(value, str) else json.dumps(value)


def differences(configs: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """The settings in which configurations differ, by dotted key: one value per configuration, None where absent."""
    flat = [_flat(config) for config in configs]
    keys = list(dict.fromkeys(key for settings in flat for key in settings))
    columns = {key: [settings.get(key) for settings in flat] for key in keys if key.split(".")[0] not in UNTOLD}
    return {key: values for key, values in columns.items() if any(value != values[0] for value in values)}


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if isinstance(value, Mapping) and value:
        items = [(str(key), item) for key, item in value.items()]
    elif isinstance(value, list) and any(isinstance(item, (Mapping, list)) for item in value):
        items = [(str(number), item) for number, item in enumerate(value)]
    else:
        return {prefix: value}
    settings: dict[str, Any] = {}
    for key, item in items:
        settings |= _flat(item, f"{prefix}.{key}" if prefix else key)
    return settings


# ---------------------------------------------------------------- curves


def _charts(runs: Sequence[RunRecord]) -> list[Chart]:
    charts = []
    for measure in dict.fromkeys(run.measure for run in runs):
        lines = [success_line(run, run.name) if run.measure == measure else ChartLine(run.name, []) for run in runs]
        charts.append(Chart(f"Evaluated {WORDS.get(measure, measure)}", lines, share=is_share(measure)))
    for title, key, unit, share in OVERLAID:
        unit = unit.format(decisions=_units(runs, "decisions"))
        charts.append(
            Chart(title, [ChartLine(run.name, points(run.rows, key)) for run in runs], unit=unit, share=share)
        )
    return [chart for chart in charts if any(line.points for line in chart.lines)]
