"""ReAgent-V: an answerer with tools, a critic whose grade is a reward, and three who look again.

The frames that a question is about are picked, the answerer says which tools it needs and answers. The critic grades
the answer and says what to look at again. An answer below `enough` is given to three stances: the conservative may
change the answer alone, the neutral sees frames picked anew with the critic's words, the aggressive has the critic's
tools besides and is told that the answer is wrong. The most confident of them is kept (`ClipAgent`).

The critic's grade, known without the right answer, then chooses what is learnt from: `reagent-v` imitates what was
graded well (`Selected` of `hocket.rollout.selection`), `reagent-v-dpo` compares the best-graded episode of a question
with the worst, `reagent-v-grpo` takes the grade as reward.

Source: "ReAgent-V: A Reward-Driven Multi-Agent Framework for Video Understanding", its abstract and the authors' code.
There all are one vision-language model, frames are picked by pictures, and a model joins the three where all are sure.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass

from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.core.casting import Leading
from hocket.core.columns import InfoColumn
from hocket.core.errors import ConfigurationError
from hocket.core.requirements import Requirement
from hocket.methods.base.dpo import ONLINE_DPO
from hocket.methods.base.grpo import GRPO
from hocket.methods.base.sft import SFT
from hocket.rewards.verdict_words import said_aloud
from hocket.rollout.selection import Selected
from hocket.types import Scenario
from hocket.zoo.tasks.clips import (
    STANCES,
    TOOLS,
    Frame,
    answer_question,
    given,
    grade_question,
    picked,
    shown,
    stance_question,
    tool_question,
)

ANSWERER, CRITIC = "answerer", "critic"
ENOUGH = 0.6
"""The grade from which on an answer stands, and is learnt from."""

FIRST = InfoColumn("first_answer", "What was answered before anybody looked again.")
REVISIONS = InfoColumn(
    "revisions", "By stance what was answered after the critic's report, and how sure of it, in [0, 1]."
)


@dataclass(frozen=True)
class ClipAgent(Workflow):
    """Frames are picked, tools called, a question answered and graded; where the grade is low three answer anew.

    A scenario's metadata say the `clip`, its frames as records in words. The score `critic` is the critic's grade of
    the first answer, in [0, 1]; a critic that names no number gives 0. Where none of the three who look again says
    anything readable, the first answer stands.

    Attributes:
        frames: how many are picked. enough: grades from which on nobody looks again; 0 for a single pass.
    """

    name = "clip-agent"
    description = "an answerer with tools, a critic, three who look again (ReAgent-V); task clips"

    frames: int = 3
    enough: float = ENOUGH

    roles = (ANSWERER, CRITIC, *STANCES)
    scores = True

    def __post_init__(self) -> None:
        if self.frames < 1 or not 0 <= self.enough <= 2:
            raise ValueError(f"frames = {self.frames} must be at least 1, enough = {self.enough} in [0, 2]")

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        clip, question = scenario.metadata.get("clip"), str(scenario.prompt)
        if clip is None:
            raise ConfigurationError(
                f"clip-agent looks at a clip, and scenario {scenario.id} has none; take --task clips, or rows with a "
                'column clip, a list of frames such as {"seen": "cat runs"}'
            )
        tools = named_tools(str(await team[ANSWERER].fresh()(tool_question(question))))
        evidence = shown(clip, picked(clip, question, self.frames), tools)
        first = given(str(await team[ANSWERER].fresh()(answer_question(evidence, question))))
        report = str(await team[CRITIC](grade_question(evidence, question, first)))
        grade = read_grade(report)
        revisions: dict[str, tuple[str | None, float]] = {}
        if grade < self.enough:
            told = self._evidence(clip, question, evidence, tools, report)
            asked = [team[one](stance_question(one, told[one], question, first, report)) for one in STANCES]
            said = await asyncio.gather(*asked)
            revisions = {one: read_revision(str(reply)) for one, reply in zip(STANCES, said, strict=True)}
        return Outcome(
            answer=f"<answer>{kept(first, list(revisions.values()))}</answer>",
            rewards={"critic": grade},
            info={FIRST.name: first, REVISIONS.name: revisions},
        )

    def _evidence(
        self, clip: Sequence[Frame], question: str, before: str, tools: Sequence[str], report: str
    ) -> dict[str, str]:
        """What each stance is shown: as before, frames picked with the critic's words too, and its tools besides."""
        again = picked(clip, f"{question} {report}", self.frames)
        more = list(dict.fromkeys([*tools, *named_tools(report)]))
        seen = (before, shown(clip, again, tools), shown(clip, again, more))
        return dict(zip(STANCES, seen, strict=True))


