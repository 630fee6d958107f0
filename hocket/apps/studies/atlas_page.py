"""The atlas as tables, sentences and pages: Markdown for the site, and HTML with a table to sort and with curves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from rich.markup import escape
from rich.table import Table

from hocket import __version__
from hocket.apps.report.cards import card
from hocket.apps.report.chart import Chart, ChartLine
from hocket.apps.report.page import asset, drawn, duration, percent, plain, template
from hocket.lab.claims import atlas as data
from hocket.lab.claims.atlas import COMMON, GRADIENT, MARGIN, AtlasRun, FigureInterval, Standing, standings
from hocket.lab.claims.learns_check import in_words

Outcome = Literal["learns", "behind", "not learnt", "diverged", "failed"]

OUTCOMES: Mapping[Outcome, str] = {
    "learns": "nothing diverged, unseen success rose by more than its interval, and it is not behind",
    "behind": f"it rose and ends below the recipe beside it by more than {MARGIN:g} and the interval, in either figure",
    "not learnt": "success on unseen scenarios did not rise by more than its interval, neither greedy nor sampled",
    "diverged": f"a number that is watched blew up, or a gradient norm passed {GRADIENT:.0e}",
    "failed": "there is no result",
}
"""What a run can come to, and when."""

HEADINGS: tuple[str, ...] = (
    *("recipe", "family", "task", "outcome", "before", "final", "sampled", "beside", "difference"),
    *("sampled difference", "sooner", "in equal time", "processor time", "largest gradient", "steps", "seeds"),
)

COLUMNS = {
    "before": "greedy success on unseen scenarios, as `final`",
    "sampled": "success of answers that are sampled as in training, before and after",
    "difference": "final minus that of the recipe beside it, where the smaller of both numbers of sampled answers is "
    "used up",
    "sampled difference": "of the sampled figure at the end, where both sampled about as many answers",
    "sooner": "the same of the mean height of the curves until there: who learns earlier",
    "in equal time": "the same of the final figure where the smaller of both processor times is used up",
    "processor time": "of training, without measurements, a run",
    "steps": "of the run, and of the one beside it",
}
"""What a heading means."""


@dataclass(frozen=True)
class AtlasRow:
    """A recipe on a task: what its runs say, or why there are none."""

    recipe: str
    task: str
    standing: Standing | None
    failure: str = ""

    @property
    def family(self) -> str:
        """Of the recipe."""
        return str(card(self.recipe)["family"])

    @property
    def outcome(self) -> Outcome:
        """What it came to."""
        result = self.standing
        if result is None:
            return "failed"
        if not result.sound:
            return "diverged"
        if not result.rose:
            return "not learnt"
        return "learns" if result.keeps_up() else "behind"

    def cells(self) -> list[tuple[str, float | None]]:
        """By `HEADINGS`, each with the number that it is sorted by; None for words."""
        result = self.standing
        words: list[tuple[str, float | None]] = [(self.recipe, None), (self.family, None), (self.task, None)]
        if result is None:
            return [*words, (f"failed: {self.failure}", None), *[("–", None)] * (len(HEADINGS) - 4)]
        first, share = result.runs[0], result.runs[0].share
        seconds = fmean(run.seconds for run in result.runs)
        gradients = [run.gradient for run in result.runs if run.gradient is not None]
        differences = (result.beside, result.sampled_beside, result.sooner, result.in_time)
        ended = f" ({first.ended})" if first.ended else ""
        return [
            *words,
            (f"{self.outcome}{ended}", None),
            (_value(result.before.value, share), result.before.value),
            (_spread(result.final, share), result.final.value),
            _sampled(result, share),
            (result.rival[0].recipe if result.rival else "–", None),
            *((_signed(of, share), None if of is None else of.value) for of in differences),
            (duration(seconds), seconds),
            (f"{max(gradients):.2g}", max(gradients)) if gradients else ("–", None),
            (str(first.steps), first.steps),
            (str(len(result.runs)), len(result.runs)),
        ]


def collected(recipes: Iterable[str], file: Path | None = None) -> list[AtlasRow]:
    """What is kept of recipes, by task and final figure; in `file`, else beside the library's methods."""
    rows = []
    for name in recipes:
        known = standings(name, file)
        rows += [AtlasRow(name, task, result) for task, result in known.items()]
        runs = data.runs_of(name) if file is None else data.read(file, name)
        failed = {run.task: run.failure for run in runs if run.failure and data.fresh(run) and run.task not in known}
        rows += [AtlasRow(name, task, None, failure) for task, failure in failed.items()]
    sizes = {task: sum(row.task == task for row in rows) for task in {row.task for row in rows}}
    return sorted(rows, key=lambda row: (-sizes[row.task], row.task, -_final(row), row.recipe))


