"""AT-GRPO: GRPO for teams that compares answers to one and the same prompt (Stronger Together, arXiv:2510.11062).

Prompts differ by role and turn, so several candidates are drawn at each turn, the best is carried out and the episode
goes on (`AgentTurnTree`); credit compares a turn's reward within its agent's answers to that prompt alone
(`PromptRelative`). `SolverChecker` is a team whose turns can be judged so; any workflow that asks by `agent.candidates`
is another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from hocket.agents.workflows.reply import Reply
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow, asked, with_line
from hocket.core.batch import Batch, Level, LevelScores, Occurrences
from hocket.core.candidates import TURN_REWARD, Branching
from hocket.core.keys import Key
from hocket.core.markup import ANSWER
from hocket.core.options import checked
from hocket.core.requirements import Requirement
from hocket.core.segments import segment_sum
from hocket.core.signals import REWARD
from hocket.credit.formulas import centred, scaled
from hocket.credit.units import Units, agent_returns, turn_units
from hocket.methods.base.conventions import PER_TURN
from hocket.methods.base.grpo import GRPO
from hocket.rollout.groups import groups
from hocket.stages import Credit, Grade, LedgerView, More, Play, Rollout
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lesson, Lessons
from hocket.types import Assignment, Experience, Scenario
from hocket.zoo.tasks.worked_sums import WorkedSums


@dataclass(frozen=True)
class SolverChecker(Workflow):
    """A solver answers, a checker reads question and answer and gives its own, `rounds` times; each turn can be judged.

    Each is asked for candidates. A candidate is worth the task's verdict on it to the team, and `form` to the agent
    itself where it stands in answer tags. The last one carried out is the team's answer.

    Attributes:
        rounds: checks. form: of an answer in its tags. intro: what stands before the answer a checker is shown.
    """

    name = "solver-checker"
    description = "a solver answers, a checker mends; each turn may be drawn several times (AT-GRPO)"

    rounds: int = 1
    form: float = 0.1
    intro: str = "Another answer:"

    scores = True
    roles = ("solver", "checker")

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise ValueError(f"rounds must be at least 1, not {self.rounds}")

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        def worth(reply: Reply) -> dict[str, float]:
            return {"team": team.verify(reply), "form": self.form * (ANSWER.search(str(reply)) is not None)}

        question = asked(team.assignment)
        answer = await team.solver.candidates(question, score=worth)
        for _ in range(self.rounds):
            shown = with_line(question, f"{self.intro} {answer}")
            answer = await team.checker.fresh().candidates(shown, score=worth)
        return Outcome(answer=str(answer), rewards={"team": team.verify(answer)})


LESSONS = 60
"""Supervised steps after which the shipped model checks an answer; before, the line under the question confuses it."""

THEN = {"steps": 40, "curriculum.prompts": 8, "update.lr": 2.5e-4, "evaluation.n": 100}
"""Settings for training after the lessons."""


class CheckedSums(WorkedSums):
    """The problems of `worked-sums` for a solver and a checker, with lessons in checking.

    A beginner of a checker works the sum out half of the time and else repeats what it is shown, right or wrong.
    """

    def __init__(self) -> None:
        super().__init__()
        self.name, self.workflow = "checked-sums", SolverChecker()

    @property
    def lessons(self) -> Lessons:
        """Answers to a question under which another answer stands."""
        taught = "to check an answer, or to repeat it"
        return Lessons(taught, LESSONS, self._lesson, schedule="cosine", then=lambda recipe: THEN, needed=True)

    def _lesson(self, scenario: Scenario, rng: np.random.Generator) -> list[Lesson]:
        worked, offset = scenario.metadata["demonstration"], int(rng.integers(-1, 2))
        shown = f"<answer>{int(scenario.answer) + offset}</answer>"
        if not offset and rng.random() < 0.5:
            shown = worked
        prompt = with_line(scenario.messages, f"{self.workflow.intro} {shown}")
        check = worked if rng.random() < 0.5 else ANSWER.findall(shown)[-1].join(("<answer>", "</answer>"))
        return [Lesson(prompt, ({"role": "assistant", "content": check},))]


def from_settings(name: str, settings: Mapping[str, str]) -> CheckedSums:
    """The task, which has no settings."""
    checked(name, settings, {})
    return CheckedSums()


CHECKED_SUMS = TaskForm(
    name="checked-sums",
    description="sums that a solver answers and a checker answers again, with lessons in checking",
    make=from_settings,
)


@dataclass(frozen=True)
class AgentTurnTree(Rollout):
    """`candidates` answers to every question a workflow asks by `agent.candidates`; the episode goes on with one.

    AT-GRPO (arXiv 2510.11062): candidates of a turn have one prompt, so they are comparable, whatever the role and the
    history; each earns `alpha * team + own` at once, the best is executed and its outcome is everybody's history. The
    others are trajectories of one turn, which follow the episode they left; the workflow says what each is worth.

    An episode that asks for no candidates has nothing to compare, so its scenario is played further times, `candidates`
    in all: samples of a single answer are a group with one prompt too, the ordinary one.

    Where the best is executed, episodes earn what a choice by the scores earns and not what the policies do; then the
    metric `reward/mean` is the mean over all candidates of what each earned.

    Attributes:
        candidates: answers to each question. trunks: episodes of each scenario.
        take: which is executed, the `best` or the `first`. alpha: weight of the reward called `team`.
    """

    candidates: int = 4
    trunks: int = 1
    take: Literal["best", "first"] = "best"
    alpha: float = 1.0

    def __post_init__(self) -> None:
        if self.candidates < 2 or self.trunks < 1:
            raise ValueError(
                f"candidates must be at least 2 and trunks at least 1, not {self.candidates} and {self.trunks}"
            )
        Branching(self.candidates, self.take, self.alpha)

    async def collect(
        self,
        asked: Sequence[Assignment],
        *,
        play: Play,
        score: Grade,
        ledger: LedgerView,
        key: Key,
        more: More | None = None,
    ) -> Experience:
        """Per scenario its episodes in order, each followed by the candidates it left."""
        branching = Branching(self.candidates, self.take, self.alpha)
        asked = [replace(one, samples=self.trunks, options=(*one.options, branching)) for one in asked]
        played = await groups(play, asked)
        plain = [number for number, trunks in enumerate(played) if not any(trunk.branches for trunk in trunks)]
        again = [
            replace(asked[n], samples=self.candidates - self.trunks, first=asked[n].first + self.trunks)
            for n in plain
            if self.candidates > self.trunks
        ]
        for number, further in zip(plain, await groups(play, again), strict=False):
            played[number] += further
        await score([trunk for trunks in played for trunk in trunks])
        episodes = [episode for trunks in played for trunk in trunks for episode in (trunk, *trunk.branches)]
        metrics = {"branches": float(sum(episode.source == "branch" for episode in episodes))}
        if self.take == "best" and metrics["branches"]:
            # What the episodes earn is not what the policies do.
            scored = (episode.scores for episode in episodes if TURN_REWARD in episode.scores)
            rows: list[Any] = [scores[TURN_REWARD].value for scores in scored]
            earned = [float(value) for row in rows for value in row if value is not None]
            metrics |= {"reward/mean": fmean(earned)} if earned else {}
        return Experience(episodes, metrics=metrics)


@dataclass(frozen=True)
class PromptRelative(Credit):
    """`A_k = (r_k - mean_g r) / (std_g r + epsilon)` over the turns g of an agent that answer an identical prompt.

    AT-GRPO (arXiv 2510.11062): in a team prompts differ by role and by turn, so groups are taken per environment, agent
    and turn, and are made comparable by sampling several candidates at each turn (`hocket.rollout.AgentTurnTree`).
    Members of a group here have the same scenario, agent and prompt by construction: every token from the beginning of
    the agent's conversation on. Turns that nobody else answered get 0.

    r_k is the turn's own reward where any member of the group has a score of its turn; so what happened after the
    candidate that was executed does not count for it alone. In a group without such scores it is the agent's
    reward-to-go, so with one agent, one turn and plain sampling this is `GroupRelative`. Turns whose weights are all 0
    enter no statistic and get 0.

    Attributes:
        scale, ddof, epsilon: as in `GroupRelative`; the epsilon is the paper's.
    """

    scale: Literal["std"] | None = "std"
    ddof: int = 1
    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        if self.scale not in ("std", None):
            raise ValueError(f"scale must be 'std' or null, not {self.scale!r}")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64."""
        units = turn_units(batch)
        group, size = prompt_groups(batch, units)
        value = self._values(batch, units, group, size)[units.counted]
        group = group[units.counted]
        credit = centred(value, group, size)
        if self.scale == "std":
            credit = scaled(credit, credit, group, size, ddof=self.ddof, epsilon=self.epsilon)
        spread = torch.zeros(len(units.counted), dtype=torch.float64)
        spread[units.counted] = credit
        return replace(batch.occurrences, advantage=spread[units.member])

    def _values(self, batch: Batch, units: Units, group: Tensor, size: int) -> Tensor:
        assert units.turn is not None
        judged = segment_sum(turns_judged(batch)[units.turn].double(), group, size) > 0
        local = REWARD[Level.TURN]
        own = batch.scores[local].values[units.turn] if local in batch.scores else torch.zeros_like(units.value)
        return torch.where(judged[group], own.double(), agent_returns(batch, units, 1.0))


