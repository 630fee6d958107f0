"""MLPO: GRPO for a leader that reads the answers of frozen peers (Estornell et al., arXiv:2507.08960).

Peers answer first, alike in all samples of a question, so that the leader's answers have one prompt to be compared
under; the leader alone learns (`LeaderPeers`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hocket.agents.workflows.reply import Reply
from hocket.agents.workflows.team import Agent, Team
from hocket.agents.workflows.workflow import Outcome, Workflow, asked, with_line
from hocket.core.casting import Leading
from hocket.core.columns import SAID, InfoColumn
from hocket.core.options import checked
from hocket.core.requirements import Requirement
from hocket.methods.base.grpo import GRPO
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lesson, Lessons
from hocket.types import Scenario
from hocket.zoo.tasks.worked_sums import WorkedSums

PEERS = InfoColumn("peers", "What each peer's first answer is worth.")


@dataclass(frozen=True)
class LeaderPeers(Workflow):
    """Peers answer first; the leader reads question and answers, and answers: MLPO (arXiv 2507.08960).

    In each further round every peer revises its answer after reading the leader's, and the leader answers again; its
    last answer counts. The peers draw alike in all samples of a scenario, so that the leader's first answers are
    compared under one prompt.

    Attributes:
        peers: how many. rounds: how often the leader answers.
        alone: the share of scenarios in which the leader works without peers, the same for all samples of one.
    """

    name = "leader-peers"
    description = "a leader reads its peers' answers and answers (MLPO)"

    peers: int = 3
    rounds: int = 1
    alone: float = 0.0

    scores = True

    def __post_init__(self) -> None:
        if self.peers < 1 or self.rounds < 1 or not 0 <= self.alone <= 1:
            raise ValueError("peers and rounds must be at least 1, and alone a share in [0, 1]")
        object.__setattr__(self, "roles", ("leader", *(f"peer_{number}" for number in range(1, self.peers + 1))))

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        question = asked(team.assignment)
        leader = team.leader
        if team.common_key.derive("alone").numpy().random() < self.alone:
            answer = await leader(question)
            return Outcome(answer=str(answer), rewards={"team": team.verify(answer)}, info={PEERS.name: []})
        peers = [team[role].fresh(alike=True) for role in self.roles[1:]]
        said = list(await asyncio.gather(*(peer(question) for peer in peers)))
        first = [team.verify(one) for one in said]
        answer = await leader(with_line(question, _listed(said)))
        for _ in range(self.rounds - 1):
            said = list(await asyncio.gather(*(self._revised(peer, answer) for peer in peers)))
            answer = await leader(_listed(said))
        info = {PEERS.name: first, SAID.name: [str(one) for one in said]}
        return Outcome(answer=str(answer), rewards={"team": team.verify(answer)}, info=info)

    async def _revised(self, peer: Agent, answer: Reply) -> Reply:
        return await peer(f"The leader says: {answer}")


def _listed(said: Sequence[Reply | str]) -> str:
    """Answers of the peers, one a line."""
    return "\n".join(f"Peer {number}: {one}" for number, one in enumerate(said, start=1))


LESSONS = 60
"""Supervised steps after which the shipped model reads peers' answers; before, the lines confuse it."""

THEN = {"steps": 40, "curriculum.prompts": 8, "update.lr": 2.5e-4, "evaluation.n": 100}
"""Settings for training after the lessons."""


class LedSums(WorkedSums):
    """The problems of `worked-sums` for a leader and its peers, with lessons for the leader.

    In the lessons one peer in two is right. The beginner works the sum out half of the time, and else says what any of
    them says.
    """

    def __init__(self) -> None:
        super().__init__()
        self.name, self.workflow = "led-sums", LeaderPeers()

    @property
    def lessons(self) -> Lessons:
        """Answers to a question under which those of peers stand."""
        taught = "to answer below others' answers, by work or by repeating one of them"
        return Lessons(taught, LESSONS, self._lesson, schedule="cosine", then=lambda recipe: THEN, needed=True)

    def _lesson(self, scenario: Scenario, rng: np.random.Generator) -> list[Lesson]:
        worked, right = scenario.metadata["demonstration"], int(scenario.answer)
        offsets = rng.choice((-10, -1, 0, 0, 1, 10), size=self.workflow.peers).tolist()
        answers = [f"<answer>{right + offset}</answer>" for offset in offsets]
        shown = [
            answer if offset or rng.random() < 0.5 else worked for offset, answer in zip(offsets, answers, strict=True)
        ]
        reply = worked if rng.random() < 0.5 else str(rng.choice(answers))
        prompt = with_line(scenario.messages, _listed(shown))
        return [Lesson(prompt, ({"role": "assistant", "content": reply},))]


def from_settings(name: str, settings: Mapping[str, str]) -> LedSums:
    """The task, which has no settings."""
    checked(name, settings, {})
    return LedSums()


LED_SUMS = TaskForm(
    name="led-sums",
    description="sums that a leader answers below its peers' answers, with lessons for the leader",
    make=from_settings,
)


MLPO = GRPO.but(
    name="mlpo",
    title="Multi-agent guided Leader Policy Optimisation",
    source="Estornell et al., How to Train a Leader, arXiv:2507.08960",
    family="teams",
    catalogue_ids=("mlpo",),
    axes=("team", "rollout", "credit"),
    formula="A_i = (r_i - mean r)/(std r + eps) over leader answers to one question and one set of peer answers",
    conventions={
        **GRPO.conventions,
        "who learns": "the leader; peers are the model as it was, or any others by --roles.peer_1.model and endpoint",
        "peer answers": "drawn alike for all samples of a question, so the leader's prompts of round 1 agree",
        "peer tokens": "context: they belong to no learner",
        "alone": "workflow setting alone: the share of questions without peers; 0",
        "warm start": "none; plan: [{recipe: sft, ..}, {recipe: mlpo, ..}] puts one before",
    },
    task="led-sums",
    requires=(Requirement.AGENTS,),
    workflow="leader-peers",
    cast=Leading(),
)
