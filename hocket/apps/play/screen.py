"""What a person sees and types, in a terminal or through pipes."""

from __future__ import annotations

import math
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

LIKELY = ((0.9, "green"), (0.5, "yellow"), (0.0, "red"))
"""Colours of tokens by how likely they were, at least."""

UNSURE = 3
"""Least likely tokens that are listed."""


@contextmanager
def _interruptible() -> Iterator[None]:
    """Lets Ctrl-C end a line that is being typed: an event loop would only take note of it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class TerminalScreen:
    """A console and where lines come from.

    With a terminal on the other side lines are typed after a prompt; from a pipe they are read and shown.
    """

    def __init__(self, console: Console | None = None, lines: TextIO | None = None) -> None:
        self.console = console or Console(highlight=False, soft_wrap=not sys.stdout.isatty())
        self._lines = lines or sys.stdin
        self._typed = self._lines is sys.stdin and sys.stdin.isatty()
        if self._typed:
            import readline  # Arrows and history for `input`.

            del readline

    def ask(self, who: str) -> str | None:
        """The next line, without its end; None when there are no more."""
        if self._typed:
            return self._typed_line(who)
        self.console.print(f"[bold cyan]{escape(who)} ›[/] ", end="")
        line = self._lines.readline()
        self.console.print(line.rstrip("\n"), markup=False)
        return line.rstrip("\n") if line else None

    def _typed_line(self, who: str) -> str | None:
        # Between \1 and \2 stands what takes no room, so that the line editor knows where it is.
        bold, plain = ("\1\33[1;36m\2", "\1\33[0m\2") if self.console.color_system else ("", "")
        try:
            with _interruptible():
                return input(f"{bold}{who} ›{plain} ")
        except EOFError:
            self.console.print()
            return None
        except KeyboardInterrupt:
            self.console.print()
            raise

    def say(self, text: str) -> None:
        """A line with markup."""
        self.console.print(text)

    def note(self, text: str) -> None:
        """A line about the conversation, not in it."""
        self.console.print(text, style="dim", markup=False)

    def wrong(self, text: str) -> None:
        """What cannot be done."""
        self.console.print(text, style="red", markup=False)

    def tell(self, text: str) -> None:
        """A text of its own."""
        self.console.print()
        self.console.print(text, markup=False)

    def begin(self, who: str) -> None:
        """Somebody begins to speak."""
        self.console.print(f"[bold magenta]{escape(who)} ›[/] ", end="")

    def piece(self, text: str) -> None:
        """Somebody goes on."""
        self.console.print(text, end="", markup=False, soft_wrap=True)

    def quote(self, who: str, text: str) -> None:
        """What somebody said, at once."""
        self.begin(who)
        self.piece(text + "\n")

    def help(self, commands: Sequence[tuple[str, str]]) -> None:
        """What can be typed."""
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        for name, meaning in commands:
            table.add_row(f"[cyan]{escape(name)}[/]", escape(meaning))
        self.console.print(table)

    def likelihoods(self, texts: Sequence[tuple[str, float]]) -> None:
        """An answer's tokens coloured by how likely each was, and those that were least so."""
        text = Text("        ")
        for piece, logp in texts:
            colour = next(colour for least, colour in LIKELY if math.exp(logp) >= least)
            text.append(piece.replace("\n", "↵"), colour)
        self.console.print(text)
        least = sorted(texts, key=lambda pair: pair[1])[:UNSURE]
        listed = ", ".join(f"{piece!r} {math.exp(logp):.0%}" for piece, logp in least)
        total = sum(logp for _, logp in texts)
        self.note(f"        {len(texts)} tokens, {total:.2f} nats together; least likely {listed}")
