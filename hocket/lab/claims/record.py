"""What the last run of a row's claims found, kept beside them with a digest of what it was made from.

`methods/GROUP/verdicts.jsonl` holds the verdicts of `methods/GROUP/claims/*.py`, one a line. The digest of a verdict
covers the method's file, the claim, the definitions of the claims' file and the pieces of the rooms that the claim
uses, in turn, but not where they stand; a verdict of other code is stale. So a new claim, and a helper of another,
leave a verdict as it is.
"""

from __future__ import annotations

import ast
import functools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from hocket.core.names import RECIPES
from hocket.lab.claims.claim import Check, Verdict
from hocket.lab.claims.digests import (
    ATLAS,
    LEARNS,
    METHODS,
    ORIGIN,
    PIECE,
    SHIPPED,
    code_alone,
    digest,
    hashed,
    without_runs,
)
from hocket.lab.claims.kept_lines import lines_of, replace_lines

Status = Literal["works", "partial", "stale", "open"]

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")

# ---------------------------------------------------------------- what is kept


@dataclass(frozen=True)
class RowRecord:
    """The kept verdicts of a row, in the order of its claims, and whether any is of other code than there is now."""

    verdicts: tuple[Verdict, ...]
    stale: bool


@dataclass(frozen=True)
class Sources:
    """Digests of what the verdicts of a row are made from.

    Attributes:
        ground: of all that its claims use, for a claim whose sentence is made by code. claims: by their sentences.
        shipped: the claims on the recipe as shipped; empty without any. learns: the claims on what it learns, with the
            runs that the atlas has of it and its parent; empty without any.
    """

    ground: str
    claims: Mapping[str, str]
    shipped: str
    learns: str = ""

    def of(self, check: Check) -> str:
        """What a verdict of `check` would be made from."""
        if check.shipped:
            return self.shipped or self.ground  # A row may state by itself how it is run.
        if check.learns and check.claim not in self.claims:
            return self.learns or self.ground
        return self.claims.get(check.claim, self.ground)

    def stale(self, verdicts: Iterable[Verdict]) -> bool:
        """Whether a verdict is of other code, or a claim without one."""
        digests = {verdict.made_from for verdict in verdicts}
        wanted = {*self.claims.values(), self.shipped, self.learns} - {""}
        return not wanted <= digests <= wanted | {self.ground}


def method_of(claims: Path) -> str:
    """The module of the method whose claims a file holds: the row's file, or `method` in the row's folder."""
    module = f"hocket.methods.{claims.parents[1].name}.{claims.stem}"
    return f"{module}.method" if (claims.parents[1] / claims.stem).is_dir() else module


def claims_file(row: str) -> Path | None:
    """The file of a row's claims."""
    return next(METHODS.glob(f"*/claims/{row.replace('-', '_')}.py"), None)


def sources_of(claims: Path) -> Sources:
    """The digests of a row by its file of claims."""
    text = claims.read_text(encoding="utf-8")
    method, shipped, learns = method_of(claims), "".join(SHIPPED.findall(text)), "".join(LEARNS.findall(text))
    file = ClaimsSource.of(without_runs(text))
    return Sources(
        file.digest(method, *file.definitions.values()),
        {sentence: file.digest(method, code) for sentence, code in file.claims.items()},
        hashed(digest(method) + shipped) if shipped else "",
        hashed(digest(method) + learns + _atlas_of(method)) if learns else "",
    )


def _atlas_of(method: str) -> str:
    """The kept runs of the recipes that a method's file declares, and of their parents on the same tasks."""
    file = METHODS / method.split(".")[2] / ATLAS
    recipes = {declared.name: file for declared in RECIPES.own.values() if declared.module == method}
    parents = {parent for name in recipes if (parent := _parents().get(name)) and parent in RECIPES.own}
    known = recipes | {name: METHODS / RECIPES.own[name].module.split(".")[2] / ATLAS for name in parents}
    places = {line["task"] for name, file in recipes.items() for line in lines_of(file, name)}
    lines = (line for name, file in sorted(known.items()) for line in lines_of(file, name))
    # That others are compared with a run says nothing of what it learnt.
    figures = ({name: value for name, value in line.items() if name != "rival"} for line in lines)
    return "".join(str(line) for line in figures if line["task"] in places)


@functools.cache
def _parents() -> Mapping[str, str | None]:
    """The parent of every recipe, as the cards have it, so that no method is imported."""
    cards = (json.loads(line)["card"] for line in (METHODS / "cards.jsonl").read_text(encoding="utf-8").splitlines())
    return {card["name"]: card["parent"] for card in cards}


