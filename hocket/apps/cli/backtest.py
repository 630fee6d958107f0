"""`hocket backtest`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from hocket.apps.cli.command import Command
from hocket.apps.cli.output import Pairs, emit, out
from hocket.core.errors import ConfigurationError, nearest

if TYPE_CHECKING:
    from hocket.apps.studies.statistics import Array


def _flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="RETURNS.csv", help="a column of returns a strategy, with its name above")
    parser.add_argument("--baseline", metavar="NAME", help="the strategy that the others are compared with (the first)")
    parser.add_argument("--block", type=int, metavar="N", help="periods of a resampled block (cube root of all)")
    parser.add_argument("--draws", type=int, default=5000, metavar="N", help="resamples (5000)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the resampling (0)")


def _read(path: str) -> tuple[list[str], Array]:
    """The names of the columns that hold numbers, and these, `[T, K]`."""
    import csv
    from pathlib import Path

    import numpy as np

    if not Path(path).is_file():
        raise ConfigurationError(f"{path}: there is no such file")
    with Path(path).open(encoding="utf-8", newline="") as lines:
        heading, *rows = list(csv.reader(lines)) or [[]]
    if len(rows) < 3:
        raise ConfigurationError(f"{path}: a back-test takes a line of names and 3 periods or more, not {len(rows)}")
    columns: dict[str, list[float]] = {}
    for place, name in enumerate(heading):
        try:
            columns[name] = [float(row[place]) for row in rows]
        except IndexError:
            raise ConfigurationError(
                f"{path}: a line has {place} columns, and {name!r} is number {place + 1}"
            ) from None
        except ValueError as error:
            if place > 0:  # The first column may hold dates.
                raise ConfigurationError(f"{path}: column {name!r}: {error}") from None
    returns = np.array(list(columns.values()), np.float64).T
    if not columns or not np.isfinite(returns).all():
        raise ConfigurationError(f"{path}: it has no column of returns, or one with a number that is not finite")
    return list(columns), returns


def _run(options: argparse.Namespace, pairs: Pairs) -> int:
    from rich.table import Table

    from hocket.apps.studies import backtests
    from hocket.core.keys import Key

    if pairs:
        raise ConfigurationError(f"`hocket backtest` has no setting --{pairs[0][0]}; see `hocket backtest -h`")
    names, returns = _read(options.file)
    baseline = names[0] if options.baseline is None else options.baseline
    if baseline not in names:
        raise ConfigurationError(
            f"--baseline {baseline}: {options.file} has no such column{nearest(baseline, names)}; choose from "
            f"{', '.join(names)}"
        )
    key, other = Key.of(options.seed).derive("backtest"), returns[:, names.index(baseline)]
    how: dict[str, Any] = {"block": options.block, "draws": options.draws}
    rows = []
    for place, name in enumerate(names):
        mine = returns[:, place]
        row: dict[str, Any] = {"strategy": name, "sharpe": backtests.sharpe_estimate(mine, key, **how).to_json()}
        if name != baseline:
            row["difference"] = backtests.sharpe_difference(mine, other, key, **how).to_json()
            row["skill"] = backtests.probabilistic_sharpe(mine)
            trials = returns[:, [number for number, other_name in enumerate(names) if other_name != baseline]]
            row["deflated"] = backtests.deflated_sharpe(trials, place - (place > names.index(baseline)))
        rows.append(row)
    if options.json:
        emit({"file": options.file, "baseline": baseline, "periods": len(returns), "rows": rows})
        return 0
    table = Table(box=None, header_style="dim")
    for heading in ("strategy", "Sharpe", "95 % interval", f"less {baseline}", "95 % interval", "P(> 0)", "deflated"):
        table.add_column(heading, justify="left" if heading == "strategy" else "right")
    for row in rows:
        cells = [f"{row['sharpe']['value']:.3f}", _ends(row["sharpe"])]
        if "difference" in row:
            cells += [f"{row['difference']['value']:.3f}", _ends(row["difference"])]
            cells += [f"{row['skill']:.3f}", f"{row['deflated']:.3f}"]
        table.add_row(row["strategy"], *cells)
    out().print(table)
    out().print(f"[dim]{len(returns)} periods; Sharpe ratios are of one period[/]")
    return 0


def _ends(estimate: dict[str, float]) -> str:
    return f"{estimate['low']:.3f} – {estimate['high']:.3f}"


BACKTEST = Command(
    name="backtest",
    description="compare strategies' returns: block bootstrap, deflated Sharpe",
    family="train and measure",
    details="""What a file of returns says about strategies that traded in the same periods.

  hocket backtest returns.csv --baseline equal

Sharpe ratios have 95 % intervals by resampled blocks of periods, and so have their differences from the baseline.
P(> 0) is the probability that a true ratio is above 0, `deflated` the same after the best of as many trials without
skill as the file has strategies besides the baseline (docs/applications.md).""",
    flags=_flags,
    run=_run,
)
