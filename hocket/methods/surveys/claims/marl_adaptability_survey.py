"""Claims about adaptability in multi-agent RL."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import hocket
from hocket.apps.report import map as maps
from hocket.apps.report.shift import shift_drop
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.methods.surveys.marl_adaptability_survey import MARL_ADAPTABILITY_SURVEY

claim = Claims("marl-adaptability-survey", "arXiv:2507.10142")

SHIFTS = {
    "agent count": ("flickerfusion", "mpe:flee?ids=false", "mpe:flee?ids=false&pursuers=5&come=2", 2),
    "goals": ("ippo", "dilemma:gathering", "dilemma:gathering?whole=2&safe=8", 6),
    "dynamics": ("ippo", "skirmish:2v2?size=5&length=12", "skirmish:2v2?size=5&length=12&strength=3", 4),
    "partners": ("ippo", "recall:partner?slip=0", "recall:partner?slip=0.5", 10),
}
"""By change: a recipe, the task of training, the shifted task, and steps of training."""


def _run(folder: str, name: str, recipe: str, task: str, steps: int) -> Path:
    settings: dict[str, Any] = {"evaluation.n": 1, "evaluation.every": 0, "threads": 1, "runs": folder, "run": name}
    hocket.train(task, recipe=recipe, steps=steps, **settings)
    return Path(folder) / name


def _drop(source: Path, other: Path, n: int) -> tuple[float, float, float]:
    rows = shift_drop(source, other, (), n=n, task=None, which="last")["rows"]
    _, drop, low, high = rows[-1]
    return float(drop), float(low), float(high)


@claim(
    "Under each of four changes the drop is measured; its interval covers the drop on ten times as many scenarios, "
    "and under other goals all of it is above 0.",
    slow=True,
)
def under_each_of_four_changes_the_drop_is_measured() -> Finding:
    drops, holds = dict[str, str](), True
    for shift, (recipe, home, shifted, steps) in SHIFTS.items():
        with tempfile.TemporaryDirectory() as folder:
            away, native = _run(folder, "away", recipe, home, steps), _run(folder, "native", recipe, shifted, steps)
            drop, low, high = _drop(away, native, 60)
            true = _drop(away, native, 600)[0]
        holds &= low <= true <= high and (shift != "goals" or low > 0)
        drops[shift] = f"{drop:.3f} in {low:.3f} to {high:.3f}, of 600 {true:.3f}"
    return Finding(holds, str(drops))


@claim("A policy beside itself drops by nothing, scenario by scenario.", slow=True)
def a_policy_beside_itself_drops_by_nothing() -> Finding:
    with tempfile.TemporaryDirectory() as folder:
        native = _run(folder, "native", "ippo", "dilemma:prisoners?rounds=1", 1)
        same = _drop(native, native, 20)
    return Finding(same == (0, 0, 0), say(same=same))


@claim(
    "Recipes for several agents can be filtered by the change that they stand, and every cell has one or says why not."
)
def recipes_can_be_filtered_by_the_change() -> Finding:
    problems = maps.problems(MARL_ADAPTABILITY_SURVEY)
    shifts = [cell.name for cell in MARL_ADAPTABILITY_SURVEY.axes[0].cells]
    counts = {shift: len(maps.selected("marl-adaptability-survey", [f"shift={shift}"]).names or ()) for shift in shifts}
    return Finding(not problems and len(counts) == 4 and min(counts.values()) > 0, say(**counts))
