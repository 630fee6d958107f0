"""ReMax's claims."""

from __future__ import annotations

import math

from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.claims.harness import EXACT, SEEDS, inspect_rows, say
from hocket.lab.claims.harness import gap as difference
from hocket.lab.groups import Document, Groups, Row, document, first_advantages, gap
from hocket.lab.toys.group_statistics import bandit, gradients, sentences
from hocket.lab.toys.group_statistics_training import guessing, spread
from hocket.methods.base.reinforce import REINFORCE
from hocket.methods.group_relative.remax import REMAX

claim = Claims("remax", "arXiv:2310.10505")


def greedy_row(group: Groups) -> Row:
    """The most likely answer as the baseline."""
    return group.row(max(range(len(group.answers)), key=group.chances.__getitem__), source="baseline")


@claim("Its expected gradient is the true one")
def _() -> Finding:
    group = sentences({(1, 0): 1.0, (0,): 0.25})
    gaps = [gap(group.gradient(REMAX, size, [greedy_row(group)]), group.true_gradient()) for size in (1, 2, 3)]
    return Finding(max(gaps) < EXACT, f"1, 2, 3 samples: {max(gaps):.1e} from the true gradient")


@claim("It does not change when a constant of the prompt is added to the reward")
def _() -> Finding:
    def prompts(*offsets: float) -> Document:
        return document(
            [
                {"group": str(group), "scores": {"reward": reward + offset}, "logp": [-1.0, -0.5], "source": source}
                for group, offset in enumerate(offsets)
                for reward, source in ((1.0, "own"), (0.5, "own"), (0.25, "baseline"))
            ]
        )

    same = bool((gradients(REMAX, prompts(0.0, 8.0)) == gradients(REMAX, prompts(0.0, 0.0))).all())
    return Finding(same, f"gradients with offsets 0 and 8, and with none, are bit-equal: {same}")


@claim("Its variance is below REINFORCE's when rewards have offsets", "arXiv:2310.10505, section 4")
def _() -> Finding:
    """Prompts whose rewards have offsets: the variance of a step, exactly."""
    offsets, remax, reinforce = (0.0, 2.0, 5.0), [], []
    for offset in offsets:
        group = bandit(0.4)
        group.rewards = [reward + offset for reward in group.rewards]
        remax.append(group.moments(REMAX, 1, [greedy_row(group)])[1])
        reinforce.append(group.moments(REINFORCE, 1)[1])
    sizes = {name: str([round(one, 4) for one in some]) for name, some in (("ReMax", remax), ("REINFORCE", reinforce))}
    holds = max(remax) - min(remax) < EXACT and math.fsum(remax) < math.fsum(reinforce) / 5
    return Finding(holds, f"offsets {offsets}: {say(**sizes)} (without an offset, the smaller)")


@claim("The advantage fades as the policy becomes deterministic")
def _() -> Finding:
    """The mean size of the advantage as the policy becomes deterministic."""
    sizes = []
    for success in (0.6, 0.9, 0.99, 0.9999):
        group = bandit(success)
        documents = [(chance, document([group.row(n), greedy_row(group)])) for chance, (n,) in group.samples(1)]
        sizes.append(sum(chance * abs(first_advantages(REMAX, one)[0]) for chance, one in documents))
    holds = sizes == sorted(sizes, reverse=True) and sizes[-1] < 1e-3
    return Finding(holds, f"E|A| at p = 0.6, 0.9, 0.99, 0.9999: {[round(one, 5) for one in sizes]}")


@claim("With rewards per token it is the return-to-go minus the baseline", "verl, compute_remax_outcome_advantage")
def _() -> Finding:
    """With a KL penalty in the reward: return-to-go minus the baseline."""
    rows = [
        {"group": "0", "scores": {"r": 1.0}, "logp": [-1.0] * 3, "token_scores": {"kl": [-0.1, -0.2, -0.3]}},
        {"group": "0", "scores": {"r": 0.5}, "logp": [-1.0], "source": "baseline", "token_scores": {"kl": [0.0]}},
    ]
    ours = inspect_rows(REMAX.but({"credit.to_go": True}), rows)["advantages"][0]
    off = difference(ours, [1 - 0.6 - 0.5, 1 - 0.5 - 0.5, 1 - 0.3 - 0.5])
    return Finding(off < EXACT, f"advantages {[round(one, 3) for one in ours]}")


@claim("It learns with one sample per prompt", slow=True)
def _() -> Finding:
    benches = [Bench(guessing(4, 3), REMAX, seed=seed, lr=0.1).run(150) for seed in SEEDS]
    before, after = benches[0].readings[0].success, [bench.success() for bench in benches]
    return Finding(min(after) > 0.9, f"success {before:.3f} -> {spread(after)} with one sample per prompt")
