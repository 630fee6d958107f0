"""What the last run of a row's claims on wrong versions of its method found, kept beside them.

`methods/GROUP/mutants.jsonl` holds, a line a row, how many wrong versions each claim noticed, and those that none did;
`reached.jsonl` the same of what else the method stands on (`hocket.lab.claims.reach`).
The digest of it covers the method and the pieces it uses; while that stands, only claims that are new are run, on what
nothing noticed. When it changes, or a claim that noticed something changes or goes, the row is tried anew.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hocket.lab.claims.claim import Check
from hocket.lab.claims.digests import digest, hashed
from hocket.lab.claims.kept_lines import lines_of, replace_lines
from hocket.lab.claims.reach import folder_modules
from hocket.lab.claims.record import Sources, claims_file, method_of, sources_of
from hocket.lab.claims.registry import checks_of

UNSAID = ""
"""Stands for the claim that noticed a wrong version which could not be read or did not end."""


@dataclass(frozen=True)
class Survey:
    """What became of the wrong versions of a row's method.

    Attributes:
        made_from: a digest of the method. claims: those that were run on all that no
            earlier one noticed, by digest. noticed: how many wrong versions each was the first to notice. unnoticed:
            the names of the others, by their place in the order of `hocket.lab.claims.mutants.of_method`.
    """

    made_from: str
    claims: frozenset[str] = frozenset()
    noticed: Mapping[str, int] = field(default_factory=dict)
    unnoticed: Mapping[int, str] = field(default_factory=dict)

    @property
    def tried(self) -> int:
        """How many wrong versions there are."""
        return sum(self.noticed.values()) + len(self.unnoticed)


def is_of_now(row: str, survey: Survey, *, reach: bool = False) -> bool:
    """Whether the method has not changed since."""
    return survey.made_from == made_from(row, reach=reach)


def made_from(row: str, *, reach: bool = False) -> str:
    """What a survey of the row as it is would be made from; nothing for a user's own file, of which none is kept."""
    claims = claims_file(row)
    if claims is None:
        return ""
    makers = ("hocket.lab.claims.mutants", *(("hocket.lab.claims.reach",) if reach else ()))
    method = method_of(claims)
    return hashed(digest(*makers) + digest(method, *(folder_modules(method) if reach else ())))


def standing(row: str, *, reach: bool = False) -> Survey | None:
    """What is kept of a row as it is; None when it is to be tried anew."""
    survey = kept(row, reach=reach)
    if survey is None or not is_of_now(row, survey, reach=reach):
        return None
    known = {digest_of(check) for check in checks_of(row)} | {UNSAID}
    return survey if known.issuperset(survey.noticed) else None


def digest_of(check: Check) -> str:
    """Of one claim of a row, with what it uses."""
    if claims_file(check.row) is None:
        return hashed(check.claim)
    return hashed(_sources(check.row).of(check) + check.claim)


def _sources(row: str) -> Sources:
    claims = claims_file(row)
    assert claims is not None, row
    return sources_of(claims)


def kept(row: str, *, reach: bool = False) -> Survey | None:
    """What is kept of a row, whatever it was made from."""
    file = _file(row, reach)
    if file is None or not (lines := lines_of(file, row)):
        return None
    (read,) = lines
    unnoticed = {int(place): name for place, name in read["unnoticed"].items()}
    return Survey(read["made_from"], frozenset(read["claims"]), read["noticed"], unnoticed)


def keep(row: str, survey: Survey, *, reach: bool = False) -> None:
    """Keeps it."""
    file = _file(row, reach)
    assert file is not None, row
    plain = {
        "made_from": survey.made_from,
        "claims": sorted(survey.claims),
        "noticed": dict(sorted(survey.noticed.items())),
        "unnoticed": dict(sorted(survey.unnoticed.items())),
    }
    replace_lines(file, row, [plain])


def _file(row: str, reach: bool) -> Path | None:
    claims = claims_file(row)
    return None if claims is None else claims.parents[1] / ("reached.jsonl" if reach else "mutants.jsonl")


def reasons(row: str) -> dict[str, str]:
    """Why the claims of a row spare wrong versions, by their names, as its file says."""
    claims = claims_file(row)
    tree = ast.parse(claims.read_text(encoding="utf-8")) if claims is not None else ast.Module([], [])
    named, by_mutant = dict[str, str](), dict[str, str]()
    for node in tree.body:
        match node:
            case ast.Assign([ast.Name(name)], ast.Constant(str(text))):
                named[name] = text
            case ast.Expr(ast.Call(ast.Attribute(_, "spares"), [ast.Constant(str(mutant)), ast.Constant(str(reason))])):
                by_mutant[mutant] = reason
            case ast.Expr(ast.Call(ast.Attribute(_, "spares"), [ast.Constant(str(mutant)), ast.Name(name)])):
                by_mutant[mutant] = named[name]
    return by_mutant
