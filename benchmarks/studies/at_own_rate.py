"""Each recipe of the committed study against GRPO at the learning rate that the recipe was tuned to.

    python benchmarks/studies/at_own_rate.py [runs/studies/group-relative]

Reads the finished runs of that folder and starts none.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from hocket.apps.studies.conduct import StudyResult, StudyRunner, checked
from hocket.apps.studies.folder import StudyFolder
from hocket.apps.studies.planning import Planner
from hocket.apps.studies.pool import Job, WorkerPool
from hocket.apps.studies.results import scores
from hocket.apps.studies.statistics import difference
from hocket.apps.studies.study import Study, read
from hocket.core.errors import HocketError
from hocket.core.keys import Key

FILE = Path(__file__).with_name("group_relative.yaml")
OWN = {1e-4: "grpo at 1e-4", 3e-4: "grpo at 3e-4", 6e-4: "grpo"}


class NoRuns(WorkerPool):
    """Refuses to run anything."""

    def do(self, jobs: Sequence[Job], done: Callable[[Job, str | None], None]) -> None:
        raise HocketError(f"{len(jobs)} runs are missing; run `hocket study {FILE}` first")


def compare(study: Study, found: StudyResult) -> None:
    """Prints every difference whose interval has no 0, and how many lie above and below."""
    counts: Counter[str] = Counter()
    for entry in found.tested:
        rate = found.tuned.get(entry.label, {}).get("update.lr")
        if rate is None or entry.recipe == "grpo":
            continue
        counts["recipes"] += 1
        for metric in ("final", "area"):
            ours, theirs = (scores(found, study, label, metric) for label in (entry.label, OWN[float(rate)]))
            apart = difference(ours, theirs, Key.of(0).derive("own rate", entry.label))
            if apart.low > 0 or apart.high < 0:
                counts[f"{metric} {'above' if apart.low > 0 else 'below'}"] += 1
                figures = (100 * value for value in (apart.value, apart.low, apart.high))
                print(f"{entry.label:32s} {metric:5s} at {rate:g}  {'{:+6.1f} ({:+.1f} to {:+.1f})'.format(*figures)}")
    print(", ".join(f"{count} {name}" for name, count in counts.items()))


def main() -> None:
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("runs/studies/group-relative")
    study = read(FILE, [])
    planner = Planner(study)
    compare(study, StudyRunner(planner, checked(study, planner), StudyFolder(place), NoRuns(1), print).run())


if __name__ == "__main__":
    main()