@dataclass(frozen=True)
class ClaimsSource:
    """The text of a row's claims, by top-level statement, without remarks and docstrings.

    Attributes:
        claims: their code by their sentences. definitions: other functions, classes and constants by name.
        imports: the module of each imported name; empty for one of another library. rest: statements without a name,
            which every claim depends on.
    """

    claims: Mapping[str, str]
    definitions: Mapping[str, str]
    imports: Mapping[str, str]
    rest: str

    @classmethod
    def of(cls, text: str) -> ClaimsSource:
        """The statements of a file of claims."""
        lines, claims, definitions = text.splitlines(keepends=True), dict[str, str](), dict[str, str]()
        imports, rest = dict[str, str](), ""
        for node in ast.parse(text).body:
            decorators = getattr(node, "decorator_list", [])
            first = min(part.lineno for part in (node, *decorators))
            code = code_alone("".join(lines[first - 1 : node.end_lineno]).rstrip("\n") + "\n")
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                origin = node.module or "" if isinstance(node, ast.ImportFrom) else ""
                imports |= {alias.asname or alias.name.partition(".")[0]: origin for alias in node.names}
            elif sentence := _sentence(decorators[0] if decorators else node):
                claims[sentence] = code
            elif names := _defined(node):
                definitions |= dict.fromkeys(names, code)
            else:
                rest += code
        return cls(claims, definitions, imports, rest)

    def digest(self, method: str, *codes: str) -> str:
        """Of statements, and of the definitions and pieces that they use, in turn."""
        used, waiting = set[str](), [self.rest, *codes]
        while waiting:
            names = {name for name in _IDENTIFIER.findall(waiting.pop()) if name not in used}
            used |= names & (self.definitions.keys() | self.imports.keys())
            waiting += [self.definitions[name] for name in sorted(names & self.definitions.keys())]
        imported = sorted(used & self.imports.keys())
        pieces = {self.imports[name] for name in imported if PIECE.match(f"from {self.imports[name]} import ")}
        texts = {self.definitions[name] for name in used & self.definitions.keys()} | {self.rest, *codes}
        return hashed(digest(method, *sorted(pieces)) + ORIGIN.sub("", "\n".join([*imported, *sorted(texts)])))


def _sentence(node: ast.AST) -> str:
    """The sentence of `@claim("...")` or `claim.VERB("...")`; empty where it is made by code, or for another node."""
    call = node.value if isinstance(node, ast.Expr) else node
    if not isinstance(call, ast.Call) or not call.args or not ast.unparse(call.func).startswith("claim"):
        return ""
    first = call.args[0]
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""


def _defined(node: ast.stmt) -> list[str]:
    """The names that a top-level statement defines."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]


@functools.cache
def recorded(row: str) -> RowRecord | None:
    """What is kept of a row; None for one without claims."""
    claims = claims_file(row)
    if claims is None:
        return None
    verdicts = verdicts_of(row)
    return RowRecord(verdicts, not verdicts or sources_of(claims).stale(verdicts))


def fresh(checks: Iterable[Check]) -> list[Check]:
    """Those of the checks whose kept verdict is of the code as it is."""
    every = list(checks)
    files = {row: file for row in {check.row for check in every} if (file := claims_file(row))}
    sources = {row: sources_of(file) for row, file in files.items()}
    known = {(verdict.row, verdict.claim, verdict.made_from) for row in sources for verdict in verdicts_of(row)}
    return [
        check
        for check in every
        if check.row in sources and (check.row, check.claim, sources[check.row].of(check)) in known
    ]


def verdicts_of(row: str) -> tuple[Verdict, ...]:
    """The kept verdicts of a row."""
    claims = claims_file(row)
    return () if claims is None else tuple(Verdict(row, **line) for line in lines_of(_file(claims), row))


def status_of(rows: Iterable[str], note: str, *, ships: bool = True) -> Status:
    """`works` when every claim of every row held and nothing is noted as weaker, `stale` when code has changed since.

    One claim must be about the recipe as a user runs it, where it `ships` as one; without, the row is `partial`. `open`
    without any claim.
    """
    records = [recorded(row) for row in rows]
    known = [record for record in records if record is not None]
    if not known:
        return "open"
    held = all(verdict.holds for record in known for verdict in record.verdicts)
    shipped = not ships or all(any(verdict.shipped for verdict in record.verdicts) for record in known)
    if note or len(known) < len(records) or not held or not shipped:
        return "partial"
    return "stale" if any(record.stale for record in known) else "works"


def stale_rows() -> list[str]:
    """The rows with verdicts of other code than there is now, or never kept."""
    rows = sorted(file.stem.replace("_", "-") for file in METHODS.glob("*/claims/*.py") if file.stem != "__init__")
    return [row for row in rows if (record := recorded(row)) is not None and record.stale]


def keep(verdicts: Iterable[Verdict], checks: Mapping[str, Sequence[Check]]) -> None:
    """Keeps verdicts by row; `checks` are those that a row states, in order.

    A claim without a new verdict keeps its old one with the digest that this was made from, so it stays stale if it
    was. A row is kept once each of its claims has a verdict.
    """
    new: dict[str, dict[str, Verdict]] = {}
    for verdict in verdicts:
        new.setdefault(verdict.row, {})[verdict.claim] = verdict
    for row, by_claim in new.items():
        file, old = claims_file(row), recorded(row)
        if file is None or old is None or row not in checks:  # A file of a user's has verdicts, but no place for them.
            continue
        sources, verdicts_kept = sources_of(file), list[Verdict]()
        for check in checks[row]:
            new_one = by_claim.get(check.claim)
            known = next((verdict for verdict in old.verdicts if verdict.claim == check.claim), None)
            if new_one is not None:
                verdicts_kept.append(replace(new_one, made_from=sources.of(check)))
            elif known is not None:
                verdicts_kept.append(known)
        if len(verdicts_kept) == len(checks[row]):
            store(row, verdicts_kept)


def store(row: str, verdicts: Iterable[Verdict]) -> None:
    """Puts verdicts in the place of those that were kept of a row of the library."""
    claims = claims_file(row)
    assert claims is not None, row
    replace_lines(_file(claims), row, [_plain(verdict) for verdict in verdicts])
    recorded.cache_clear()


def _file(claims: Path) -> Path:
    """Where the verdicts of a row are kept, by the file of its claims."""
    return claims.parents[1] / "verdicts.jsonl"


def _plain(verdict: Verdict) -> dict[str, object]:
    left_out = {"row", *(name for name in ("shipped", "learns") if not getattr(verdict, name))}
    plain = {name: value for name, value in asdict(verdict).items() if name not in left_out}
    return plain | {"seconds": round(verdict.seconds, 2)}
