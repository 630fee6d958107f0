"""What each command does. Progress goes to stderr; stdout holds the result, or one JSON document with `--json`."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import json
import math
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hocket.errors import ConfigurationError, HocketError, nearest

Pairs = list[tuple[str, Any]]

INTERRUPTED = 130


def _out() -> Console:
    return Console(highlight=False, soft_wrap=not sys.stdout.isatty())


def _err() -> Console:
    return Console(stderr=True, highlight=False)


def emit(document: Any) -> None:
    """One JSON document on stdout; what is not a finite number is null."""
    print(json.dumps(_finite(document), indent=2, ensure_ascii=False))


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


def find_run(name: str, runs: str) -> Path:
    """A run folder by path, or by name under `runs`."""
    for folder in (Path(name), Path(runs) / name):
        if (folder / "config.yaml").is_file():
            return folder
    there = [f.name for f in Path(runs).glob("*") if (f / "config.yaml").is_file()] if Path(runs).is_dir() else []
    hint = nearest(name, there) if there else f"; there are no runs in {runs}/ yet"
    if "choose from" in hint and len(there) > 3:
        hint = f"; there are {len(there)} others in {runs}/"
    raise ConfigurationError(f"there is no run {name!r}{hint}")


# ---------------------------------------------------------------- train


def train(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket train`."""
    from hocket.display import LiveDisplay, closing, program
    from hocket.train.trainer import Nobody

    console = _err()
    display = None if options.quiet else LiveDisplay(console)
    trainer = _trainer(options, pairs, display or Nobody())
    with _stopping() as stop:
        if display:
            display.started(trainer)
        try:
            while not trainer.done and not stop:
                row = trainer.step()
                if display:
                    display.stepped(trainer, row)
        finally:
            if display:
                display.close()
    interrupted = bool(stop) and not trainer.done
    if interrupted:
        trainer.save()
    trainer.finish("interrupted" if interrupted else "finished")
    summary = trainer.summary("interrupted" if interrupted else "finished")
    if not options.quiet:
        resume = f"{program()} train --resume {trainer.folder.path}"
        more = "" if interrupted else f" --steps {trainer.total_steps * 2}"
        console.print(closing(summary, trainer.folder.path, resume=resume + more))
    if options.json:
        emit({**summary, "path": str(trainer.folder.path)})
    return INTERRUPTED if interrupted else 0


def _trainer(options: argparse.Namespace, pairs: Pairs, observer: Any) -> Any:
    from hocket import tasks
    from hocket.run import Trainer, write_report
    from hocket.train.config import configure, read_pairs
    from hocket.train.trainer import resumed

    flags = _flag_pairs(options) + pairs
    if options.resume:
        forbidden = [key for key, _ in flags if key not in ("steps", "runs", "track")] + (
            ["CONFIG.yaml"] if options.config else []
        )
        if forbidden:
            raise ConfigurationError(
                f"a resumed run keeps its settings: {forbidden[0]} cannot change (only steps, runs and track can)"
            )
        track = dict(pairs).get("track", ())
        run = find_run(options.resume, options.runs or "runs")
        return resumed(run, steps=options.steps, track=_words(track), observer=observer, report=write_report)
    settings = (read_pairs(Path(options.config)) if options.config else []) + flags
    task = tasks.find(str(dict(settings).get("task", "sums")))
    return Trainer(configure(settings, task), task=task, observer=observer)