def _final(row: AtlasRow) -> float:
    return float("-inf") if row.standing is None else row.standing.final.value


# ---------------------------------------------------------------- in words


COMPARED = {
    "greedy, at equal samples": "beside",
    "sampled, at the end": "sampled_beside",
    "in the mean height of the curve": "sooner",
}
"""In which figures recipes are compared with those beside them, and their names in a `Standing`."""


@dataclass(frozen=True)
class TaskSummary:
    """What helps on a task: a heading, and a line for each figure, names of recipes in backquotes."""

    heading: str
    lines: tuple[str, ...]


def summaries(rows: Sequence[AtlasRow]) -> list[TaskSummary]:
    """What helps on which task, and what was not significant; of tasks with two compared recipes."""
    by_task = []
    for task in dict.fromkeys(row.task for row in rows):
        compared = [row for row in rows if row.task == task and row.standing and row.standing.beside]
        if len(compared) < 2:
            continue
        chance = max(1, round(0.05 * len(compared)))
        heading = (
            f"`{task}`: {len(compared)} compared with their parents, of which about {chance} would differ by chance"
        )
        lines = (f"{words}: {_compared(compared, name)}" for words, name in COMPARED.items())
        by_task.append(TaskSummary(heading, tuple(lines)))
    return by_task


def _compared(rows: Sequence[AtlasRow], name: str) -> str:
    """Which rows are significantly better or worse in a figure, the largest difference first; how many are neither."""
    gaps = [(row, getattr(row.standing, name)) for row in rows]
    known = sorted(((row, gap) for row, gap in gaps if gap is not None), key=lambda pair: -abs(pair[1].value))
    if not known:
        return "not compared"
    better, worse = ([pair for pair in known if sign * pair[1].value > 0 and _apart(pair[1])] for sign in (1, -1))
    level = len(known) - len(better) - len(worse)
    parts = [f"{word} {_named(pairs)}" for word, pairs in (("better", better), ("worse", worse)) if pairs]
    return "; ".join([*parts, f"no significant difference in {level} of {len(known)}"])


def _nested(by_task: Sequence[TaskSummary]) -> list[str]:
    """Summaries as a list in Markdown."""
    if not by_task:
        return ["No task has two compared recipes yet."]
    return [line for each in by_task for line in (f"- {each.heading}", *(f"    - {line}" for line in each.lines))]


def _apart(gap: FigureInterval) -> bool:
    return gap.low > 0 or gap.high < 0


def _named(pairs: Sequence[tuple[AtlasRow, FigureInterval]]) -> str:
    shown = (f"`{row.recipe}` {_signed(gap, _share(row)).partition(' (')[0]}" for row, gap in pairs)
    return ", ".join(shown)


def _share(row: AtlasRow) -> bool:
    return row.standing is not None and row.standing.runs[0].share


