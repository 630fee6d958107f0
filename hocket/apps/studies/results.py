"""What a study says: every figure with its interval, as one JSON document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hocket import __version__
from hocket.apps.studies import statistics
from hocket.apps.studies.conduct import StudyResult
from hocket.apps.studies.planning import Planner
from hocket.apps.studies.statistics import Array, difference, estimate, improvement, smallest_difference
from hocket.apps.studies.study import TUNING_SEEDS, Study, StudyMethod, rival, tasks_of, without_recipe
from hocket.core.keys import Key
from hocket.recipes import find

Result = Mapping[str, Any]
Json = dict[str, Any]

METRICS = ("final", "area", "tokens", "answers", "length", "entropy")
"""Numbers of a run besides pass@k."""

DEFINITIONS = {
    "final": "greedy success on unseen problems after training",
    "area": "mean height of the curve of greedy success over the budget of sampled answers",
    "tokens": "tokens sampled for training",
    "answers": "answers sampled for training",
    "length": "mean tokens of a greedy answer after training",
    "entropy": "mean of -log-prob of the sampled tokens over the last quarter of training, nats",
    "pass@k": "1 - C(m - c, k)/C(m, k) with c right among m sampled answers after training, averaged over problems",
    "value": "interquartile mean over seeds and tasks: the middle half of all runs",
    "interval": f"{statistics.LEVEL:.0%} percentile interval of {statistics.DRAWS} bootstrap resamples of the seeds, "
    "drawn within each task",
    "improvement": "the probability that a run of the method ends above a run of the baseline on the same task, ties "
    "counting half, averaged over tasks; both are resampled",
    "difference": "interquartile mean of the method's final success minus the baseline's; both are resampled",
    "area_difference": "the same of the area",
    "resolvable": "the smallest true difference of mean final success that a two-sided t test at 5 % would find with "
    "probability 80 %: (t_nu(0.975) + t_nu(0.8)) sqrt(v_x + v_y), v = sum_k s_k^2/n / K^2 over K tasks with n seeds, "
    "nu = K (n_x + n_y - 2)",
}


def results(study: Study, planner: Planner, outcome: StudyResult) -> Json:
    """The whole study as JSON data."""
    key = Key.of(0).derive("study")
    baseline = outcome.methods[0].label
    by_label: dict[str, Json] = {}
    for entry in outcome.tested:
        by_label[entry.label] = _method(study, outcome, entry, key) | _against(outcome, study, entry, key)
    rows = []
    for entry in outcome.methods:
        recipe = find(entry.recipe)
        equal = outcome.equal.get(entry.label)
        other = rival(entry, study)
        shown = by_label[other if equal else entry.label]
        rows.append(
            {
                "label": entry.label,
                "tasks": list(tasks_of(entry, study)),
                "against": other,
                "recipe": recipe.name,
                "title": recipe.title,
                "catalogue_ids": list(recipe.catalogue_ids),
                "settings": {**outcome.tuned.get(other if equal else entry.label, {}), **entry.settings},
                "refused": list(planner.refused.get(entry.label, ())),
                "equal": None if equal is None else {"to": other, **equal},
                "apart": outcome.apart.get(entry.label),
                **shown,
                "failures": outcome.failures.get(entry.label, []),
            }
        )
    finished = [run for runs in outcome.results.values() for run in runs]
    return {
        "version": 1,
        "hocket": __version__,
        "study": study.name,
        "baseline": baseline,
        "tasks": list(study.tasks),
        "model": study.model,
        "budget": {
            study.unit: study.budget,
            "steps": study.steps,
            "prompts": study.prompts,
            "samples": study.samples,
        },
        "settings": dict(study.settings),
        "lessons": dict(study.lessons),
        "seeds": {"testing": list(study.testing_seeds), "tuning": f"from {TUNING_SEEDS}"},
        "measure": finished[0]["measure"] if finished else None,
        "definitions": DEFINITIONS,
        "methods": rows,
        "without_recipe": without_recipe(study),
        "searches": [_gapped(search, study, outcome) for search in outcome.searches],
        "runs": {
            "finished": len(finished),
            "failed": sum(len(errors) for errors in outcome.failures.values()),
            "seconds": sum(float(run["seconds"]) for run in finished),
        },
    }


def _gapped(search: Json, study: Study, outcome: StudyResult) -> Json:
    """A search with what its winner had on tuning seeds and on testing seeds, and the difference: its optimism.

    Of all that were tried the winner was also the luckiest, so the gap is positive on average, and falls with the
    number of tuning seeds (Eimer et al. 2023). `runs` is what the search took.
    """
    won = next(candidate["scores"] for candidate in search["candidates"] if candidate["settings"] == search["chosen"])
    tested = [
        _metric(run, study.tuning.by)
        for task in study.tasks
        for run in outcome.results.get((search["tried"], task), ())
    ]
    known = [score for score in tested if score is not None]
    runs = sum(len(candidate["scores"]) for candidate in search["candidates"])
    if not won or not known:
        return {**search, "runs": runs, "gap": None}
    tuned, after = float(np.mean(won)), float(np.mean(known))
    return {**search, "runs": runs, "tuned": tuned, "tested": after, "gap": tuned - after}


# ---------------------------------------------------------------- one method


def scores(outcome: StudyResult, tasks: Sequence[str], label: str, metric: str) -> Array:
    """A metric of a method's runs `[seeds, tasks]`: those seeds that finished on every one of the tasks."""
    by_task = [{run["seed"]: _metric(run, metric) for run in outcome.results.get((label, name), ())} for name in tasks]
    known = [{seed for seed, value in values.items() if value is not None} for values in by_task]
    seeds = sorted(set.intersection(*known)) if known else []
    return np.array([[values[seed] for values in by_task] for seed in seeds], np.float64).reshape(
        len(seeds), len(tasks)
    )


