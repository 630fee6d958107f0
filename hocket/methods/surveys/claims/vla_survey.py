"""Claims about vision-language-action models."""

from __future__ import annotations

from hocket import tasks
from hocket.apps.report import map as maps
from hocket.core.surveys import Gap
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.claims.shipped_check import ShippedRun, configured, largest, run
from hocket.methods.surveys.vla_survey import VLA_SURVEY as SURVEY
from hocket.recipes import find

claim = Claims("vla-survey", "arXiv:2508.13073 (abstract)")

MAZE = "maze?width=3&height=3&steps=10&reading=number"


def _stepped(recipe: str, task: str) -> ShippedRun:
    world = tasks.find(task)
    settings = {"curriculum.prompts": 2}
    return run(configured(find(recipe), task, world, settings), world, 2)


def _advantages(step: ShippedRun) -> list[list[tuple[str, float]]]:
    """Of each trajectory, the role and the advantage of every turn's first decision."""
    result = step.results[-1]
    assert result.batch is not None
    values, place, rows = result.batch.occurrences.advantage.tolist(), 0, list[list[tuple[str, float]]]()
    for trajectory in result.trajectories:
        rows.append([])
        for turn in trajectory.turns:
            rows[-1].append((turn.role, values[place]))
            place += len(turn)
    return rows


@claim(
    "On one maze both families learn as shipped: in one sequence every decision of an episode has the same advantage; "
    "planner and actor are two policies, and what they are credited with differs within an episode.",
    slow=True,
)
def both_families_learn_on_one_maze() -> Finding:
    single, pair = _stepped("grpo", MAZE), _stepped("hi-agent", f"subgoals:{MAZE}")
    spread = max(max(value for _, value in row) - min(value for _, value in row) for row in _advantages(single))
    apart = [dict(row) for row in _advantages(pair)]
    differ = sum(len(set(row.values())) > 1 for row in apart if len(row) == 2)
    policies = {"single": len(single.parts.learners), "pair": len(pair.parts.learners)}
    holds = spread == 0 and differ > 0 and policies == {"single": 1, "pair": 2}
    holds &= (
        single.roles != pair.roles == frozenset({"planner", "actor"})
        and min(largest(step.gradients) for step in (single, pair)) > 0
    )
    figures = say(spread_in_a_sequence=spread, credited_apart=differ, gradient=largest(pair.gradients))
    return Finding(holds, f"{figures}, learnt from {sorted(single.roles)} and {sorted(pair.roles)}")


@claim(
    "Both families, what they are joined with and where they are to go have recipes, or the map says what is not here."
)
def both_families_have_recipes() -> Finding:
    problems = maps.problems(SURVEY)
    gaps = [cell.name for axis in SURVEY.axes for cell in axis.cells if isinstance(cell.holds, Gap)]
    return Finding(not problems and len(gaps) == 5, say(problems=len(problems)) + f", {gaps}")
