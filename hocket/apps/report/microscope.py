"""What recipes make of one batch, for people: a table per recipe, and a page with the same tokens under each recipe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup
from rich.console import Group
from rich.markup import escape
from rich.table import Table

from hocket import __version__
from hocket.apps.report.page import asset, embedded, template
from hocket.lab.microscope import relation

Found = Mapping[str, Any]


def view(inspections: Sequence[Found], document: Mapping[str, Any]) -> Group:
    """For a terminal: reward, mean advantage, weight and gradient of each trajectory under each recipe."""
    parts: list[Any] = []
    for inspection, lies in zip(inspections, lying(inspections), strict=True):
        if "error" in inspection:
            parts.append(f"[bold]{escape(inspection['recipe'])}[/]  [red]{escape(inspection['error'])}[/]\n")
            continue
        heading = f"[bold]{escape(inspection['recipe'])}[/]  loss {inspection['loss']:.6g}[dim]  {escape(lies)}[/]"
        parts += [heading, _table(inspection, document), ""]
    return Group(*parts)


def lying(inspections: Sequence[Found]) -> list[str]:
    """How each recipe's gradient lies to that of the first one that ran, in words."""
    first = next((inspection for inspection in inspections if "error" not in inspection), None)
    return [
        ""
        if first is None or inspection is first or "error" in inspection
        else f"gradient against {first['recipe']}: {relation(first, inspection)}"
        for inspection in inspections
    ]


def _table(inspection: Found, document: Mapping[str, Any]) -> Table:
    table = Table(box=None, header_style="dim")
    for heading in ("trajectory", "group", "scores", "advantage", "weight", "gradient"):
        table.add_column(heading, justify="right" if heading in ("advantage", "weight", "gradient") else "left")
    for number, row in enumerate(document["trajectories"]):
        columns = [inspection[name][number] for name in ("advantages", "weight", "gradient")]
        means = [f"{sum(values) / len(values):+.4f}" if values else "–" for values in columns]
        cells = (str(row.get("id", f"#{number}")), str(row["group"]), _scores(row))
        table.add_row(*map(escape, cells), *means)
    return table


def _scores(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in row["scores"].items() if value is not None)


# ---------------------------------------------------------------- the page


def html(inspections: Sequence[Found], document: Mapping[str, Any], title: str) -> str:
    """A self-contained page: each trajectory's tokens under each recipe side by side, coloured by credit."""
    recipes = [
        {
            "name": inspection["recipe"],
            "error": inspection.get("error", ""),
            "loss": None if "error" in inspection else f"{inspection['loss']:.6g}",
            "lies": lies,
            "most": {name: _largest(inspection, name) for name in ("advantages", "gradient")},
        }
        for inspection, lies in zip(inspections, lying(inspections), strict=True)
    ]
    rows = _by_signal([_row(number, row, inspections) for number, row in enumerate(document["trajectories"])])
    return template("microscope.html").render(
        title=title,
        css=asset("page.css"),
        js=asset("microscope.js"),
        recipes=recipes,
        rows=rows,
        data=embedded({"recipes": recipes, "rows": rows}),
        footer=Markup("hocket {}: computed in float64 by the functions that train").format(__version__),
    )


def _by_signal(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Groups in which some recipe gives a gradient before those in which none does; else in their order."""
    taught = {row["group"] for row in rows if row["signal"]}
    return sorted(rows, key=lambda row: row["group"] not in taught)


def _largest(inspection: Found, name: str) -> float:
    return max((abs(value) for row in inspection.get(name, ()) for value in row), default=0.0)


def _row(number: int, row: Mapping[str, Any], inspections: Sequence[Found]) -> dict[str, Any]:
    pieces = (row.get("info") or {}).get("pieces") or [str(token) for token in row.get("tokens") or ()]
    size = len(row["logp"])
    under = [
        None if "error" in result else {name: result[name][number] for name in ("advantages", "gradient", "weight")}
        for result in inspections
    ]
    return {
        "id": str(row.get("id", f"#{number}")),
        "group": str(row["group"]),
        "scores": _scores(row),
        "pieces": pieces if len(pieces) == size else [str(place) for place in range(size)],
        # Without their texts tokens are set apart, so that numbers can be told from each other.
        "apart": not (row.get("info") or {}).get("pieces"),
        "logp": row["logp"],
        "signal": any(value for column in under if column is not None for value in column["gradient"]),
        "under": under,
    }
