"""What breaks a rule today, in one file per rule under `ratchets/`. A file may only become shorter.

    python tests/house/ratchet.py          # takes out what no longer breaks its rule
    python tests/house/ratchet.py --anew   # writes all as things stand: after files have moved, never to add something

A line is what breaks the rule, with the number of times where that is not 1.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

FOLDER = Path(__file__).parent / "ratchets"

Measure = Callable[[], Mapping[str, int]]
"""What breaks a rule now, and how often."""


def recorded(rule: str) -> dict[str, int]:
    """What broke a rule when its file was written."""
    file = FOLDER / f"{rule}.txt"
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return dict(map(_entry, lines))


def complaints(rule: str, now: Mapping[str, int], *, exact: bool = True) -> str:
    """What breaks a rule and is not in its file, and, where it must be `exact`, what stands there in vain."""
    known = recorded(rule)
    worse = [_line(name, count) for name, count in now.items() if count > known.get(name, 0)]
    stale = [_line(name, count) for name, count in known.items() if count > now.get(name, 0)] if exact else []
    parts = []
    if worse:
        parts += [f"new in {rule}, put right:", *sorted(worse)]
    if stale:
        parts += [f"right by now, run `python tests/house/ratchet.py` to take out of {rule}.txt:", *sorted(stale)]
    return "\n".join(parts)


def write(rule: str, now: Mapping[str, int], *, anew: bool) -> None:
    """Writes the file of a rule; nothing in it grows unless it is written `anew`."""
    known = now if anew else recorded(rule)
    kept = {name: min(count, known[name]) for name, count in now.items() if known.get(name)}
    text = "".join(f"{line}\n" for line in sorted(_line(name, count) for name, count in kept.items()))
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{rule}.txt").write_text(text, encoding="utf-8")


def _line(name: str, count: int) -> str:
    return name if count == 1 else f"{name}  {count}"


def _entry(line: str) -> tuple[str, int]:
    name, _, count = line.partition("  ")
    return name, int(count or 1)


def main() -> None:
    """Writes every file."""
    import test_names
    import test_users

    rules: Mapping[str, Measure] = {**test_users.RULES, **test_names.RULES}
    for rule, measure in rules.items():
        write(rule, measure(), anew="--anew" in sys.argv)


if __name__ == "__main__":
    main()
