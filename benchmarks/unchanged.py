"""Did a change of structure change behaviour? What the library computes, held against a frozen baseline.

    python benchmarks/unchanged.py                   # all parts
    python benchmarks/unchanged.py plain claims      # some of them
    python benchmarks/unchanged.py --freeze          # write the baseline anew

Parts: `plain` (every recipe as plain data), `listing` (`hocket recipes --json`), `claims` (every quick claim: row,
sentence, verdict and figures), `steps` (two steps of every recipe that trains on the default task; all metrics but
times, throughputs and memory, to the last bit). Names of classes that have moved are read through the aliases that
old configurations load by. Figures are of one kind of processor, which the baseline names.
"""

from __future__ import annotations

import argparse
import gzip
import json
import multiprocessing
import os
import platform
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

FOLDER = Path(__file__).with_name("unchanged")
MEASURED = ("time/", "throughput/", "memory/")
"""Metrics that no two runs share."""


def plain() -> dict[str, Any]:
    """Every recipe as plain data."""
    from hocket.core.components import to_plain
    from hocket.recipes import all_recipes

    return {name: to_plain(recipe) for name, recipe in sorted(all_recipes().items())}


def listing() -> dict[str, Any]:
    """`hocket recipes --json`, by name; how long claims took is left out."""
    from hocket.apps.report.cards import card_of
    from hocket.apps.report.methods import as_row
    from hocket.recipes import all_recipes

    rows = {name: as_row(card_of(recipe)) for name, recipe in sorted(all_recipes().items())}
    for row in rows.values():
        row["checks"] = sorted(([c["row"], c["claim"], c["holds"], c["saw"]] for c in row["checks"]), key=str)
    return rows


def claims() -> dict[str, Any]:
    """Every quick claim, by row and sentence: whether it held and what it saw."""
    from hocket.lab.claims.registry import all_checks

    number = len([check for check in all_checks() if not check.slow])
    return dict(_pooled(_claim, range(number)))


def _claim(number: int) -> tuple[str, Any]:
    from hocket.lab.claims.registry import all_checks

    verdict = [check for check in all_checks() if not check.slow][number]()
    return f"{verdict.row}: {verdict.claim}", [verdict.holds, verdict.saw]


def steps() -> dict[str, Any]:
    """The metrics of two steps of every recipe that trains on `sums`; a sentence for those that do not."""
    from hocket.recipes import all_recipes

    return dict(_pooled(_steps, sorted(all_recipes())))


def _steps(name: str) -> tuple[str, Any]:
    from hocket import tasks
    from hocket.core.errors import HocketError
    from hocket.train.config import configure
    from hocket.train.trainer import Trainer

    settings = {"steps": 2, "threads": 1, "curriculum.prompts": 4, "evaluation.n": 4, "decoding.max_tokens": 24}
    with tempfile.TemporaryDirectory() as runs:
        try:
            task = tasks.find("sums")
            pairs = [("recipe", name), ("runs", runs), ("run", "run"), *settings.items()]
            trainer = Trainer(configure(pairs, task), task=task)
            rows = [trainer.step() for _ in range(3)]
            trainer.folder.release()
        except (HocketError, ValueError) as error:
            return name, re.sub(r"hocket(\.\w+)*\.", "", str(error).replace(runs, "RUNS"))
    return name, [{key: one for key, one in row.items() if not key.startswith(MEASURED)} for row in rows]


def _pooled(function: Callable[[Any], tuple[str, Any]], over: Any) -> Iterator[tuple[str, Any]]:
    with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as pool:
        for done, result in enumerate(pool.map(function, over), start=1):
            print(f"\r{function.__name__[1:]} {done} of {len(over)}", end="", file=sys.stderr)
            yield result
    print(file=sys.stderr)


PARTS: dict[str, Callable[[], dict[str, Any]]] = {
    "plain": plain,
    "listing": listing,
    "claims": claims,
    "steps": steps,
}


def renamed(value: Any) -> Any:
    """`value` with the old names of moved classes replaced by their present ones."""
    from hocket.core.aliases import present_name

    if isinstance(value, dict):
        return {key: renamed(one) for key, one in value.items()}
    if isinstance(value, list):
        return [renamed(one) for one in value]
    named = isinstance(value, str) and re.fullmatch(r"hocket(\.\w+){2,}", value)
    return present_name(value) if named else value


def read_anew(part: str, frozen: dict[str, Any]) -> dict[str, Any]:
    """What was frozen, as configurations of that time are read today."""
    from hocket.core.aliases import present

    if part == "plain":
        frozen = {name: present(recipe) for name, recipe in frozen.items()}
    return dict(renamed(frozen))


def differences(frozen: Any, now: Any, where: str = "") -> Iterator[str]:
    """Where two values part, to the last bit."""
    if isinstance(frozen, dict) and isinstance(now, dict):
        for key in sorted({*frozen, *now}, key=str):
            if key not in now or key not in frozen:
                yield f"{where}/{key}: {'gone' if key in frozen else 'new'}"
            else:
                yield from differences(frozen[key], now[key], f"{where}/{key}")
    elif isinstance(frozen, list) and isinstance(now, list) and len(frozen) == len(now):
        for place, (one, other) in enumerate(zip(frozen, now, strict=True)):
            yield from differences(one, other, f"{where}/{place}")
    elif repr(frozen) != repr(now):  # so that nan equals itself
        yield f"{where}: {frozen!r} -> {now!r}"


def processor() -> str:
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return names[0].partition(":")[2].strip() if names else platform.processor()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=", ".join(PARTS))
    parser.add_argument("--freeze", action="store_true", help="write the baseline anew")
    options = parser.parse_args()
    unlike = 0
    for name in options.parts or PARTS:
        now = json.loads(json.dumps(PARTS[name](), sort_keys=True))
        file = FOLDER / f"{name}.json.gz"
        if options.freeze:
            FOLDER.mkdir(exist_ok=True)
            text = json.dumps({"processor": processor(), "values": now}, sort_keys=True, ensure_ascii=False)
            file.write_bytes(gzip.compress(text.encode(), mtime=0))
            print(f"{name}: {len(now)} kept")
            continue
        kept = json.loads(gzip.decompress(file.read_bytes()))
        if kept["processor"] != processor() and name in ("claims", "steps"):
            print(f"{name}: frozen on {kept['processor']}, this is {processor()}; last bits may differ")
        found = list(differences(read_anew(name, kept["values"]), now))
        unlike += len(found)
        print(f"{name}: {len(now)} compared, {len(found)} differences")
        for line in found[:40]:
            print(f"  {line[:300]}")
    return 1 if unlike else 0


if __name__ == "__main__":
    sys.exit(main())