def named_tools(text: str) -> list[str]:
    """The tools that a text names."""
    words = re.findall(r"\w+", text.lower())
    return [tool for tool in TOOLS if tool in words]


def read_grade(text: str) -> float:
    """The first number from 0 to 10 behind the thoughts over ten; 0 where there is none."""
    found = re.search(r"\b(10|\d)\b", said_aloud(text) or "")
    return int(found[1]) / 10 if found else 0.0


def read_revision(text: str) -> tuple[str | None, float]:
    """An answer in tags with how sure of ten after it: None and 0 where one is missing, as in the authors' code."""
    found = re.search(r"<answer>(.*?)</answer>\D*\b(10|\d)\b", text, re.DOTALL)
    return (None, 0.0) if found is None else (given(f"<answer>{found[1]}</answer>"), int(found[2]) / 10)


def kept(first: str, revisions: Sequence[tuple[str | None, float]]) -> str:
    """The most confident revision, of equals the more conservative; the first answer where there is none."""
    said = [(answer, sure) for answer, sure in revisions if answer is not None]
    return max(said, key=lambda one: one[1])[0] if said else first


_COMMON = {
    "clips": "records in words; the paper's are videos",
    "frames": "the three that share most words with the question; the paper weighs likeness of pictures by how much "
    "they hold",
    "tools": "what is heard and what is written, named by the answerer before it answers, and by the critic",
    "grade": "of the first answer, 0 to 10 over ten; below 0.6 (workflow setting enough) three look again",
    "kept": "the most confident; the authors' code has a model join the three where all are sure",
    "who learns": "the answerer; critic and stances are the model as it was, or any others by --roles.critic.model and "
    "endpoint",
}
_NOTE = (
    "clips are records in words, pictures come later; after lessons the shipped base judges its answers no better "
    "than by chance, so what it keeps is seen, and no gain"
)

REAGENT_V = SFT.but(
    name="reagent-v",
    title="ReAgent-V: imitation of what a critic grades well",
    source="ReAgent-V: A Reward-Driven Multi-Agent Framework for Video Understanding (abstract, and the authors' code)",
    family="search",
    catalogue_ids=("reagent-v",),
    axes=("search", "team", "reward"),
    formula="L = -1/sum_i n_i sum_{i: grade_i >= 0.6} sum_t log pi(a_it | s_it);  answer = the most confident of three "
    "revisions where grade < 0.6",
    conventions={
        **SFT.conventions,
        **_COMMON,
        "kept to learn from": "of 8 episodes of a question those graded 0.6 or more",
    },
    note=_NOTE,
    task="clips",
    requires=(Requirement.AGENTS, Requirement.TURNS),
    workflow="clip-agent",
    cast=Leading(leader=ANSWERER),
    rollout=Selected(samples=8, least=ENOUGH),
)

REAGENT_V_DPO = ONLINE_DPO.but(
    name="reagent-v-dpo",
    title="ReAgent-V, pairs by the critic's grade",
    source=REAGENT_V.source,
    family="search",
    catalogue_ids=("reagent-v",),
    axes=("search", "team", "reward", "objective"),
    formula="L = -mean_pairs log sigmoid(beta (d_w - d_l)),  w, l a question's best- and worst-graded episode",
    conventions={**ONLINE_DPO.conventions, **_COMMON},
    note=_NOTE,
    task="clips",
    requires=(Requirement.AGENTS, Requirement.TURNS),
    workflow="clip-agent",
    cast=Leading(leader=ANSWERER),
)

REAGENT_V_GRPO = GRPO.but(
    name="reagent-v-grpo",
    title="ReAgent-V, GRPO on the critic's grade",
    source=REAGENT_V.source,
    family="search",
    catalogue_ids=("reagent-v",),
    axes=("search", "team", "reward"),
    formula="A_i = (grade_i - mean)/(std + eps) over a question's episodes",
    conventions={**GRPO.conventions, **_COMMON},
    note=_NOTE,
    task="clips",
    requires=(Requirement.AGENTS, Requirement.TURNS),
    workflow="clip-agent",
    cast=Leading(leader=ANSWERER),
)
