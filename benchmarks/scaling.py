"""How hocket's step time and memory grow: with batch, group size, prompt length, turns of a conversation, vocabulary.

    python benchmarks/scaling.py                  all axes, a few minutes; draws docs/scaling.svg
    python benchmarks/scaling.py turns --json     one axis, one JSON object, nothing drawn

From one point (1 M parameters, 8 prompts x 8 samples, 32-token prompts, 64 new tokens, 98 tokens in the vocabulary) one
number at a time changes. Each point is a fresh process; a step warms up, and medians are taken of those after it.
Seconds are processor seconds on one thread, wall-clock seconds on more. Memory is the peak resident size less that
after the imports. `least` is the arithmetic of `cases.Work`, attention included, at the rate of a large product.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import side_hocket
from bench import ROOT, machine
from cases import Case
from plots import Panel, drawn
from sides import Side, beside, floor_seconds

PICTURE = ROOT / "docs" / "scaling.svg"
BASE = Case("scaling", 128, 5, 4, prompts=8)


@dataclass(frozen=True)
class Axis:
    """What changes: a field of `Case`, and the values it takes. `label` is for people."""

    name: str
    field: str
    values: tuple[int, ...]
    label: str

    def case(self, value: int) -> Case:
        """The base with one number changed."""
        return Case(**{**asdict(BASE), "name": f"scaling-{self.name}-{value}", self.field: value})


AXES = (
    Axis("batch", "prompts", (2, 4, 8, 16, 32), "prompts in a step"),
    Axis("group", "samples", (2, 4, 8, 16, 32), "samples of a prompt"),
    Axis("prompt", "prompt", (32, 128, 512, 1024), "tokens of a prompt"),
    Axis("turns", "turns", (1, 2, 4, 8), "turns of a conversation"),
    Axis("vocabulary", "words", (1_000, 8_000, 32_000), "tokens in the vocabulary"),
)


def measure(axis: Axis, rounds: int, settings: side_hocket.Settings) -> list[dict[str, float]]:
    """One row of figures for each value of an axis."""
    found = []
    for value in axis.values:
        case = axis.case(value)
        side = beside(case, {"ours": settings}, rounds=rounds, seconds=60.0, patience=0.0)["ours"]
        found.append({"value": float(value), **figures(side)})
        print(f"{axis.name} {value}: {found[-1]['step']:.2f} s, {found[-1]['memory']:.0f} MiB", file=sys.stderr)
    return found


def figures(side: Side) -> dict[str, float]:
    """Seconds of a step and its parts, the least there could be, and memory in MiB."""
    least = sum(floor_seconds(side, part, attention=True) for part in ("sampling", "learner"))
    return {**side.medians(), "least": least, "memory": side.end["memory"]}


def panels(found: Mapping[str, Sequence[Mapping[str, float]]]) -> list[list[Panel]]:
    """Time above memory, one column for each axis."""
    times, memories = [], []
    for axis in AXES:
        if axis.name not in found:
            continue
        rows = found[axis.name]
        lines = {name: [(row["value"], row[name]) for row in rows] for name in ("step", "learner", "sampling", "least")}
        times.append(Panel(axis.label, lines, "seconds"))
        memories.append(Panel(axis.label, {"peak": [(row["value"], row["memory"]) for row in rows]}, "MiB"))
    return [times, memories]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = {axis.name: axis for axis in AXES}
    parser.add_argument("axes", nargs="*", metavar="AXIS", help=f"of {', '.join(known)}; all when none is named")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    options = parser.parse_args()
    unknown = [name for name in options.axes if name not in known]
    if unknown:
        parser.error(f"there is no axis {unknown[0]!r}; choose from {', '.join(known)}")
    settings = side_hocket.Settings(threads=options.threads, wait="PASSIVE" if options.threads == 1 else "ACTIVE")
    found = {name: measure(known[name], options.rounds, settings) for name in options.axes or known}
    if options.json:
        json.dump({"machine": machine(), "threads": options.threads, "axes": found}, sys.stdout, indent=1)
        print()
    if not options.axes:
        PICTURE.write_text(drawn(panels(found)))
        print(f"drew {PICTURE.relative_to(ROOT)}", file=sys.stderr)


if __name__ == "__main__":
    main()
