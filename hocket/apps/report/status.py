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
    state: dict[str, Any] = json.loads(file.read_text()) if file.is_file() else {}
    return state


def lag_words(state: Mapping[str, Any]) -> str:
    """How old the weights were that drew what was learnt from, where groups are taken as they come; else nothing."""
    lags: Mapping[str, int] = state.get("lag", {})
    total = sum(lags.values())
    if not total:
        return ""
    shares = ", ".join(f"{lag} versions {count / total:.0%}" for lag, count in lags.items())
    dropped = state.get("dropped", 0)
    return f"drawn by weights that were old by {shares}; {dropped} groups grew too old and were asked again"


HEADINGS = ("name", "where", "weights", "episodes", "busy", "sent", "received", "replaced")
"""What is told of a sampler."""


def sampler_rows(state: Mapping[str, Any]) -> list[dict[str, str]]:
    """What each sampler did, in words, by `HEADINGS`."""
    return [
        {
            "name": sampler["name"],
            "where": sampler["where"],
            "weights": f"version {sampler['version']}",
            "episodes": f"{sampler['episodes']:,}",
            "busy": f"{sampler['busy'] / max(state['seconds'], 1e-9):.0%}",
            "sent": f"{sampler['sent'] / 1e6:.1f} MB",
            "received": f"{sampler['received'] / 1e6:.1f} MB",
            "replaced": f"{sampler['lost']} times" if sampler["lost"] else "",
        }
        for sampler in state.get("samplers", ())
    ]


def sampler_table(state: Mapping[str, Any]) -> Table:
    """A row per sampler."""
    table = Table(box=None, header_style="dim")
    for heading in HEADINGS:
        table.add_column(
            "sampler" if heading == "name" else heading, justify="left" if heading in HEADINGS[:2] else "right"
        )
    for row in sampler_rows(state):
        table.add_row(*(escape(row[heading]) for heading in HEADINGS))
    return table


def learner_rows(state: Mapping[str, Any]) -> list[dict[str, str]]:
    """Which policies each process learns, in words."""
    return [
        {"name": learner["name"].partition(" (")[0], "where": learner["where"], "learns": ", ".join(learner["learns"])}
        for learner in state.get("learners", ())
    ]


def learner_table(state: Mapping[str, Any]) -> Table:
    """A row per process that learns."""
    table = Table("learner", "where", "learns", box=None, header_style="dim")
    for row in learner_rows(state):
        table.add_row(*map(escape, row.values()))
    return table
