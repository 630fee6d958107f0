"""The page of a run: one self-contained HTML file that works offline."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from hocket import __version__
from hocket.apps.report.chart import Chart
from hocket.apps.report.curves import curves, is_number
from hocket.apps.report.diagnosis import diagnose, kl_coefficient
from hocket.apps.report.pictures import pictures_of
from hocket.apps.report.reading import RunRecord, read_run
from hocket.apps.report.roles import table
from hocket.apps.report.rollouts import rollouts
from hocket.apps.report.status import cluster_of, lag_words, learner_rows, sampler_rows
from hocket.train.disk import write_atomic
from hocket.train.kinds import ACCURACY, MEASURES, is_share
from hocket.train.kinds.ways import GREEDY, SAMPLED_KEYS, as_greedy, ways_shown
from hocket.train.kinds.words import EPISODES, WORDS, interval_of, is_recorded, recorded_rows, units_of

HERE = Path(__file__).parent

CURVES_FIRST = 6
"""Curves shown at once; the others open on demand. Runs with many have three more."""


def write_report(run: Path) -> Path:
    """Writes `report.html` into the run folder `run` and returns its path. A run that still goes on can be shown too.

    Raises:
        ConfigurationError: when `run` is no run folder.
    """
    target = run / "report.html"
    # Halves of characters, which a model may leave, have no place in a file.
    write_atomic(target, page(read_run(run)).encode(errors="replace").decode())
    return target


def page(run: RunRecord, shown: Mapping[str, Any] | None = None) -> str:
    """The page of a run as HTML. With `shown`, rollouts read already, it is a live one: it renews itself by the events
    of the address it comes from, see `hocket.apps.live.page`."""
    live = shown is not None
    latest = run.episodes(run.steps[-1]) if run.steps and shown is None else []
    shown = rollouts(run, latest) if shown is None else shown
    scripts = ("page.js", "conversations.js", *(("live.js",) if live else ()))
    return template("page.html").render(
        **overview(run, shown["steps"], None if live else latest),
        **notes(run),
        title=run.name,
        live=live,
        css=asset("page.css") + asset("conversations.css"),
        js=Markup("").join(map(asset, scripts)),
        pictures=pictures_of(run),
        samples=run.summary.get("samples") or [],
        rollouts=embedded({**shown, "units": vars(units_of(run.measure))}) if shown["steps"] or live else None,
        recorded=bool(shown["steps"]),
        footer=f"hocket {__version__} · {run.path.name}",
    )


def overview(
    run: RunRecord, steps: Sequence[Mapping[str, Any]], latest: Sequence[Mapping[str, Any]] | None = None
) -> dict[str, Any]:
    """What `overview.html` shows: the gain, the diagnosis, curves, roles and what changed in the answers.

    Args:
        run: as read. steps: the recorded ones, as `rollouts` gives them. latest: as for `diagnosis_of`.
    """
    charts, units = drawn(curves(run, steps)), units_of(run.measure)
    return {
        "chips": _chips(run),
        "hero": hero(run),
        "units": units,
        "unseen": MEASURES.get(run.measure, ACCURACY).each,
        "facts": _facts(run),
        "diagnosis": diagnosis_of(run, latest),
        "charts": charts,
        "first": CURVES_FIRST if len(charts) < 2 * CURVES_FIRST else CURVES_FIRST + 3,
        "roles": table(steps, run.trained, run.config, units),
        "table": before_and_after(run),
    }


def notes(run: RunRecord) -> dict[str, Any]:
    """What `notes.html` shows: settings, messages, processes and machine."""
    return {
        "messages": run.messages[-200:],
        "config": run.config_text,
        "samplers": sampler_rows(cluster_of(run.path)),
        "learners": learner_rows(cluster_of(run.path)),
        "lags": lag_words(cluster_of(run.path)),
        "machine": json.dumps(run.machine, indent=2) if run.machine else "",
    }


def diagnosis_of(run: RunRecord, latest: Sequence[Mapping[str, Any]] | None = None) -> list[str]:
    """What keeps a run from learning, worst first; `latest` are its latest episodes where they have been read."""
    if latest is None:
        latest = run.episodes(run.steps[-1]) if run.steps else []
    sentences = diagnose(run.rows, latest, penalty=kl_coefficient(run.config))
    return [*sentences, *(f"{note[:1].upper()}{note[1:]}." for note in run.summary.get("notes", ()))]


@functools.cache
def template(name: str, *folders: Path) -> jinja2.Template:
    """A template beside this file, or in other `folders`; everything put into it is escaped.

    In it `policy(SCRIPT, ...)` is what `policy` here gives.
    """
    loader = jinja2.FileSystemLoader([*folders, HERE])
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.globals["policy"] = policy
    return environment.get_template(name)


def policy(*scripts: str, connect: bool = False) -> str:
    """The Content-Security-Policy of a page: nothing is fetched or sent, and no script runs but these.

    With `connect` scripts may ask the server that the page comes from.
    """
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes) or "'none'"
    # Styles and pictures stand in the page, where they can load nothing.
    inline = "style-src 'unsafe-inline'; img-src data:"
    inline += "; connect-src 'self'" if connect else ""
    return f"default-src 'none'; script-src {allowed}; {inline}; base-uri 'none'; form-action 'none'"


def asset(name: str) -> Markup:
    """A style sheet or script beside this file."""
    return Markup((HERE / name).read_text(encoding="utf-8"))


def drawn(charts: Sequence[Chart]) -> list[dict[str, Any]]:
    """Charts as the template `figure.html` wants them."""
    return [
        {"title": c.title, "unit": c.unit, "note": c.note, "lines": c.lines, "drawn": Markup(c.svg())} for c in charts
    ]


def embedded(data: Any) -> Markup:
    """JSON that is safe inside a script element, whatever texts it holds."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    text = text.encode(errors="replace").decode()  # halves of characters stop some browsers
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