def counts(rows: Sequence[AtlasRow]) -> str:
    """How many recipes and rows there are, and what they came to."""
    by_outcome = {outcome: sum(row.outcome == outcome for row in rows) for outcome in OUTCOMES}
    words = ", ".join(f"{outcome} {count}" for outcome, count in by_outcome.items() if count)
    recipes, tasks = len({row.recipe for row in rows}), len({row.task for row in rows})
    return f"{_number(recipes, 'recipe')}, {_number(tasks, 'task')}; outcomes: {words or 'no runs'}"


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _sampled(result: Standing, share: bool) -> tuple[str, float | None]:
    """The figure of sampled answers before and after."""
    if result.sampled is None or result.sampled_gain is None:
        return "–", None
    before = result.sampled.value - result.sampled_gain.value
    return f"{_value(before, share)} → {_spread(result.sampled, share)}", result.sampled.value


def _value(value: float, share: bool) -> str:
    return percent(value) if share else plain(value)


def _spread(figure: FigureInterval, share: bool) -> str:
    ends = f"{_value(figure.low, share).removesuffix(' %')} to {_value(figure.high, share).removesuffix(' %')}"
    return f"{_value(figure.value, share)} ({ends})"


def _signed(figure: FigureInterval | None, share: bool) -> str:
    """A difference in points, or in units of the return."""
    if figure is None:
        return "–"
    factor, form = (100, "+.1f") if share else (1, "+.3g")
    value, low, high = (format(factor * end, form).replace("-", "−") for end in (figure.value, figure.low, figure.high))
    return f"{value} ({low} to {high})"


# ---------------------------------------------------------------- pages


def terminal(rows: Sequence[AtlasRow]) -> Table:
    """A row each; what is long stands on the page."""
    table = Table(box=None, header_style="dim")
    shown = [
        HEADINGS.index(name)
        for name in ("recipe", "task", "outcome", "before", "final", "sampled", "beside", "difference")
    ]
    for place in shown:
        table.add_column(HEADINGS[place], overflow="fold")
    for row in rows:
        cells = row.cells()
        table.add_row(*(escape(cells[place][0]) for place in shown))
    return table


def as_json(rows: Sequence[AtlasRow]) -> list[dict[str, Any]]:
    """As in `hocket atlas --json`."""
    return [
        {
            "recipe": row.recipe,
            "family": row.family,
            "task": row.task,
            "outcome": row.outcome,
            "failure": row.failure,
            **({} if row.standing is None else _figures(row.standing)),
        }
        for row in rows
    ]


def _figures(standing: Standing) -> dict[str, Any]:
    names = ("before", "final", "gain", "sampled", "sampled_gain", "beside", "sampled_beside", "sooner", "in_time")
    spreads = {name: getattr(standing, name) for name in names}
    return {
        **{name: None if of is None else [of.value, of.low, of.high] for name, of in spreads.items()},
        "rival": standing.rival[0].recipe if standing.rival else None,
        "command": standing.runs[0].command,
        "words": in_words(standing),
        "runs": [run.to_json() for run in standing.runs],
    }


def markdown(rows: Sequence[AtlasRow], others: Sequence[str] = ()) -> str:
    """The page of the site; `atlas.html` lies beside it, and the pages of the `others`, by name."""
    lines = [
        "# Atlas",
        "",
        f"What recipes learn as shipped ({counts(rows)}). Generated by `hocket atlas --docs docs` from the runs that",
        "`hocket atlas --fill` keeps beside the methods. [The same with curves, to sort and filter](atlas.html)",
        "(open it from a clone).",
        *(["Other tasks and models: " + ", ".join(f"[{name}]({name}.md)" for name in others) + "."] if others else []),
        "",
        "Each recipe runs as `hocket train --recipe NAME --task TASK` does, with the task's suggestions and lessons,",
        "for the stated number of steps, on its own task and on one that its kind has in common, beside its parent.",
        "Success is greedy, on unseen scenarios. Intervals of 95 % are of the scenarios, or of the seeds where these",
        "differ more; with one seed they do not cover how seeds differ, so small differences mean nothing.",
        "",
        "| outcome | when |",
        "|---|---|",
        *(f"| {outcome} | {text} |" for outcome, text in OUTCOMES.items()),
        "",
        "| column | meaning |",
        "|---|---|",
        *(f"| {heading} | {text} |" for heading, text in COLUMNS.items()),
        "",
        "| kind | task in common | steps |",
        "|---|---|---|",
        *(f"| {kind} | `{task}` | {steps} |" for kind, (task, steps) in COMMON.items()),
        "",
        "## What helps on what",
        "",
        *_nested(summaries(rows)),
        *_tables(rows),
    ]
    return "\n".join(lines) + "\n"


