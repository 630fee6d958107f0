"""What deepvideo-r1 claims."""

from __future__ import annotations

from statistics import mean

from hocket.lab.bandit import Bandit, flat, total_variation
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.documents import random_document
from hocket.lab.microscope import look
from hocket.lab.policy import Tabular
from hocket.lab.theory import tilted
from hocket.lab.toys.regressions import KEY, REFERENCE, REWARDS, STALE
from hocket.lab.world import World
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.deepvideo_r1 import DEEPVIDEO_R1
from hocket.rollout.independent import Independent

claim = Claims("deepvideo-r1", "arXiv 2506.07464, section 4")


@claim("at the old policy the gradient is proportional to the unclipped GRPO gradient")
def regressive_gradient() -> Finding:
    """At the old policy, against GRPO unclipped with one term per answer; factors -2/s times."""
    grpo = GRPO.but({"objective.aggregate": "sequence-sum"})
    worst = 0.0
    for number in range(5):
        document = random_document(KEY.derive("regressive", number), gap=0.0, graded=True)
        for scale in (0.5, 1.0, 2.0):
            recipe = DEEPVIDEO_R1.but({"objective.temperature": 1 / scale})
            difference = flat(look(recipe, document)) - 2 / scale * flat(look(grpo, document))
            worst = max(worst, float(difference.abs().max()))
    return Finding(worst < 1e-12, f"equal to 2/s times GRPO's to {worst:.1e}, s = 0.5, 1, 2")


@claim("its minimiser is pi_old exp(s A)/Z", "derived")
def regressive_minimiser() -> Finding:
    """L-BFGS on the recipe over five answers sampled once each."""
    worst = 0.0
    for scale in (0.5, 1.0, 2.0):
        bandit = Bandit(REWARDS, STALE, REFERENCE, [1, 1, 1, 1, 1])
        recipe = DEEPVIDEO_R1.but({"objective.temperature": 1 / scale})
        advantage = bandit.batch(recipe).occurrences.advantage
        optimum = tilted(STALE.exp(), advantage * scale, 1.0)
        worst = max(worst, total_variation(bandit.minimise(recipe), optimum))
    return Finding(worst < 1e-6, f"total variation to pi_old exp(s A)/Z, s = 0.5, 1, 2: {worst:.1e}")


@claim("a too large step leaves a restoring gradient where clipped GRPO gives zero", "arXiv 2506.07464")
def regressive_restores() -> Finding:
    """Log-ratios far beyond the clip: what is left of each gradient."""
    rows = []
    for number, reward in enumerate((1.0, 0.0)):
        step = 2.0 if reward else -2.0
        rows += [
            {
                "id": f"{number}",
                "group": "g",
                "scores": {"reward": reward},
                "logp": [-3.0 + step],
                "logp_behaviour": [-3.0],
            }
        ]
    document = {"version": 1, "trajectories": rows}
    clipped, fitted = flat(look(GRPO, document)), flat(look(DEEPVIDEO_R1, document))
    # The overshot right answer is pushed down again, the overshot wrong one up.
    holds = not clipped.any() and bool(fitted[0] > 0) and bool(fitted[1] < 0)
    return Finding(holds, f"clipped GRPO {clipped.tolist()}, regression {[round(v, 3) for v in fitted.tolist()]}")


UNEVEN = World(
    # Two questions ask for one exact answer, two are content with nearly any.
    questions=4,
    tokens=6,
    horizon=3,
    context="last",
    reward=lambda question, answer: float(answer == (4, 2, 5) if question < 2 else answer != (0, 0, 0)),
    metadata=lambda question: {"solution": (4, 2, 5)} if question < 2 else {},
)


def easy(policy: Tabular) -> None:
    """Sure of itself where that is good enough, so that neither kind of question tells samples apart."""
    for question in (2, 3):
        for row in {row for answer in UNEVEN.answers() for row in policy.path(question, answer)}:
            policy.logits[row, 1] += 4.0
            policy.logits[row, 0] += 2.5


@claim("hints and perturbation lower the share of groups of one reward", slow=True)
def augmentation_helps() -> Finding:
    """Groups whose samples are not told apart, with and without hints and heat, while hardly anything is learnt."""
    shares: dict[str, list[float]] = {}
    for name, rollout in (("with", DEEPVIDEO_R1.rollout), ("without", Independent(samples=8))):
        for seed in range(5):
            bench = Bench(UNEVEN, DEEPVIDEO_R1.but({"rollout": rollout}), seed=seed, lr=1e-4, steps=20, start=easy)
            bench.run(20, every=20)
            equal = [1 - m["groups/with_signal"] / m["groups/total"] for m in bench.history]
            shares.setdefault(name, []).append(mean(equal))
    holds = max(shares["with"]) < min(shares["without"]) - 0.1
    return Finding(
        holds,
        f"share of groups of one reward {mean(shares['with']):.2f} against {mean(shares['without']):.2f}, 5 seeds",
    )