def turns_judged(batch: Batch) -> Tensor:
    """Which turns have a score of their own, `[U]` bool."""
    scores = {n: s for n, s in batch.scores.items() if s.level is Level.TURN}
    # The combined reward counts 0 where nobody had an opinion; only the scores it was made of tell.
    named: dict[str, LevelScores] = {n: s for n, s in scores.items() if n != REWARD[Level.TURN]} or scores
    found = torch.zeros(batch.turns, dtype=torch.bool)
    for score in named.values():
        found |= ~score.values.isnan()
    return found


def prompt_groups(batch: Batch, units: Units) -> tuple[Tensor, int]:
    """Groups of visits to turns of one agent of a scenario with an identical prompt: their numbers `[M]`, and how many.

    A prompt is what was observed and answered from the root of the conversation on. Where every decision has an
    observation of its own (control), it is the first one.
    """
    assert units.turn is not None
    prompts = _prompts(batch)
    codes: dict[tuple[int, int, int], int] = {}
    rows = zip(
        batch.scenario[units.trajectory].tolist(), batch.agent[units.turn].tolist(), units.turn.tolist(), strict=True
    )
    group = [codes.setdefault((scenario, agent, prompts[turn]), len(codes)) for scenario, agent, turn in rows]
    return torch.tensor(group, dtype=torch.long), len(codes)


