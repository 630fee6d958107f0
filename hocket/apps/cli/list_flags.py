"""The flags of the commands that list recipes, tasks and workflows, and of those that look at a run."""

from __future__ import annotations

from argparse import ArgumentParser


def recipes(parser: ArgumentParser) -> None:
    """Those of `hocket recipes`."""
    parser.add_argument("name", nargs="?", help="a recipe to show in full, or a family to list")
    _listed(parser, "every recipe")
    checks = "run the checks of these catalogue rows, or of a FILE.py (of all rows without ID)"
    parser.add_argument("--check", metavar="ID", nargs="*", action="extend", help=checks)
    mutants = "run the checks of these rows on wrong versions of their methods, and list versions that no check detects"
    parser.add_argument("--mutate", metavar="ID", nargs="+", help=mutants)
    reach = (
        "with --mutate: instead, comparisons at their boundary, the other files of the row's folder, and the shared "
        "pieces that its method names"
    )
    parser.add_argument("--reach", action="store_true", help=reach)
    parser.add_argument(
        "--stale", action="store_true", help="with --check: only rows whose code has changed since their last check"
    )
    parser.add_argument("--quick", action="store_true", help="with --check or --mutate: skip checks that train a model")
    parser.add_argument(
        "--workers", type=int, default=1, metavar="N", help="checks or wrong versions that run in parallel (1)"
    )
    keep = (
        "with --check: save the results, which lists show; with --mutate: save which versions are detected, for --docs"
    )
    parser.add_argument("--keep", action="store_true", help=keep)
    parser.add_argument(
        "--docs",
        metavar="DIR",
        help="write the generated pages of the documentation, and the file that lists are read from",
    )
    parser.add_argument(
        "--compare", metavar="NAME", nargs=2, help="compare two recipes: settings, conventions and gradients"
    )
    as_json(parser)


def tasks(parser: ArgumentParser) -> None:
    """Those of `hocket tasks`."""
    parser.add_argument("name", nargs="?", help="a task to show samples of, or a family to list")
    parser.add_argument("--n", type=int, default=3, help="number of samples to show (3)")
    _listed(parser, "every task, and every dataset of reasoning-gym")
    as_json(parser)


def workflows(parser: ArgumentParser) -> None:
    """Those of `hocket workflows`."""
    describe = "a workflow to describe, as `hocket train --workflow` takes it, or a family to list"
    parser.add_argument("name", nargs="?", help=describe)
    _listed(parser, "every workflow")
    as_json(parser)


def report(parser: ArgumentParser) -> None:
    """Those of `hocket report`."""
    a_run(parser)
    parser.add_argument("--live", action="store_true", help="serve a page that renews itself while the run goes on")
    parser.add_argument("--port", type=int, metavar="N", help="with --live: the port (a free one)")


def a_run(parser: ArgumentParser) -> None:
    """Adds the run that a command looks at."""
    parser.add_argument("run", metavar="RUN", help="a run folder, or its name under --runs")
    parser.add_argument("--runs", default="runs", metavar="DIR")


def as_json(parser: ArgumentParser) -> None:
    """Adds `--json`."""
    parser.add_argument("--json", action="store_true", help="print one JSON document on stdout and nothing else")


def _listed(parser: ArgumentParser, everything: str) -> None:
    parser.add_argument("--all", action="store_true", help=f"list {everything}")
    parser.add_argument("--search", metavar="WORD", help="list those with WORD in their name or description")
