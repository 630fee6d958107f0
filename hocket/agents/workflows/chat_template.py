"""A chat template's source, changed so that it writes its control tokens as seals."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence

from jinja2 import Environment

_FIRST, _LAST = ("\ufdd2", "\ufdd3"), ("\ufdd4", "\ufdd5")
_JOINED = re.compile("\ufdd2([^\ufdd0-\ufdef]*)\ufdd3([\\w-]*)\ufdd4([^\ufdd0-\ufdef]*)\ufdd5")
_MARKS = re.compile("[\ufdd2-\ufdd5]")
_JOINS = ("+", "~")


class SealedSource:
    """The source of a template whose control tokens are seals.

    A token that the source spells whole is replaced there. One that it puts together from pieces, as in
    `'<|' + message.role + '|>'`, has its pieces marked, and is recognised where they and a role, or another word of the
    source, come out as a token.

    Args:
        source: the template. texts: of the control tokens. seal: makes seals of them in a text.
    """

    def __init__(self, source: str, texts: Collection[str], seal: Callable[[str], str]) -> None:
        self._texts, self._seal = texts, seal
        tokens = [(kind, value) for _, kind, value in Environment().lexer.tokeniter(source, None)]
        self.words = {value[1:-1] for kind, value in tokens if kind == "string" and value[1:-1].isalnum()}
        self.source = "".join(self._written(tokens))

    def finished(self, text: str, roles: Collection[str]) -> str:
        """The template's output, with pieces joined to seals."""
        if not _MARKS.search(text):
            return text
        words = self.words.union(*({role, role.upper(), role.title()} for role in roles), ("",))

        def joined(match: re.Match[str]) -> str:
            token = "".join(match.groups())
            return self._seal(token) if match[2] in words and token in self._texts else token

        return _MARKS.sub("", _JOINED.sub(joined, text))

    def _written(self, tokens: Sequence[tuple[str, str]]) -> Iterator[str]:
        solid = [place for place, (kind, _) in enumerate(tokens) if kind not in ("whitespace", "comment")]
        order = {place: number for number, place in enumerate(solid)}
        for place, (kind, value) in enumerate(tokens):
            if kind == "data":
                yield self._pieces(value, first=True, last=True)
            elif kind == "string":
                number = order[place]
                before, after = tokens[solid[number - 1]], tokens[solid[number + 1]]
                begins = before[1] in _JOINS or before[0] in ("variable_begin",)
                ends = after[1] in _JOINS or after[0] in ("variable_end", "block_end")
                yield value[0] + self._pieces(value[1:-1], first=ends, last=begins) + value[-1]
            else:
                yield value

    def _pieces(self, text: str, *, first: bool, last: bool) -> str:
        """A text of the source with its tokens sealed, and the piece at its end that begins a token, or the reverse."""
        sealed = self._seal(text)
        if first:
            begun = self._longest(sealed, lambda size: sealed[-size:], lambda token, piece: token.startswith(piece))
            sealed = f"{sealed[: len(sealed) - begun]}{_FIRST[0]}{sealed[-begun:]}{_FIRST[1]}" if begun else sealed
        if last:
            ended = self._longest(sealed, lambda size: sealed[:size], lambda token, piece: token.endswith(piece))
            sealed = f"{_LAST[0]}{sealed[:ended]}{_LAST[1]}{sealed[ended:]}" if ended else sealed
        return sealed

    def _longest(self, text: str, cut: Callable[[int], str], fits: Callable[[str, str], bool]) -> int:
        """The most characters of a text that are an unfinished part of a token; letters alone are none."""
        most = min(len(text), max(map(len, self._texts), default=0))
        for size in range(most, 0, -1):
            piece = cut(size)
            if any(len(token) > size and fits(token, piece) for token in self._texts) and not piece.isalnum():
                return size
        return 0
