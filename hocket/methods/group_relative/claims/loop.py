"""What loop claims."""

from __future__ import annotations

import math
import statistics

import torch

from hocket import recipes
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.dialogue import Dialogue, DialogueBench
from hocket.lab.groups import first_advantages, gap, recorded
from hocket.lab.toys.group_statistics import EXACT, bandit, finding
from hocket.lab.toys.group_statistics_training import SEEDS, recipe_of, spread
from hocket.lab.world import Answer

claim = Claims("loop", "arXiv:2502.01600")


@claim("A_k = K/(K-1) (R_k - mean R)")
def _leave_one_out_identity() -> Finding:
    group = [1.0, 0.0, 0.3, 2.0, -1.0]
    found = first_advantages(recipes.find("loop"), recorded([group]))
    size, mean = len(group), statistics.fmean(group)
    others = [reward - (math.fsum(group) - reward) / (size - 1) for reward in group]
    worst = max(
        *(abs(a - b) for a, b in zip(found, others, strict=True)),
        *(abs(a - size / (size - 1) * (r - mean)) for a, r in zip(found, group, strict=True)),
    )
    return finding(f"largest difference from both forms {worst:.1e}", worst < EXACT)


@claim("On a bandit its expected gradient is the true one", "derived here")
def _leave_one_out_is_unbiased() -> Finding:
    group = bandit(0.2, wrong=3)
    gaps = [gap(group.gradient(recipes.find("loop"), size), group.true_gradient()) for size in (2, 3, 4)]
    return finding(f"K = 2, 3, 4: {max(gaps):.1e} from the true gradient", max(gaps) < EXACT)


def _lookup(values: int = 4) -> Dialogue:
    """An interface whose right call is written in its documentation: token 0 reads it, 1.. are calls."""

    def verdict(question: int, answer: Answer, hidden: int) -> float:
        return float(len(answer) in (1, 3) and answer[-1] == hidden)

    return Dialogue(
        *(1, 1 + values, 3, lambda question, answer: 0.0),
        reply=lambda question, tokens, hidden: int(hidden) if tokens == (0,) else None,
        hide=lambda question, key: 1 + key.word % values,
        verdict=verdict,
        over=lambda question, tokens: len(tokens) == 1 and tokens[0] != 0,
    )


def _first_token(bench: Bench, token: int) -> float:
    with torch.no_grad():
        return float(torch.softmax(bench.policy.logits[bench.policy.row(0, ())], 0)[token])


@claim(
    "With a stateful tool it beats REINFORCE with a running mean at equal episodes and reads the "
    "documentation first, with one set of weights",
    slow=True,
)
def _loop_learns_to_read_first() -> Finding:
    earned: dict[str, list[float]] = {}
    read: dict[str, list[float]] = {}
    references = []
    for name, changes in (("loop", None), ("reinforce-baseline", {"rollout.samples": 6})):
        benches = [DialogueBench(_lookup(), recipe_of(name, changes), seed=seed, lr=0.05) for seed in SEEDS]
        for bench in benches:
            bench.run(100, every=100)
        earned[name] = [statistics.fmean(m["reward/mean"] for m in bench.history) for bench in benches]
        read[name] = [_first_token(bench, 0) for bench in benches]
        references += [bench.learner.reference for bench in benches]
    own = sum(weight.numel() for weight in benches[0].policy.module.parameters())
    return Finding(
        statistics.fmean(earned["loop"]) > statistics.fmean(earned["reinforce-baseline"]) + 0.05
        and min(read["loop"]) > 0.8
        and references == [None] * len(references),
        f"mean reward over 600 episodes: LOOP {spread(earned['loop'])}, REINFORCE with a running mean "
        f"{spread(earned['reinforce-baseline'])} (chance 0.25); reads first {spread(read['loop'], 2)}; one set of "
        f"{own} weights, no reference, no critic",
    )
