"""Claims about the survey of optimising language-model agents."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hocket.apps.report import map as maps
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.claims.lesson_data import Pupil, begin, lessons
from hocket.methods.surveys.survey_llm_agent_optimization import SURVEY_LLM_AGENT_OPTIMIZATION as SURVEY
from hocket.train.optimise.run import SearchRun, SearchSettings

claim = Claims("survey-llm-agent-optimization", "arXiv:2503.12434")


@claim("Every leaf of its taxonomy has a recipe or a searcher, or says why not; so has every method that it names.")
def every_leaf_has_a_recipe_or_a_searcher() -> Finding:
    problems = maps.problems(SURVEY)
    sizes = {f"{axis.name}={cell.name}": len(maps.members(cell.holds)) for axis in SURVEY.axes for cell in axis.cells}
    return Finding(
        not problems and sum(size == 0 for size in sizes.values()) == 1, say(problems=len(problems), **sizes)
    )


TASK, START = "lookup", 40
"""Questions that a search tool answers; steps of lessons, of which half guess in place of a search."""
TOKENS = 45_000
"""What each leaf may sample."""


def _begun(recipe: str, model: str) -> Pupil:
    return begin(recipe, TASK, {"model": model, "curriculum.prompts": 8})


def _spend(pupil: Pupil, tokens: float) -> Pupil:
    """Trains until so many tokens were sampled."""
    while sum(result.metrics["tokens/generated"] for result in pupil.results) < tokens:
        pupil.run(1)
    return pupil


def _hybrid(model: str) -> Pupil:
    """Half of the tokens for own successes, imitated; the rest for GRPO from there."""
    cloned = _spend(_begun("curr-reft-self", model), TOKENS / 2)
    with tempfile.TemporaryDirectory() as folder:
        cloned.parts.lead.policy.save(Path(folder))
        return _spend(_begun("grpo", folder), TOKENS / 2)


def _searched(model: str) -> tuple[float, int]:
    """The gain of the prompt that a search finds for the same tokens, and how many prompts were tried."""
    settings = SearchSettings(
        TASK,
        "reflective",
        budget=100_000,
        model=model,
        tokens=TOKENS,
        practice=32,
        development=32,
        evaluation=29,
        lessons=0,
    )
    with tempfile.TemporaryDirectory() as folder:
        search = SearchRun(settings, Path(folder) / "search")
        outcome = search.run()
        return outcome["evaluation"]["best"] - outcome["evaluation"]["start"], len(search.bench.trials)


@claim(
    "On one task at equal tokens, from one start: own successes imitated, GRPO, DPO on pairs of trajectories, and "
    "imitation before GRPO all answer more of unseen questions, by 10 points or more; a search for prompts gains less "
    "than any, as the shipped model hardly reads them.",
    slow=True,
    learns=True,
)
def the_leaves_at_equal_tokens() -> Finding:
    model = lessons(f"lessons:{TASK}", steps=START)
    before = _begun("grpo", model).success(4)
    leaves = {
        "filtered_cloning": _spend(_begun("curr-reft-self", model), TOKENS),
        "grpo": _spend(_begun("grpo", model), TOKENS),
        "dpo": _spend(_begun("dmpo", model), TOKENS),
        "hybrid": _hybrid(model),
    }
    gains = {name: pupil.success(4) - before for name, pupil in leaves.items()}
    prompts, tried = _searched(model)
    holds = min(gains.values()) > 0.1 and prompts < min(gains.values()) and tried > 2
    return Finding(
        holds,
        say(
            before=before,
            **{f"{name}_gain": gain for name, gain in gains.items()},
            prompts_gain=prompts,
            prompts_tried=tried,
        ),
    )
