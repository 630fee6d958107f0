"""Carries a study out: which recipes are the baseline's equals, what each is tuned to, and the runs that count."""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hocket.apps.studies.folder import StudyFolder, read_result
from hocket.apps.studies.planning import Planner, StudyRun
from hocket.apps.studies.pool import Job, Workers
from hocket.apps.studies.study import Study, StudyMethod, entries, rival, tasks_of, unknown
from hocket.apps.studies.tuning import Settings, TuningUnit, best, rounds, runs_of_search, tuning_seeds, units
from hocket.core.errors import ConfigurationError
from hocket.train.kinds import kind_of

Say = Callable[[str], None]


@dataclass
class StudyResult:
    """What a study found.

    Attributes:
        methods: those compared, the baseline first. equal: how methods that are the baseline's equals lie to it.
        apart: why each other method is not one. tuned: settings found by label. searches: every search, as told in the
            results. results: finished runs by (label, task), in order of seeds. failures: why others did not finish.
    """

    methods: list[StudyMethod]
    equal: dict[str, dict[str, Any]] = field(default_factory=dict)
    apart: dict[str, str] = field(default_factory=dict)
    tuned: dict[str, Settings] = field(default_factory=dict)
    searches: list[dict[str, Any]] = field(default_factory=list)
    results: dict[tuple[str, str], list[dict[str, Any]]] = field(default_factory=dict)
    failures: dict[str, list[str]] = field(default_factory=dict)

    @property
    def tested(self) -> list[StudyMethod]:
        """The methods with runs of their own."""
        return [entry for entry in self.methods if entry.label not in self.equal]


