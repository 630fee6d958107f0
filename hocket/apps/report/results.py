"""What came of a run, in a line and as a table, for prompts and notebooks."""

from __future__ import annotations

from html import escape

from hocket.apps.report.page import before_and_after, hero
from hocket.apps.report.reading import RunRecord

CELL = "text-align: {}; padding: 2px 14px 2px 0"


def results_line(record: RunRecord) -> str:
    """Recipe, task, steps, what evaluation measured before and after, and how the run ended."""
    summary, gain = record.summary, hero(record)
    parts = [f"{summary.get('recipe')} on {summary.get('task')}", f"{summary.get('steps') or 0} steps"]
    if gain is not None:
        parts.append(f"{record.measure} {gain.before} → {gain.after}")
    return ", ".join([*parts, str(summary.get("reason"))])


def results_html(record: RunRecord) -> str:
    """The same with a table of everything that was measured before and after."""
    gain = hero(record)
    rows = [(row["name"], row["before"], row["after"], row["change"]) for row in before_and_after(record)]
    table = "".join(_row(row, "td") for row in rows)
    what = "" if gain is None else f"<div>{escape(gain.what)}: <b>{gain.before} → {gain.after}</b> ({gain.gain})</div>"
    head = f"<table>{_row(('', 'before', 'after', 'change'), 'th')}{table}</table>" if rows else ""
    page = record.path / "report.html"
    place = f"run <code>{escape(str(record.path))}</code>, report <code>{escape(str(page))}</code>"
    return f"<div>{escape(results_line(record))}</div>{what}{head}<div>{place}</div>"


def _row(cells: tuple[str, ...], tag: str) -> str:
    sides = ("left", *("right" for _ in cells[1:]))
    inner = (
        f'<{tag} style="{CELL.format(side)}">{escape(cell)}</{tag}>' for side, cell in zip(sides, cells, strict=True)
    )
    return f"<tr>{''.join(inner)}</tr>"
