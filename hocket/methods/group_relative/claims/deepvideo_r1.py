"""DeepVideo-R1's claims."""

from statistics import mean

import torch

from hocket.lab.bandit import Bandit, total_variation
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, each, gap, gradient, runs, say
from hocket.lab.groups import document
from hocket.lab.policy import Tabular
from hocket.lab.theory import tilted
from hocket.lab.toys.enumerable_groups import REFERENCE, REWARDS, STALE, documents
from hocket.lab.world import World
from hocket.recipes import DEEPVIDEO_R1, GRPO
from hocket.rollout.independent import Independent

claim = Claims("deepvideo-r1", "arXiv 2506.07464, section 4")
BY_SCALE = {scale: DEEPVIDEO_R1.but({"objective.temperature": 1 / scale}) for scale in (0.5, 1.0, 2.0)}


@claim("at the old policy the gradient is proportional to the unclipped GRPO gradient")
def _() -> Finding:
    grpo = GRPO.but({"objective.aggregate": "sequence-sum"})
    rows = list(documents(5, "regressions", "regressive", gap=0.0, graded=True))
    gaps = [gap(gradient(own, row), 2 / s * gradient(grpo, row)) for s, own in BY_SCALE.items() for row in rows]
    return below(EXACT, off_two_over_s_times_GRPOs=max(gaps))


@claim("its minimiser is pi_old exp(s A)/Z", "derived")
def _() -> Finding:
    bandit, apart = Bandit(REWARDS, STALE, REFERENCE, [1] * 5), []
    for scale, recipe in BY_SCALE.items():
        optimum = tilted(STALE.exp(), bandit.batch(recipe).occurrences.advantage * scale, 1.0)
        apart.append(total_variation(bandit.minimise(recipe), optimum))
    return below(1e-6, total_variation=max(apart))


@claim("a too large step leaves a restoring gradient where clipped GRPO gives zero", "arXiv 2506.07464")
def _() -> Finding:
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
def _() -> Finding:
    plain = DEEPVIDEO_R1.but({"name": "without", "rollout": Independent(samples=8)})
    made = runs(UNEVEN, DEEPVIDEO_R1.but({"name": "with"}), plain, steps=20, lr=1e-4, start=easy)
    equal = each(made, lambda run: mean(1 - m["groups/with_signal"] / m["groups/total"] for m in run.history))
    return Finding(max(equal["with"]) < min(equal["without"]) - 0.1, say(groups_of_one_reward=equal))


claim.shipped(DEEPVIDEO_R1, "objective")
claim.shipped(DEEPVIDEO_R1, "rollout", task="worked_sums?size=16", steps=2)