def _prompts(batch: Batch) -> list[int]:
    """A number per turn, equal for equal prompts, `[U]`. Contexts stand before what extends them."""
    sizes = torch.bincount(batch.turn, minlength=batch.turns).tolist()
    answers = torch.split(batch.action[torch.argsort(batch.turn, stable=True)], sizes)
    codes: dict[tuple[int, bytes, bytes], int] = {}
    numbers: list[int] = []
    for turn, parent in enumerate(batch.parent.tolist()):
        observed = batch.observation[turn]
        control = observed.ndim > 1 or observed.dtype.kind == "f"
        before, reply = (numbers[parent], answers[parent].numpy().tobytes()) if parent >= 0 else (-1, b"")
        prompt = (before, reply, (observed[:1] if control else observed).tobytes())
        numbers.append(codes.setdefault(prompt, len(codes)))
    return numbers


AT_GRPO = GRPO.but(
    name="at-grpo",
    title="Agent- and turn-wise grouped GRPO",
    source="Zhao et al., Stronger Together, arXiv:2510.11062, and the authors' code",
    family="teams",
    catalogue_ids=("at-grpo",),
    axes=("team", "credit", "rollout"),
    formula="A_k = (r_k - mean_g r)/(std_g r + 1e-8),  r = alpha r_team + r_own,  g: candidates of one agent's turn",
    conventions={
        **GRPO.conventions,
        "epsilon": "1e-8, added to the standard deviation",
        "group": "answers of one agent to an identical prompt of one scenario; a turn answered once gets 0",
        "candidates": "4 per question a workflow asks by agent.candidates; the best goes on, the earliest of equals",
        "rewards": "of the turn alone where candidates were scored; alpha = 1 in rollout.alpha",
        "workflow": "solver-checker, chosen here; the authors have planners and tools for games, code and mathematics",
        "own reward": "0.1 for an answer in its tags, in solver-checker",
        "metrics": "reward/mean is over all candidates; reward/NAME and reward/agent/ROLE are of the episodes, which "
        "go on with the best by the scores, so that no policy earns them alone",
        "no candidates": "a workflow that asks for none is played 4 times, which with one turn is GRPO",
        "aggregation": PER_TURN,
        "who learns": "one policy for all roles; cast hocket.core.Separate gives each its own",
    },
    task="checked-sums",
    requires=(Requirement.AGENTS, Requirement.BRANCHES),
    workflow="solver-checker",
    rollout=AgentTurnTree(candidates=4, take="best", alpha=1.0),
    credit=PromptRelative(scale="std", ddof=1, epsilon=1e-8),
    **{"objective.aggregate": "turn-mean"},
)
