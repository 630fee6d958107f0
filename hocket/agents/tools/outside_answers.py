"""The answers of tools in an episode: kept, so that a resumed run replays them, and bounded in length.

A tool may be a program somewhere else: it may answer otherwise tomorrow, break, or say too much. Whoever plays an
episode puts an `Answers` into `ANSWERS`, and every call of a tool in it (`hocket.agents.tools.protocol.carried_out`)
goes through that.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Protocol

from hocket.core.errors import HocketError
from hocket.core.media import PicturedAnswer
from hocket.core.waits import waiting_for

LONGEST = 20_000
"""Characters of an answer; the rest is cut off."""

_LONGEST_ERROR = 300
"""Characters of a tool's own error that a message quotes."""


class ToolFailed(HocketError):
    """A tool raised, or answered with something that is no text. It costs the episode that called it."""


class Callable(Protocol):
    """What is asked of a tool here, see `hocket.agents.tools.protocol.Tool`."""

    @property
    def name(self) -> str: ...

    async def __call__(self, arguments: Mapping[str, Any]) -> str: ...


class ToolJournal(Protocol):
    """A journal: what was answered, by key."""

    def get(self, key: str) -> Any: ...

    def put(self, key: str, value: Any) -> object: ...


class Answers:
    """The answers of tools in one episode.

    The n-th time that an episode asks the same of the same tool has an entry of its own, in whatever order its agents
    come to ask. Only tools that say `outside = True` are kept; others answer from what this process holds.

    Attributes:
        waiting: the names of tools that have not answered yet.

    Args:
        episode: a name that no other episode of the run has. kept: where answers are kept; None asks anew.
    """

    def __init__(self, episode: str, kept: ToolJournal | None = None) -> None:
        self.waiting: list[str] = []
        self._episode, self._kept = episode, kept
        self._asked: Counter[str] = Counter()

    async def of(self, tool: Callable, arguments: Mapping[str, Any]) -> str:
        """The tool's answer, from the journal where it has one.

        Raises:
            ToolFailed: as `asked`, and again where it did so before.
        """
        self.waiting.append(tool.name)
        try:
            if self._kept is None or not getattr(tool, "outside", False):
                return await asked(tool, arguments)
            return await self._remembered(self._kept, tool, arguments)
        finally:
            self.waiting.remove(tool.name)

    async def _remembered(self, journal: ToolJournal, tool: Callable, arguments: Mapping[str, Any]) -> str:
        question = _digest(tool.name, arguments)
        entry = f"tool/{self._episode}/{question}/{self._asked[question]}"
        self._asked[question] += 1
        known = journal.get(entry)
        if not known:
            try:
                answer = await asked(tool, arguments)
                known = {"said": str(answer)}
                if isinstance(answer, PicturedAnswer):
                    known |= {"words": answer.words, "pictures": list(answer.pictures)}
            except ToolFailed as failed:
                known = {"failed": str(failed)}
            journal.put(entry, known)
        if "failed" in known:
            raise ToolFailed(known["failed"])
        text = str(known["said"])
        pictures = known.get("pictures")
        return PicturedAnswer(text, str(known["words"]), pictures) if pictures else text


ANSWERS: ContextVar[Answers | None] = ContextVar("hocket_answers", default=None)
"""Those of the episode that is being played."""


async def asked(tool: Callable, arguments: Mapping[str, Any]) -> str:
    """What a tool says now, at most `LONGEST` characters of it; what is no text of Unicode in it becomes `?`.

    Raises:
        ToolFailed: when it raises, or does not answer in words.
    """
    try:
        with waiting_for(f"tool {tool.name}"):
            answer = await tool(arguments)
    except HocketError:
        raise  # A limit that an agent behind it reached, or a setting to correct.
    except Exception as error:
        raise ToolFailed(f"tool {tool.name!r} raised {type(error).__name__}: {str(error)[:_LONGEST_ERROR]}") from error
    if not isinstance(answer, str):
        raise ToolFailed(f"tool {tool.name!r} answered with a {type(answer).__name__}; a tool answers in words")
    if isinstance(answer, PicturedAnswer):
        return PicturedAnswer(_short(answer), _short(answer.words), answer.pictures)
    return _short(answer)


def _short(text: str) -> str:
    return text[:LONGEST].encode("utf-8", "replace").decode("utf-8")


def _digest(name: str, arguments: Mapping[str, Any]) -> str:
    text = json.dumps([name, arguments], sort_keys=True, default=repr)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
