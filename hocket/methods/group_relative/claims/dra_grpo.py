"""What dra-grpo claims."""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.policy import Tabular
from hocket.lab.toys.agreeing_rewards import four_right
from hocket.lab.toys.rewarded import SEEDS, advantages, answers_of, apart, group_relative, line, said, shaped
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.dra_grpo import DRA_GRPO, redundancy

claim = Claims("dra-grpo", "DRA-GRPO, arXiv:2505.09655, released trainer")


@claim("k equal answers unlike all others weigh 1/k each")
def clusters_share() -> Finding:
    """Three equal answers and two of their own kind, all right; one wrong."""
    axes = [[1.0, 0, 0, 0]] * 3 + [[0, 1.0, 0, 0], [0, 0, 1.0, 0], [0, 0, 0, 1.0]]
    rows = [said("q", f"t{n}", float(n < 5), embedding=axis) for n, axis in enumerate(axes)]
    found = shaped(DRA_GRPO, rows)
    wanted = [1 / (3 + 1e-6)] * 3 + [1 / (1 + 1e-6)] * 2 + [0.0]
    credit = apart(advantages(DRA_GRPO, rows), group_relative(wanted))
    texts = [said("q", text, 1.0) for text in ("maple", "maple", "quartz")]
    own = shaped(DRA_GRPO, texts)
    return Finding(
        apart(found, wanted) < 1e-12 and credit < 1e-9 and own[0] == own[1] < 0.51 and own[2] > 0.95,
        f"weights {line(found)}; 3 equal ones earn {sum(found[:3]):.6f}, one alone {found[3]:.6f}; texts {line(own)}",
    )


@claim("weights do not depend on the order of the group", "derived here")
def order_does_not_matter() -> Finding:
    """Eight answers in twenty orders."""
    generator = Key.of(1).numpy()
    rows = [said("q", f"t{n}", float(n % 3), embedding=generator.normal(size=4).tolist()) for n in range(8)]
    found, worst = shaped(DRA_GRPO, rows), 0.0
    for trial in range(20):
        order = Key.of(2).derive(trial).numpy().permutation(8).tolist()
        worst = max(worst, apart(shaped(DRA_GRPO, [rows[n] for n in order]), [found[n] for n in order]))
    return Finding(worst == 0.0, f"largest difference over 20 orders {worst}")


@claim("the sum stays positive, so no reward changes its sign", "derived here")
def signs_stay() -> Finding:
    """Random directions, and one vector against three opposite ones, whose released sum is 1 - 3 = -2."""
    generator, lowest = Key.of(3).numpy(), math.inf
    for trial in range(50):
        rows = [said("q", f"{trial}/{n}", 1.0, embedding=generator.normal(size=3).tolist()) for n in range(6)]
        lowest = min(lowest, *shaped(DRA_GRPO, rows))
    opposite = torch.tensor([[1.0, 0], [-1, 0], [-1, 0], [-1, 0]], dtype=torch.float64)
    released = redundancy(opposite, nonnegative=False).tolist()
    rows = [said("q", f"t{n}", 1.0, embedding=vector) for n, vector in enumerate(opposite.tolist())]
    guarded = shaped(DRA_GRPO, rows)
    try:
        shaped(DRA_GRPO.but({"shaping.0.nonnegative": False}), rows)
        refused = False
    except ConfigurationError:
        refused = True
    return Finding(
        lowest > 0 and min(guarded) > 0 and released[0] < 0 and refused,
        f"least reward of 300 right answers {lowest:.3f}; the plain sum would be {released[0]:.0f}, which is refused; "
        f"with cosines below 0 as 0 the rewards are {line(guarded)}",
    )


def uneven(policy: Tabular) -> None:
    """The right answers are not equally likely at first."""
    for question, (place, logit) in itertools.product(range(2), enumerate([1.0, 0.5, 0.0, -0.5])):
        policy.logits[policy.row(question, ()), (place + 4 * question) % 8] = logit


def right_entropy(bench: Bench) -> float:
    """The entropy among right answers in nats, mean over questions."""
    found = []
    for question in range(bench.world.questions):
        answers, chance = answers_of(bench, question)
        own = torch.tensor([bench.world.reward(question, answer) for answer in answers]) * chance
        share = (own / own.sum()).clamp(min=1e-300)
        found.append(float(-(share * share.log()).sum()))
    return sum(found) / len(found)


def entropy_when_accurate(recipe: Any) -> list[float]:
    """The entropy among right answers when the success rate first reaches 0.95, for five seeds."""
    found = []
    for seed in SEEDS:
        bench = Bench(four_right(), recipe, seed=seed, start=uneven)
        while bench.success() < 0.95 and bench.done < 120:
            bench.step()
        found.append(right_entropy(bench))
    return found


@claim("at equal accuracy more entropy over right answers than GRPO", slow=True)
def more_right_answers_survive() -> Finding:
    """GRPO and DRA-GRPO from one start."""
    plain, diverse = entropy_when_accurate(GRPO), entropy_when_accurate(DRA_GRPO)
    return Finding(
        min(diverse) > max(plain) + 0.1,
        f"entropy among the 4 right answers at 95 % accuracy (of {math.log(4):.3f}): dra-grpo {line(diverse)}; "
        f"grpo {line(plain)}",
    )
