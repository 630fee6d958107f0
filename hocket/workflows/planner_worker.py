"""A planner that splits a problem, and workers that each see one step."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from hocket.core.columns import InfoColumn
from hocket.core.markup import ANSWER
from hocket.types import Scenario
from hocket.workflows.plans import PLANNER_SYSTEM, WORKER_SYSTEM, notes_text, plan_steps
from hocket.workflows.reply import Reply
from hocket.workflows.team import Team
from hocket.workflows.workflow import Outcome, Workflow, asked

STEPS = InfoColumn("steps", "How many steps the plan had.")


@dataclass(frozen=True)
class PlannerWorker(Workflow):
    """The planner writes numbered steps, a worker with a context of its own does each, the planner answers.

    Workers run at the same time. A plan without steps is taken for the answer, and ends the episode.

    Attributes:
        steps: at most so many are handed out. planner, worker: system prompts; the shipped base was trained on these.
    """

    name = "planner-worker"
    description = "a planner splits the problem, workers do a step each"

    steps: int = 4
    planner: str = PLANNER_SYSTEM
    worker: str = WORKER_SYSTEM

    roles = ("planner", "worker")

    @property
    def prompts(self) -> Mapping[str, str]:
        return {"planner": self.planner, "worker": self.worker}

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        plan = await team.planner(asked(team.assignment))
        steps = plan_steps(str(plan))[: self.steps]
        if not steps:
            return Outcome(answer=str(plan), info={STEPS.name: 0})
        done = await asyncio.gather(*(team.worker.fresh()(step) for step in steps))
        answer = await team.planner(notes_text(steps, [_result(one) for one in done]))
        return Outcome(answer=str(answer), info={STEPS.name: len(steps)})


def _result(reply: Reply) -> str:
    """What a worker found: what stands in its answer tags, else all it said."""
    tagged = ANSWER.search(str(reply))
    return str(reply).strip() if tagged is None else tagged[1].strip()
