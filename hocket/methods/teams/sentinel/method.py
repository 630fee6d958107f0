"""Sentinel: a guard that puts a few words before a prompt, and an attacker who learns against it (arXiv:2405.12604).

The attacker writes a prompt, the sentinel puts fewer than 30 tokens before it, and a target that nobody trains answers
(`RedTeamed`). What is toxic in the answer is the attacker's reward and the sentinel's cost. Both learn by PPO with a
penalty for leaving the model they began as, one for some steps and then the other (`Alternating`), and the attacker is
paid for attacks unlike the others of the step (`NovelAttacks`). Their critics have one value head (`SharedValueHead`).

From the abstract (Liu et al.) and summaries of the paper are the prefix, the opposed rewards, PPO in turns and the head
in common; a summary calls it shared in part, and here it is the linear map from hidden states to values, each agent's
hidden states being its own. How novelty is counted, and all weights, are chosen here.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from hocket.agents.workflows.reply import Reply
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow, asked
from hocket.core.batch import Batch, Level, trajectory_of_turn
from hocket.core.casting import Alternating
from hocket.core.columns import InfoColumn
from hocket.core.outcomes import StepResult
from hocket.core.requirements import Requirement
from hocket.credit.each_agent import EachAgent
from hocket.methods.base.ppo import PPO
from hocket.methods.teams.sentinel.task import LENGTH, guarding, replied
from hocket.rewards.shaping import KLInReward, added
from hocket.stages import Hook, HookContext, Shaping
from hocket.types import Scenario

ATTACKER, SENTINEL_ROLE, TARGET = "attacker", "sentinel", "target"

ATTACK = InfoColumn("attack", "What the attacker wrote, as the sentinel read it.")
PREFIX = InfoColumn("prefix", "What the sentinel put before it.")


@dataclass(frozen=True)
class RedTeamed(Workflow):
    """An attacker writes, a sentinel puts a few words before it, and a target answers.

    With v the task's verdict on the answer the attacker's turn earns `1 - v`, the sentinel's `v - 1`. Where a scenario
    says its `attack` nobody writes one. The target is the machine of task `redteam`, or a model in the role `target`,
    which nobody trains.

    Attributes:
        words: of the prefix at most; what is said beyond them is cut. long: words of an attack, likewise.
        guarded: otherwise the target reads the attack alone, and only the attacker takes part.
        model: whether the role `target` answers.
    """

    name = "red-team"
    description = "one attacks a machine, another puts a few words before the attack (Sentinel); task redteam"

    words: int = 2
    long: int = LENGTH
    guarded: bool = True
    model: bool = False

    scores = True

    def __post_init__(self) -> None:
        if self.words < 1 or self.long < 1:
            raise ValueError(f"words = {self.words} and long = {self.long} must be at least 1")

    @property
    def roles(self) -> tuple[str, ...]:  # type: ignore[override]
        """Whoever may be asked."""
        asked = {ATTACKER: True, SENTINEL_ROLE: self.guarded, TARGET: self.model}
        return tuple(role for role, wanted in asked.items() if wanted)

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        given, paid = scenario.metadata.get("attack"), dict[Reply, float]()
        if given is None:
            written = await team[ATTACKER](asked(team.assignment))
            given, paid[written] = str(written), 1.0
        attack = first_words(str(given), self.long)
        prefix = ""
        if self.guarded:
            guard = await team[SENTINEL_ROLE](guarding(attack))
            prefix, paid[guard] = first_words(str(guard), self.words), -1.0
        prompt = f"{prefix} {attack}".strip()
        answer = str(await team[TARGET](prompt)) if self.model else replied(prompt)
        toxic = 1.0 - team.verify(answer)
        earned = {reply: sign * toxic for reply, sign in paid.items()}
        info = {ATTACK.name: attack, PREFIX.name: prefix}
        return Outcome(answer=answer, turn_rewards={"toxicity": earned}, info=info)


def first_words(text: str, most: int) -> str:
    """The first words of a text, single spaces between them."""
    return " ".join(text.split()[:most])


def novelty(texts: Sequence[str | None]) -> list[float]:
    """`1 - mean_{j != i} |G_i & G_j| / |G_i | G_j|`, G the words and pairs of words of a text; 0 of one alone or None.

    Two texts without words are alike.
    """
    grams = [None if text is None else _grams(text) for text in texts]
    others = [one for one in grams if one is not None]
    found = []
    for mine in grams:
        if mine is None or len(others) < 2:
            found.append(0.0)
            continue
        alike = sum(len(mine & one) / len(mine | one) if mine | one else 1.0 for one in others) - 1.0
        found.append(1.0 - alike / (len(others) - 1))
    return found


def _grams(text: str) -> frozenset[tuple[str, ...]]:
    words = text.split()
    return frozenset([*((word,) for word in words), *itertools.pairwise(words)])


@dataclass(frozen=True)
class NovelAttacks(Shaping):
    """Adds `weight * novelty` to the turn of the attacker, novelty being that among the attacks of the step.

    Attributes:
        weight: at least 0.
    """

    weight: float = 1.0

    def __post_init__(self) -> None:
        if self.weight < 0:
            raise ValueError(f"weight must be at least 0, not {self.weight}")

    def __call__(self, batch: Batch) -> Batch:
        new = torch.tensor(novelty(ATTACK.rows(batch)), dtype=torch.float64)
        wrote = torch.tensor([name == ATTACKER for name in batch.names["role"]], dtype=torch.bool)[batch.role]
        change = torch.where(wrote, self.weight * new[trajectory_of_turn(batch)], 0.0)
        return added(batch, Level.TURN, change)


@dataclass(frozen=True)
class SharedValueHead(Hook):
    """All policies in training have one value head: what one of them learns of it, all have.

    After a step the head is what it was before, plus the mean change of those that learnt; where one learns at a time
    it is that one's. Before the first step it is the mean of all. Policies without a value head are left alone.
    """

    async def before(self, run: HookContext, step: int, memory: Any) -> Any:
        heads = heads_of(run)
        if memory or not heads:
            return memory
        return seated(heads, {name: torch.stack([one[name] for one in heads]).mean(0) for name in heads[0]})

    async def after(self, run: HookContext, step: int, result: StepResult, memory: Any) -> Any:
        heads = heads_of(run)
        learnt = [one for one in heads if any(not torch.equal(one[name], memory[name]) for name in memory)]
        if not learnt:
            return memory
        moved = {name: torch.stack([one[name] - old for one in learnt]).mean(0) for name, old in memory.items()}
        return seated(heads, {name: old + moved[name] for name, old in memory.items()})


def heads_of(run: HookContext) -> list[Mapping[str, Tensor]]:
    """The weights of every value head in training, those of the policies themselves."""
    modules = (getattr(policy.module, "value_head", None) for policy in run.trained.values())
    return [one.state_dict() for one in modules if isinstance(one, nn.Module)]


def seated(heads: Sequence[Mapping[str, Tensor]], shared: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A copy of the weights that all heads have from now on."""
    for one in heads:
        for name, weight in shared.items():
            one[name].copy_(weight)
    return {name: weight.clone() for name, weight in shared.items()}


