"""What gpg claims."""

from __future__ import annotations

import statistics

import torch

from hocket import recipes
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.groups import gap, recorded
from hocket.lab.toys.group_statistics import EXACT, bandit, finding, gradients
from hocket.lab.toys.group_statistics_training import SEEDS, guessing, mixed, spread, trained

claim = Claims("gpg", "arXiv:2504.02546")


@claim("On-policy it is token-mean, mean-centred GRPO without clip and KL; with F_norm = std, GRPO")
def _gpg_is_grpo_without_its_extras() -> Finding:
    batch = recorded([[1.0, 0.0, 0.0], [0.2, 0.9, 0.4]], lengths=[[2, 5, 1], [3, 3, 8]])
    token_mean = recipes.find("grpo").but({"objective.aggregate": "token-mean", "objective.low": 1.0})
    gpg = recipes.find("gpg")
    centred = gap(gradients(gpg, batch), gradients(token_mean.but({"credit.scale": None}), batch))
    scaled = gap(gradients(gpg.but({"credit.scale": "std"}), batch), gradients(token_mean, batch))
    return finding(f"mean-centred {centred:.1e}, with F_norm = std {scaled:.1e}", centred < EXACT, scaled < EXACT)


@claim(
    "With idle groups it is the gradient of the others alone if lengths are equal, and not if they differ",
    "arXiv:2504.02546; the second half derived here",
)
def _gpg_undoes_idle_groups() -> Finding:
    valid, idle = [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]], [[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]
    gpg = recipes.find("gpg")

    def apart(lengths: list[list[int]]) -> float:
        whole = gradients(gpg, recorded(valid + idle, lengths=lengths))
        alone = gradients(gpg, recorded(valid, lengths=lengths[:2]))
        return gap(whole[: len(alone)], alone)

    equal = apart([[4] * 3] * 4)
    unequal = apart([[4] * 3, [4] * 3, [9] * 3, [2] * 3])
    return finding(
        f"gradient against that of the valid groups alone: equal lengths {equal:.1e}, unequal lengths {unequal:.3f}",
        equal < EXACT,
        unequal > 0.01,
    )


@claim("On a bandit alpha = 1 gives (G-1)/G of the true gradient; alpha keeps direction and enlarges", "derived here")
def _gpg_on_a_bandit() -> Finding:
    """One group: (G-1)/G of the true gradient. Two groups of one prompt: 1 + P(the other has no signal) times that."""
    group, size = bandit(0.3, wrong=1), 3
    gpg = recipes.find("gpg").but({"credit.weigh": ()})
    plain = gap(group.gradient(gpg, size), group.true_gradient() * (size - 1) / size)
    drawn = list(group.samples(size))
    step = torch.zeros_like(group.policy.logits)
    for first, left in drawn:
        for second, right in drawn:
            rows = [group.row(n, "0") for n in left] + [group.row(n, "1") for n in right]
            step += first * second * group.step(recipes.find("gpg"), rows, (*left, *right))
    idle = 0.3**size + 0.7**size
    scaled = gap(step, group.true_gradient() * (size - 1) / size * (1 + idle))
    return finding(
        f"alpha = 1: {plain:.1e} from (G-1)/G grad J; two groups with alpha: {scaled:.1e} from that times "
        f"{1 + idle:.3f}",
        plain < EXACT,
        scaled < EXACT,
    )


@claim("On par with GRPO with less memory and time than GRPO with its KL term", slow=True)
def _gpg_is_on_par() -> Finding:
    world = guessing()
    found: dict[str, list[float]] = {}
    seconds, sets = {}, {}
    for name in ("grpo-kl", "gpg", "grpo"):
        benches = [trained(name, world, 80, seed, start=mixed) for seed in SEEDS]
        found[name] = [bench.success() for bench in benches]
        times = sorted(metrics["time/update"] for bench in benches for metrics in bench.history)
        seconds[name] = times[len(times) // 4]
        sets[name] = 1 + (benches[0].learner.reference is not None)
    gap = statistics.fmean(found["gpg"]) - statistics.fmean(found["grpo"])
    return Finding(
        gap > -0.02 and sets["gpg"] == 1 and sets["grpo-kl"] == 2 and seconds["gpg"] < seconds["grpo-kl"],
        f"success GPG {spread(found['gpg'])}, GRPO {spread(found['grpo'])}; sets of weights GPG {sets['gpg']}, GRPO "
        f"with its KL term {sets['grpo-kl']}; ms per update {1e3 * seconds['gpg']:.1f} and "
        f"{1e3 * seconds['grpo-kl']:.1f}",
    )
