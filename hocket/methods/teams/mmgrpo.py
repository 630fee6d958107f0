"""mmGRPO: GRPO for programs of several modules, grouped by module and call (Ziems et al., arXiv:2508.04660).

The k-th calls of a module in all rollouts of an input are a group, though their prompts differ, and each is worth its
whole program's reward: `ModuleRelative`, with the released code's ways of treating rollouts that call a module more or
less often and answers that cannot be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from hocket.core.batch import Batch, Level, Occurrences
from hocket.core.keys import Key
from hocket.core.requirements import Requirement
from hocket.core.signals import returns
from hocket.credit.formulas import centred, scaled
from hocket.credit.units import Units, turn_units
from hocket.methods.base.conventions import PER_TURN
from hocket.methods.base.grpo import GRPO
from hocket.rewards.combine import WeightedSum
from hocket.stages import Credit

Counts = Literal["truncate", "fill-random", "fill-last", "ragged"]


class Group(NamedTuple):
    """The k-th calls of one module in the rollouts of one input: numbers of visits, a call perhaps more than once."""

    scenario: int
    module: int
    call: int
    members: list[int]


@dataclass(frozen=True)
class ModuleRelative(Credit):
    """`A_i = (R_i - mean_g R) / (std_g R + epsilon)`, g the k-th calls of a module in an input's rollouts: mmGRPO.

    Multi-module GRPO (arXiv 2508.04660) with the choices of its released code. A module is a role; a call is a turn of
    it, and R_i is the reward of the whole program that it was part of, though the prompts within a group differ. Where
    rollouts call a module a different number of times, groups are

        truncate     as many as the fewest calls; what comes after them is not learnt from
        fill-random  as many as the most calls; a rollout with fewer repeats one of its calls, drawn for each place
        fill-last    likewise, repeating its last call
        ragged       as many as the most calls, of the rollouts that get so far

    and an input some rollout of which never calls the module is left out for that module. A call that stands in several
    groups, or more than once in one, counts each time: its advantage is the mean over these, its weight their number
    divided by the mean number of all calls. So with `turn-mean` the loss is a mean over the groups' members; where a
    call's advantages differ in sign, which only format failures bring about, the clip sees their mean.

    A call whose answer could not be read has a score `failed` at the level of turns below 1: the share of what was to
    be read (no reward of the program's: the combiner weighs it 0). Its R lies so far on the way from
    `format_failure_score` to `failure_score`. In its rollout no other call is learnt from, or with `keep_others` each
    with R = `failure_score`.

    Attributes:
        failed: the name of that score. group_size: groups with fewer members (rollouts that were lost) repeat theirs
            from the first on until they have so many; None leaves them.
        scale, ddof, epsilon: as in `GroupRelative`. seed: of the random fill.
    """

    counts: Counts = "truncate"
    failed: str = "format"
    failure_score: float = 0.0
    format_failure_score: float = -1.0
    keep_others: bool = False
    group_size: int | None = None
    scale: Literal["std"] | None = "std"
    ddof: int = 1
    epsilon: float = 1e-6
    seed: int = 0

    def __post_init__(self) -> None:
        if self.counts not in get_args(Counts):
            raise ValueError(f"counts is {self.counts!r}; choose from {', '.join(get_args(Counts))}")
        if self.scale not in ("std", None):
            raise ValueError(f"scale must be 'std' or null, not {self.scale!r}")
        if self.format_failure_score >= self.failure_score:
            raise ValueError("format_failure_score must lie below failure_score")
        if self.group_size is not None and self.group_size < 2:
            raise ValueError(f"group_size must be at least 2, not {self.group_size}")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64 and weights."""
        seen, units = batch.occurrences, turn_units(batch)
        value, calls = self._rewards(batch, units)
        groups = self.groups(batch, units, calls)
        members = [self._padded(group.members) for group in groups]
        unit = torch.tensor([one for group in members for one in group], dtype=torch.long)
        index = torch.tensor([n for n, group in enumerate(members) for _ in group], dtype=torch.long)
        credit = centred(value[unit], index, len(members))
        if self.scale == "std":
            credit = scaled(credit, credit, index, len(members), ddof=self.ddof, epsilon=self.epsilon)
        size = len(units.counted)
        times = torch.bincount(unit, minlength=size).double()
        total = torch.zeros(size, dtype=torch.float64).index_add(0, unit, credit)
        # A weight of 1 everywhere stays exactly 1: nothing was repeated.
        share = times / (times.sum() / (times > 0).sum().clamp(min=1)).clamp(min=1)
        return replace(
            seen,
            advantage=(total / times.clamp(min=1))[units.member],
            weight=(seen.weight.double() * share[units.member]).to(seen.weight.dtype),
        )

    def groups(self, batch: Batch, units: Units, calls: Tensor) -> list[Group]:
        """The groups among visits that are `calls` `[M]` bool, in order of input, module and call."""
        assert units.turn is not None
        owner, module = units.trajectory.tolist(), batch.role[units.turn].tolist()
        made: dict[tuple[int, int], list[int]] = {}
        for visit in torch.nonzero(calls).flatten().tolist():
            made.setdefault((module[visit], owner[visit]), []).append(visit)
        rollouts = self._rollouts(batch, units)
        found = []
        for scenario, inside in rollouts.items():
            for code in sorted({kind for kind, whose in made if whose in inside}):
                rows = [made.get((code, whose), []) for whose in inside]
                found += self._of_module(batch, scenario, code, rows)
        return found

    def _rollouts(self, batch: Batch, units: Units) -> dict[int, list[int]]:
        """The rollouts of each input of which something counts, in assignment order."""
        whose = sorted(set(units.trajectory[units.counted].tolist()), key=lambda n: int(batch.order[n]))
        found: dict[int, list[int]] = {}
        for number in whose:
            found.setdefault(int(batch.scenario[number]), []).append(number)
        return found

    def _of_module(self, batch: Batch, scenario: int, module: int, rows: Sequence[list[int]]) -> list[Group]:
        fewest, most = min(map(len, rows)), max(map(len, rows))
        if fewest == 0:
            return []
        names = batch.names["scenario"][scenario], batch.names["role"][module]
        draw = Key.of(self.seed).derive("fill", batch.step, *names).numpy()
        found = []
        for call in range(fewest if self.counts == "truncate" else most):
            members = [row[call] for row in rows if call < len(row)]
            if self.counts.startswith("fill"):
                last = self.counts == "fill-last"
                members = [
                    row[call] if call < len(row) else row[-1] if last else row[int(draw.integers(len(row)))]
                    for row in rows
                ]
            found.append(Group(scenario, module, call, members))
        return found

    def _padded(self, members: list[int]) -> list[int]:
        """The members, repeated in order until there are `group_size`."""
        size = max(self.group_size or 0, len(members))
        return [members[place % len(members)] for place in range(size)]

    def _rewards(self, batch: Batch, units: Units) -> tuple[Tensor, Tensor]:
        """What each visit is rewarded with, and whether it is a call that counts, both `[M]`."""
        assert units.turn is not None
        value = returns(batch)[units.trajectory]
        score = batch.scores.get(self.failed)
        if score is None or score.level is not Level.TURN:
            return value, units.counted
        read = score.values[units.turn]
        broken = read < 1  # NaN, no opinion, is below nothing.
        partial = self.failure_score - (1 - read) * (self.failure_score - self.format_failure_score)
        spoilt = torch.zeros(batch.trajectories, dtype=torch.bool)
        spoilt[units.trajectory[broken]] = True
        beside = spoilt[units.trajectory] & ~broken
        value = torch.where(broken, partial, torch.where(beside, torch.full_like(value, self.failure_score), value))
        return value, units.counted & (~beside | self.keep_others)


MMGRPO = GRPO.but(
    name="mmgrpo",
    title="Multi-module GRPO",
    source="Ziems et al., arXiv:2508.04660, and dspy.GRPO",
    family="teams",
    catalogue_ids=("mmgrpo",),
    axes=("credit", "rollout", "team"),
    formula="A_i = (R_i - mean_g R)/(std_g R + eps),  g = (x, m, k): the k-th calls of module m in the rollouts of x",
    conventions={
        **GRPO.conventions,
        "module": "a role of the workflow, planner-worker unless the run names another; all share one policy",
        "uneven counts": "groups as long as the fewest calls; credit.counts = fill-random, fill-last or ragged",
        "never called": "in one rollout: the input is left out for that module",
        "format failure": "turn score `format` below 1, the share that could be read: R on the way from -1 to 0, and "
        "no other call of that rollout is learnt from",
        "lost rollouts": "groups are left smaller; credit.group_size repeats members from the first on",
        "prompts first": "a search is a phase of a plan, before {recipe: mmgrpo}: see docs/search.md",
        "aggregation": PER_TURN + "; a repeated call counts as often as it stands in groups",
    },
    task="reasoning-gym:chain_sum",
    requires=(Requirement.TURNS,),
    workflow="planner-worker",
    combine=WeightedSum({"format": 0.0}),
    credit=ModuleRelative(counts="truncate"),
    **{"objective.aggregate": "turn-mean"},
)
