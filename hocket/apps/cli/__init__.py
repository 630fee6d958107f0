"""The command line."""

from hocket.apps.cli.parser import main

__all__ = ["main"]
