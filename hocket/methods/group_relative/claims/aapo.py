"""AAPO's claims."""

from __future__ import annotations

import math
from statistics import fmean

from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.claims.harness import EXACT, SEEDS, below, gradient, say
from hocket.lab.groups import first_advantages, gap
from hocket.lab.policy import Tabular
from hocket.lab.toys.group_statistics import _rows_with_reference
from hocket.lab.toys.group_statistics_training import choosing, trained
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.aapo import AAPO
from hocket.methods.group_relative.gpg import GPG

claim = Claims("aapo", "arXiv:2505.14264; authors' code")


@claim("An all-right group with a failing reference gets 0.28 each, where GRPO has no gradient")
def _() -> Finding:
    solved, failed = _rows_with_reference([1.0] * 4, [0.0] * 4), _rows_with_reference([0.0] * 4, [1.0] * 4)
    leading, trailing = first_advantages(AAPO, solved)[:4], first_advantages(AAPO, failed)[:4]
    own, plain = (float(gradient(recipe, solved)[0]) for recipe in (AAPO, GRPO))
    saw = say(all_right=str(leading), all_wrong=str(trailing), gradient=own, GRPOs=plain)
    return Finding(leading == [0.28] * 4 and own != 0 == plain and trailing == [-0.2] * 4, saw)


@claim("Without the margin it is group-relative REINFORCE", "derived here")
def _() -> Finding:
    batch = _rows_with_reference([1.0, 0.0, 0.4, 0.4], [0.0, 1.0, 0.5, 0.0])
    bare, plain = (
        AAPO.but({"credit.low": 0.0, "credit.high": 0.0}),
        GPG.but({"credit.scale": "std", "credit.weigh": ()}),
    )
    return below(EXACT, relative_difference_of_gradients=gap(gradient(bare, batch), gradient(plain, batch)))


@claim(
    "On mostly solved prompts it goes on where GRPO's groups fall silent; entropy falls with it",
    "arXiv:2505.14264",
    slow=True,
)
def _() -> Finding:
    def start(policy: Tabular) -> None:
        policy.logits[:, 0] = math.log(0.6 / 0.4 * 4)

    world = choosing(2, 5, lambda question, token: float(token == 0))
    sampled = {"grpo": {"rollout.samples": 4}, "aapo": {"rollout.samples": 4, "rollout.references": 4}}
    failure, entropy, signal = {}, {}, {}
    for name, changes in sampled.items():
        made = [trained(name, world, 140, seed, changes, lr=0.05, start=start) for seed in SEEDS]
        failure[name] = [1 - bench.success() for bench in made]
        entropy[name] = [bench.entropy() for bench in made]
        signal[name] = fmean(one["groups/with_signal"] / 2 for bench in made for one in bench.history[-40:])
    holds = max(failure["aapo"]) < min(failure["grpo"]) and signal["aapo"] > 3 * signal["grpo"]
    failed = {n: " ".join(f"{one:.4f}" for one in rates) for n, rates in failure.items()}
    return Finding(holds, say(failure_from_0_4=failed, groups_with_a_signal_in_the_last_40=signal, entropy=entropy))