# ---------------------------------------------------------------- numbers in words


def percent(value: float | None) -> str:
    """A share as percent."""
    return "–" if value is None else f"{100 * value:.1f} %"


def plain(value: float | None) -> str:
    """A number with about four digits."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def duration(seconds: float | None) -> str:
    """Seconds in the units a person would use."""
    if seconds is None:
        return "–"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def change(before: float, after: float, *, share: bool) -> str:
    """A difference with its sign; shares differ in points."""
    difference = (after - before) * (100 if share else 1)
    text = f"{difference:+.1f} points" if share else f"{difference:+.4g}"
    return text.replace("-", "−")


def measured(summary: Mapping[str, Any], when: str, measure: str) -> float | None:
    """The evaluated success before or after, by the way of playing that leads."""
    before, after = summary.get("before") or {}, summary.get("after") or {}
    first, *_ = ways_shown(before, after, measure, str(summary.get("leads")))
    value = as_greedy(before if when == "before" else after, measure, first).get(measure)
    return float(value) if is_number(value) else None


# ---------------------------------------------------------------- the head


@dataclass(frozen=True)
class Hero:
    """What was gained, as text; `beside`, what was by the other way of playing, where it is another."""

    what: str
    before: str
    after: str
    gain: str
    down: bool
    whiskers: Markup
    beside: Sequence[str] = ()


def hero(run: RunRecord) -> Hero | None:
    """The gain with its intervals; None before the first evaluation."""
    summaries = [run.summary.get(when) or {} for when in ("before", "after")]
    first, *others = ways = ways_shown(summaries[0], summaries[1], run.measure, str(run.summary.get("leads")))
    evaluations = [as_greedy(evaluation, run.measure, first) for evaluation in summaries]
    before, after = (evaluation.get(run.measure) for evaluation in evaluations)
    if before is None or after is None:
        return None
    share = is_share(run.measure)
    show = percent if share else plain
    n = summaries[1].get("n")
    what = MEASURES.get(run.measure, ACCURACY)
    where = f"{what.title} on {n:,.0f} {what.each}" if is_number(n) else what.title
    where += f", {first}" if ways != (GREEDY,) else ""
    figures = [[as_greedy(evaluation, run.measure, way).get(run.measure) for evaluation in summaries] for way in others]
    return Hero(
        what=where,
        before=show(before),
        after=show(after),
        gain=change(before, after, share=share),
        down=after > before if what.falls else after < before,
        whiskers=whiskers(evaluations, run.measure),
        beside=[f"{way} {show(old)} → {show(new)}" for way, (old, new) in zip(others, figures, strict=True)],
    )


def whiskers(evaluations: Sequence[Mapping[str, Any]], measure: str) -> Markup:
    """Before and after as dots with their 95 % intervals on one axis."""
    share = is_share(measure)
    show = percent if share else plain
    known = [float(e[key]) for e in evaluations for key in (measure, "low", "high") if is_number(e.get(key))]
    low, high = (0.0, 1.0) if share else (min(known), max(known))
    span = (high - low) or 1.0
    left, width = 54.0, 380.0

    def x(value: float) -> float:
        return left + (value - low) / span * width

    parts = []
    for number, (name, evaluation) in enumerate(zip(("before", "after"), evaluations, strict=True)):
        y, colour = 14 + 24 * number, "var(--soft)" if number == 0 else "var(--c0)"
        parts.append(f'<text x="0" y="{y + 4}">{name}</text>')
        parts.append(f'<line x1="{left}" x2="{left + width}" y1="{y}" y2="{y}" stroke="var(--rule)"/>')
        if is_number(evaluation.get("low")) and is_number(evaluation.get("high")):
            ends = (float(evaluation["low"]), float(evaluation["high"]))
            parts.append(
                f'<line x1="{x(ends[0]):.1f}" x2="{x(ends[1]):.1f}" y1="{y}" y2="{y}" stroke="{colour}" '
                'stroke-width="7" stroke-linecap="round" opacity=".35"/>'
            )
            label = f"{show(ends[0])} to {show(ends[1])}"
            place, anchor = (x(ends[1]) + 9, "start") if x(ends[1]) < 300 else (x(ends[0]) - 9, "end")
            parts.append(f'<text x="{place:.1f}" y="{y - 4}" text-anchor="{anchor}">{label}</text>')
        parts.append(f'<circle cx="{x(float(evaluation[measure])):.1f}" cy="{y}" r="5" fill="{colour}"/>')
    return Markup(
        f'<svg class="whiskers" viewBox="0 0 444 50" role="img" aria-label="95 % intervals">{"".join(parts)}</svg>'
    )


def _chips(run: RunRecord) -> list[tuple[str, str]]:
    known = {**run.summary, **team(run.config)}
    names = ("task", "workflow", "cast", "recipe", "model", "seed")
    return [(name, str(known[name])) for name in names if known.get(name) not in (None, "")]


def team(config: Mapping[str, Any]) -> dict[str, Any]:
    """The workflow that the run or its recipe prescribes, and the cast where roles do not share one policy."""
    plan = config.get("plan") or ()
    recipe = (plan[0].get("recipe") if plan else None) or config.get("recipe")
    recipe = recipe if isinstance(recipe, Mapping) else {}
    cast = str((recipe.get("cast") or {}).get("type") or "").rpartition(".")[2]
    return {"workflow": config.get("workflow") or recipe.get("workflow"), "cast": cast if cast != "Shared" else None}


def _facts(run: RunRecord) -> list[tuple[str, str]]:
    summary = run.summary
    facts = [("steps", plain(summary.get("steps"))), ("time", duration(summary.get("seconds")))]
    generated = sum(row["tokens/generated"] for row in run.trained if is_number(row.get("tokens/generated")))
    if generated:
        facts.append((f"{units_of(run.measure).total} sampled", f"{generated:,.0f}"))
    best = summary.get("best") or {}
    value = next((best[key] for key in ("success", run.measure) if is_number(best.get(key))), None)
    if value is not None:
        show = percent if is_share(run.measure) else plain
        facts.append(("best measured", f"{show(value)} at step {best.get('step')}"))
    ended = summary.get("reason") or summary.get("exit")
    if ended:
        facts.append(("state" if ended == "training" else "ended", str(ended)))
    return facts


# ---------------------------------------------------------------- before and after


def before_and_after(run: RunRecord) -> list[dict[str, str]]:
    """Rows of the table: the measure with its interval, the length, and every trait of the answers."""
    before, after = run.summary.get("before") or {}, run.summary.get("after") or {}
    apart = {run.measure, "n", "low", "high", "length", "step", "success", "seconds", *SAMPLED_KEYS}
    traits = [name for name in {**before, **after} if name not in apart and not is_recorded(name)]
    rows = []
    ways = ways_shown(before, after, run.measure, str(run.summary.get("leads")))
    for name, way in (*((run.measure, way) for way in ways), *((name, "") for name in ("length", *traits))):
        pair = [as_greedy(evaluation, run.measure, way) if way else evaluation for evaluation in (before, after)]
        old, new = (evaluation.get(name) for evaluation in pair)
        if not (is_number(old) and is_number(new)):
            continue
        share = (
            name not in ("length", "return", "loss")
            and not name.startswith("reward/")
            and min(old, new) >= 0
            and max(old, new) <= 1
        )
        show = percent if share else plain
        units = units_of(run.measure)
        length = "steps per episode" if units is EPISODES else f"mean length, {units.decisions}"
        label = {"length": length, **WORDS}.get(name, name.replace("reward/", "reward ").replace("_", " "))
        ends = [_interval(e, show) if name == run.measure else "" for e in pair]
        rows.append(
            {
                "name": f"{label}, {way}" if way and ways != (GREEDY,) else label,
                "before": show(old) + ends[0],
                "after": show(new) + ends[1],
                "change": change(old, new, share=share),
            }
        )
    for name, label, share in recorded_rows(before, after, apart=run.measure):
        old, new = before[name], after[name]
        if is_number(old) and is_number(new):
            show = percent if share else plain
            ends = [_ends(interval_of(evaluation, name), show) for evaluation in (before, after)]
            words = {"before": show(old) + ends[0], "after": show(new) + ends[1]}
            rows.append({"name": label, **words, "change": change(old, new, share=share)})
    return rows


def _ends(ends: tuple[float, float] | None, show: Any) -> str:
    return "" if ends is None else f"  ({show(ends[0])} to {show(ends[1])})"


def _interval(evaluation: Mapping[str, Any], show: Any) -> str:
    low, high = evaluation.get("low"), evaluation.get("high")
    return f"  ({show(low)} to {show(high)})" if is_number(low) and is_number(high) else ""
