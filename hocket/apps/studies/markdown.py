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


def pictures(found: Json) -> dict[str, str]:
    """The differences from the baseline as SVG files that follow light and dark, by file name."""
    drawn = {f"{name}.svg".replace("_", "-"): forest(found, name) for _, name in DIFFERENCES}
    return {name: _alone(str(svg)) for name, svg in drawn.items() if svg is not None}


def _alone(svg: str) -> str:
    """A drawing of the page as a file of its own."""
    drawing = _TABLE.sub("", svg, count=1).replace(' class="whiskers forest"', WIDTH, 1)
    head = drawing.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    return head.replace(">", f"><style>{STYLE}</style>", 1) + "\n"


def markdown(found: Json) -> str:
    """The study as Markdown; it shows `pictures`, which lie beside it, in the words of the HTML page."""
    names = [heading for _, heading, _ in columns(found)]
    shown = pictures(found)
    lines = [f"# Study: {found['study']}", ""]
    lines += [f"- {name}: {value}" for name, value in [*chips(found), *facts(found)]]
    lines += ["", *_paragraphs(remarks(found))]
    if failures := failure_lines(found):
        lines += ["## What did not finish", "", *(f"- {sentence}" for sentence in failures), ""]
    lines += ["## Methods", ""]
    lines += _table(
        ["method", names[0], *COMPARED, *names[1:]], [[_name(found, m), *cells(found, m)] for m in ranked(found)]
    )
    lines += [
        "Interquartile means over seeds and tasks with 95 % bootstrap intervals. Differences and what the seeds "
        "resolve are in points of final success, or of the area.",
        "",
    ]
    lines += [*(f"- {sentence}" for sentence in equal_lines(found)), ""] if equal_lines(found) else []
    for (title, _), file in zip(DIFFERENCES, shown, strict=False):
        lines += [f"## Difference from the baseline: {title}", "", f"![{title}, method by method]({file})", ""]
    for task in found["tasks"] if len(found["tasks"]) > 1 else ():
        rows = [
            [f"`{m['label']}`", *(spread(m["by_task"][task].get(key), show) for key, _, show in columns(found))]
            for m in ranked(found, task)
        ]
        lines += [f"## On {task}", "", *_table(["method", *names], rows)]
    lines += ["## How it was made", "", *_table(["method", "settings"], [[*pair] for pair in settings(found)])]
    lines += [f"- **{name}**: {text}" for name, text in found["definitions"].items()]
    return "\n".join(lines) + "\n"


def _name(found: Json, method: Json) -> str:
    """A method's label as code, and what else tells it apart."""
    return named(found, method).replace(method["label"], f"`{method['label']}`", 1)


def _paragraphs(sentences: Sequence[str]) -> list[str]:
    return [line for sentence in sentences for line in (sentence, "")]


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The first column stands left, the others right."""
    ruled = ["---", *("---:" for _ in headings[1:])]
    lines = [headings, ruled, *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return [*("| " + " | ".join(line) + " |" for line in lines), ""]
