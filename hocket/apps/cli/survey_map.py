"""`hocket map`."""

from __future__ import annotations

import argparse

from hocket.apps.cli.command import Command
from hocket.apps.cli.output import Pairs, emit, out
from hocket.core.errors import ConfigurationError


def _flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("survey", nargs="?", metavar="SURVEY", help="a survey by its name in the list")
    where = "only what is in this cell; repeat it for what is in all of several cells"
    parser.add_argument("--where", metavar="AXIS=CELL", action="append", default=[], help=where)


def _run(options: argparse.Namespace, pairs: Pairs) -> int:
    from rich.markup import escape

    from hocket.apps.report import map as maps

    if pairs:
        raise ConfigurationError(f"`hocket map` has no setting --{pairs[0][0]}; it takes SURVEY, --where and --json")
    if options.survey is None:
        if options.where:
            raise ConfigurationError(
                "--where chooses cells of one survey; name it: hocket map SURVEY --where AXIS=CELL"
            )
        if options.json:
            emit([maps.selected(survey.name, ()).to_json() for survey in maps.surveys()])
        else:
            out().print(maps.surveys_table())
        return 0
    selection = maps.selected(options.survey, options.where)
    if options.json:
        emit(selection.to_json())
    elif selection.names is not None:
        out().print("\n".join(selection.names) or "nothing is in all of these cells", markup=False)
    else:
        survey = selection.survey
        out().print(f"[bold]{escape(survey.title)}[/]. {escape(survey.source)}")
        out().print(maps.survey_table(survey))
        out().print(f"What runs: {escape(survey.witness)}")
    return 0


MAP = Command(
    name="map",
    description="what of the field the library has, by surveys' taxonomies",
    family="methods",
    details="""What the library has in each cell of a survey's taxonomy, and what it lacks (docs/map.md).

  hocket map                                   the surveys
  hocket map survey-rl-techniques-llm          one, cell by cell
  hocket map survey-rl-techniques-llm --where reward=learned --where feedback=preferences
                                               the recipes that are in all of these cells""",
    flags=_flags,
    run=_run,
)
