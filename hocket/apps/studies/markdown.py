"""A study as a text page with tables, as documents and pull requests show it, and the pictures that it shows."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hocket.apps.studies.page import DIFFERENCES, forest
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
    ranked,
    remarks,
    settings,
    spread,
)

STYLE = """
svg { --soft: #5c6878; --c0: #2563b8; --c1: #c2560c } text { font: 12px system-ui, sans-serif; fill: var(--soft) }
@media (prefers-color-scheme: dark) { svg { --soft: #98a4b3; --c0: #6ea8f5; --c1: #f0954d } }
"""


_TABLE = re.compile(r" data-table='[^']*'")
"""The figures that the page's script reads."""
WIDTH = ' class="whiskers" style="max-width: 860px"'


def pictures(outcome: Json) -> dict[str, str]:
    """The differences from the baseline as SVG files that follow light and dark, by file name."""
    drawn = {f"{name}.svg".replace("_", "-"): forest(outcome, name) for _, name in DIFFERENCES}
    return {name: _alone(str(svg)) for name, svg in drawn.items() if svg is not None}


def _alone(svg: str) -> str:
    """A drawing of the page as a file of its own."""
    drawing = _TABLE.sub("", svg, count=1).replace(' class="whiskers forest"', WIDTH, 1)
    head = drawing.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    return head.replace(">", f"><style>{STYLE}</style>", 1) + "\n"


def markdown(outcome: Json) -> str:
    """The study as Markdown; it shows `pictures`, which lie beside it, in the words of the HTML page."""
    names = [heading for _, heading, _ in columns(outcome)]
    shown = pictures(outcome)
    lines = [f"# Study: {outcome['study']}", ""]
    lines += [f"- {name}: {value}" for name, value in [*chips(outcome), *facts(outcome)]]
    lines += ["", *_paragraphs(remarks(outcome))]
    if failures := failure_lines(outcome):
        lines += ["## What did not finish", "", *(f"- {sentence}" for sentence in failures), ""]
    lines += ["## Methods", ""]
    lines += _table(
        ["method", names[0], *COMPARED, *names[1:]], [[_name(outcome, m), *cells(outcome, m)] for m in ranked(outcome)]
    )
    lines += [
        "Interquartile means over seeds and tasks with 95 % bootstrap intervals. Differences and what the seeds "
        "resolve are in points of final success, or of the area.",
        "",
    ]
    lines += [*(f"- {sentence}" for sentence in equal_lines(outcome)), ""] if equal_lines(outcome) else []
    for (title, _), file in zip(DIFFERENCES, shown, strict=False):
        lines += [f"## Difference from the baseline: {title}", "", f"![{title}, method by method]({file})", ""]
    for task in outcome["tasks"] if len(outcome["tasks"]) > 1 else ():
        rows = [
            [f"`{m['label']}`", *(spread(m["by_task"][task].get(key), show) for key, _, show in columns(outcome))]
            for m in ranked(outcome, task)
        ]
        lines += [f"## On {task}", "", *_table(["method", *names], rows)]
    lines += ["## How it was made", "", *_table(["method", "settings"], [[*pair] for pair in settings(outcome)])]
    lines += [f"- **{name}**: {text}" for name, text in outcome["definitions"].items()]
    return "\n".join(lines) + "\n"


def _name(outcome: Json, method: Json) -> str:
    """A method's label as code, and what else tells it apart."""
    return named(outcome, method).replace(method["label"], f"`{method['label']}`", 1)


def _paragraphs(sentences: Sequence[str]) -> list[str]:
    return [line for sentence in sentences for line in (sentence, "")]


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The first column stands left, the others right."""
    ruled = ["---", *("---:" for _ in headings[1:])]
    lines = [headings, ruled, *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return [*("| " + " | ".join(line) + " |" for line in lines), ""]
