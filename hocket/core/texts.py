"""The texts of a policy: prompts by role, libraries of experience and of skills, edges between readers, team parts.

Improved without any weight.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
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


@dataclass(frozen=True)
class Recall:
    """Which entries of a library are shown: the `top` of highest score, in the order of the library.

    An entry's score is `nearness` times its BM25 score under the question, plus its own `worth`. So without worths it
    is retrieval by BM25, with nearness 0 a choice that is the same for all questions; `hocket.core.subsets` draws by
    such scores, and tells how likely a choice was.

    With `learnt` these scores only choose the `among` highest, and of them a reranker shows the `top`: by q^T m + q^T L
    m of the question and an entry, see `hocket.agents.tools.recall.vectors`.

    Attributes:
        worth: what an entry's score is moved by, by its text; 0 where missing.
        learnt: L, `[D, D]`; empty for no reranker.
    """

    top: int
    nearness: float = 1.0
    worth: Mapping[str, float] = field(default_factory=dict)
    among: int = 20
    learnt: tuple[tuple[float, ...], ...] = ()

    def __post_init__(self) -> None:
        if self.top < 1:
            raise ConfigurationError(f"recall.top = {self.top}: show at least 1 entry, or leave recall out")
        if self.learnt and self.among < self.top:
            raise ConfigurationError(f"recall.among = {self.among}: rerank at least the {self.top} that are shown")
        if any(len(row) != len(self.learnt) for row in self.learnt):
            raise ConfigurationError("recall.learnt is no square matrix; give a list of rows of one length")


_PLACE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Texts:
    """One version of a policy's texts. Equal texts have equal digests, in any process.

    Attributes:
        prompts: system prompts by role, in place of the workflow's own.
        library: lessons that every role is shown under its prompt, numbered from 1.
        recall: which of them, by the question that is played; None shows all.
        skills: programs that every role may call, by name, where the workflow has `skills`; None leaves its own. Under
            the prompt stand their names, each with the first line of its program's docstring.
        edges: pairs of a reader and the role it reads, where the workflow has `edges`; None leaves the workflow's own.
        blocks: how many of each part, where the workflow has `blocks`; None leaves the workflow's own.
    """

    prompts: Mapping[str, str] = field(default_factory=dict)
    library: tuple[str, ...] = ()
    edges: tuple[Edge, ...] | None = None
    blocks: Mapping[str, int] | None = None
    recall: Recall | None = None
    skills: Mapping[str, str] | None = None

    @property
    def digest(self) -> str:
        """Names this version."""
        text = json.dumps(self.to_json(), sort_keys=True)
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()

    def system(self, role: str, otherwise: str | None = None) -> str | None:
        """The system prompt of a role with the library under it; `otherwise` where the texts have none for it."""
        parts = [self.prompts.get(role, otherwise)]
        if self.library:
            lessons = "\n".join(f"[{number}] {lesson}" for number, lesson in enumerate(self.library, 1))
            parts.append(f"Lessons from experience:\n{lessons}")
        if self.skills:
            parts.append("Skills:\n" + "\n".join(f"{name}: {about(self.skills[name])}" for name in self.skills))
        return "\n\n".join(part for part in parts if part) or parts[0]

    def changes(self, earlier: Texts) -> list[str]:
        """What differs from an earlier version: a line each, with `-` for what went and `+` for what came."""
        before, after = earlier._lines(), self._lines()
        return [line for line in difflib.ndiff(before, after) if line[0] in "+-"]

    def _lines(self) -> list[str]:
        lines = [f"{role}: {line}" for role in sorted(self.prompts) for line in self.prompts[role].splitlines()]
        lines += [f"lesson: {lesson}" for lesson in self.library]
        if self.edges is not None and not self.edges:
            lines.append("edges: none")
        lines += [f"edge: {reader} reads {read}" for reader, read in sorted(self.edges or ())]
        lines += [f"{count} x {name}" for name, count in sorted((self.blocks or {}).items())]
        if self.recall is not None:
            lines.append(f"recall: {self.recall.top} lessons, {self.recall.nearness:g} x nearness")
            lines += [f"worth {worth:+.3g} of: {entry}" for entry, worth in sorted(self.recall.worth.items())]
        if self.recall is not None and self.recall.learnt:
            size = math.sqrt(sum(value * value for row in self.recall.learnt for value in row))
            lines.append(f"reranker of {len(self.recall.learnt)} buckets, of norm {size:.4g}")
        skills = self.skills or {}
        return lines + [f"skill {name}: {line}" for name in sorted(skills) for line in skills[name].splitlines()]

    def to_json(self) -> dict[str, Any]:
        """As `from_json` reads it."""
        edges = None if self.edges is None else [list(edge) for edge in sorted(self.edges)]
        members: dict[str, Any] = {"prompts": dict(self.prompts), "library": list(self.library), "edges": edges}
        more: dict[str, Any] = {} if self.blocks is None else {"blocks": dict(self.blocks)}
        if self.recall is not None:
            more["recall"] = {**asdict(self.recall), "worth": dict(self.recall.worth)}
            if self.recall.learnt:
                more["recall"]["learnt"] = [list(row) for row in self.recall.learnt]
            else:
                del more["recall"]["learnt"], more["recall"]["among"]
        return {**members, **more} if self.skills is None else {**members, **more, "skills": dict(self.skills)}

    @staticmethod
    def from_json(data: Any, where: str = "texts") -> Texts:
        """The texts in a JSON object; members may be missing.

        Raises:
            ConfigurationError: naming the first member that is not what it should be.
        """
        if not isinstance(data, Mapping):
            raise ConfigurationError(f"{where} holds no JSON object; write {{'prompts': {{ROLE: TEXT}}}}")
        members = ("prompts", "library", "edges", "blocks", "recall", "skills")
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
        pairs = None if edges is None else tuple(sorted((str(reader), str(read)) for reader, read in edges))
        blocks = data.get("blocks")
        if blocks is not None and not (
            isinstance(blocks, Mapping) and all(type(count) is int for count in blocks.values())
        ):
            raise ConfigurationError(f"{where}: blocks must be whole numbers by name")
        skills = data.get("skills")
        if skills is not None and not (
            isinstance(skills, Mapping) and all(isinstance(program, str) for program in skills.values())
        ):
            raise ConfigurationError(f"{where}: skills must be programs by name")
        counts = None if blocks is None else dict(blocks)
        programs = None if skills is None else dict(skills)
        return Texts(dict(prompts), tuple(library), pairs, counts, _recall(data.get("recall"), where), programs)

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


def about(program: str) -> str:
    """What a skill is for: the first line of the docstring of its program, or of the first function in it."""
    try:
        tree = ast.parse(program)
    except (SyntaxError, ValueError, RecursionError):
        return ""
    described: tuple[ast.Module | ast.FunctionDef, ...] = (
        tree,
        *(node for node in tree.body if isinstance(node, ast.FunctionDef)),
    )
    docstring = next((text for node in described if (text := ast.get_docstring(node))), "")
    return docstring.partition("\n")[0].strip()


def _recall(data: Any, where: str) -> Recall | None:
    if data is None:
        return None
    known: dict[str, Any] = {"top": int, "nearness": (int, float), "worth": Mapping, "among": int, "learnt": list}
    if not isinstance(data, Mapping) or type(data.get("top")) is not int:
        raise ConfigurationError(f"{where}: recall must be an object with top, how many lessons are shown")
    wrong = next((name for name, value in data.items() if not isinstance(value, known.get(name, ()))), None)
    if wrong is not None:
        raise ConfigurationError(f"{where}: recall.{wrong} is unknown or no such thing{nearest(wrong, known)}")
    worth = {str(entry): float(value) for entry, value in data.get("worth", {}).items()}
    try:
        learnt = tuple(tuple(map(float, row)) for row in data.get("learnt", ()))
    except (TypeError, ValueError):
        raise ConfigurationError(f"{where}: recall.learnt must be a list of rows of numbers") from None
    among = int(data.get("among", Recall.among))
    return Recall(data["top"], float(data.get("nearness", 1.0)), worth, among, learnt)


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
