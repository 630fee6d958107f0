"""`hocket simulate`."""

from __future__ import annotations

import argparse
import dataclasses
import re

from rich.table import Table

from hocket.apps.cli.output import Pairs, emit, out
from hocket.core.errors import ConfigurationError

_SIZES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}


def quantity(text: str) -> float:
    """A size, rate or time as a number of bytes, bits a second or seconds: 50Mbit, 4.8MB, 80ms, 2s, 1e9."""
    match = re.fullmatch(r"([0-9.]+(?:e[0-9]+)?)\s*(?:([kmgt]?)(?:bit|b)|(ms)|s)?", text.strip().lower())
    try:
        if match is None:
            raise ValueError
        return float(match[1]) * (1e-3 if match[3] else _SIZES[match[2] or ""])
    except ValueError:
        raise ConfigurationError(f"{text!r} is no quantity such as 50Mbit, 4.8MB or 80ms") from None


def simulate(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket simulate`."""
    from hocket.distributed.cluster.simulation import Fleet, Simulation

    settings = {f.name: getattr(options, f.name) for f in dataclasses.fields(Fleet) if hasattr(options, f.name)}
    for name in ("link", "delay", "weights"):
        settings[name] = quantity(settings[name])
    figures = Simulation(Fleet(**settings)).run()
    if options.json:
        emit(figures)
        return 0
    table = Table(box=None, show_header=False)
    total = sum(figures["lag"].values())
    table.add_row("steps", f"{figures['steps']} in {figures['hours']:.2f} h, {figures['steps/hour']:.1f} an hour")
    table.add_row("learner busy", f"{figures['learner/busy']:.1%}")
    table.add_row("sampled in vain", f"{figures['waste']:.1%}; {figures['dropped']} groups too old")
    table.add_row("lag", ", ".join(f"{lag}: {count / total:.1%}" for lag, count in figures["lag"].items()))
    table.add_row("weights sent", f"{figures['bytes'] / 1e9:.1f} GB")
    table.add_row("nodes left", f"{figures['alive']} of {options.nodes}")
    out().print(table)
    return 0
