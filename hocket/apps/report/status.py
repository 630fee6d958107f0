"""Where a run stands and what its processes do, from what stands in its folder."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from hocket.apps.report.reading import read_run

_FAULT = re.compile(r"(sampler|learner) \d+( \(.+?\))? (ended|has given|no longer|holds|failed|drew)")

RECENT = 5
"""How many faults are told."""


def status_of(path: Path) -> dict[str, Any]:
    """The state of a run as JSON data.

    `step` of `steps`; `age` seconds since the last step; `reward` of it; where a run has
    samplers, `seconds` since they began and `samplers`, as `hocket.distributed.cluster.samplers.Account` has them;
    where policies are learnt by groups of their own, `learners` with the policies that each `learns`; the last `faults`
    in words.

    Raises:
        ConfigurationError: when `path` is no run.
    """
    run = read_run(path)
    last = run.rows[-1] if run.rows else {}
    age = time.time() - (path / "metrics.jsonl").stat().st_mtime if run.rows else None
    faults = [line for line in run.messages if _FAULT.search(line)]
    return {
        "run": path.name,
        "step": int(last.get("step", 0)),
        "steps": run.config.get("steps"),
        "age": age,
        "reward": last.get("reward/mean"),
        "stale": last.get("agreement/stale"),
        "finished": bool(run.summary.get("reason") == "finished"),
        **cluster_of(path),
        "faults": faults[-RECENT:],
    }


def cluster_of(path: Path) -> dict[str, Any]:
    """`seconds` and `samplers` of a run, and `learners` that learn other policies; empty where it had none."""
    file = path / "cluster.json"
    found: dict[str, Any] = json.loads(file.read_text()) if file.is_file() else {}
    return found


def lag_words(found: Mapping[str, Any]) -> str:
    """How old the weights were that drew what was learnt from, where groups are taken as they come; else nothing."""
    lags: Mapping[str, int] = found.get("lag", {})
    total = sum(lags.values())
    if not total:
        return ""
    shares = ", ".join(f"{lag} versions {count / total:.0%}" for lag, count in lags.items())
    dropped = found.get("dropped", 0)
    return f"drawn by weights that were old by {shares}; {dropped} groups grew too old and were asked again"


HEADINGS = ("name", "where", "weights", "episodes", "busy", "sent", "received", "replaced")
"""What is told of a sampler."""


def sampler_rows(found: Mapping[str, Any]) -> list[dict[str, str]]:
    """What each sampler did, in words, by `HEADINGS`."""
    return [
        {
            "name": one["name"],
            "where": one["where"],
            "weights": f"version {one['version']}",
            "episodes": f"{one['episodes']:,}",
            "busy": f"{one['busy'] / max(found['seconds'], 1e-9):.0%}",
            "sent": f"{one['sent'] / 1e6:.1f} MB",
            "received": f"{one['received'] / 1e6:.1f} MB",
            "replaced": f"{one['lost']} times" if one["lost"] else "",
        }
        for one in found.get("samplers", ())
    ]


def sampler_table(found: Mapping[str, Any]) -> Table:
    """A row per sampler."""
    table = Table(box=None, header_style="dim")
    for heading in HEADINGS:
        table.add_column(
            "sampler" if heading == "name" else heading, justify="left" if heading in HEADINGS[:2] else "right"
        )
    for row in sampler_rows(found):
        table.add_row(*(escape(row[heading]) for heading in HEADINGS))
    return table


def learner_rows(found: Mapping[str, Any]) -> list[dict[str, str]]:
    """Which policies each process learns, in words."""
    return [
        {"name": one["name"].partition(" (")[0], "where": one["where"], "learns": ", ".join(one["learns"])}
        for one in found.get("learners", ())
    ]


def learner_table(found: Mapping[str, Any]) -> Table:
    """A row per process that learns."""
    table = Table("learner", "where", "learns", box=None, header_style="dim")
    for row in learner_rows(found):
        table.add_row(*map(escape, row.values()))
    return table