def own_markdown(rows: Sequence[AtlasRow], name: str) -> str:
    """The page of an atlas on a task of one's own; `NAME.html` and the runs, `NAME.jsonl`, lie beside it."""
    command = next((row.standing.runs[0].command for row in rows if row.standing), "")
    lines = [
        f"# Atlas: {name}",
        "",
        f"What recipes learn on one task ({counts(rows)}), as [the atlas](index.md) says it of the library's own.",
        f"[The same with curves]({name}.html) (open it from a clone); the runs are in [{name}.jsonl]({name}.jsonl).",
        "Where an outcome says that a run ended, all ended after as many processor seconds. Each run was as this one,",
        "with its own recipe:",
        "",
        f"    {command}",
        *_tables(rows),
    ]
    return "\n".join(lines) + "\n"


def _tables(rows: Sequence[AtlasRow]) -> list[str]:
    """A table in Markdown for every task, and its heading."""
    lines: list[str] = []
    places = [number for number, heading in enumerate(HEADINGS) if heading not in ("task", "family")]
    for task in dict.fromkeys(row.task for row in rows):
        members = [row for row in rows if row.task == task]
        lines += ["", f"## {task}", ""]
        lines += ["| " + " | ".join(HEADINGS[place] for place in places) + " |", "|---" * len(places) + "|"]
        for row in members:
            cells = row.cells()
            shown = [f"`{row.recipe}`", *(cells[place][0].replace("|", "\\|") for place in places[1:])]
            lines.append("| " + " | ".join(shown) + " |")
    return lines


def page(rows: Sequence[AtlasRow], title: str = "Atlas") -> str:
    """The page with a table to sort and filter, and curves."""
    tasks = list(dict.fromkeys(row.task for row in rows))
    charts = {task: [_chart(row.standing) for row in rows if row.task == task and row.standing] for task in tasks}
    commands = {(row.recipe, row.task): row.standing.runs[0].command for row in rows if row.standing}
    return template("atlas.html", Path(__file__).parent).render(
        title=title,
        css=asset("page.css"),
        js=asset("page.js") + asset("atlas.js"),
        counts=counts(rows),
        summaries=summaries(rows),
        headings=HEADINGS,
        meanings=COLUMNS,
        outcomes=OUTCOMES,
        tasks=tasks,
        families=sorted({row.family for row in rows}),
        rows=[(row.cells(), row.outcome, commands.get((row.recipe, row.task), "")) for row in rows],
        charts=[(task, drawn(of)) for task, of in charts.items() if of],
        footer=f"hocket {__version__}",
    )


def _chart(standing: Standing) -> Chart:
    """The curve of a recipe and of what it stands beside, over sampled answers, or steps where it samples none."""
    runs = [standing.runs, *([standing.rival] if standing.rival else [])]
    across: data.Budget = "answers" if all(run.answers for group in runs for run in group) else "step"
    lines = [_line(group, across) for group in runs]
    return Chart(standing.runs[0].recipe, lines, share=standing.runs[0].share, across=across)


def _line(runs: Sequence[AtlasRun], across: data.Budget) -> ChartLine:
    """The mean over seeds at the points of the first, and the least and largest of several."""
    places = [float(getattr(point, across)) for point in runs[0].curve]
    columns = [[run.at(across, place) for run in runs] for place in places]
    points = [(place, fmean(column)) for place, column in zip(places, columns, strict=True)]
    band = [(place, min(column), max(column)) for place, column in zip(places, columns, strict=True)]
    return ChartLine(runs[0].recipe, points, band if len(runs) > 1 else (), marks=True)
