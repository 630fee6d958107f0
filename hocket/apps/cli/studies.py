"""`hocket study` and `hocket atlas`."""

from __future__ import annotations

import argparse

from hocket.apps.cli.output import Pairs, emit


def study(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket study`."""
    from hocket.apps.studies import command

    return command.main(options, pairs, emit)


def atlas(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket atlas`."""
    from hocket.apps.studies import atlas_command

    return atlas_command.main(options, pairs, emit)
