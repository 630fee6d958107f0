"""What the last run of a row's claims found, kept beside them with a digest of what it was made from.

`methods/GROUP/claims/ROW.json` holds the verdicts of `methods/GROUP/claims/ROW.py`. The digest covers the method's
file, its claims and the pieces of the rooms that they use, in turn; a verdict of other code is stale. Claims about the
recipe as shipped have a digest of their own, so that another one of these leaves the other verdicts as they are.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hocket.lab.claims.claim import Verdict

METHODS = Path(__file__).parents[2] / "methods"
ROOMS = ("methods", "curriculum", "rollout", "rewards", "credit", "objectives", "update", "hooks", "lab.toys")
"""Where the pieces of a method are; the rest of the library is held by its own tests."""

Status = Literal["works", "partial", "stale", "open"]

# ---------------------------------------------------------------- what a verdict was made from

_IMPORT = re.compile(rf"^\s*from (hocket\.(?:{'|'.join(map(re.escape, ROOMS))})\.[\w.]+) import ", re.MULTILINE)
_REMARK = re.compile(r"^\s*(?:#.*)?\n", re.MULTILINE)
_WORDS = re.compile(
    r"^    (?:title|source|family|catalogue_ids|axes|formula|conventions|note|task|requires)=.*\n"
    r"(?:(?:    [ \t\"\])}].*)?\n)*",
    re.MULTILINE,
)
"""What a recipe says of itself, as arguments of its making."""
_SHIPPED = re.compile(r"^claim\.shipped\((?:.*\)|\n(?:[ \t].*\n)+\))\n", re.MULTILINE)


@functools.cache
def _read(module: str) -> tuple[str, str, tuple[str, ...]]:
    """A module's digests with what recipes say of themselves and without, and the pieces that it imports.

    Remarks, empty lines and claims about recipes as shipped are left out.
    """
    file = METHODS.parents[1].joinpath(*module.split(".")).with_suffix(".py")
    if not file.is_file():
        return "", "", ()
    text = _SHIPPED.sub("", file.read_text(encoding="utf-8"))
    code, used = _REMARK.sub("", _WORDS.sub("", text)), tuple(sorted(set(_IMPORT.findall(text))))
    return _hash(_REMARK.sub("", text)), _hash(code), used


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def digest(*modules: str, words: bool = False) -> str:
    """A digest of modules and all pieces that they use, in turn; `words`: also of what recipes say of themselves."""
    waiting, known = list(modules), dict[str, str]()
    while waiting:
        module = waiting.pop()
        if module not in known:
            whole, code, used = _read(module)
            known[module] = whole if words else code
            waiting += used
    return _hash("".join(f"{module} {known[module]}\n" for module in sorted(known)))


# ---------------------------------------------------------------- what is kept


@dataclass(frozen=True)
class Record:
    """The kept verdicts of a row, in the order of its claims, and which are of other code than there is now.

    Attributes:
        verdicts: all of them. stale: those on the formulas are old. shipped_stale: those on the recipe as shipped are.
    """

    verdicts: tuple[Verdict, ...]
    stale: bool
    shipped_stale: bool = False

    def fresh(self, verdict: Verdict) -> bool:
        """Whether a kept verdict is of the code as it is."""
        return not (self.shipped_stale if verdict.shipped else self.stale)


def _claims(row: str) -> Path | None:
    """The file of a row's claims."""
    return next(METHODS.glob(f"*/claims/{row.replace('-', '_')}.py"), None)


def _digests_of(claims: Path) -> tuple[str, str]:
    """Of what the formulas' verdicts were made from, and those of the recipe as shipped."""
    group, name = claims.parents[1].name, claims.stem
    method = f"hocket.methods.{group}.{name}"
    shipped = "".join(_SHIPPED.findall(claims.read_text(encoding="utf-8")))
    return digest(method, f"hocket.methods.{group}.claims.{name}"), _hash(digest(method) + shipped) if shipped else ""


@functools.cache
def recorded(row: str) -> Record | None:
    """What is kept of a row; None for one without claims."""
    claims = _claims(row)
    if claims is None:
        return None
    formulas, shipped = _digests_of(claims)
    file = claims.with_suffix(".json")
    if not file.is_file():
        return Record((), stale=True, shipped_stale=bool(shipped))
    kept = json.loads(file.read_text(encoding="utf-8"))
    verdicts = tuple(Verdict(row, **one) for one in kept["verdicts"])
    return Record(verdicts, kept["digest"] != formulas, kept.get("shipped", "") != shipped)


def verdicts_of(row: str) -> tuple[Verdict, ...]:
    """The kept verdicts of a row."""
    found = recorded(row)
    return () if found is None else found.verdicts


def status_of(rows: Iterable[str], note: str, *, ships: bool = True) -> Status:
    """`works` when every claim of every row held and nothing is noted as weaker, `stale` when code has changed since.

    One claim must be about the recipe as a user runs it, where it `ships` as one; without, the row is `partial`. `open`
    without any claim.
    """
    records = [recorded(row) for row in rows]
    known = [one for one in records if one is not None]
    if not known:
        return "open"
    held = all(verdict.holds for one in known for verdict in one.verdicts)
    seen = not ships or all(any(verdict.shipped for verdict in one.verdicts) for one in known)
    if note or len(known) < len(records) or not held or not seen:
        return "partial"
    return "stale" if any(one.stale or one.shipped_stale for one in known) else "works"


def stale_rows() -> list[str]:
    """The rows with verdicts of other code than there is now, or never kept."""
    rows = sorted(file.stem.replace("_", "-") for file in METHODS.glob("*/claims/*.py") if file.stem != "__init__")
    return [row for row in rows if (found := recorded(row)) is not None and (found.stale or found.shipped_stale)]


def keep(verdicts: Iterable[Verdict], claims: Mapping[str, tuple[str, ...]]) -> None:
    """Keeps verdicts by row; `claims` says which sentences a row states, in order.

    A row whose code has changed is kept whole or not at all: what was found before is no verdict of the code now.
    """
    new: dict[str, dict[str, Verdict]] = {}
    for verdict in verdicts:
        new.setdefault(verdict.row, {})[verdict.claim] = verdict
    for row, found in new.items():
        file, old = _claims(row), recorded(row)
        if file is None or old is None or row not in claims:  # A file of a user's has verdicts, but no place for them.
            continue
        merged = {**{one.claim: one for one in old.verdicts if old.fresh(one)}, **found}
        if any(claim not in merged for claim in claims[row]):
            continue
        formulas, shipped = _digests_of(file)
        rows = [_plain(merged[claim]) for claim in claims[row]]
        text = json.dumps({"digest": formulas, "shipped": shipped, "verdicts": rows}, indent=1, ensure_ascii=False)
        file.with_suffix(".json").write_text(text + "\n", encoding="utf-8")
    recorded.cache_clear()


def _plain(verdict: Verdict) -> dict[str, object]:
    left_out = {"row"} if verdict.shipped else {"row", "shipped"}
    plain = {name: value for name, value in verdict.to_json().items() if name not in left_out}
    return plain | {"seconds": round(verdict.seconds, 2)}
