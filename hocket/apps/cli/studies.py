"""`hocket study`."""

from __future__ import annotations

import argparse

from hocket.apps.cli.output import Pairs, emit


def study(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket study`."""
    from hocket.apps.studies import command

    return command.main(options, pairs, emit)