def _words(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _flag_pairs(options: argparse.Namespace) -> Pairs:
    names = ("task", "recipe", "model", "workflow", "run", "runs", "steps", "seed")
    pairs = [(name, getattr(options, name)) for name in names if getattr(options, name) is not None]
    return pairs + ([("reward", tuple(options.reward))] if options.reward else [])


@contextmanager
def _stopping() -> Iterator[list[int]]:
    """The first Ctrl-C lets the step end and a checkpoint be written; the second stops at once."""
    stop: list[int] = []

    def handler(number: int, frame: object) -> None:
        if stop:
            raise KeyboardInterrupt
        stop.append(number)
        print("\nstopping after this step with a checkpoint; press Ctrl-C again to stop at once", file=sys.stderr)

    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, old in before.items():
            signal.signal(number, old)


# ---------------------------------------------------------------- eval


def eval(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket eval`."""
    from hocket.report.evaluation import evaluate_run

    source = _eval_target(options)
    tries = f" and {options.samples} sampled" if options.samples else ""
    print(
        f"measuring one greedy{tries} answer(s) to each of {options.n} unseen problems; --n asks fewer", file=sys.stderr
    )
    found = evaluate_run(
        source, pairs, n=options.n, samples=options.samples, task=options.task, which=options.checkpoint
    )
    if options.json:
        emit(found)
        return 0
    table = Table(box=None, header_style="dim")
    for heading in ("", "value", "95 % interval", "n"):
        table.add_column(heading, justify="right" if heading else "left")
    for name, value, low, high in found["rows"]:
        table.add_row(name, f"{value:.4f}", f"{low:.4f} – {high:.4f}", str(found["n"]))
    for name, value in found["traits"].items():
        table.add_row(name, f"{value:.3f}", "", str(found["n"]))
    console = _out()
    console.print(f"[bold]{found['source']}[/] on [cyan]{found['task']}[/]")
    console.print(table)
    return 0


def _eval_target(options: argparse.Namespace) -> Path:
    if (Path(options.run) / "config.json").is_file() or options.run == "nano":
        return Path(options.run)
    return find_run(options.run, options.runs)


# ---------------------------------------------------------------- recipes


def recipes(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket recipes`."""
    from hocket.recipes import all_recipes, find
    from hocket.report import methods

    if options.check is not None:
        return _check(options)
    if options.docs:
        from hocket.report.method_docs import write_docs

        print(*write_docs(Path(options.docs)), sep="\n")
    elif options.compare:
        left, right = (find(name) for name in options.compare)
        rows = [
            {"setting": path, left.name: one, right.name: other}
            for path, one, other in methods.differences(left, right)
        ]
        if options.json:
            emit({"recipes": options.compare, "differences": rows, "gradients": methods.relations(left, right)})
        else:
            _out().print(methods.comparison(left, right))
    elif options.name:
        emit(methods.in_full(find(options.name))) if options.json else _out().print(methods.page(find(options.name)))
    elif options.json:
        emit([methods.as_row(recipe) for recipe in all_recipes().values()])
    else:
        _out().print(methods.listing(all_recipes().values()))
    return 0


def _check(options: argparse.Namespace) -> int:
    """Runs the checks of catalogue rows and prints what they found; exit 1 when a claim does not hold."""
    from hocket.checks import all_checks, checks_of
    from hocket.checks.record import keep
    from hocket.checks.running import run_checks
    from hocket.report.methods import verdict_table

    rows = options.check or sorted({check.row for check in all_checks()})
    unknown = next((row for row in rows if not checks_of(row)), None)
    if unknown is not None:
        raise ConfigurationError(f"no check is known for {unknown!r}{nearest(unknown, {c.row for c in all_checks()})}")
    asked = [check for row in rows for check in checks_of(row) if not (options.quick and check.slow)]
    console, found = _err(), []
    for verdict in run_checks(asked, options.workers):
        found.append(verdict)
        mark = "[green]holds[/]" if verdict.holds else "[red]fails[/]"
        console.print(f"[dim]{len(found)}/{len(asked)}[/] {mark} {verdict.row}: {escape(verdict.claim)}")
        if options.keep:
            keep(found)
    place = {(check.row, check.claim): number for number, check in enumerate(asked)}
    found.sort(key=lambda one: place[one.row, one.claim])
    if options.json:
        by_row = {row: [one for one in found if one.row == row] for row in rows}
        held = {row: "works" if all(one.holds for one in ones) else "fails" for row, ones in by_row.items()}
        emit([{"id": row, "verdict": held[row], "checks": [one.to_json() for one in by_row[row]]} for row in rows])
    else:
        _out().print(verdict_table(found))
        failed = sum(not one.holds for one in found)
        _out().print(f"{len(found) - failed} of {len(found)} claims hold")
    return 0 if all(one.holds for one in found) else 1


def catalogue(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket catalogue`."""
    from hocket.checks.analyses import ANALYSES
    from hocket.report.methods import rows_table

    if options.json:
        emit([row.to_json() for row in ANALYSES])
    else:
        _out().print(rows_table())
    return 0


# ---------------------------------------------------------------- tasks


def tasks(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket tasks`."""
    from hocket import tasks as sources

    if options.name:
        return _sampled(sources.find(options.name), options.n, as_json=options.json)
    found = sources.catalogue(reasoning_gym=options.all)
    if options.json:
        emit([{"name": entry.name, "description": entry.description} for entry in found])
        return 0
    table = Table(box=None, header_style="dim")
    table.add_column("task")
    table.add_column("what it is")
    for entry in found:
        table.add_row(f"[bold]{entry.name}[/]", escape(entry.description))
    _out().print(table)
    return 0


def _sampled(task: Any, n: int, *, as_json: bool) -> int:
    from hocket.train.kinds import kind_of

    size = task.size("train")
    scenarios = [task.scenario("train", number) for number in range(n if size is None else min(n, size))]
    if as_json:
        rows = [{"id": s.id, "prompt": s.prompt, "answer": s.answer, "seed": s.seed} for s in scenarios]
        emit({"name": task.name, "kind": kind_of(task).name, "train": size, "eval": task.size("eval"), "samples": rows})
        return 0
    console = _out()
    amount = "endless" if size is None else f"{size} scenarios"
    console.print(f"[bold]{task.name}[/]  {kind_of(task).name}, {amount} to train on")
    for scenario in scenarios:
        prompt = "\n  ".join(str(message["content"]) for message in scenario.messages) or f"seed {scenario.seed}"
        console.print(f"\n  {prompt}", markup=False)
        if scenario.answer is not None:
            console.print(f"  [dim]answer[/] {escape(str(scenario.answer))}")
    return 0


# ---------------------------------------------------------------- workflows


def workflows(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket workflows`."""
    from hocket.workflows.library import library, settings_of

    if options.name:
        return _workflow(options.name, as_json=options.json)
    known = library()
    found = {name: settings_of(one.load()) for name, one in known.items()}
    if options.json:
        rows = [{"name": name, "description": known[name].description, "settings": found[name]} for name in found]
        emit(rows)
        return 0
    table = Table(box=None, header_style="dim")
    table.add_column("workflow", no_wrap=True)
    table.add_column("what is played, and its settings")
    for name, settings in found.items():
        table.add_row(f"[bold]{name}[/]", f"{escape(known[name].description)}\n[dim]{escape(_brief(settings))}[/]")
    _out().print(table)
    return 0


def _workflow(name: str, *, as_json: bool) -> int:
    from hocket.workflows.library import find, settings_of

    found = find(name)
    settings, said = settings_of(type(found)), inspect.getdoc(type(found)) or ""
    if as_json:
        emit({"name": name, "roles": list(found.roles), "settings": settings, "description": said})
        return 0
    console = _out()
    console.print(f"[bold]{escape(name)}[/]  roles {escape(', '.join(found.roles))}\n\n{escape(said)}")
    if settings:
        console.print(f"\n[dim]settings[/] {escape(_brief(settings))}")
    return 0


def _brief(settings: dict[str, Any], longest: int = 24) -> str:
    """Settings with their defaults as they are written in a workflow's name; long texts are cut."""
    told = {name: value if isinstance(value, str) else json.dumps(value) for name, value in settings.items()}
    cut = {name: text if len(text) <= longest else f"{text[:longest]}.." for name, text in told.items()}
    return "  ".join(f"{name}={text}" for name, text in cut.items())


# ---------------------------------------------------------------- report, compare


def report(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket report`."""
    from hocket.report.page import write_report

    print(write_report(find_run(options.run, options.runs)))
    return 0


def compare(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket compare`."""
    from hocket.report.compare import compare_page, compare_rows, compare_table

    runs = [find_run(run, options.runs) for run in options.run]
    if options.json:
        emit(compare_rows(runs))
    else:
        _out().print(compare_table(runs))
    if options.html:
        Path(options.html).write_text(compare_page(runs))
        print(options.html, file=sys.stderr)
    return 0


# ---------------------------------------------------------------- microscope


def microscope(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket microscope`."""
    if options.record:
        return _record(options)
    if not options.batch or not options.recipe:
        raise ConfigurationError("name a batch and at least one recipe: --batch FILE.json --recipe NAME")
    from hocket.microscope import look
    from hocket.report.microscope import html, view

    document = _read_batch(Path(options.batch))
    changes = dict(_assignment(text) for text in options.set)
    found: list[dict[str, Any]] = []
    for name in options.recipe:
        try:
            found.append(look(_changed(name, changes), document))
        except (HocketError, ValueError) as error:
            found.append({"recipe": name, "error": str(error)})
    if options.html:
        Path(options.html).write_text(html(found, document, f"{', '.join(options.recipe)} on {options.batch}"))
        print(options.html, file=sys.stderr)
    if options.json:
        emit(found)
    elif not options.html:
        _out().print(view(found, document))
    return 2 if all("error" in one for one in found) else 0


def _changed(name: str, changes: dict[str, Any]) -> Any:
    from hocket.recipes import find

    return find(name).but(changes) if changes else find(name)


def _assignment(text: str) -> tuple[str, Any]:
    import yaml

    key, equals, value = text.partition("=")
    if not equals:
        raise ConfigurationError(f"--set {text}: write KEY=VALUE, for example --set objective.low=0.1")
    return key, yaml.safe_load(value)


def _read_batch(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text())
    except FileNotFoundError:
        raise ConfigurationError(f"there is no batch {path}") from None
    except json.JSONDecodeError as error:
        raise ConfigurationError(f"{path} is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise ConfigurationError(f"{path} must hold one object with version and trajectories")
    return document


def _record(options: argparse.Namespace) -> int:
    from hocket.microscope import record
    from hocket.train.episodes import read_episodes

    if not options.out:
        raise ConfigurationError("--record needs --out FILE.json")
    rollouts = find_run(options.record, options.runs) / "rollouts"
    steps = sorted(rollouts.glob("step-*.jsonl"))
    chosen = steps[-1:] if options.step is None else [f for f in steps if int(f.stem.split("-")[1]) == options.step]
    if not chosen:
        there = ", ".join(str(int(f.stem.split("-")[1])) for f in steps) or "none"
        raise ConfigurationError(f"step {options.step} was not recorded; recorded steps: {there}")
    Path(options.out).write_text(json.dumps(record(read_episodes(chosen[0]))))
    print(options.out, file=sys.stderr)
    return 0


# ---------------------------------------------------------------- study


def study(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket study`."""
    from hocket.studies import command

    return command.main(options, pairs, emit)


# ---------------------------------------------------------------- serve, play


def serve(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket serve`."""
    from hocket.serve import command

    console = _err()

    def ready(told: dict[str, Any]) -> None:
        console.print(f"serving [bold]{escape(', '.join(told['models']))}[/] ({told['weights']}) at {told['url']}")
        console.print("[dim]Ctrl-C ends it[/]" if told["keys"] else "[dim]for this machine alone; Ctrl-C ends it[/]")
        if options.json:
            # One line, since it comes while the program goes on: whoever waits for it reads a line.
            print(json.dumps(told, ensure_ascii=False), flush=True)

    command.serve(_eval_target(options), options, pairs, ready=ready, say=lambda words: console.print(escape(words)))
    return 0


def play(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket play`."""
    from hocket.play import command
    from hocket.play.screen import Screen

    command.play(_eval_target(options), options, pairs, Screen(_out()))
    return 0


# ---------------------------------------------------------------- pretrain, doctor


def pretrain(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket pretrain`."""
    from hocket.nano.pretrain import Pretraining
    from hocket.nano.pretrain import pretrain as make

    settings = Pretraining() if options.seed is None else dataclasses.replace(Pretraining(), seed=options.seed)
    console = _err()

    def show(found: dict[str, Any]) -> None:
        console.print(f"step {found['step']:5d}  loss {found['loss']:.3f}  accuracy {found['accuracy']:.3f}")

    emit(make(settings, Path(options.out), progress=show))
    console.print(f"the base is in {options.out}; train it with `hocket train --model {options.out}`")
    return 0


def doctor(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket doctor`."""
    from hocket.doctor import examine

    findings = examine()
    if options.json:
        emit([dataclasses.asdict(finding) for finding in findings])
    else:
        table = Table(box=None, show_header=False)
        for finding in findings:
            mark = "[green]ok[/]" if finding.fine else "[yellow]--[/]" if finding.optional else "[red]bad[/]"
            table.add_row(mark, finding.name, escape(finding.found), f"[dim]{escape(finding.advice)}[/]")
        _out().print(table)
    return 0 if all(finding.fine or finding.optional for finding in findings) else 1


__all__: Sequence[str] = (
    *(
        "catalogue",
        "compare",
        "doctor",
        "eval",
        "microscope",
        "play",
        "pretrain",
        "recipes",
        "report",
        "serve",
        "study",
        "tasks",
        "train",
        "workflows",
    ),
)
