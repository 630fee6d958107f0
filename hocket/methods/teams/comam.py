"""CoMAM: GRPO that pays each agent for the whole by how its own task serves the whole (Mao et al., arXiv:2603.12631).

Agents have rewards of their own and a common one. `RankConsistent` adds them with a weight per agent, the larger the
more consistently its own reward ranks the group's rollouts as the common one does (`consistency`), and normalises the
sum over each agent's parts. `MemoryPipeline` is a team with such rewards.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from hocket.agents.workflows.plans import PLANNER_SYSTEM
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow, asked, with_line
from hocket.core.batch import Batch, Level, Occurrences
from hocket.core.markup import ANSWER
from hocket.core.requirements import Requirement
from hocket.core.segments import segment_sum
from hocket.core.signals import REWARD, rewards_by_occurrence
from hocket.credit.formulas import centred, scaled
from hocket.credit.units import chains, turn_units
from hocket.methods.base.conventions import PER_TURN
from hocket.methods.base.grpo import GRPO
from hocket.stages import Credit
from hocket.types import Message, Scenario

_NUMBER, _WORD = re.compile(r"\d+"), re.compile(r"\w{4,}")


def facts(text: str) -> frozenset[str]:
    """What a note on a text should keep: its numbers; of a text without any, its words of four letters and more."""
    return frozenset(_NUMBER.findall(text) or _WORD.findall(text.lower()))


def coverage(note: str, of: str) -> float:
    """The share of the facts of a text that a note has; 1 where there are none."""
    wanted = facts(of)
    found = frozenset(_NUMBER.findall(note)) | frozenset(_WORD.findall(note.lower()))
    return len(wanted & found) / len(wanted) if wanted else 1.0


@dataclass(frozen=True)
class MemoryPipeline(Workflow):
    """What is asked is taken down, the notes are made a memory, and the answer is given from question and memory.

    Each agent sees what the one before left, and earns by its own task: `extract` and `build` the share of the
    question's facts that their text keeps (see `facts`), `retrieve` 1 for an answer in its tags. All share the verdict
    on the answer. (CoMAM, arXiv 2603.12631, names information coverage as such a reward; the rest is chosen here.)

    Attributes:
        own: weight of the agents' own rewards. note: system prompt of `extract`; the shipped base knows this one.
    """

    name = "memory-pipeline"
    description = "one takes notes, one makes a memory of them, one answers from it (CoMAM)"

    own: float = 1.0
    note: str = PLANNER_SYSTEM

    scores = True
    roles = ("extract", "build", "retrieve")

    @property
    def prompts(self) -> Mapping[str, str]:
        return {"extract": self.note}

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        question = asked(team.assignment)
        text = _text(question)
        notes = await team.extract(question)
        memory = await team.build(f"{notes}")
        answer = await team.retrieve(with_line(question, f"Memory: {memory}"))
        own = (coverage(str(notes), text), coverage(str(memory), text), float(bool(ANSWER.search(str(answer)))))
        return Outcome(
            answer=str(answer),
            rewards={"team": team.verify(answer)},
            turn_rewards={"own": [self.own * value for value in own]},
        )


def _text(question: tuple[Message, ...]) -> str:
    return " ".join(str(message["content"]) for message in question if message["role"] == "user")


def consistency(local: Tensor, overall: Tensor) -> Tensor:
    """`(C - D) / P` in [-1, 1]: how consistently `local` `[G]` ranks the members as `overall` `[G]` does, a scalar.

    Over the P pairs whose overall values differ, C that the local values order alike and D that they order the other
    way (Somers' D); 0 without such pairs. An increasing function of the overall value gives 1, a constant 0, and values
    that are independent of it 0 in expectation.
    """
    above = torch.sign(overall[:, None] - overall[None, :])
    agree = torch.sign(local[:, None] - local[None, :]) * above
    return agree.sum() / above.abs().sum().clamp(min=1)


@dataclass(frozen=True)
class RankConsistent(Credit):
    """`A = (R - mean_g R) / (std_g R + epsilon)`, `R_ki = c l_ki + w_k g_i` for agent k in rollout i: CoMAM.

    CoMAM (arXiv 2603.12631): agents work in a row, each upon what the last one left. l is what an agent's own turns
    earned, g the reward of the whole rollout, and w_k says how consistently the rollouts of a group are ranked by l_k
    and by g: an agent whose task serves the whole is paid for the whole. Groups are one agent's parts in the rollouts
    of a scenario. The abstract names neither the statistic nor the mixture: Somers' D (see `consistency`) and
    `w = softmax_k(D_k / temperature)` over the agents of the group are chosen here.

    An agent's turns in a rollout share one advantage. Turns whose weights are all 0 enter no statistic and get 0.

    Attributes:
        weigh: `consistency`, the method; `equal`, `w_k` = 1 / agents; `local`, w_k = 0.
        local: c. With 0 and `equal` all agents share one global reward.
        temperature: of the softmax; the lower, the more goes to the most consistent agent.
        scale, ddof, epsilon: as in `GroupRelative`.
    """

    weigh: Literal["consistency", "equal", "local"] = "consistency"
    local: float = 1.0
    temperature: float = 1.0
    scale: Literal["std"] | None = "std"
    ddof: int = 1
    epsilon: float = 1e-6

    least_samples: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if self.weigh not in ("consistency", "equal", "local"):
            raise ValueError(f"weigh must be consistency, equal or local, not {self.weigh!r}")
        if not self.temperature > 0:
            raise ValueError(f"temperature must be positive, not {self.temperature}")
        if self.scale not in ("std", None):
            raise ValueError(f"scale must be 'std' or null, not {self.scale!r}")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64."""
        parts = parts_of(batch)
        reward = self.local * parts.local + self.shares(parts)[parts.group] * parts.overall
        credit = centred(reward, parts.group, len(parts.keys))
        if self.scale == "std":
            credit = scaled(credit, credit, parts.group, len(parts.keys), ddof=self.ddof, epsilon=self.epsilon)
        used = parts.member >= 0
        advantage = torch.zeros(len(used), dtype=torch.float64)
        advantage[used] = credit[parts.member[used]]
        return replace(batch.occurrences, advantage=advantage)

    def shares(self, parts: Contributions) -> Tensor:
        """w of each group, `[K]`."""
        found = torch.zeros(len(parts.keys), dtype=torch.float64)
        if self.weigh == "local":
            return found
        for scenario in dict.fromkeys(scenario for scenario, _ in parts.keys):
            mine = [number for number, key in enumerate(parts.keys) if key[0] == scenario]
            rank = [consistency(parts.local[parts.group == n], parts.overall[parts.group == n]) for n in mine]
            equal = self.weigh == "equal"
            found[mine] = torch.softmax(torch.stack(rank) * (0.0 if equal else 1.0 / self.temperature), 0)
        return found


class Contributions(NamedTuple):
    """Each agent's part in each rollout, M of them, in K groups.

    Attributes:
        member: the part of each occurrence, `[E]`; -1 where its turn counts for nothing.
        local, overall: what the agent's own turns earned, and the whole rollout, `[M]` float64.
        group: `[M]` in 0..K-1. keys: scenario and agent of each group, as the batch's codes.
    """

    member: Tensor
    local: Tensor
    overall: Tensor
    group: Tensor
    keys: list[tuple[int, int]]


def parts_of(batch: Batch) -> Contributions:
    """The parts of a batch's agents."""
    units = turn_units(batch)
    assert units.turn is not None
    whole = REWARD[Level.TRAJECTORY]
    turns = batch.but(scores={name: score for name, score in batch.scores.items() if name != whole})
    earned = segment_sum(rewards_by_occurrence(turns), units.member, len(units.counted))[units.counted]
    code, part = torch.unique(chains(batch, units)[units.counted], return_inverse=True)
    agents = max(len(batch.names["agent"]), 1)
    owner, agent = code // agents, code % agents
    keys: dict[tuple[int, int], int] = {}
    rows = zip(batch.scenario[owner].tolist(), agent.tolist(), strict=True)
    group = torch.tensor([keys.setdefault(row, len(keys)) for row in rows], dtype=torch.long)
    overall = torch.zeros(batch.trajectories, dtype=torch.float64)
    if whole in batch.scores:
        overall = batch.scores[whole].values.double()
    member = torch.full((len(units.counted),), -1)
    member[units.counted] = part
    return Contributions(member[units.member], segment_sum(earned, part, len(code)), overall[owner], group, list(keys))


COMAM = GRPO.but(
    name="comam",
    title="Local and global rewards mixed by rank consistency",
    source="Mao et al., Collaborative Multi-Agent Optimization for Personalized Memory System, arXiv:2603.12631",
    family="teams",
    catalogue_ids=("comam",),
    axes=("credit", "team", "reward"),
    formula="A_ki = (R_ki - mean_g R_k)/(std_g R_k + eps),  R_ki = l_ki + w_k g_i,  w = softmax_k(D_k),  "
    "D_k: Somers' D of l_k given g over the group",
    conventions={
        **GRPO.conventions,
        "agents": "extract, build and retrieve of workflow memory-pipeline; own rewards: the share of the question's "
        "facts that a note keeps, and an answer in its tags",
        "local and global": "the rewards of an agent's own turns, and that of the trajectory",
        "consistency": "share of pairs ordered alike less share ordered otherwise, among pairs whose global rewards "
        "differ; a constant global reward gives equal weights (the abstract names no statistic)",
        "normalisation over agents": "softmax, temperature 1",
        "aggregation": PER_TURN,
    },
    note="an agent that its own reward misleads strongly is paid least for the whole, so equal shares win there",
    task="sums",
    requires=(Requirement.AGENTS, Requirement.TURN_REWARDS),
    workflow="memory-pipeline",
    credit=RankConsistent(),
    **{"objective.aggregate": "turn-mean"},
)