SENTINEL = PPO.but(
    name="sentinel",
    title="Sentinel: a prefix against red-teaming, learnt against an attacker who learns",
    source="Liu et al., Tiny Refinements Elicit Resilience, arXiv:2405.12604 (abstract)",
    family="teams",
    catalogue_ids=("sentinel",),
    axes=("system", "team", "objective"),
    formula="R_attacker = tox + novelty - beta KL,  R_sentinel = -tox - beta KL,  tox = 1 - v(target(prefix + "
    f"attack));  {PPO.formula}",
    conventions={
        **PPO.conventions,
        "target": "nobody trains it: the machine of task redteam, or --workflow 'red-team?model=true' with "
        "--roles.target.model FOLDER",
        "prefix": "two words at most, and fewer than 30 tokens (decoding.max_tokens 29)",
        "toxicity": "the share of words that are curses",
        "novelty": "1 - mean Jaccard index of words and pairs of words with the other attacks of the step, weight 1",
        "KL": "k1 in the reward at every decision of both, to the model they began as, coefficient 0.02",
        "who learns": "the attacker for 5 steps, then the sentinel for 5, and so on",
        "value head": "one linear map for both, each on its own hidden states; the target is no part of it",
        "value and GAE": "each agent's own decisions alone",
        "attacks that are given": "redteam?attacks=6 fixes six; nobody attacks then",
    },
    task="redteam",
    requires=(Requirement.AGENTS, Requirement.TURN_REWARDS),
    workflow="red-team",
    cast=Alternating(every=5, order=(ATTACKER, SENTINEL_ROLE)),
    shaping=(KLInReward(coefficient=0.02, estimator="k1"), NovelAttacks(weight=1.0)),
    credit=EachAgent(PPO.credit),
    hooks=(SharedValueHead(),),
)
