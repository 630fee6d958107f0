"""Several vehicles that choose at once: PARCO (arXiv:2409.03811).

A sequential decoder sends one vehicle at a time, so N customers take N steps. Here each of M vehicles has a query of
its own, which reads the others' (`Communication`), and all choose in the same step: `log pi` is the sum over vehicles
and steps, and about N / M steps are left. Where several choose one customer, the surest goes, which has chosen it with
the highest probability, and the others stay for that step. Priorities are so learnt with the policy.

The world is `routes:minmax`; the network the pointer of `hocket.policies.control_pointer`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from hocket.core.batch import Batch
from hocket.core.outcomes import StepResult
from hocket.core.policy_parts import PolicyPart
from hocket.methods.base.rloo import RLOO
from hocket.policies.control_pointer import Communication
from hocket.stages import Hook, HookContext


def conflicts(batch: Batch) -> float:
    """The share of choices of customers that a pointer before it had made in the same decision.

    Actions are rows followed by as many ranks; row 0 is the depot, which all may choose.
    """
    rows = batch.action[:, : batch.action.shape[1] // 2]
    equal = (rows[:, :, None] == rows[:, None]).tril(-1) & (rows > 0)[:, :, None]
    return float(equal.any(2).sum()) / max(1, int((rows > 0).sum()))


@dataclass(frozen=True)
class Communicating(Hook):
    """Pointers read each other's queries; `pointers/conflicts` is the share of choices that another had made too."""

    policy_parts: ClassVar[tuple[PolicyPart, ...]] = (Communication(),)

    async def after(self, run: HookContext, step: int, result: StepResult, memory: Any) -> Any:
        if result.batch is not None:
            result.metrics["pointers/conflicts"] = conflicts(result.batch)
        return memory


PARCO = RLOO.but(
    name="parco",
    title="PARCO: vehicles that choose at once",
    source="Parallel AutoRegressive Models for Multi-Agent Combinatorial Optimization, arXiv:2409.03811",
    catalogue_ids=("parco",),
    axes=("policy", "team", "environment"),
    formula="as rloo,  log pi(a | s) = sum_t sum_m log softmax_n(u_mnt),  u = 10 tanh(q h / sqrt(D)),  q by attention "
    "over vehicles;  of those that choose one customer the one with the highest probability goes",
    conventions={
        **RLOO.conventions,
        "log-prob": "of all choices, also of those that lost a conflict",
        "who loses": "stays where it is for the step",
        "who is done": "retires at the depot, unless a customer is left that no other may serve",
        "baseline": "the mean of the other samples of an instance",
        "communication": "one block of attention over the vehicles' queries",
    },
    task="routes:minmax",
    hooks=(Communicating(),),
)
