"""Which metrics are drawn, and how."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from hocket.report.chart import Chart, Line, Point
from hocket.report.reading import Recorded, Row, eval_interval

EVALUATED_APART = {"n", "low", "high", "accuracy", "return", "length"}


@dataclass(frozen=True)
class Curve:
    """A chart of metrics: `keys` with the names their lines get. Keys kept per role give a line per role."""

    title: str
    keys: tuple[tuple[str, str], ...]
    unit: str = ""
    share: bool = False
    zero: bool = False
    note: str = ""
    least: float = 0.0


CURVES = (
    Curve("Reward", (("reward/mean", "mean"),), note="Mean total reward of the samples, before shaping."),
    Curve("Entropy", (("entropy", "entropy"),), unit="nats", zero=True, note="Of what is sampled, per decision."),
    Curve(
        "KL divergence",
        (("kl/reference", "to the reference"), ("kl/behaviour", "sampler to learner")),
        unit="nats",
        zero=True,
        note="Sampler to learner: before the first update of a step; far from 0 means that they disagree.",
        least=1e-3,
    ),
    Curve("Length", (("length/mean", "sampled"), ("eval/length", "evaluated")), unit="decisions", zero=True),
    Curve("Cut off at the limit", (("truncated/share", "share"),), share=True),
    Curve(
        "Clipped or cut ratios",
        (("ratio/clipped", "clipped"), ("ratio/saturated", "saturated")),
        share=True,
        note="Decisions that give no gradient because the policy moved too far from what was sampled.",
    ),
    Curve("Loss", (("loss", "loss"),), note="Its value says little about progress; look for jumps.", least=1e-4),
    Curve("Gradient norm", (("gradient/norm", "norm"),), zero=True),
    Curve("Value function", (("value/explained", "explained variance"),)),
    Curve("Throughput", (("throughput/tokens", "decisions"),), unit="per second", zero=True),
    Curve("Time per step", (("time/rollout", "rollout"), ("time/update", "update")), unit="seconds", zero=True),
)


def curves(run: Recorded) -> list[Chart]:
    """The charts of a run; metrics that were never measured have none."""
    charts = [_success(run), _drawn(CURVES[0], run.rows), _signal(run.rows), _traits(run.rows)]
    charts += [_drawn(curve, run.rows) for curve in CURVES[1:]]
    return [chart for chart in charts if any(line.points for line in chart.lines)]


def points(rows: Sequence[Row], key: str) -> list[Point]:
    """The measured values of a metric by step."""
    return [(float(row["step"]), float(row[key])) for row in rows if is_number(row.get(key))]


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a metric has a finite value."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def success_line(run: Recorded, name: str) -> Line:
    """Evaluated success by step with its interval."""
    key = f"eval/{run.measure}"
    band = []
    for row in run.rows:
        interval = eval_interval(row, run.measure)
        if interval is not None and is_number(row.get(key)):
            band.append((float(row["step"]), *interval))
    return Line(name, points(run.rows, key), band, marks=True)


def _success(run: Recorded) -> Chart:
    share = run.measure == "accuracy"
    title = "Accuracy on unseen problems" if share else "Return on unseen episodes"
    line = success_line(run, run.measure)
    note = "Greedy, one attempt each." + (" Shaded: 95 % interval." if line.band else "")
    return Chart(title, [line], share=share, note=note)


def _drawn(curve: Curve, rows: Sequence[Row]) -> Chart:
    lines = []
    for key, name in curve.keys:
        for found in sorted({column for row in rows for column in row if column == key or column.endswith(f"/{key}")}):
            role = found.removesuffix(key).removesuffix("/")
            if "/" not in role:
                lines.append(Line(f"{role} {name}" if role else name, points(rows, found)))
    known = [line for line in lines if line.points]
    return Chart(curve.title, known, curve.unit, curve.share, curve.zero, curve.note, curve.least)


def _signal(rows: Sequence[Row]) -> Chart:
    roles = sorted(
        {c.removesuffix("groups/with_signal") for row in rows for c in row if c.endswith("groups/with_signal")}
    )
    lines = []
    for role in roles:
        key = f"{role}groups/with_signal"
        shares = [
            (float(row["step"]), row[key] / row["groups/total"])
            for row in rows
            if is_number(row.get(key)) and row.get("groups/total")
        ]
        if shares:
            lines.append(Line(role.rstrip("/") or "share", shares))
    return Chart(
        "Groups with signal", lines, share=True, note="The others give no gradient: all their samples earned the same."
    )


def _traits(rows: Sequence[Row]) -> Chart:
    names = {key for row in rows for key in row if key.startswith("eval/") and key[5:] not in EVALUATED_APART}
    lines = [Line(name.removeprefix("eval/"), points(rows, name), marks=True) for name in sorted(names)]
    return Chart(
        "Traits of the answers",
        [line for line in lines if line.points],
        share=True,
        note="Shares of the evaluated answers.",
    )
