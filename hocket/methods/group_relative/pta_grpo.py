"""PTA-GRPO: a plan is written first and is paid by how well solving from it goes (Dou et al., arXiv:2510.01833).

Several solutions are drawn from each of several plans (`PlanTree`); each earns its verdict, the share of its plan's
solutions that are right, and a little for the form (`PlanReward`), and GRPO compares all of them. The first stage,
`pta-grpo-sft`, teaches plans from demonstrations (`PlannedDemonstrations` writes them for sums):

    plan: [{recipe: pta-grpo-sft, steps: 80}, {recipe: pta-grpo, steps: 60}]
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from hocket.agents.workflows.plans import plan_text
from hocket.core.batch import Batch
from hocket.core.columns import TEXT, InfoColumn
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.requirements import Requirement
from hocket.core.segments import segment_mean
from hocket.core.signals import counted_trajectories, returns
from hocket.methods.base.grpo import GRPO
from hocket.methods.base.sft import SFT
from hocket.rewards.members import with_return
from hocket.rewards.tags import answers_well
from hocket.rollout.branches import ANSWER, NUMBERED, continued, only_turn
from hocket.rollout.demonstrations import Demonstrations
from hocket.stages import Grade, LedgerView, More, Play, Rollout, Shaping, Tokenizer, tokenizer_of
from hocket.tasks.arithmetic import question_of
from hocket.types import Assignment, Experience, Scenario, Trajectory, Turn

OPENED, CLOSED = "<plan>", "</plan>"
PLAN = InfoColumn("plan", "The number of the plan that the solution follows, among the scenario's.")


@dataclass(frozen=True)
class PlanTree(Rollout):
    """`plans` plans per scenario, and `solutions` solutions from each: the tree of PTA-GRPO (arXiv 2510.01833).

    A plan is the response up to `marker`, or its first `plan_tokens` tokens where the marker does not come before, or
    what was said before the response ended without an answer; then the marker is imposed, as the opening of a plan is,
    so that every policy plans. What is imposed is not learnt from. A plan's turn is one object that the trajectories of
    its solutions share; a solution is a turn that extends it without new observation. A response that answers before a
    plan ends is a trajectory of its own, all plan, and so is every episode of a player without words, which cannot be
    made to begin with a plan.

    Attributes:
        opening: text that every response begins with; empty for none.
        marker: text that ends a plan; empty for none, then plans have `plan_tokens` tokens.
        plan_tokens: the most tokens of a plan, its opening included.
    """

    lengths: ClassVar[tuple[str, ...]] = ("plan_tokens",)

    plans: int = 4
    solutions: int = 4
    opening: str = OPENED
    marker: str = CLOSED
    plan_tokens: int = 64

    def __post_init__(self) -> None:
        if min(self.plans, self.solutions, self.plan_tokens) < 1:
            raise ValueError(
                f"plans, solutions and plan_tokens must be at least 1, not {self.plans}, {self.solutions} and "
                f"{self.plan_tokens}"
            )

    @property
    def trajectories(self) -> int:
        """Leaves per scenario."""
        return self.plans * self.solutions

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
        """Per scenario its plans in order, each with its solutions."""
        words = tokenizer_of(play)
        if words is None:
            whole = await play([replace(asking, samples=self.trajectories) for asking in asked])
            await score(whole)
            return Experience(whole)
        roots = await play([self._planning(asking, words) for asking in asked])
        stems = [self._stem(root) for root in roots]
        branches = [
            self._branch(asked[number // self.plans], *pair, words)
            for number, pair in enumerate(zip(roots, stems, strict=True))
        ]
        leaves = iter(await play([branch for branch in branches if branch is not None]))
        found: list[Trajectory] = []
        for number, (root, stem, branch) in enumerate(zip(roots, stems, branches, strict=True)):
            plan = number % self.plans
            solved = [root] if branch is None else [next(leaves) for _ in range(branch.samples)]
            for leaf in solved:
                PLAN.write(leaf, plan)
                if branch is not None and stem is not None:
                    split(leaf, stem)
            found += solved
        await score(found)
        return Experience(found)

    def _planning(self, asking: Assignment, words: Tokenizer) -> Assignment:
        most = min(self.plan_tokens, asking.decoding.max_tokens)
        begun = (*asking.prefix, *(words.encode(self.opening, asking.prefix) if self.opening else ()))
        stops = (*asking.decoding.stop, self.marker) if self.marker else asking.decoding.stop
        budget = most if asking.budget is None else min(most, asking.budget)
        decoding = replace(asking.decoding, max_tokens=most, stop=stops)
        return replace(asking, samples=self.plans, budget=budget, decoding=decoding, prefix=begun)

    def _stem(self, root: Trajectory) -> Turn | None:
        """The turn that solutions go on from; None where the response is complete already."""
        turn = only_turn(root)
        if turn is None or turn.finish in ("length", "truncated") or self._marked(turn):
            return turn
        # It ended by a token of its own, which no solution can stand behind.
        ended = bool(self.marker) and ANSWER not in turn.text and len(turn) > 1
        return first_tokens(turn, len(turn) - 1) if ended else None

    def _marked(self, turn: Turn) -> bool:
        return bool(self.marker) and turn.text.rstrip().endswith(self.marker)

    def _branch(self, asking: Assignment, root: Trajectory, stem: Turn | None, words: Tokenizer) -> Assignment | None:
        """The solutions to be asked from a plan; None where there is no room for any."""
        if stem is None:
            return None
        closing = words.encode(self.marker, stem.action.tolist()) if self.marker and not self._marked(stem) else ()
        left = asking.decoding.max_tokens - len(stem) - len(closing)
        if left < 1:
            return None
        first, begun = asking.first + NUMBERED + root.sample * self.solutions, [*stem.action.tolist(), *closing]
        return continued(asking, begun, first=first, samples=self.solutions, more=left)


def first_tokens(turn: Turn, length: int) -> Turn:
    """A response's first tokens as a turn; `length` of them."""
    # A prompt stands before all; without words every decision has an observation of its own.
    seen = turn.observation if turn.prompt else turn.observation[:length]
    return replace(
        turn,
        observation=seen,
        action=turn.action[:length],
        logp=None if turn.logp is None else turn.logp[:length],
        version=None if turn.version is None else turn.version[:length],
        forced=None if turn.forced is None else turn.forced[:length],
    )


