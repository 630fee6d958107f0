"""The command line."""

from hocket.cli.parser import main

__all__ = ["main"]
