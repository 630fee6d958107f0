"""What the last run of a row's claims found, kept beside them with a digest of what it was made from.

`methods/GROUP/claims/ROW.json` holds the verdicts of `methods/GROUP/claims/ROW.py`. The digest covers the method's
file, its claims and the pieces of the rooms that they use, in turn; a verdict of other code is stale.
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


@functools.cache
def _read(module: str) -> tuple[str, tuple[str, ...]]:
    """A module's digest, remarks and empty lines left out, and the pieces that it imports."""
    file = METHODS.parents[1].joinpath(*module.split(".")).with_suffix(".py")
    if not file.is_file():
        return "", ()
    text = file.read_text(encoding="utf-8")
    digest = hashlib.blake2b(_REMARK.sub("", text).encode(), digest_size=8).hexdigest()
    return digest, tuple(sorted(set(_IMPORT.findall(text))))


def digest(*modules: str) -> str:
    """A digest of modules and all pieces that they use, in turn."""
    waiting, known = list(modules), dict[str, str]()
    while waiting:
        module = waiting.pop()
        if module not in known:
            known[module], used = _read(module)
            waiting += used
    text = "".join(f"{module} {known[module]}\n" for module in sorted(known))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


# ---------------------------------------------------------------- what is kept


@dataclass(frozen=True)
class Record:
    """The kept verdicts of a row, in the order of its claims, and whether they are of other code than there is now."""

    verdicts: tuple[Verdict, ...]
    stale: bool


def _claims(row: str) -> Path | None:
    """The file of a row's claims."""
    return next(METHODS.glob(f"*/claims/{row.replace('-', '_')}.py"), None)


def _digest_of(claims: Path) -> str:
    group, name = claims.parents[1].name, claims.stem
    return digest(f"hocket.methods.{group}.{name}", f"hocket.methods.{group}.claims.{name}")


@functools.cache
def recorded(row: str) -> Record | None:
    """What is kept of a row; None for one without claims."""
    claims = _claims(row)
    if claims is None:
        return None
    file = claims.with_suffix(".json")
    if not file.is_file():
        return Record((), stale=True)
    kept = json.loads(file.read_text(encoding="utf-8"))
    return Record(tuple(Verdict(row, **one) for one in kept["verdicts"]), kept["digest"] != _digest_of(claims))


def verdicts_of(row: str) -> tuple[Verdict, ...]:
    """The kept verdicts of a row."""
    found = recorded(row)
    return () if found is None else found.verdicts


def status_of(rows: Iterable[str], note: str) -> Status:
    """`works` when every claim of every row held and nothing is noted as weaker, `stale` when code has changed since.

    `open` without any claim.
    """
    records = [recorded(row) for row in rows]
    known = [one for one in records if one is not None]
    if not known:
        return "open"
    if note or len(known) < len(records) or not all(verdict.holds for one in known for verdict in one.verdicts):
        return "partial"
    return "stale" if any(one.stale for one in known) else "works"


def stale_rows() -> list[str]:
    """The rows whose verdicts are of other code than there is now, or were never kept."""
    rows = sorted(file.stem.replace("_", "-") for file in METHODS.glob("*/claims/*.py") if file.stem != "__init__")
    return [row for row in rows if (found := recorded(row)) is not None and found.stale]


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
        merged = found if old.stale else {**{one.claim: one for one in old.verdicts}, **found}
        if any(claim not in merged for claim in claims[row]):
            continue
        rows = [_plain(merged[claim]) for claim in claims[row]]
        text = json.dumps({"digest": _digest_of(file), "verdicts": rows}, indent=1, ensure_ascii=False)
        file.with_suffix(".json").write_text(text + "\n", encoding="utf-8")
    recorded.cache_clear()


def _plain(verdict: Verdict) -> dict[str, object]:
    return {name: value for name, value in verdict.to_json().items() if name != "row"} | {
        "seconds": round(verdict.seconds, 2)
    }