class StudyRunner:
    """Runs what a study lacks; what is in its folder is not run again."""

    def __init__(
        self, planner: Planner, methods: list[StudyMethod], folder: StudyFolder, pool: Workers, say: Say
    ) -> None:
        self.study, self.planner, self.methods = planner.study, planner, methods
        self.folder, self.pool, self.say = folder, pool, say

    def run(self) -> StudyResult:
        """The whole study, or what is left of it."""
        outcome = StudyResult(self.methods)
        self._find_equals(outcome)
        self._tune(outcome)
        self._test(outcome)
        return outcome

    # ------------------------------------------------------------ equals

    def _find_equals(self, outcome: StudyResult) -> None:
        # Teams differ in what is not the recipe's.
        count = 0 if self.study.teams else self.study.equal_batches
        if not count or not kind_of(self.planner.task(self.study.tasks[0])).textual:
            return
        known = {entry.label: entry for entry in self.methods}
        rivals = {rival(entry, self.study) for entry in self.methods}
        jobs: dict[str, Job] = {}
        for entry in self.methods:
            if entry.label in rivals:  # It has to have runs of its own.
                continue
            other = known[rival(entry, self.study)]
            task = tasks_of(entry, self.study)[0]
            run, baseline = self.planner.run(entry, task, 0), self.planner.run(other, task, 0)
            name = hashlib.blake2b(f"{run.key} {baseline.key} {count}".encode(), digest_size=10).hexdigest()
            jobs[entry.label] = {
                "kind": "relate",
                "file": str(self.folder.path / "equal" / f"{name}.json"),
                "run": run.to_json(),
                "baseline": baseline.to_json(),
                "batches": count,
                "work": str(self.folder.path / "work"),
            }
        self._do(list(jobs.values()), "looking for equals", lambda job: f"{job['run']['label']} compared")
        for label, job in jobs.items():
            relation = read_result(_path(job)) or {"relation": "different", "because": "it was not compared"}
            if relation.get("relation") in ("equal", "proportional"):
                outcome.equal[label] = relation
            else:
                outcome.apart[label] = str(relation.get("because") or relation.get("error"))

    # ------------------------------------------------------------ tuning

    def _tune(self, outcome: StudyResult) -> None:
        """All searches side by side, round by round."""
        searches = [UnitSearch(unit, self.study) for unit in units(self.study, self.planner, outcome.tested)]
        for number in range(max((len(search.rounds) for search in searches), default=0)):
            wanted = [
                (search, candidate, run)
                for search in searches
                for candidate, run in search.runs(number, self.planner, self.study)
            ]
            self.carry_out([run for _, _, run in wanted], f"tuning, round {number + 1}")
            for search, candidate, run in wanted:
                search.hear(candidate, self.folder.result(run.key), self.study.tuning.by)
            for search in searches:
                search.end(number)
        for search in searches:
            outcome.searches += [search.told()] if search.rounds else []
            for member in search.unit.members:
                outcome.tuned[member.label] = search.settings

    # ------------------------------------------------------------ testing

    def _test(self, outcome: StudyResult) -> None:
        runs = {
            (entry.label, task): [
                self.planner.run(entry, task, seed, outcome.tuned.get(entry.label)) for seed in self.study.testing_seeds
            ]
            for entry in outcome.tested
            for task in tasks_of(entry, self.study)
        }
        # Seed by seed, so that a study that is looked at early has something of every method.
        order = [
            run for seed in self.study.testing_seeds for group in runs.values() for run in group if run.seed == seed
        ]
        self.carry_out(order, "testing")
        for place, group in runs.items():
            results = [(run, self.folder.result(run.key)) for run in group]
            outcome.results[place] = [{**result, "seed": run.seed} for run, result in results if result is not None]
            lost = [self.folder.failure(run.key) or "not run" for run, result in results if result is None]
            if lost:
                outcome.failures.setdefault(place[0], []).extend(f"{place[1]}: {error}" for error in lost)

    # ------------------------------------------------------------ jobs

    def carry_out(
        self, runs: Sequence[StudyRun], what: str, heard: Callable[[StudyRun], None] = lambda run: None
    ) -> None:
        """Does the runs that the folder lacks, each key once; `heard` is called with each that has ended."""
        place = self.folder.path
        jobs = [
            {
                "kind": "run",
                "file": str(place / "runs" / f"{run.key}.json"),
                "run": run.to_json(),
                "work": str(place / "work"),
            }
            for run in {run.key: run for run in runs}.values()
        ]

        def tell(job: Job) -> str:
            heard(StudyRun.from_json(job["run"]))
            return self._told(job)

        self._do(jobs, what, tell)

    def _do(self, jobs: Sequence[Job], what: str, tell: Callable[[Job], str]) -> None:
        """Does the jobs whose file is not there."""
        lacking = [job for job in jobs if "error" in (read_result(_path(job)) or {"error": "not run"})]
        if not lacking:
            return
        self.say(f"{what}: {len(lacking)} of {len(jobs)} to do, {self.pool.size} at a time")
        ended = 0

        def done(job: Job, error: str | None) -> None:
            nonlocal ended
            ended += 1
            self.say(f"  {ended}/{len(lacking)}  {tell(job)}" + (f": failed, {error}" if error else ""))

        self.pool.do(lacking, done)

    def _told(self, job: Job) -> str:
        run = job["run"]
        outcome = self.folder.result(run["key"])
        what = f"{run['label']} on {run['task']}, seed {run['seed']}"
        return what if outcome is None else f"{what}: {outcome['final']:.3f} in {outcome['seconds']:.0f} s"


