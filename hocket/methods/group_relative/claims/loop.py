"""LOOP's claims."""

from __future__ import annotations

from statistics import fmean

import torch

from hocket import recipes
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.claims.harness import EXACT, SEEDS, below, each, gap, say
from hocket.lab.dialogue import Dialogue, DialogueBench
from hocket.lab.groups import first_advantages, recorded
from hocket.lab.groups import gap as relative_gap
from hocket.lab.toys.group_statistics import bandit
from hocket.lab.world import Answer

claim = Claims("loop", "arXiv:2502.01600")
LOOP = recipes.find("loop")


@claim("A_k = K/(K-1) (R_k - mean R)")
def _() -> Finding:
    """Also as the reward less the mean of the others."""
    group = [1.0, 0.0, 0.3, 2.0, -1.0]
    credit = first_advantages(LOOP, recorded([group]))
    wanted = [5 / 4 * (reward - fmean(group)) for reward in group]
    others = [reward - (sum(group) - reward) / 4 for reward in group]
    return below(EXACT, largest_difference_from_both_forms=max(gap(credit, wanted), gap(credit, others)))


@claim("On a bandit its expected gradient is the true one", "derived here")
def _() -> Finding:
    group = bandit(0.2, wrong=3)
    return below(EXACT, **{f"K_{k}": relative_gap(group.gradient(LOOP, k), group.true_gradient()) for k in (2, 3, 4)})


def verdict(question: int, answer: Answer, hidden: int) -> float:
    return float(len(answer) in (1, 3) and answer[-1] == hidden)


LOOKUP = Dialogue(
    # An interface whose right call is written in its documentation: token 0 reads it, 1.. are calls.
    *(1, 5, 3, lambda question, answer: 0.0),
    reply=lambda question, tokens, hidden: int(hidden) if tokens == (0,) else None,
    hide=lambda question, key: 1 + key.word % 4,
    verdict=verdict,
    over=lambda question, tokens: len(tokens) == 1 and tokens[0] != 0,
)


def reading(bench: Bench) -> float:
    """How likely the documentation is read first."""
    return float(torch.softmax(bench.policy.logits.detach()[bench.policy.row(0, ())], 0)[0])


@claim(
    "With a stateful tool it beats REINFORCE with a running mean at equal episodes and reads the "
    "documentation first, with one set of weights",
    slow=True,
)
def _() -> Finding:
    running = recipes.find("reinforce-baseline").but({"rollout.samples": 6})
    made: dict[str, list[Bench]] = {
        recipe.name: [DialogueBench(LOOKUP, recipe, seed=seed, lr=0.05).run(100, every=100) for seed in SEEDS]
        for recipe in (LOOP, running)
    }
    earned = each(made, lambda bench: fmean(one["reward/mean"] for one in bench.history))
    first, own = each(made, reading), sum(one.numel() for one in made["loop"][0].policy.module.parameters())
    alone = all(bench.learner.reference is None for group in made.values() for bench in group)
    holds = fmean(earned["loop"]) > fmean(earned["reinforce-baseline"]) + 0.05 and min(first["loop"]) > 0.8 and alone
    figures = say(mean_reward_over_600_episodes=earned, chance=0.25, reads_first=first, weights=own)
    return Finding(holds, f"{figures}, no reference, no critic")
