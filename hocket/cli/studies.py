"""`hocket study`."""

from __future__ import annotations

import argparse

from hocket.cli.output import Pairs, emit


def study(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket study`."""
    from hocket.studies import command

    return command.main(options, pairs, emit)
