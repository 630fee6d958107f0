"""What aapo claims."""

from __future__ import annotations

import math
import statistics

from hocket import recipes
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.groups import first_advantages, gap
from hocket.lab.microscope import look
from hocket.lab.policy import Tabular
from hocket.lab.toys.group_statistics import EXACT, _rows_with_reference, finding, gradients
from hocket.lab.toys.group_statistics_training import SEEDS, choosing, spread, trained

claim = Claims("aapo", "arXiv:2505.14264; authors' code")


@claim("An all-right group with a failing reference gets 0.28 each, where GRPO has no gradient")
def _aapo_margin() -> Finding:
    solved = _rows_with_reference([1.0] * 4, [0.0] * 4)
    aapo, grpo = look(recipes.find("aapo"), solved), look(recipes.find("grpo"), solved)
    trailing = first_advantages(recipes.find("aapo"), _rows_with_reference([0.0] * 4, [1.0] * 4))[:4]
    return finding(
        f"all right, failing reference: {[row[0] for row in aapo['advantages'][:4]]}, gradient "
        f"{aapo['gradient'][0][0]:.3f} where GRPO's is {grpo['gradient'][0][0]:.1f}; all wrong, right "
        f"reference: {trailing}",
        all(row[0] == 0.28 for row in aapo["advantages"][:4]),
        aapo["gradient"][0][0] != 0,
        grpo["gradient"][0][0] == 0,
        trailing == [-0.2] * 4,
    )


@claim("Without the margin it is group-relative REINFORCE", "derived here")
def _aapo_without_margin() -> Finding:
    batch = _rows_with_reference([1.0, 0.0, 0.4, 0.4], [0.0, 1.0, 0.5, 0.0])
    bare = recipes.find("aapo").but({"credit.low": 0.0, "credit.high": 0.0})
    plain = recipes.find("gpg").but({"credit.scale": "std", "credit.weigh": ()})
    apart = gap(gradients(bare, batch), gradients(plain, batch))
    return finding(f"{apart:.1e} from group-relative REINFORCE with a token mean", apart < EXACT)


@claim(
    "On mostly solved prompts it goes on where GRPO's groups fall silent; entropy falls with it",
    "arXiv:2505.14264",
    slow=True,
)
def _aapo_goes_on() -> Finding:
    world = choosing(2, 5, lambda question, token: float(token == 0))

    def start(policy: Tabular) -> None:
        policy.logits[:, 0] = math.log(0.6 / 0.4 * 4)

    failure: dict[str, list[float]] = {}
    entropy: dict[str, list[float]] = {}
    signal: dict[str, float] = {}
    for name, changes in (("grpo", {}), ("aapo", {"rollout.references": 4})):
        sampled = {"rollout.samples": 4, **changes}
        benches = [trained(name, world, 140, seed, sampled, lr=0.05, start=start) for seed in SEEDS]
        failure[name] = [1 - bench.success() for bench in benches]
        entropy[name] = [bench.entropy() for bench in benches]
        last = [metrics["groups/with_signal"] / 2 for bench in benches for metrics in bench.history[-40:]]
        signal[name] = statistics.fmean(last)
    return Finding(
        max(failure["aapo"]) < min(failure["grpo"]) and signal["aapo"] > 3 * signal["grpo"],
        f"failure rate after 140 steps from 0.4: AAPO {spread(failure['aapo'], 4)}, GRPO {spread(failure['grpo'], 4)}; "
        f"groups with a signal in the last 40 {signal['aapo']:.2f} and {signal['grpo']:.2f}; entropy of answers "
        f"{spread(entropy['aapo'])} and {spread(entropy['grpo'])} nats: the positive constant lowers it",
    )
