"""Claims about the survey of deep research systems."""

from __future__ import annotations

from statistics import fmean

from hocket.apps.report import map as maps
from hocket.core.surveys import Gap
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.claims.lesson_data import Pupil, after_lessons
from hocket.methods.surveys.rl_deep_research_survey import RL_DEEP_RESEARCH_SURVEY as SURVEY

claim = Claims("rl-deep-research-survey", "arXiv:2509.06733 (abstract)")

TASK, LESSONS, STEPS = "lookup", 40, 20


def _exam(pupil: Pupil) -> tuple[float, float]:
    """Of unseen questions: the share answered rightly, and the share of answers that keep to the protocol."""
    played = pupil.exam(4)
    described = [pupil.parts.task.describe(attempt) for attempt in played]
    return fmean(map(pupil.parts.task.success, played)), fmean(figures["format"] for figures in described)


@claim(
    "Imitation teaches the protocol and stays with its demonstrations: after lessons of which half guess, nearly all "
    "answers have the form and most are wrong, and as many lessons more change that by less than 15 points. RL on "
    "whole trajectories from there is right in 30 points more.",
    slow=True,
    learns=True,
)
def imitation_teaches_the_protocol() -> Finding:
    lessons, settings = f"lessons:{TASK}", {"curriculum.prompts": 8}
    start = after_lessons("grpo", TASK, lessons, settings, steps=LESSONS)
    first, reinforced = _exam(start), _exam(start.run(STEPS))
    longer = _exam(after_lessons("grpo", TASK, lessons, settings, steps=2 * LESSONS))
    holds = first[1] > 0.85 and abs(longer[0] - first[0]) < 0.15 and reinforced[0] > max(first[0], longer[0]) + 0.3
    right = say(lessons=first[0], twice_the_lessons=longer[0], then_rl=reinforced[0])
    return Finding(holds, f"right: {right}; of the form: {say(lessons=first[1], then_rl=reinforced[1])}")


@claim("Every cell of data, methods and systems has a recipe, or is listed as a gap; so is every method that it names.")
def every_cell_has_a_recipe() -> Finding:
    problems = maps.problems(SURVEY)
    cells = [cell for axis in SURVEY.axes for cell in axis.cells]
    gaps = [cell.name for cell in cells if isinstance(cell.holds, Gap)]
    axes = {axis.name for axis in SURVEY.axes} >= {"data", "method", "system"}
    return Finding(
        not problems and axes and len(gaps) == 1, say(problems=len(problems), cells=len(cells)) + f", {gaps}"
    )