def split(leaf: Trajectory, stem: Turn) -> None:
    """Makes of a continued response two turns: the stem it was continued from, shared, and what it adds."""
    turn, length = only_turn(leaf), len(stem)
    if turn is None or len(turn) <= length or not np.array_equal(turn.action[:length], stem.action):
        return  # A player that knows no prefix began anew.
    # A prompt stands before both; where every decision has an observation of its own, the longer turn has more.
    seen = turn.observation[length if len(turn.observation) > len(stem.observation) else len(turn.observation) :]
    tail = replace(
        turn,
        observation=seen,
        action=turn.action[length:],
        logp=None if turn.logp is None else turn.logp[length:],
        version=None if turn.version is None else turn.version[length:],
        forced=None if turn.forced is None else turn.forced[length:],
        parent=stem,
    )
    leaf.turns = [stem, tail]


def plan_values(value: Tensor, plan: Tensor, size: int) -> Tensor:
    """`V_p`, the mean return of the solutions of each of `size` plans, `[size]`."""
    return segment_mean(value, plan, size)


@dataclass(frozen=True)
class PlanReward(Shaping):
    """`R_i = verdict_i + weight V_p(i) + form_i`, V_p the mean verdict of plan p's solutions (PTA-GRPO, 2510.01833).

    A good plan is one from which solving succeeds, so all solutions of a plan earn what the plan is worth besides
    their own verdicts. A plan is the first turn of a trajectory, and trajectories that share it are its solutions; a
    trajectory of one turn is alone in its plan. The form is right where the text is a plan, a thought if any, and one
    answer; without texts nothing is due for it.

    Attributes:
        weight: of the plan's value. form: what the right form earns.
    """

    weight: float = 1.0
    form: float = 0.1

    def __call__(self, batch: Batch) -> Batch:
        value, used, plan = returns(batch), counted_trajectories(batch), _first_turns(batch)
        worth = plan_values(value[used], plan[used], batch.turns)[plan]
        texts = TEXT.rows(batch)
        formed = torch.tensor([float(text is not None and planned_well(text)) for text in texts], dtype=torch.float64)
        return with_return(batch, torch.where(used, value + self.weight * worth + self.form * formed, value))


def planned_well(text: str) -> bool:
    """Whether a response begins with one closed plan, says something in it, and then gives one answer."""
    inside, closed, rest = text.strip().removeprefix(OPENED).partition(CLOSED)
    begun = text.strip().startswith(OPENED) and bool(closed) and bool(inside.strip())
    return begun and OPENED not in inside + rest and CLOSED not in rest and answers_well(rest)


def _first_turns(batch: Batch) -> Tensor:
    """The turn of each trajectory's first decision, `[N]`; turn 0 for one without decisions."""
    seen = batch.occurrences
    starts = (batch.last() - batch.lengths() + 1).clamp(min=0)
    if not len(seen):
        return torch.zeros(batch.trajectories, dtype=torch.long)
    return batch.turn[seen.decision][starts.clamp(max=len(seen) - 1)]