def _metric(run: Result, metric: str) -> float | None:
    value = run["pass"].get(metric.removeprefix("pass@")) if metric.startswith("pass@") else run[metric]
    return None if value is None else float(value)


def _method(study: Study, outcome: StudyResult, entry: StudyMethod, key: Key) -> Json:
    label, tasks = entry.label, tasks_of(entry, study)
    runs = [run for task in tasks for run in outcome.results.get((label, task), ())]
    names = [*METRICS, *(f"pass@{k}" for k in (runs[0]["pass"] if runs else ()))]
    together = _estimates(outcome, label, names, tasks, key)
    alone = {task: _estimates(outcome, label, names, (task,), key) for task in tasks}
    return {
        "runs": len(runs),
        "seconds": sum(float(run["seconds"]) for run in runs),
        "metrics": together,
        "by_task": alone if len(alone) > 1 else {tasks[0]: together},
        "curves": {task: _curve(study, outcome.results.get((label, task), ()), key) for task in tasks},
    }


def _estimates(outcome: StudyResult, label: str, names: Sequence[str], tasks: Sequence[str], key: Key) -> Json:
    estimates = {}
    for name in names:
        values = scores(outcome, tasks, label, name)
        estimates[name] = estimate(values, key.derive("of", name)).to_json() if len(values) else None
    return estimates


def _against(outcome: StudyResult, study: Study, entry: StudyMethod, key: Key) -> Json:
    """Improvement over what a method is compared with, on its own tasks, and what the seeds could have resolved."""
    label, baseline, tasks = entry.label, rival(entry, study), tasks_of(entry, study)
    ours, theirs = (scores(outcome, tasks, name, "final") for name in (label, baseline))
    if label == baseline or not len(ours) or not len(theirs):
        resolvable = smallest_difference(theirs, theirs) if label == baseline and len(theirs) else None
        return {"improvement": None, "difference": None, "area_difference": None, "resolvable": resolvable}
    our_area, their_area = (scores(outcome, tasks, name, "area") for name in (label, baseline))
    return {
        "improvement": improvement(ours, theirs, key.derive("improvement")).to_json(),
        "difference": difference(ours, theirs, key.derive("difference")).to_json(),
        "area_difference": difference(our_area, their_area, key.derive("area")).to_json(),
        "resolvable": smallest_difference(ours, theirs),
    }


def _curve(study: Study, runs: Sequence[Result], key: Key) -> Json:
    """Success, reward, entropy and length along the budget: interquartile means over seeds, success with interval.

    Every run's curve is read at the same numbers of answers, or tokens: straight between points, level after the last.
    """
    budget, every = float(study.budget), study.budget / (study.steps // max(1, study.steps // study.measure.points))
    places = [min(budget, every * number) for number in range(round(budget / every) + 1)]
    read = _read(runs, "value", places, study.unit)
    lines: Json = {"success": []}
    for place, column in zip(places, read.T, strict=True) if len(read) else ():
        mean = estimate(column[:, None], key.derive("curve"))
        lines["success"].append([place, mean.value, mean.low, mean.high])
    places = [budget * (number + 1) / study.steps for number in range(study.steps)]
    for name in ("reward", "entropy", "length"):
        read = _read(runs, name, places, study.unit)
        middle = statistics.interquartile_mean(read.T[:, :, None]) if len(read) else np.zeros(0)
        lines[name] = [[place, float(value)] for place, value in zip(places, middle, strict=False)]
    return lines


def _read(runs: Sequence[Result], name: str, places: Sequence[float], unit: str) -> Array:
    """A column of runs at numbers of answers or tokens, `[runs, places]`; runs that never measured it are left out."""
    last = places[-1]
    known = [[(min(last, row[unit]), row[name]) for row in run["rows"] if row[name] is not None] for run in runs]
    curves = [np.interp(places, *np.array(points, np.float64).T) for points in known if points]
    return np.array(curves, np.float64).reshape(len(curves), len(places))
