"""What of a policy is text: prompts by role, a library of experience, who reads whom, of which parts a team is.

Improved without any weight.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hocket.core.errors import ConfigurationError, nearest

Edge = tuple[str, str]
"""The role that reads, and the role that is read."""


@dataclass(frozen=True)
class Block:
    """A part that a workflow can have more or fewer of.

    Attributes:
        role: whose prompt it plays by. counts: how many it can have, those without it first.
    """

    name: str
    role: str
    counts: tuple[int, ...]


_PLACE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Texts:
    """One version of a policy's texts. Equal texts have equal digests, in any process.

    Attributes:
        prompts: system prompts by role, in place of the workflow's own.
        library: lessons that every role is shown under its prompt, numbered from 1.
        edges: who reads whom, where the workflow has `edges`; None leaves the workflow's own.
        blocks: how many of each part, where the workflow has `blocks`; None leaves the workflow's own.
    """

    prompts: Mapping[str, str] = field(default_factory=dict)
    library: tuple[str, ...] = ()
    edges: tuple[Edge, ...] | None = None
    blocks: Mapping[str, int] | None = None

    @property
    def digest(self) -> str:
        """Names this version."""
        text = json.dumps(self.to_json(), sort_keys=True)
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()

    def system(self, role: str, otherwise: str | None = None) -> str | None:
        """The system prompt of a role with the library under it; `otherwise` where the texts have none for it."""
        own = self.prompts.get(role, otherwise)
        if not self.library:
            return own
        lessons = "\n".join(f"[{number}] {lesson}" for number, lesson in enumerate(self.library, 1))
        return "\n\n".join(part for part in (own, f"Lessons from experience:\n{lessons}") if part)

    def changes(self, earlier: Texts) -> list[str]:
        """What differs from an earlier version: a line each, with `-` for what went and `+` for what came."""
        before, after = earlier._lines(), self._lines()
        return [line for line in difflib.ndiff(before, after) if line[0] in "+-"]

    def _lines(self) -> list[str]:
        found = [f"{role}: {line}" for role in sorted(self.prompts) for line in self.prompts[role].splitlines()]
        found += [f"lesson: {lesson}" for lesson in self.library]
        if self.edges is not None and not self.edges:
            found.append("edges: none")
        found += [f"edge: {reader} reads {read}" for reader, read in sorted(self.edges or ())]
        return [*found, *(f"{count} x {name}" for name, count in sorted((self.blocks or {}).items()))]

    def to_json(self) -> dict[str, Any]:
        """As `from_json` reads it."""
        edges = None if self.edges is None else [list(edge) for edge in sorted(self.edges)]
        found: dict[str, Any] = {"prompts": dict(self.prompts), "library": list(self.library), "edges": edges}
        return found if self.blocks is None else {**found, "blocks": dict(self.blocks)}

    @staticmethod
    def from_json(data: Any, where: str = "texts") -> Texts:
        """The texts in a JSON object; members may be missing.

        Raises:
            ConfigurationError: naming the first member that is not what it should be.
        """
        if not isinstance(data, Mapping):
            raise ConfigurationError(f"{where} holds no JSON object; write {{'prompts': {{ROLE: TEXT}}}}")
        members = ("prompts", "library", "edges", "blocks")
        strange = next((name for name in data if name not in members), None)
        if strange is not None:
            raise ConfigurationError(f"{where} has no member {strange!r}{nearest(strange, members)}")
        prompts, library, edges = data.get("prompts") or {}, data.get("library") or (), data.get("edges")
        if not isinstance(prompts, Mapping) or not all(isinstance(text, str) for text in prompts.values()):
            raise ConfigurationError(f"{where}: prompts must be texts by role")
        if isinstance(library, str) or not all(isinstance(lesson, str) for lesson in library):
            raise ConfigurationError(f"{where}: library must be a list of texts")
        if edges is not None and not all(isinstance(edge, (list, tuple)) and len(edge) == 2 for edge in edges):
            raise ConfigurationError(f"{where}: edges must be pairs of roles, the one that reads and the one it reads")
        pairs = None if edges is None else tuple(sorted((str(one), str(other)) for one, other in edges))
        blocks = data.get("blocks")
        if blocks is not None and not (
            isinstance(blocks, Mapping) and all(type(count) is int for count in blocks.values())
        ):
            raise ConfigurationError(f"{where}: blocks must be whole numbers by name")
        return Texts(dict(prompts), tuple(library), pairs, None if blocks is None else dict(blocks))

    @staticmethod
    def read(path: str) -> Texts:
        """The texts in a JSON file.

        Raises:
            ConfigurationError: when it is missing or holds something else.
        """
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise ConfigurationError(
                f"{path} is missing; name a JSON file of texts, as best.json of a search"
            ) from None
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"{path} cannot be read as JSON: {error}") from error
        return Texts.from_json(data, path)


def problem(texts: Texts, roles: Sequence[str], needed: Mapping[str, str]) -> str | None:
    """Why a workflow with these roles cannot be played by these texts, or None.

    `needed` are the workflow's own prompts: the placeholders `{name}` in them must stay.
    """
    for role, prompt in texts.prompts.items():
        if role not in roles:
            return f"there is no role {role!r}{nearest(role, roles)}"
        lost = set(_PLACE.findall(needed.get(role, ""))) - set(_PLACE.findall(prompt))
        if lost:
            return f"the prompt of {role!r} lacks the placeholder {{{min(lost)}}}; put it back"
    for reader, read in texts.edges or ():
        strange = next((role for role in (reader, read) if role not in roles), None)
        if strange is not None:
            return f"an edge names no role of the workflow: {strange!r}{nearest(strange, roles)}"
        if reader == read:
            return f"an edge is a circle: {reader!r} reads itself; drop it"
    return None
