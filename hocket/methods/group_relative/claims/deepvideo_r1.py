"""DeepVideo-R1's claims."""

import asyncio
from collections.abc import Sequence
from statistics import mean
from types import SimpleNamespace
from typing import Any

import torch

from hocket.core.components import value_at
from hocket.core.keys import Key
from hocket.lab.bandit import Bandit, total_variation
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, each, gap, gradient, runs, say
from hocket.lab.groups import document
from hocket.lab.hand_formulas import CountedAnswer, off, stale_rows
from hocket.lab.policy import Tabular
from hocket.lab.theory import tilted
from hocket.lab.toys.enumerable_groups import REFERENCE, REWARDS, STALE, documents
from hocket.lab.world import World
from hocket.recipes import DEEPVIDEO_R1, GRPO
from hocket.rollout.independent import Independent
from hocket.types import Assignment, Decoding, Experience, Scenario, Trajectory

claim = Claims("deepvideo-r1", "arXiv 2506.07464, section 4")
BY_SCALE = {scale: DEEPVIDEO_R1.but({"objective.temperature": 1 / scale}) for scale in (0.5, 1.0, 2.0)}


@claim("at the old policy the gradient is proportional to the unclipped GRPO gradient")
def at_the_old_policy_the_gradient_is_proportional_to_the_unclipped() -> Finding:
    grpo = GRPO.but({"objective.aggregate": "sequence-sum"})
    rows = list(documents(5, "regressions", "regressive", gap=0.0, graded=True))
    gaps = [gap(gradient(own, row), 2 / s * gradient(grpo, row)) for s, own in BY_SCALE.items() for row in rows]
    return below(EXACT, off_two_over_s_times_GRPOs=max(gaps))


@claim("loss and gradient are those counted by hand, two updates; who lags is told the more, who leads is heated")
def loss_and_gradient_are_those_counted_by_hand_two_updates_who() -> Finding:
    def loss(answers: Sequence[CountedAnswer]) -> tuple[torch.Tensor, dict[str, float]]:
        groups: dict[str, list[CountedAnswer]] = {}
        for one in answers:
            groups.setdefault(one.row["group"], []).append(one)
        squares = []
        for some in groups.values():
            d = torch.stack([(one.logp - one.old).sum() for one in some])
            squares.append((torch.stack([one.advantage[0] for one in some]) - d + d.mean()).square())
        return torch.cat(squares).mean(), {}

    past = {"easy": [1.0], "hard": [0.1], "even": [5.0, *[0.45] * 4], "mild": [0.25], "bare": [0.2], "short": [0.2]}
    asked = [Scenario(name, "?", metadata={"solution": range(9)}) for name in ("easy", "hard", "even", "mild")]
    asked += [Scenario("bare", "?"), Scenario("short", "?", metadata={"solution": (7,)})]
    asked.append(Scenario("new", "?", metadata={"solution": range(9)}))
    told = list[tuple[str, int, int, float]]()

    async def play(some: Sequence[Assignment]) -> list[Trajectory]:
        told.extend((one.scenario.id, one.samples, len(one.prefix), one.decoding.temperature) for one in some)
        return []

    async def score(trajectories: Sequence[Trajectory]) -> None:
        return None

    def run(scenarios: Sequence[Scenario], past: dict[str, list[float]]) -> Experience:
        ledger: Any = SimpleNamespace(history=lambda name: past.get(name, []))
        some = [Assignment(one, decoding=Decoding(temperature=0.8)) for one in scenarios]
        collected = DEEPVIDEO_R1.rollout.collect(some, play=play, score=score, ledger=ledger, key=Key.of(0))
        return asyncio.run(collected)

    metrics = run(asked, past).metrics
    run(asked[:2], {"easy": [1.0], "hard": [-1.0]})
    heat, hints = {"easy": 0.8 * 1.5}, {"hard": 7, "mild": 5}
    wanted = [(one.id, 8, hints.get(one.id, 0), heat.get(one.id, 0.8)) for one in asked]
    wanted += [("easy", 8, 0, 0.8 * 1.5), ("hard", 8, 8, 0.8)]
    gaps = [off(DEEPVIDEO_R1, rows, loss) for rows in stale_rows("deepvideo")]
    holds = told == wanted and metrics == {"rollout/hinted": 2.0, "rollout/heated": 1.0}
    holds &= value_at(DEEPVIDEO_R1, "update.epochs") == 2 and max(gaps) < EXACT
    return Finding(holds, say(off_by_hand=max(gaps), told=str(told)))


@claim("its minimiser is pi_old exp(s A)/Z", "derived")
def its_minimiser_is_pi_old_exp_z() -> Finding:
    bandit, apart = Bandit(REWARDS, STALE, REFERENCE, [1] * 5), []
    for scale, recipe in BY_SCALE.items():
        optimum = tilted(STALE.exp(), bandit.batch(recipe).occurrences.advantage * scale, 1.0)
        apart.append(total_variation(bandit.minimise(recipe), optimum))
    return below(1e-6, total_variation=max(apart))


@claim("a too large step leaves a restoring gradient where clipped GRPO gives zero", "arXiv 2506.07464")
def a_too_large_step_leaves_a_restoring_gradient_where_clipped_grpo() -> Finding:
    old = {"group": "g", "logp_behaviour": [-3.0]}
    rows = [{**old, "scores": {"reward": right}, "logp": [logp]} for right, logp in ((1.0, -1.0), (0.0, -5.0))]
    clipped, fitted = (gradient(recipe, document(rows)).tolist() for recipe in (GRPO, DEEPVIDEO_R1))
    # The overshot right answer is pushed down again, the overshot wrong one up.
    holds = not any(clipped) and fitted[0] > 0 > fitted[1]
    return Finding(holds, say(clipped_GRPO=str(clipped), regression=str(fitted)))


UNEVEN = World(
    *(4, 6, 3, lambda q, a: float(a == (4, 2, 5) if q < 2 else a != (0, 0, 0))),
    context="last",
    metadata=lambda q: {"solution": (4, 2, 5)} if q < 2 else {},
)
"""Two questions ask for one exact answer, two are content with nearly any."""


def easy(policy: Tabular) -> None:
    """Sure of itself where that is good enough, so that neither kind of question tells samples apart."""
    for row in {row for answer in UNEVEN.answers() for question in (2, 3) for row in policy.path(question, answer)}:
        policy.logits[row, :2] += torch.tensor([2.5, 4.0])


@claim("hints and perturbation lower the share of groups of one reward", slow=True)
def hints_and_perturbation_lower_the_share_of_groups_of_one_reward() -> Finding:
    plain = DEEPVIDEO_R1.but({"name": "without", "rollout": Independent(samples=8)})
    made = runs(UNEVEN, DEEPVIDEO_R1.but({"name": "with"}), plain, steps=20, lr=1e-4, start=easy)
    equal = each(made, lambda run: mean(1 - m["groups/with_signal"] / m["groups/total"] for m in run.history))
    return Finding(max(equal["with"]) < min(equal["without"]) - 0.1, say(groups_of_one_reward=equal))


claim.spares("1.0 -> 40.0", "at least one token of the solution is left to the policy in any case")

claim.shipped(DEEPVIDEO_R1, "objective")
claim.shipped(DEEPVIDEO_R1, "rollout", task="worked_sums?size=16", steps=2)
