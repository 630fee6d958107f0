"""VisTA: a policy chooses the tools whose words a frozen reasoner answers from (Huang et al., arXiv:2505.20289).

Only who chooses learns, by GRPO from whether the reasoner's answer is right: which tool is any good for which question
is found by trying (`ToolSelection`, `Leading`); the shipped model's lessons name a good one first one time in four. The
reasoner is the model as it was; it draws alike in all samples of a question, so that they differ by what was called.

The paper's questions are about pictures, and its tools look at them; here a picture is the record of what each tool
says of it, in a word. Its abstract gives the outcome as the only feedback; a bonus or penalty beside it is not added.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow, asked, with_line
from hocket.core.casting import Leading
from hocket.core.columns import InfoColumn
from hocket.core.errors import ConfigurationError
from hocket.core.requirements import Requirement
from hocket.methods.base.grpo import GRPO
from hocket.types import Scenario

CALLED = InfoColumn("called", "The tools that were called, in order.")


@dataclass(frozen=True)
class ToolSelection(Workflow):
    """The selector names tools; each says a word; the reasoner answers from question and words.

    A scenario's metadata tell the `readings`: what each tool says. Tools are called in the order in which they are
    named, each once; other words of the selector's call nothing. The team earns the verdict on the reasoner's answer.

    Raises:
        ConfigurationError: while playing, for a scenario without readings.
    """

    name = "tool-selection"
    description = "one chooses the tools, a frozen one answers from what they say (VisTA); task tool-choice"

    roles = ("selector", "reasoner")
    scores = True

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        readings: Mapping[str, str] | None = scenario.metadata.get("readings")
        if not readings:
            raise ConfigurationError(
                f"scenario {scenario.id!r} has no metadata['readings'], what each tool says; take task tool-choice"
            )
        question = asked(team.assignment)
        choice = await team.selector(with_line(question, f"Which of {', '.join(readings)}?"))
        words = str(choice).replace(",", " ").lower().split()
        called = list(dict.fromkeys(word for word in words if word in readings))
        said = ", ".join(f"{tool}: {readings[tool]}" for tool in called) or "No tool was called."
        answer = await team.reasoner.fresh(alike=True)(with_line(question, said))
        return Outcome(answer=str(answer), rewards={"team": team.verify(answer)}, info={CALLED.name: called})


VISTA_TOOLS = GRPO.but(
    name="vista-tools",
    title="VisTA: which tools to call for a frozen reasoner",
    source="Huang et al., VisualToolAgent, arXiv:2505.20289 (abstract)",
    family="agents",
    catalogue_ids=("vista-tools",),
    axes=("policy", "reward", "team"),
    formula="A_i = (r_i - mean r)/(std r + eps) for the tokens that name the tools;  r_i: whether what the frozen "
    "reasoner answers from what they say is right",
    conventions={
        **GRPO.conventions,
        "reward": "the outcome alone; bonuses or penalties beside it are not in the abstract",
        "reasoner": "the model as it was, or one named by --roles.reasoner.model; alike in all samples of a question",
        "reasoner's tokens": "context: they belong to no learner",
        "tools": "one word each, called in the order named and once; a picture is the record of what they say of it",
        "warm start": "lessons name tools by lot, one time in four a good one, and answer what most say; chosen here",
    },
    task="tool-choice",
    requires=(Requirement.AGENTS,),
    workflow="tool-selection",
    cast=Leading(leader="selector", others="reasoner"),
)