class UnitSearch:
    """One unit's search as it goes on."""

    def __init__(self, unit: TuningUnit, study: Study) -> None:
        self.unit = unit
        self.rounds = rounds(len(unit.candidates), study.tuning)
        self._left = list(range(len(unit.candidates)))
        self._values: dict[int, list[float]] = {number: [] for number in self._left}

    @property
    def settings(self) -> Settings:
        """The winner's, or the only candidate's."""
        return self.unit.candidates[self._left[0]]

    def runs(self, number: int, planner: Planner, study: Study) -> list[tuple[int, StudyRun]]:
        """The runs that round `number` adds, each with its candidate."""
        if number >= len(self.rounds):
            return []
        had = self.rounds[number - 1].seeds if number else 0
        return [
            (candidate, planner.run(self.unit.tried, task, seed, self.unit.candidates[candidate]))
            for candidate in self._left
            for task in tasks_of(self.unit.tried, study)
            for seed in tuning_seeds(self.rounds[number].seeds)[had:]
        ]

    def hear(self, candidate: int, result: Mapping[str, Any] | None, by: str) -> None:
        """A run that did not finish makes its candidate the last choice."""
        self._values[candidate].append(float("nan") if result is None else float(result[by]))

    def end(self, number: int) -> None:
        """Leaves those that go on."""
        if number < len(self.rounds):
            last = number + 1 == len(self.rounds)
            scores = {candidate: statistics.fmean(self._values[candidate]) for candidate in self._left}
            self._left = best(scores, 1 if last else self.rounds[number + 1].candidates)

    def told(self) -> dict[str, Any]:
        return {
            "unit": self.unit.name,
            "tried": self.unit.tried.label,
            "members": [entry.label for entry in self.unit.members],
            "candidates": [
                {"settings": settings, "scores": self._values[number]}
                for number, settings in enumerate(self.unit.candidates)
            ],
            "chosen": self.settings,
        }


def checked(study: Study, planner: Planner) -> list[StudyMethod]:
    """The methods of a study, after every one has been fitted to every task.

    Raises:
        ConfigurationError: for an unknown recipe, task or setting, or tasks that measure different things.
    """
    methods = entries(study)
    if len({kind_of(planner.task(task)).measure for task in study.tasks}) > 1:
        raise ConfigurationError("tasks: accuracies and returns cannot be averaged; study text and control apart")
    for key in study.tuning.grid:
        if not any(planner.has(entry, key) for entry in methods):
            raise unknown(key, ["update.lr"], "setting to tune called")
    for entry in methods:
        for task in tasks_of(entry, study):
            planner.run(entry, task, 0)
    for unit in units(study, planner, methods):
        for candidate in unit.candidates:
            planner.run(unit.tried, tasks_of(unit.tried, study)[0], 0, candidate)
    return methods


# ---------------------------------------------------------------- what it will take


@dataclass(frozen=True)
class StudyCost:
    """An estimate: runs to do and done by stage, and processor seconds left; None where nothing is known."""

    tuning: int
    testing: int
    done: int
    seconds: float | None


def cost(study: Study, folder: StudyFolder) -> StudyCost:
    """What a study takes at most: methods that turn out equal to the baseline save their runs.

    Seconds are those of the folder's finished runs per task where there are some, else the study file's.
    """
    planner = Planner(study)
    methods = checked(study, planner)
    per_task = {task: study.seconds.get(task) for task in study.tasks}
    known: dict[str, list[float]] = {task: [] for task in study.tasks}
    for file in (folder.path / "runs").glob("*.json"):
        result = read_result(file)
        if result is not None and "seconds" in result and result["run"]["task"] in known:
            known[result["run"]["task"]].append(float(result["seconds"]))
    per_task |= {task: statistics.median(values) for task, values in known.items() if values}
    searching = dict.fromkeys(study.tasks, 0)
    testing = {task: study.seeds * sum(task in tasks_of(entry, study) for entry in methods) for task in study.tasks}
    for unit in units(study, planner, methods):
        for task in tasks_of(unit.tried, study):
            searching[task] += runs_of_search(len(unit.candidates), study.tuning)
    done = sum(len(values) for values in known.values())
    each = {task: value for task, value in per_task.items() if value is not None}
    left = None
    if len(each) == len(study.tasks):
        left = sum(max(0, searching[task] + testing[task] - len(known[task])) * value for task, value in each.items())
    return StudyCost(sum(searching.values()), sum(testing.values()), done, left)


def _path(job: Job) -> Path:
    return Path(job["file"])
