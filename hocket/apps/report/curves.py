"""Which metrics are drawn, and how."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeGuard

from hocket.apps.report.chart import Chart, ChartLine, Point
from hocket.apps.report.reading import Row, RunRecord, eval_interval
from hocket.apps.report.roles import MEASURES as SUMMED
from hocket.apps.report.roles import each_agent, series
from hocket.train.kinds import ACCURACY, MEASURES, is_share
from hocket.train.kinds.ways import GREEDY, SAMPLED, SAMPLED_KEYS
from hocket.train.kinds.words import EPISODES, UnitNames, is_recorded, units_of

EVALUATED_APART = {"n", "low", "high", "length", *MEASURES, *SAMPLED_KEYS}


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
    Curve(
        "Reward",
        (("reward/mean", "mean"), ("reward/shaped", "after shaping")),
        note="Mean total reward of the sampled {samples}, as earned and, where the recipe shapes it, after shaping.",
    ),
    Curve(
        "Accuracy on recorded responses",
        (
            ("pairs/accuracy", "training pairs"),
            ("eval/pairs/accuracy", "unseen pairs"),
            ("labels/accuracy", "training labels"),
            ("eval/labels/accuracy", "unseen labels"),
            ("lists/accuracy", "training lists"),
            ("eval/lists/accuracy", "unseen lists"),
        ),
        share=True,
        note="The share that the policy or scorer orders as the data do; a tie counts a half.",
    ),
    Curve(
        "Rewards of unseen pairs",
        (
            ("eval/pairs/chosen", "chosen"),
            ("eval/pairs/rejected", "rejected"),
            ("eval/labels/reward_desirable", "desirable"),
            ("eval/labels/reward_undesirable", "undesirable"),
        ),
        note="Implicit rewards, as the loss measures them, or a scorer's scores.",
    ),
    Curve(
        "Entropy",
        (("entropy", "entropy"),),
        unit="nats",
        zero=True,
        note="Of the policy on what it sampled, per {decision}.",
    ),
    Curve(
        "KL divergence",
        (("kl/reference", "to the reference"), ("kl/behaviour", "sampler to learner")),
        unit="nats",
        zero=True,
        note="Sampler to learner: before the first update of a step; far from 0 means that they disagree.",
        least=1e-3,
    ),
    Curve("Length", (("length/mean", "sampled"), ("eval/length", "evaluated")), unit="{decisions}", zero=True),
    Curve("{cut}", (("truncated/share", "share"),), share=True),
    Curve(
        "Clipped or cut ratios",
        (("ratio/clipped", "clipped"), ("ratio/saturated", "saturated")),
        share=True,
        note="The share of {decisions} without gradient, because the policy moved too far from what was sampled.",
    ),
    Curve(
        "Loss",
        (("loss", "training"), ("eval/loss", "unseen")),
        note="Its value says little about progress; look for jumps.",
        least=1e-4,
    ),
    Curve("Gradient norm", (("gradient/norm", "norm"),), zero=True),
    Curve("Value function", (("value/explained", "explained variance"),)),
    Curve("Throughput", (("throughput/tokens", "{decisions}"),), unit="{decisions} per second", zero=True),
    Curve("Time per step", (("time/rollout", "rollout"), ("time/update", "update")), unit="seconds", zero=True),
)


LINES = 6
"""Lines of one chart at most: more have no colours of their own."""


def curves(run: RunRecord, steps: Sequence[Mapping[str, Any]] = ()) -> list[Chart]:
    """The charts of a run; what was never measured has none. `steps` are the recorded ones with what they come to."""
    rows = run.rows
    units = units_of(run.measure)
    rewarded = [_drawn(CURVES[0], rows, units), *_rewards(rows, units)] if samples(rows) else []
    charts = [_success(run), *rewarded[:1], _signal(rows, units), *rewarded[1:], *_agents(rows, steps)]
    charts += [_traits(rows, units), *(_drawn(curve, rows, units) for curve in CURVES[1:])]
    charts += _counts(rows, steps)
    filled = [chart for chart in charts if any(line.points for line in chart.lines)]
    return [part for chart in filled for part in _parted(chart)]


def _parted(chart: Chart) -> list[Chart]:
    """A chart of many lines as several, of about as many lines each."""
    count = math.ceil(len(chart.lines) / LINES)
    if count < 2:
        return [chart]
    per = math.ceil(len(chart.lines) / count)
    parts = [chart.lines[start : start + per] for start in range(0, len(chart.lines), per)]
    return [replace(chart, title=f"{chart.title} ({n} of {count})", lines=part) for n, part in enumerate(parts, 1)]


def samples(rows: Sequence[Row]) -> bool:
    """Whether a run sampled anything; one that only learns from recorded responses has no reward that could move."""
    counts = [row["tokens/generated"] for row in rows if is_number(row.get("tokens/generated"))]
    return not counts or any(counts)


def points(rows: Sequence[Row], key: str) -> list[Point]:
    """The measured values of a metric by step."""
    return [(float(row["step"]), float(row[key])) for row in rows if is_number(row.get(key))]


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a metric has a finite value."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def success_line(run: RunRecord, name: str) -> ChartLine:
    """Evaluated success by step with its interval."""
    key = f"eval/{run.measure}"
    band = []
    for row in run.rows:
        interval = eval_interval(row, run.measure)
        if interval is not None and is_number(row.get(key)):
            band.append((float(row["step"]), *interval))
    return ChartLine(name, points(run.rows, key), band, marks=True)


def _success(run: RunRecord) -> Chart:
    share = is_share(run.measure)
    what = MEASURES.get(run.measure, ACCURACY)
    title = f"{what.title} on {what.each}"
    drawn = points(run.rows, f"eval/{SAMPLED}")
    line = success_line(run, GREEDY if drawn else run.measure)
    note = ("Greedy, one attempt each." if what.answers and not drawn else "") + (
        " Shaded: 95 % interval." if line.band else ""
    )
    return Chart(title, [line, *([ChartLine(SAMPLED, drawn, marks=True)] if drawn else [])], share=share, note=note)


def _drawn(curve: Curve, rows: Sequence[Row], units: UnitNames) -> Chart:
    lines = []
    for key, name in curve.keys:
        for column_name in sorted(
            {column for row in rows for column in row if column == key or column.endswith(f"/{key}")}
        ):
            role = column_name.removesuffix(key).removesuffix("/")
            if "/" not in role and role != "eval":
                words = units.fill(name)
                lines.append(ChartLine(f"{role} {words}" if role else words, points(rows, column_name)))
    known = [line for line in lines if line.points]
    unit, note = units.fill(curve.unit), units.fill(curve.note)
    return Chart(units.fill(curve.title), known, unit, curve.share, curve.zero, note, curve.least)


def _signal(rows: Sequence[Row], units: UnitNames) -> Chart:
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
            lines.append(ChartLine(role.rstrip("/") or "share", shares))
    if units is EPISODES and all(share == 1 for line in lines for _, share in line.points):
        return Chart("", [])  # Where values are learnt every episode has signal, alone as it is.
    note = units.fill("The others give no gradient: all their {samples} earned the same.")
    return Chart("Groups with signal", lines, share=True, note=note)


_REWARD = re.compile(r"reward/(?!mean$|agent/)(.+)")
_EVALUATED_REWARD = re.compile(r"eval/reward/(.+)")
_OF_AGENT = re.compile(r"reward/agent/(.+)|([^/]+)/reward")


def _rewards(rows: Sequence[Row], units: UnitNames) -> list[Chart]:
    """A curve per named reward, sampled and where measured evaluated. Rewards of very different size stand apart."""
    sampled = {match[1]: points(rows, match[0]) for match in _matches(rows, _REWARD)}
    measured = {match[1]: points(rows, match[0]) for match in _matches(rows, _EVALUATED_REWARD)}
    sizes = {
        name: max((abs(y) for _, y in (*sampled.get(name, ()), *measured.get(name, ()))), default=0.0)
        for name in sorted({*sampled, *measured})
    }
    apart: list[list[str]] = []
    for name in sorted(sizes, key=lambda name: sizes[name]):
        if not apart or sizes[name] > 10 * max(sizes[apart[-1][0]], 0.1):
            apart.append([])
        apart[-1].append(name)
    charts = []
    for names in apart:
        lines = [ChartLine(name, sampled[name]) for name in names if name in sampled]
        lines += [ChartLine(f"{name}, evaluated", measured[name], marks=True) for name in names if name in measured]
        title = "Rewards by name" if len(apart) == 1 else f"Reward: {', '.join(names)}"
        charts.append(Chart(title, lines, note=units.fill("Mean of each over the sampled {samples}, before shaping.")))
    return charts


def _matches(rows: Sequence[Row], pattern: re.Pattern[str]) -> list[re.Match[str]]:
    """Metrics whose whole name matches, by name."""
    return [match for key in sorted({key for row in rows for key in row}) if (match := pattern.fullmatch(key))]


def _agents(rows: Sequence[Row], steps: Sequence[Row]) -> list[Chart]:
    """What each agent earns: from metrics where they tell, else from the recorded episodes."""
    matches = [m for m in _matches(rows, _OF_AGENT) if (m[1] or m[2]) not in ("reward", "eval")]
    lines = [ChartLine(match[1] or match[2], points(rows, match[0])) for match in matches]
    if any(line.points for line in lines):
        return [Chart("Reward per agent", lines)]
    rewards = [
        ChartLine(name, line, marks=True) for name, line in each_agent(steps, SUMMED["turn rewards per episode"])
    ]
    return [Chart("Reward per agent", rewards, note=f"Turn rewards per episode. {_FEW}")] if len(rewards) > 1 else []


_FEW = "Recorded steps only."


_COUNTS = (("Turns per episode", "turns/mean", "turns", 1.0), ("Tool calls per episode", "tools/calls", "calls", 0.0))
"""Title, metric, name in the sums of a recorded step, and the value that tells nothing."""


def _counts(rows: Sequence[Row], steps: Sequence[Row]) -> list[Chart]:
    """Turns and tool calls, from metrics or else from the recorded episodes, and failures; none where all is plain."""
    charts = []
    for title, key, name, dull in _COUNTS:
        measured = points(rows, key)
        line = measured or series(steps, partial(_per_episode, name=name))
        if any(y != dull for _, y in line):
            charts.append(
                Chart(title, [ChartLine(name, line, marks=not measured)], zero=True, note="" if measured else _FEW)
            )
    failed = points(rows, "episodes/failed")
    if any(y for _, y in failed):
        charts.append(Chart("Failed episodes", [ChartLine("failed", failed)], unit="per step", zero=True))
    return charts


def _per_episode(summed: Row, name: str) -> float | None:
    total = sum(agent[name] for agent in summed["agents"].values())
    return total / summed["episodes"] if summed["episodes"] else None


def _traits(rows: Sequence[Row], units: UnitNames) -> Chart:
    names = {key for row in rows for key in row if key.startswith("eval/") and key[5:] not in EVALUATED_APART}
    names = {name for name in names if not name.startswith("eval/reward/") and not is_recorded(name[5:])}
    lines = [ChartLine(name.removeprefix("eval/"), points(rows, name), marks=True) for name in sorted(names)]
    return Chart(
        "How episodes end" if units is EPISODES else "Traits of the answers",
        [line for line in lines if line.points],
        share=True,
        note=f"Shares of the evaluated {'episodes' if units is EPISODES else 'answers'}.",
    )