# ---------------------------------------------------------------- the first stage: plans to imitate

_TERM = re.compile(r"([+-]?)\s*(\d+)")
_SUM = re.compile(r"-?\d+(?: [+-] \d+)+")


def planned(scenario: Scenario) -> Scenario:
    """The scenario with a demonstration that plans: a plan, the working, the answer.

    `metadata["plan"]` is put before the scenario's own demonstration; without one, a sum in the words of
    `hocket.tasks.arithmetic` is planned in pairs of terms and worked out place by place.

    Raises:
        ConfigurationError: for a scenario with neither.
    """
    plan, shown = scenario.metadata.get("plan"), scenario.metadata.get("demonstration")
    if isinstance(plan, str) and isinstance(shown, str):
        return _shown(scenario, plan, shown)
    question = "" if not scenario.messages else str(scenario.messages[-1]["content"])
    found = _SUM.search(question)
    if found is None or question_of(found[0]) != question:
        raise ConfigurationError(
            f"scenario {scenario.id!r} has no plan to imitate; give its metadata a 'plan' and a 'demonstration'"
        )
    terms = [int(sign + size) for sign, size in _TERM.findall(found[0])]
    steps = [_joined(terms[start : start + 2]) for start in range(0, len(terms), 2)]
    solution = f"<think>{worked(terms)}</think><answer>{sum(terms)}</answer>"
    return _shown(scenario, plan_text(steps), solution)


def worked(terms: Sequence[int]) -> str:
    """The running total of signed terms, one decimal place at a time: `45+30=75+7=82`, as the shipped base works."""
    total, written = terms[0], str(terms[0])
    for term in terms[1:]:
        digits, sign = str(abs(term)), "-" if term < 0 else "+"
        parts = [int(digit) * 10 ** (len(digits) - place) for place, digit in enumerate(digits, start=1)]
        for part in [part for part in parts if part] or [0]:
            total += -part if term < 0 else part
            written += f"{sign}{part}={total}"
    return written


def _joined(terms: Sequence[int]) -> str:
    rest = (f" {'-' if term < 0 else '+'} {abs(term)}" for term in terms[1:])
    return str(terms[0]) + "".join(rest)


def _shown(scenario: Scenario, plan: str, solution: str) -> Scenario:
    said = f"{OPENED}{plan}{CLOSED}{solution}"
    return replace(scenario, metadata={**scenario.metadata, "demonstration": said})


@dataclass(frozen=True)
class PlannedDemonstrations(Demonstrations):
    """`Demonstrations` that plan before they solve, see `planned`: the first stage of PTA-GRPO (arXiv 2510.01833)."""

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
        """The demonstrations as trajectories."""
        asking = [replace(one, scenario=planned(one.scenario)) for one in asked]
        return await super().collect(asking, play=play, score=score, ledger=ledger, key=key, more=more)


PTA_GRPO_SFT = SFT.but(
    name="pta-grpo-sft",
    title="Plan then action, first stage: plans to imitate",
    source="Dou et al., Plan Then Action, arXiv:2510.01833",
    formula="SFT on <plan>..</plan><think>..</think><answer>..</answer>",
    conventions={
        **SFT.conventions,
        "size": "32 demonstrations a step at a learning rate of 1e-3, ours: 80 steps teach the shipped base to plan",
        "plans": "the scenario's own, else a sum's in pairs of terms; the paper has them written by a larger model",
    },
    rollout=PlannedDemonstrations(),
    **{"curriculum.prompts": 32, "update.lr": 1e-3},
)


PTA_GRPO = GRPO.but(
    name="pta-grpo",
    title="Plan then action",
    source=PTA_GRPO_SFT.source,
    catalogue_ids=("pta-grpo",),
    axes=("reward", "rollout", "credit"),
    formula="R_pj = verdict_pj + V_p + form_pj/10,  V_p = mean_j verdict_pj;  then A_pj as in GRPO over all p and j",
    conventions={
        **GRPO.conventions,
        "tree": "4 plans and 4 solutions from each (rollout); a shared plan is credited once in each of its solutions",
        "plan": "the response up to </plan>, at most rollout.plan_tokens = 64 tokens, a share of the longest response; "
        "its tags are imposed where the policy does not write them, and imposed tokens are not learnt from",
        "weights": "verdict 1, plan 1 (shaping.0.weight), form 0.1 (shaping.0.form); the paper's are not known",
        "form": "one filled plan, then one closed answer",
        "first stage": "a plan of phases: pta-grpo-sft, then pta-grpo",
    },
    requires=(Requirement.TURNS,),
    rollout=PlanTree(plans=4, solutions=4),
    shaping=(PlanReward(),),
)
