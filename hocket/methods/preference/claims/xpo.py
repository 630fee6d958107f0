"""XPO's claims."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from hocket.core.keys import Key
from hocket.lab.bandit import descended
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.claims.harness import batches, below, gap, gradient, say
from hocket.lab.claims.shipped_check import ShippedRun
from hocket.lab.toys.games import GameBandit
from hocket.methods.base.dpo import ONLINE_DPO
from hocket.methods.preference.xpo import OTHERS, XPO, BesideReference
from hocket.recipe import Recipe
from hocket.train.aio import run_async
from hocket.train.ledger import Ledger
from hocket.types import Assignment, Scenario, Trajectory, Turn, before_training

claim = Claims("xpo", "arXiv:2405.21046")


def pairs(count: int) -> list[dict[str, Any]]:
    """Random batches of two answers a prompt, the second the reference's."""
    found = list(batches(count, "xpo", samples=2, graded=True))
    for batch in found:
        for row in batch["trajectories"]:
            row["truncated"] = False
            row["source"] = OTHERS if row["id"].endswith("/1") else "own"
    return found


@claim("Its gradient is that of DPO on the two answers plus alpha times the reference's answer's log-prob.")
def its_gradient_is_that_of_dpo_on_the_two_answers_plus_alpha_times() -> Finding:
    gaps = []
    for batch in pairs(20):
        rows = batch["trajectories"]
        logp = [torch.tensor(row["logp"], dtype=torch.float64, requires_grad=True) for row in rows]
        total = torch.zeros((), dtype=torch.float64)
        for own in range(0, len(rows), 2):
            drift = [logp[k].sum() - sum(rows[k]["logp_ref"]) for k in (own, own + 1)]
            sign = 1.0 if rows[own]["scores"]["reward"] > rows[own + 1]["scores"]["reward"] else -1.0
            dpo = -torch.nn.functional.logsigmoid(0.1 * sign * (drift[0] - drift[1]))
            total = total + (dpo + 0.3 * logp[own + 1].sum()) * 2 / len(rows)
        wanted = torch.cat(torch.autograd.grad(total, logp))
        gaps.append(gap(gradient(XPO.but({"regularisers.0.coefficient": 0.3}), batch), wanted))
    return below(1e-12, off=max(gaps))


@claim("At alpha = 0 it is online DPO on the same two answers.")
def at_alpha_0_it_is_online_dpo_on_the_same_two_answers() -> Finding:
    plain = XPO.but({"regularisers.0.coefficient": 0.0})
    return below(1e-12, off=max(gap(gradient(plain, one), gradient(ONLINE_DPO, one)) for one in pairs(20)))


@dataclass(frozen=True)
class WithReference(GameBandit):
    """The last sample is the reference's."""

    def document(self, logp: torch.Tensor) -> dict[str, Any]:
        document = super().document(logp)
        document["trajectories"][-1]["source"] = OTHERS
        return document


SETTLED = {"objective.beta": 1.0, "shaping.0.wins.rule": lambda prompt, one, other: 0.8 if one < other else 0.2}
"""A preference of a certain strength, so that the two answers given come to rest."""


@claim("Where DPO leaves an answer that nobody gave as it is, optimism moves probability to it.")
def where_dpo_leaves_an_answer_that_nobody_gave_as_it_is_optimism() -> Finding:
    start = torch.log_softmax(torch.tensor([0.0, 0.0, -3.0], dtype=torch.float64), -1)
    bandit = WithReference((1.0, 0.0, 9.0), start, start, (1, 1, 0))
    found = {}
    for alpha in (0.0, 0.05, 0.1):
        recipe = XPO.but(SETTLED | {"regularisers.0.coefficient": alpha})
        batch = bandit.batch(recipe)
        ends = descended(lambda logits, r=recipe, b=batch: bandit.loss(r, logits, b), start, lr=2.0, steps=400)
        found[alpha] = float(ends[2])
    rises = found[0.0] < 1.2 * float(start[2].exp()) and found[0.0] < found[0.05] < found[0.1]
    return Finding(
        rises and found[0.1] > 0.1, say(start=float(start[2].exp()), by_alpha={str(a): p for a, p in found.items()})
    )


@claim("Every prompt is answered by policy and reference, numbered in turn; the reference's words count as others'.")
def every_prompt_is_answered_by_policy_and_reference_numbered_in() -> Finding:
    asked = list[tuple[str, int, list[int], str]]()

    async def play(assignments: Sequence[Assignment]) -> list[Trajectory]:
        found = []
        for one in assignments:
            numbers = list(range(one.first, one.first + one.samples))
            asked.append((one.scenario.id, one.samples, numbers, one.actor))
            who = before_training("policy") if one.actor == "reference" else "policy"
            for number in numbers:
                turn = Turn("agent", who, np.array([0]), np.array([1]), np.array([-1.0], np.float32))
                found.append(Trajectory(one.scenario, [turn], sample=number))
        return found

    async def score(trajectories: Sequence[Trajectory]) -> None:
        return None

    def made(rollout: Any) -> list[tuple[str, str, bool]]:
        rows = [Assignment(Scenario(name), first=5) for name in "ab"]
        found = run_async(rollout.collect(rows, play=play, score=score, ledger=Ledger(), key=Key.of(0)))
        return [(one.source, one.turns[0].policy, one.turns[0].logp is None) for one in found.trajectories]

    own, told = ("own", "policy", False), (OTHERS, "policy", True)
    holds = made(BesideReference(3, 1)) == [own, own, told] * 2 and made(XPO.rollout) == [own, told] * 2
    wanted = [(name, *one) for name in "ab" for one in ((2, [5, 6], "policy"), (1, [7], "reference"))]
    wanted += [(name, *one) for name in "ab" for one in ((1, [5], "policy"), (1, [6], "reference"))]
    return Finding(holds and asked == wanted, say(asked=str(asked)))


@claim("As shipped alpha is 1e-5; answers of anybody else are no reference's.")
def as_shipped_alpha_is_1e_5_answers_of_anybody_else_are_no() -> Finding:
    gaps = []
    for batch in pairs(10):
        plain, rows = gradient(ONLINE_DPO, batch), batch["trajectories"]
        each = [1e-5 * 2 / len(rows) * (row["source"] == OTHERS) for row in rows for _ in row["logp"]]
        gaps.append(gap(gradient(XPO, batch) - plain, each))
        for row in rows:
            row["source"] = "expert" if row["id"].endswith("/1") else "own"
        strong: Recipe = XPO.but({"regularisers.0.coefficient": 1.0})
        gaps.append(gap(gradient(strong, batch), plain))
    return below(1e-12, off=max(gaps))


def learnt(run: ShippedRun) -> dict[str, float]:
    """How many of the reference's answers are learnt from."""
    return {"answers of the reference": run.mean("optimism/answers")}


claim.shipped(XPO, "rollout", "regularisers", settings={"curriculum.prompts": 8}, sees=learnt)
