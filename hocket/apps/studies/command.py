"""`hocket study`: from flags to a finished study on the screen and in its folder."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from hocket.apps.studies.conduct import StudyRunner, checked, cost
from hocket.apps.studies.folder import StudyFolder
from hocket.apps.studies.markdown import markdown, pictures
from hocket.apps.studies.page import page
from hocket.apps.studies.planning import Planner
from hocket.apps.studies.pool import WorkerPool, Workers
from hocket.apps.studies.remote_workers import RemoteWorkers
from hocket.apps.studies.results import results
from hocket.apps.studies.study import Study, entries, read, without_recipe
from hocket.apps.studies.terminal import table
from hocket.apps.studies.words import equal_lines, failure_lines, remarks
from hocket.core.errors import ConfigurationError
from hocket.distributed.cluster.place import place_at
from hocket.train.cores import available_cores
from hocket.train.disk import json_ready

Pairs = Sequence[tuple[str, Any]]
Emit = Callable[[Any], None]


def study(options: argparse.Namespace, pairs: Pairs, *, out: Console, err: Console, emit: Emit) -> int:
    """Carries a study out, or tells with `--dry-run` what it would take; returns the exit code."""
    if not options.study and not options.recipes and not options.teams:
        raise ConfigurationError("name a study file, or recipes to compare: --recipes grpo,dapo --task sums")
    wanted = read(Path(options.study) if options.study else None, [*_flags(options), *pairs])
    place = Path(options.out) if options.out else Path("runs") / "studies" / wanted.name
    if options.workers is not None and options.workers < 1:
        raise ConfigurationError(f"--workers {options.workers}: at least one worker is needed")
    if options.dry_run:
        workers = options.workers or workers_at(options.cluster, None).size
        return _estimate(wanted, place, workers, out, emit if options.json else None)
    say = (lambda message: None) if options.quiet else lambda message: err.print(message, markup=False)
    outcome = run(wanted, place, options.workers, say, options.cluster)
    if options.json:
        emit(outcome)
    else:
        shown = table(outcome)
        # Never narrower than it needs: a line of figures that is cut cannot be read.
        out.width = max(out.width, out.measure(shown, options=out.options.update(max_width=1000)).maximum)
        out.print(shown)
        for line in [*remarks(outcome), *equal_lines(outcome), *failure_lines(outcome)]:
            out.print(line, markup=False)
        out.print(f"{place / 'report.html'}", markup=False)
    return 1 if outcome["runs"]["failed"] else 0


def workers_at(cluster: str | None, count: int | None) -> Workers:
    """`count` workers where they are to be; as many as there are cores when None."""
    if cluster is None:
        return WorkerPool(count or available_cores())
    where = place_at(cluster, processes=count or 1, cores=1)
    return RemoteWorkers(where, count or where.cores)


def run(
    wanted: Study, place: Path, workers: int | None, say: Callable[[str], None], cluster: str | None = None
) -> dict[str, Any]:
    """The study's results; its folder `place` gets `results.json`, `report.html`, and `report.md` with pictures.

    Args:
        workers: runs at a time, None for one per core. cluster: where they run, None for this machine.
    """
    planner = Planner(wanted)
    methods = checked(wanted, planner)  # Before the folder is touched, so that a study with a mistake leaves nothing.
    pool = workers_at(cluster, workers)
    folder = StudyFolder.open(place, wanted)
    try:
        conducted = StudyRunner(planner, methods, folder, pool, say).run()
        outcome: dict[str, Any] = json_ready(results(wanted, planner, conducted))
        folder.write("results.json", json.dumps(outcome, indent=1, allow_nan=False))
        folder.write("report.html", page(outcome))
        for name, text in {"report.md": markdown(outcome), **pictures(outcome)}.items():
            folder.write(name, text)
    finally:
        pool.close()
        folder.close()
    return outcome


def _flags(options: argparse.Namespace) -> list[tuple[str, Any]]:
    """The flags that were given, by the names of a study's keys."""
    plain = ("recipes", "baseline", "teams", "tokens", "model", "steps", "prompts", "samples", "seeds")
    flags = [(name, getattr(options, name)) for name in plain if getattr(options, name) is not None]
    if options.task:
        flags.append(("tasks", list(options.task)))
    if options.lr:
        flags.append(("tuning.grid.update.lr", [value.strip() for value in options.lr.split(",")]))
    return flags


def _estimate(wanted: Study, place: Path, workers: int, out: Console, emit: Emit | None) -> int:
    estimate = cost(wanted, StudyFolder(place))
    hours = None if estimate.seconds is None else estimate.seconds / 3600
    methods, missing = entries(wanted), without_recipe(wanted)
    if emit is not None:
        emit(
            {
                "study": wanted.name,
                "methods": [entry.label for entry in methods],
                "without_recipe": missing,
                "tasks": list(wanted.tasks),
                "runs": {"tuning": estimate.tuning, "testing": estimate.testing, "done": estimate.done},
                "cpu_hours": hours,
                "workers": workers,
            }
        )
        return 0
    out.print(
        f"{len(methods)} methods on {len(wanted.tasks)} task(s): {', '.join(e.label for e in methods)}", markup=False
    )
    if missing:
        out.print(f"without a recipe: {', '.join(missing)}", markup=False)
    out.print(f"at most {estimate.tuning} tuning runs and {estimate.testing} testing runs; {estimate.done} are done")
    if hours is None:
        out.print("how long a run takes is not known yet; `seconds: {TASK: SECONDS}` in the study file tells")
    else:
        out.print(f"about {hours:.1f} hours of processor time left, {hours / workers:.1f} with {workers} worker(s)")
    return 0


def main(arguments: argparse.Namespace, pairs: Pairs, emit: Emit) -> int:
    """With consoles as the other commands have them."""
    out = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
    return study(arguments, pairs, out=out, err=Console(stderr=True, highlight=False), emit=emit)
