"""A study as a table for the terminal."""

from __future__ import annotations

from rich.markup import escape as unmarked
from rich.table import Table

from hocket.apps.studies.words import Json, columns, named, points, probability, ranked, spread


def table(outcome: Json) -> Table:
    """A row per method with runs of its own; intervals where they matter most, all others are on the page."""
    (first, heading, show), *others = columns(outcome)
    made = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
    made.add_column("method", no_wrap=True)
    for name in (heading, "difference", "P(better)", *(name for _, name, _ in others)):
        made.add_column(name, justify="right", no_wrap=True)
    for method in ranked(outcome):
        metrics = method["metrics"]
        made.add_row(
            f"[bold]{unmarked(named(outcome, method))}[/]",
            spread(metrics.get(first), show),
            points(method["difference"], outcome["measure"] != "return"),
            spread(method["improvement"], probability),
            *("–" if metrics.get(key) is None else form(metrics[key]["value"]) for key, _, form in others),
        )
    return made
