"""RRVF: programs for pictures, learnt from pictures alone by rendering, comparing and revising (Chen et al.).

arXiv:2507.20766. The policy writes a program; a tool renders it, says how the render differs from the picture, and the
policy may revise. A trajectory earns the likeness of its last render, and points for its form and for tool use. No
program is known to the reward.

The authors have released models and no code, and their judge is a large model. Chosen here: likeness is the overlap of
light, the comparison is by columns, weights are 1, 0.5 and 0.5, and there is one call at most.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow, asked
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.markup import tagged
from hocket.core.media import MEDIA, pictures_in, with_pictures
from hocket.core.pictures import picture_bytes
from hocket.core.requirements import Requirement
from hocket.methods.base.grpo import GRPO
from hocket.methods.generative.rrvf.drawing import Program, difference, likeness, program_in, render, shown
from hocket.rewards.opinions import Opinions
from hocket.stages import Reward
from hocket.types import Message, Scenario, Trajectory

_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_FORM = re.compile(r"(?:<think>.*?</think>\s*)?<(tool_call|answer)>([^<>]*)</\1>", re.DOTALL)


def called(text: str) -> str | None:
    """The program of a reply that has it rendered; None where there is none, or an answer."""
    call = _CALL.search(text)
    return None if call is None or tagged(text) is not None else call[1]


def comparison(program: Program | None, scenario: Scenario) -> Message:
    """What the tool answers: the render, and how it differs from the picture; `broken` for what does not run."""
    if program is None:
        return {"role": "user", "content": "broken"}
    picture = render(program)
    words = difference(picture, shown(pictures_in(scenario.messages)[0]))
    return {"role": "user", "content": with_pictures(words, [MEDIA.put(picture_bytes(picture), "a render")])}


@dataclass(frozen=True)
class RenderAndRevise(Workflow):
    """A policy has programs rendered and compared with the scenario's picture, until it submits one.

    Attributes:
        calls: renders at most.

    Raises:
        ConfigurationError: while playing, for a scenario without a picture.
    """

    name = "render-and-revise"
    description = "programs are rendered and compared until one is submitted (RRVF); task drawing"

    roles = ("policy",)
    opens = True

    calls: int = 1

    async def play(self, scenario: Scenario, team: Team) -> Outcome | None:
        if not pictures_in(scenario.messages):
            raise ConfigurationError(f"scenario {scenario.id!r} has no picture to draw; take task drawing")
        reply = await team.policy(asked(team.assignment), prefix=team.assignment.prefix)
        for _ in range(self.calls):
            code = called(str(reply))
            if code is None:
                break
            reply = await team.policy(comparison(program_in(code), scenario))
        return None


@dataclass(frozen=True)
class DrawingReward(Reward):
    """A reward of a trajectory about a picture; no opinion where the scenario has none."""

    weight: float = 1.0
    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Opinions:
        return Opinions(
            self.score([turn.text for turn in item.turns], digests[0]) if digests else None
            for item in trajectories
            for digests in [pictures_in(item.scenario.messages)]
        )

    def score(self, replies: Sequence[str], picture: str) -> float:
        """The reward of replies, for the digest of the picture."""
        raise NotImplementedError


@dataclass(frozen=True)
class Likeness(DrawingReward):
    """The likeness of the render of the last answer; 0 without one that runs."""

    name: str = "vision"

    def score(self, replies: Sequence[str], picture: str) -> float:
        program = program_in(tagged(replies[-1]) or "")
        return 0.0 if program is None else likeness(render(program), shown(picture))


@dataclass(frozen=True)
class ReplyForm(DrawingReward):
    """1 where the last reply is an answer and each before it a call, all with programs that run; else 0."""

    weight: float = 0.5
    name: str = "form"

    def score(self, replies: Sequence[str], picture: str) -> float:
        forms = [_FORM.fullmatch(reply.strip()) for reply in replies]
        right = ["tool_call"] * (len(replies) - 1) + ["answer"]
        kinds = [form[1] for form in forms if form is not None and program_in(form[2]) is not None]
        return float(kinds == right)


@dataclass(frozen=True)
class ToolUse(DrawingReward):
    """The share of `most` renders that calls had made.

    Attributes:
        most: calls that earn something.
    """

    weight: float = 0.5
    most: int = 1
    name: str = "tool"

    def __post_init__(self) -> None:
        if self.most < 1:
            raise ValueError(f"most must be at least 1, not {self.most}")

    def score(self, replies: Sequence[str], picture: str) -> float:
        renders = sum(program_in(called(reply) or "") is not None for reply in replies)
        return min(renders, self.most) / self.most


_CHOSEN: Mapping[str, Any] = {
    "weights": "vision 1, form 0.5, tool 0.5, chosen here: rewards.0.weight, ..",
    "vision": "sum of the lesser over sum of the greater light, in place of a model's verdict",
    "comparison": "which columns are too low or too high, in place of a model's words, and the render",
    "calls": "one at most: --workflow.calls; the paper has several",
    "warm start": "`--lessons N`: half of a beginner's heights are off by one; the authors publish one too",
}

RRVF = GRPO.but(
    name="rrvf",
    title="RRVF: programs for pictures, learnt from renders",
    source="Chen et al., Learning Only with Images, arXiv:2507.20766 (abstract and the authors' README)",
    catalogue_ids=("rrvf",),
    axes=("reward", "rollout", "policy", "environment"),
    task="drawing",
    formula="R = likeness(render(p_last), picture) + 0.5 [form] + 0.5 [a call was rendered];  turns: program, then a "
    "program after its render and comparison;  A_i = (R_i - mean_g R)/(std_g R + eps), clipped",
    conventions={**GRPO.conventions, **_CHOSEN},
    note="shown on charts of four bars and a language of one statement; the paper has charts and pages of the "
    "web; calls were learnt, and second programs were no better than first ones",
    requires=(Requirement.TURNS,),
    workflow="render-and-revise",
    rewards=(Likeness(), ReplyForm(), ToolUse()),
)
