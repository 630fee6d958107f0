"""Statistics of a group, exactly: through the recipes themselves, by enumeration or against plain arithmetic.

What the same rows claim of training is in `group_statistics_training`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import torch
from torch import Tensor

from hocket import recipes
from hocket.checks.check import Check, Finding
from hocket.credit import BetaDensity
from hocket.credit.weights import noise_weight
from hocket.keys import Key
from hocket.lab import Tabular, World
from hocket.lab.groups import Document, Groups, document, first_advantages, gap, recorded
from hocket.microscope import look
from hocket.recipe import Recipe
from hocket.train.learner import Learner

EXACT = 1e-12

# ---------------------------------------------------------------- worlds


def bandit(success: float, wrong: int = 2) -> Groups:
    """One right answer of probability `success`, the rest shared unevenly by `wrong` wrong ones."""
    world = World(1, 1 + wrong, 1, lambda question, answer: float(answer[0] == 0))
    policy = Tabular(world)
    shares = [(1 - success) * 2 * (place + 1) / (wrong * (wrong + 1)) for place in range(wrong)]
    policy.logits.data[:] = torch.tensor([success, *shares], dtype=torch.float64).log()
    return Groups(policy)


def sentences(reward: dict[tuple[int, ...], float]) -> Groups:
    """Answers (0), (1 0) and (1 1), of unequal length, under an uneven policy."""
    world = World(1, 2, 2, lambda question, answer: reward.get(answer, 0.0), end=0)
    policy = Tabular(world)
    policy.logits.data[:] = torch.tensor([[0.3, -0.2], [0.5, 0.1]], dtype=torch.float64)
    return Groups(policy)


def flat(gradients: Sequence[Sequence[float]]) -> Tensor:
    """All numbers in one row."""
    return torch.tensor([value for row in gradients for value in row], dtype=torch.float64)


def gradients(recipe: Recipe, batch: Document) -> Tensor:
    """d loss / d logp of every decision, in the order of the batch."""
    return flat(look(recipe, batch)["gradient"])


def finding(saw: str, *conditions: bool) -> Finding:
    """Holds when all conditions do."""
    return Finding(all(conditions), saw)


def _binary_groups(size: int) -> list[list[float]]:
    """A group of `size` for every number of successes, 0 to all."""
    return [[1.0] * right + [0.0] * (size - right) for right in range(size + 1)]


# ---------------------------------------------------------------- grpo

GRPO_EXACT = recipes.find("grpo").but({"credit.epsilon": 0.0})


def _standardised() -> Finding:
    rng = Key.of(1).numpy()
    groups = [rng.normal(size=size).tolist() for size in (2, 3, 5, 8)] + [[0.7] * 4]
    means, deviations = [], []
    advantages = first_advantages(GRPO_EXACT, recorded(groups))
    for group in groups:
        own, advantages = advantages[: len(group)], advantages[len(group) :]
        means.append(abs(statistics.fmean(own)))
        deviations.append(statistics.stdev(own))
    return finding(
        f"largest |mean| {max(means):.1e}, sample deviations (ddof 1) {[round(one, 12) for one in deviations]}",
        max(means) < EXACT,
        all(abs(one - 1) < EXACT for one in deviations[:-1]),
        deviations[-1] == 0,
    )


def _k3_of_a_distribution() -> Finding:
    """The KL term of every action alone, averaged exactly over the policy."""
    policy = torch.tensor([0.2, -0.4, 1.1, 0.0], dtype=torch.float64, requires_grad=True)
    reference = torch.log_softmax(torch.tensor([0.5, 0.3, -0.2, -1.0], dtype=torch.float64), 0)
    logp = torch.log_softmax(policy, 0)
    recipe = recipes.find("grpo-kl").but({"regularisers.0.coefficient": 1.0})
    values, slopes = [], []
    for now, old in zip(logp.tolist(), reference.tolist(), strict=True):
        seen = look(recipe, document([{"group": "0", "scores": {"r": 1.0}, "logp": [now], "logp_ref": [old]}]))
        values.append(seen["loss"])
        slopes.append(seen["gradient"][0][0])
    chance = logp.detach().exp()
    forward = (logp.exp() * (logp - reference)).sum()
    backward = (reference.exp() * (reference - logp)).sum()
    value = float((chance * torch.tensor(values, dtype=torch.float64)).sum())
    step = chance * torch.tensor(slopes, dtype=torch.float64)
    expected = step - chance * step.sum()
    (of_forward,) = torch.autograd.grad(forward, policy, retain_graph=True)
    (of_backward,) = torch.autograd.grad(backward, policy)
    return finding(
        f"E[k3] - KL(pi||ref) = {value - forward.item():.1e}; gradient against KL(ref||pi) "
        f"{gap(expected, of_backward):.1e}, against KL(pi||ref) {gap(expected, of_forward):.2f}; least k3 "
        f"{min(values):.3f}",
        abs(value - forward.item()) < EXACT,
        gap(expected, of_backward) < EXACT,
        gap(expected, of_forward) > 0.05,
        min(values) >= 0,
    )


def processes(steps: Sequence[Sequence[Sequence[float]]], length: int = 2) -> Document:
    """Groups of trajectories given by their step rewards, `length` decisions a step, scored at a step's last one."""
    rows = []
    for number, group in enumerate(steps):
        for rewards in group:
            scores = [value for reward in rewards for value in (*[0.0] * (length - 1), reward)]
            rows.append(
                {
                    "group": str(number),
                    "scores": {},
                    "token_scores": {"reward/decision": scores},
                    "segment": [place for place, _ in enumerate(rewards) for _ in range(length)],
                    "logp": [-0.4] * len(scores),
                }
            )
    return document(rows)


def _process_with_one_step() -> Finding:
    rng = Key.of(2).numpy()
    groups = [rng.normal(size=4).tolist(), [1.0, 0.0, 0.0], [0.5, 0.5]]
    outcome = gradients(recipes.find("grpo"), recorded(groups, lengths=3))
    process = gradients(recipes.find("grpo-process"), recorded(groups, lengths=3))
    apart = float((outcome - process).abs().max())
    return finding(f"largest difference of gradients {apart:.1e}", apart < 1e-15, float(outcome.abs().max()) > 0)


def _process_by_hand() -> Finding:
    steps = [[[0.1, 0.9, 0.4], [0.3], [0.8, 0.2]], [[1.0, 1.0], [1.0]]]
    found = look(recipes.find("grpo-process").but({"credit.epsilon": 0.0}), processes(steps))["advantages"]
    worst, place = 0.0, 0
    for group in steps:
        pool = [reward for rewards in group for reward in rewards]
        mean, deviation = statistics.fmean(pool), statistics.stdev(pool)
        for rewards in group:
            normal = [(reward - mean) / deviation if deviation else 0.0 for reward in rewards]
            expected = [math.fsum(normal[step:]) for step, _ in enumerate(rewards) for _ in range(2)]
            worst = max(worst, *(abs(a - b) for a, b in zip(found[place], expected, strict=True)))
            place += 1
    return finding(f"largest difference from the sum by hand {worst:.1e}", worst < EXACT)


def _on_policy_reinforce() -> Finding:
    """At pi = pi_old the gradient is -A_i / (G |o_i|) at every decision."""
    group, lengths = [1.0, 0.0, 0.25, 1.0], [3, 1, 7, 4]
    batch = recorded([group], lengths=[lengths])
    found = look(GRPO_EXACT, batch)["gradient"]
    mean, deviation = statistics.fmean(group), statistics.stdev(group)
    worst = max(
        abs(value + (reward - mean) / deviation / (len(group) * size))
        for row, reward, size in zip(found, group, lengths, strict=True)
        for value in row
    )
    return finding(f"largest difference from -A_i/(G |o_i|) {worst:.1e}", worst < EXACT)


def _reference_of_a_round() -> Finding:
    """A phase of a plan makes its learners anew, and a learner's reference is the policy as it then is."""
    policy = bandit(0.3).policy
    recipe = recipes.find("grpo-iterative")
    first = Learner(policy, recipe, total_steps=1)
    policy.logits.data += torch.arange(3, dtype=torch.float64)
    second = Learner(policy, recipe, total_steps=1)
    assert isinstance(first.reference, Tabular)
    assert isinstance(second.reference, Tabular)
    old = float((first.reference.logits - policy.logits).detach().abs().max())
    new = float((second.reference.logits - policy.logits).detach().abs().max())
    return finding(
        f"distance of the reference from the policy: first round {old}, second round {new}", old > 1, new == 0
    )


# ---------------------------------------------------------------- dr-grpo


def _dr_grpo_is_the_policy_gradient() -> Finding:
    group, horizon = sentences({(1, 0): 1.0, (0,): 0.25}), 7
    recipe = recipes.find("dr-grpo").but({"objective.horizon": horizon})
    gaps = [
        gap(group.gradient(recipe, size), group.true_gradient() * (size - 1) / size / horizon) for size in (2, 3, 4, 6)
    ]
    return finding(
        f"G = 2, 3, 4, 6, answers of length 1 and 2: {max(gaps):.1e} from (G-1)/G grad J / L", max(gaps) < EXACT
    )


def _grpo_weighs_prompts() -> Finding:
    """GRPO without its length term, ddof 0: the factor on a prompt's gradient as G grows."""
    recipe = GRPO_EXACT.but({"objective.aggregate": "sequence-sum", "credit.ddof": 0})
    saw, worst, far = [], 0.0, 0.0
    for success in (0.1, 0.5):
        group = bandit(success, wrong=1)
        factors = {}
        for size in (4, 16, 48):
            step, true = group.gradient(recipe, size), group.true_gradient()
            factors[size] = float((step * true).sum() / true.square().sum())
            worst = max(worst, gap(step, factors[size] * true))
        limit = 1 / math.sqrt(success * (1 - success))
        far = max(far, abs(factors[48] / limit - 1))
        saw.append(f"p {success}: {', '.join(f'{one:.3f}' for one in factors.values())} -> {limit:.3f}")
    return finding(f"{'; '.join(saw)} (G = 4, 16, 48)", worst < EXACT, far < 0.1)


def _wrong_answers_of_two_lengths() -> Finding:
    batch = recorded([[1.0, 0.0, 0.0]], lengths=[[5, 10, 100]])
    rows = {name: look(recipes.find(name), batch)["gradient"] for name in ("grpo", "dr-grpo")}
    ratio = {name: row[1][0] / row[2][0] for name, row in rows.items()}
    return finding(
        f"per-token gradient of the short wrong answer over the long one's: GRPO {ratio['grpo']:.6f}, "
        f"Dr. GRPO {ratio['dr-grpo']:.6f}",
        abs(ratio["grpo"] - 10) < 1e-9,
        abs(ratio["dr-grpo"] - 1) < EXACT,
    )


# ---------------------------------------------------------------- two-grpo


def _pairs_and_groups_point_alike() -> Finding:
    recipe = recipes.find("two-grpo").but({"credit.epsilon": 0.0, "objective.aggregate": "sequence-sum"})
    saw, worst = [], 0.0
    group = sentences({(1, 0): 1.0})
    rate = group.success
    for size in (2, 4, 8, 16):
        shares = [(math.comb(size, k) * rate**k * (1 - rate) ** (size - k), k / size) for k in range(size + 1)]
        factor = math.fsum(chance * math.sqrt(share * (1 - share)) for chance, share in shares)
        worst = max(worst, gap(group.gradient(recipe, size), factor * group.contrast()))
        saw.append(f"c_{size} {factor:.4f}")
    return finding(
        f"p {rate:.3f}, p(1-p) {rate * (1 - rate):.4f}: {', '.join(saw)}, sqrt(p(1-p)) "
        f"{math.sqrt(rate * (1 - rate)):.4f}; gradients within {worst:.1e}",
        worst < EXACT,
    )


def _pairs_are_plus_and_minus_one() -> Finding:
    recipe = recipes.find("two-grpo").but({"credit.epsilon": 0.0})
    found = first_advantages(recipe, recorded([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]))
    sample = first_advantages(recipe.but({"credit.ddof": 1}), recorded([[1.0, 0.0]]))
    loss = look(recipe.but({"objective.aggregate": "sequence-sum"}), recorded([[1.0, 0.0]]))["gradient"]
    return finding(
        f"advantages {found}, with the sample deviation {[round(one, 4) for one in sample]}, gradient {loss}",
        found == [1.0, -1.0, 0.0, 0.0, 0.0, 0.0],
        abs(sample[0] - math.sqrt(0.5)) < EXACT,
        loss == [[-0.5], [0.5]],
    )


# ---------------------------------------------------------------- gpg


def _gpg_is_grpo_without_its_extras() -> Finding:
    batch = recorded([[1.0, 0.0, 0.0], [0.2, 0.9, 0.4]], lengths=[[2, 5, 1], [3, 3, 8]])
    token_mean = recipes.find("grpo").but({"objective.aggregate": "token-mean", "objective.low": 1.0})
    gpg = recipes.find("gpg")
    centred = gap(gradients(gpg, batch), gradients(token_mean.but({"credit.scale": None}), batch))
    scaled = gap(gradients(gpg.but({"credit.scale": "std"}), batch), gradients(token_mean, batch))
    return finding(f"mean-centred {centred:.1e}, with F_norm = std {scaled:.1e}", centred < EXACT, scaled < EXACT)


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


# ---------------------------------------------------------------- loop


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


def _leave_one_out_is_unbiased() -> Finding:
    group = bandit(0.2, wrong=3)
    gaps = [gap(group.gradient(recipes.find("loop"), size), group.true_gradient()) for size in (2, 3, 4)]
    return finding(f"K = 2, 3, 4: {max(gaps):.1e} from the true gradient", max(gaps) < EXACT)


# ---------------------------------------------------------------- remax


def _greedy_row(group: Groups, reward: float | None = None) -> dict[str, object]:
    """The most likely answer as the baseline."""
    best = max(range(len(group.answers)), key=lambda number: group.chances[number])
    row = group.row(best, source="baseline")
    return row if reward is None else {**row, "scores": {"reward": reward}}


def _remax_is_unbiased() -> Finding:
    group = sentences({(1, 0): 1.0, (0,): 0.25})
    recipe = recipes.find("remax")
    base = _greedy_row(group)
    gaps = [gap(group.gradient(recipe, size, [base]), group.true_gradient()) for size in (1, 2, 3)]
    return finding(f"1, 2, 3 samples: {max(gaps):.1e} from the true gradient", max(gaps) < EXACT)


def _remax_ignores_offsets() -> Finding:
    def prompts(*offsets: float) -> Document:
        return document(
            [
                {"group": str(group), "scores": {"reward": reward + offset}, "logp": [-1.0, -0.5], "source": source}
                for group, offset in enumerate(offsets)
                for reward, source in ((1.0, "own"), (0.5, "own"), (0.25, "baseline"))
            ]
        )

    recipe = recipes.find("remax")
    same = torch.equal(gradients(recipe, prompts(0.0, 8.0)), gradients(recipe, prompts(0.0, 0.0)))
    return finding(f"gradients with offsets 0 and 8, and with none, are bit-equal: {same}", same)


def _remax_variance() -> Finding:
    """Prompts whose rewards have offsets: the variance of a step, exactly."""
    offsets, remax, reinforce = (0.0, 2.0, 5.0), [], []
    for offset in offsets:
        group = bandit(0.4)
        group.rewards = [reward + offset for reward in group.rewards]
        remax.append(group.moments(recipes.find("remax"), 1, [_greedy_row(group)])[1])
        reinforce.append(group.moments(recipes.find("reinforce"), 1)[1])
    return finding(
        f"offsets {offsets}: ReMax {[round(one, 4) for one in remax]}, "
        f"REINFORCE {[round(one, 4) for one in reinforce]} (without an offset, the smaller)",
        max(remax) - min(remax) < EXACT,
        math.fsum(remax) < math.fsum(reinforce) / 5,
    )


def _remax_fades() -> Finding:
    """The mean size of the advantage as the policy becomes deterministic."""
    sizes = []
    for success in (0.6, 0.9, 0.99, 0.9999):
        group = bandit(success)
        total = 0.0
        for chance, drawn in group.samples(1):
            rows = [group.row(drawn[0]), _greedy_row(group)]
            total += chance * abs(first_advantages(recipes.find("remax"), document(rows))[0])
        sizes.append(total)
    return finding(
        f"E|A| at p = 0.6, 0.9, 0.99, 0.9999: {[round(one, 5) for one in sizes]}",
        sizes == sorted(sizes, reverse=True),
        sizes[-1] < 1e-3,
    )


def _remax_to_go() -> Finding:
    """With a KL penalty in the reward: return-to-go minus the baseline."""
    recipe = recipes.find("remax").but({"credit.to_go": True})
    rows = [
        {"group": "0", "scores": {"r": 1.0}, "logp": [-1.0] * 3, "token_scores": {"kl": [-0.1, -0.2, -0.3]}},
        {"group": "0", "scores": {"r": 0.5}, "logp": [-1.0], "source": "baseline", "token_scores": {"kl": [0.0]}},
    ]
    found = look(recipe, document(rows))["advantages"][0]
    expected = [1 - 0.6 - 0.5, 1 - 0.5 - 0.5, 1 - 0.3 - 0.5]
    worst = max(abs(a - b) for a, b in zip(found, expected, strict=True))
    return finding(f"advantages {[round(one, 3) for one in found]}", worst < EXACT)


# ---------------------------------------------------------------- mapo


def _mapo_table() -> Finding:
    size = 8
    mapo = recipes.find("mapo").but({"credit.weigh.0.ddof": 0, "credit.weigh.0.epsilon": 0.0})
    plain = GRPO_EXACT.but({"credit.ddof": 0})
    groups = _binary_groups(size)
    mixed, normal = first_advantages(mapo, recorded(groups)), first_advantages(plain, recorded(groups))
    worst, mirrored, ordered = 0.0, True, True
    for right, group in enumerate(groups):
        own = dict(zip(group, mixed[right * size : right * size + size], strict=True))
        other = dict(zip(group, normal[right * size : right * size + size], strict=True))
        rate = right / size
        lam = 1 - 4 * rate * (1 - rate)
        for reward, advantage in own.items():
            if 0 < right < size:
                standard = (reward - rate) / math.sqrt(rate * (1 - rate))
                expected = (1 - lam) * standard + lam * (reward - rate) / rate
            else:
                expected = 0.0
            worst = max(worst, abs(advantage - expected))
        if 0 < right < size and right != size / 2:
            back = dict(zip(groups[size - right], mixed[(size - right) * size :][:size], strict=True))
            mirrored &= abs(own[1.0] + back[0.0]) < EXACT
            ordered &= abs(own[0.0]) < abs(other[0.0]) if rate > 0.5 else own[1.0] > other[1.0]
    one_right, one_wrong = mixed[size : 2 * size][0], mixed[(size - 1) * size : size * size][-1]
    half = mixed[4 * size : 5 * size] == normal[4 * size : 5 * size]
    return finding(
        f"table within {worst:.1e}; one right {one_right:.3f} (GRPO 2.646), one wrong {one_wrong:.3f} (GRPO -2.646); "
        f"mirror symmetric: {mirrored}; half right equals GRPO: {half}",
        worst < EXACT,
        not mirrored,
        ordered,
        half,
        round(one_right, 3) == 5.095,
        round(one_wrong, 3) == -1.720,
    )


# ---------------------------------------------------------------- bnpo


def _bnpo_limits() -> Finding:
    groups = _binary_groups(8)
    bnpo = recipes.find("bnpo")
    key = "credit.credit.weigh"
    ones = first_advantages(bnpo.but({key: (BetaDensity(alpha=1.0, beta=1.0),)}), recorded(groups))
    centred = first_advantages(recipes.find("dr-grpo"), recorded(groups))
    halves = first_advantages(bnpo.but({key: (BetaDensity(alpha=1.5, beta=1.5),)}), recorded(groups))
    normal = first_advantages(GRPO_EXACT.but({"credit.ddof": 0}), recorded(groups))
    ratios = [a / b for a, b in zip(halves, normal, strict=True) if b]
    plain = max(abs(a - b) for a, b in zip(ones, centred, strict=True))
    return finding(
        f"alpha = beta = 1: {plain:.1e} from R - mean; 3/2: ratio to GRPO {min(ratios):.6f} to {max(ratios):.6f} "
        f"(pi/8 = {math.pi / 8:.6f}); all right and all wrong: {halves[-1]} and {halves[0]}",
        plain < EXACT,
        max(ratios) - min(ratios) < EXACT,
        halves[0] == halves[-1] == 0,
    )


def _bnpo_fit() -> Finding:
    groups = [
        [1.0, 0.0, 0.0, 0.0],
        [1.0, 1.0, 0.0, 0.0],
        [1.0, 1.0, 1.0, 1.0],
        [0.0, 0.0, 0.0, 0.0],
        [1.0, 1.0, 1.0, 0.0],
    ]
    found = first_advantages(recipes.find("bnpo"), recorded(groups))
    rates = [statistics.fmean(group) for group in groups]
    mean, variance = statistics.fmean(rates), statistics.variance(rates)
    k = mean * (1 - mean) / variance - 1
    alpha, beta = max(1.0, 1 + k * mean / 3), max(1.0, 1 + k * (1 - mean) / 3)
    norm = math.gamma(alpha + beta) / math.gamma(alpha) / math.gamma(beta)
    worst = 0.0
    for number, (group, rate) in enumerate(zip(groups, rates, strict=True)):
        density = norm * rate ** (alpha - 1) * (1 - rate) ** (beta - 1)
        for place, reward in enumerate(group):
            expected = (reward - rate) / density if density else 0.0
            worst = max(worst, abs(found[4 * number + place] - expected))
    return finding(f"alpha {alpha:.3f}, beta {beta:.3f}: {worst:.1e} from the formula by hand", worst < EXACT)


def _bnpo_variance() -> Finding:
    """E[p (1 - p) / f(p)^2] over simulated p ~ Beta(a, b), on a grid of (alpha, beta) around the claimed minimum.

    It is the variance of (R - p) grad log pi / f(p) when the score function has unit variance and does not depend on R.
    """
    saw, near = [], True
    for a, b in ((3.0, 6.0), (1.5, 1.5)):
        rates = torch.from_numpy(Key.of(5).derive(str(a)).numpy().beta(a, b, 100_000)).clamp(1e-6, 1 - 1e-6)

        def variance(alpha: float, beta: float, rates: Tensor = rates) -> float:
            norm = math.lgamma(alpha + beta) - math.lgamma(alpha) - math.lgamma(beta)
            log = norm + (alpha - 1) * rates.log() + (beta - 1) * torch.log1p(-rates)
            return float((rates * (1 - rates) * (-2 * log).exp()).mean())

        claimed = (1 + a / 3, 1 + b / 3)
        steps = [0.1 * place for place in range(-3, 4)]
        grid = {(i, j): variance(claimed[0] + i, claimed[1] + j) for i in steps for j in steps}
        best = min(grid, key=lambda place: grid[place])
        others = variance(1.0, 1.0), variance(1.5, 1.5)
        near &= max(abs(best[0]), abs(best[1])) < 0.15 and min(others) > 0.999 * grid[best]
        saw.append(
            f"a {a}, b {b}: least at ({claimed[0] + best[0]:.2f}, {claimed[1] + best[1]:.2f}), claimed "
            f"({claimed[0]:.2f}, {claimed[1]:.2f}); variance {grid[best]:.4f}, "
            f"centred {others[0]:.4f}, GRPO {others[1]:.4f}"
        )
    return finding("; ".join(saw), near)


def _bnpo_parts() -> Finding:
    """Several rewards: each normalised apart, then averaged."""
    accuracy, form = [1.0, 0.0, 0.0, 1.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0, 1.0, 1.0]
    rows = [
        {"group": str(number // 3), "scores": {"accuracy": a, "format": f}, "logp": [-1.0]}
        for number, (a, f) in enumerate(zip(accuracy, form, strict=True))
    ]
    bnpo = recipes.find("bnpo")
    found = first_advantages(bnpo.but({"credit.scores": ("accuracy", "format")}), document(rows))
    apart = [first_advantages(bnpo, recorded([part[:3], part[3:]])) for part in (accuracy, form)]
    worst = max(abs(x - (a + f) / 2) for x, a, f in zip(found, *apart, strict=True))
    return finding(f"{worst:.1e} from the mean of both", worst < EXACT)


# ---------------------------------------------------------------- ngrpo


def _ngrpo_table() -> Finding:
    recipe, worst, above, saw = recipes.find("ngrpo").but({"credit.epsilon": 0.0}), 0.0, -math.inf, []
    for size in (1, 2, 4, 8):
        groups = _binary_groups(size)
        found = first_advantages(recipe, recorded(groups))
        wrong, right = found[:size], found[-size:]
        worst = max(worst, *(abs(one + 1 / math.sqrt(size + 1)) for one in wrong), *(abs(one) for one in right))
        above = max(above, *(statistics.fmean(found[size * k : size * k + size]) for k in range(size + 1)))
        saw.append(f"G {size}: {wrong[0]:.4f}")
    return finding(
        f"all wrong {', '.join(saw)}; {worst:.1e} from -1/sqrt(G+1) and 0; largest mean of the real ones {above:.1e}",
        worst < EXACT,
        above <= EXACT,
    )


# ---------------------------------------------------------------- s-grpo-noise


def _noise_free_weight() -> Finding:
    groups = _binary_groups(8)
    plain = first_advantages(recipes.find("grpo"), recorded(groups))
    clean = first_advantages(recipes.find("s-grpo-noise").but({"credit.weigh.0.flip": 0.0}), recorded(groups))
    worst = max(abs(a - b) for a, b in zip(plain, clean, strict=True))
    noisy = recipes.find("s-grpo-noise").but({"credit.weigh.0.flip": 0.2, "credit.weigh.0.success": 0.5})
    lone = first_advantages(noisy, recorded([groups[1], groups[7], groups[4]]))
    even = abs(lone[-1]) / abs(first_advantages(recipes.find("grpo"), recorded([groups[4]]))[0])
    return finding(
        f"p = 0: {worst:.1e} from GRPO; p = 0.2: one odd label of eight gets {max(map(abs, lone[:16]))}, "
        f"an even group weight {even:.4f}",
        worst < 1e-6,
        max(map(abs, lone[:16])) == 0,
        abs(even - 0.6) < 1e-6,
    )


def _noise_weight_is_least_squares() -> Finding:
    """Clean rewards, flips, population statistics of many samples: the best factor, and the weight's."""
    rng, count = Key.of(8).numpy(), 400_000
    saw, worst = [], 0.0
    for rate, flip in ((0.5, 0.2), (0.3, 0.1), (0.15, 0.2), (0.9, 0.05)):
        clean = (rng.random(count) < rate).astype(float)
        noisy = abs(clean - (rng.random(count) < flip))
        left, right = ((one - one.mean()) / one.std() for one in (noisy, clean))
        best = float((left * right).mean() / (left * left).mean())
        observed = rate * (1 - flip) + (1 - rate) * flip
        weight = float(noise_weight(torch.tensor(observed, dtype=torch.float64), flip, 0.0))
        worst = max(worst, abs(best - weight))
        saw.append(f"rate {rate}, p {flip}: {weight:.4f} against {best:.4f}")
    return finding("; ".join(saw), worst < 4 / math.sqrt(count))


# ---------------------------------------------------------------- seed-grpo


def answered(groups: Sequence[Sequence[tuple[str | None, float]]], logp: float = -1.0) -> Document:
    """Groups of answers given by label and reward, all equally likely."""
    return document(
        [
            {"group": str(number), "scores": {"reward": reward}, "logp": [logp], "label": label}
            for number, group in enumerate(groups)
            for label, reward in group
        ]
    )


def _seed_factors() -> Finding:
    alpha = 0.4
    recipe = recipes.find("seed-grpo").but({"credit.weigh.0.alpha": alpha})
    apart = [("a", 1.0), ("b", 0.0), ("c", 0.0), ("d", 0.5)]
    alike = [("a", reward) for _, reward in apart]
    renamed = [({"a": "x", "b": "y", "c": "z", "d": "w"}[label], reward) for label, reward in apart]
    centred = first_advantages(recipes.find("dr-grpo"), answered([apart]))
    for estimator in ("likelihood", "count"):
        this = recipe.but({"credit.weigh.0.mass": estimator})
        most, none, other = (first_advantages(this, answered([group])) for group in (apart, alike, renamed))
        base = first_advantages(this.but({"credit.weigh.0.alpha": 0.0}), answered([apart]))
        right = (
            max(abs(a - (1 - alpha) * c) for a, c in zip(most, centred, strict=True)) < EXACT,
            none == centred,
            other == most,
            base == centred,
        )
        if not all(right):
            return Finding(False, f"{estimator}: {right}")
    return Finding(True, f"factor {most[0] / centred[0]:.3f} for four answers, {none[0] / centred[0]:.3f} for one")


def _seed_estimators() -> Finding:
    """Both entropies by hand, on answers of unequal likelihood; the likelihood form beyond log G is cut."""
    logps, labels = [-0.2, -3.0, -1.0, -4.5], ["a", "b", "a", "c"]
    rows = [
        {"group": "0", "scores": {"reward": float(n == 0)}, "logp": [logp], "label": label}
        for n, (logp, label) in enumerate(zip(logps, labels, strict=True))
    ]
    total = math.fsum(math.exp(one) for one in logps)
    shares = [(math.exp(-0.2) + math.exp(-1.0)) / total, math.exp(-3.0) / total, math.exp(-4.5) / total]
    likelihood = -math.fsum(math.log(one) for one in shares) / 3
    count = -math.fsum(one * math.log(one) for one in (0.5, 0.25, 0.25))
    factors = {}
    for estimator in ("likelihood", "count"):
        recipe = recipes.find("seed-grpo").but({"credit.weigh.0.mass": estimator, "credit.weigh.0.alpha": 0.5})
        factors[estimator] = first_advantages(recipe, document(rows))[0] / 0.75
    expected = {
        "likelihood": 1 - 0.5 * min(likelihood / math.log(4), 1.0),
        "count": 1 - 0.5 * count / math.log(4),
    }
    worst = max(abs(factors[name] - expected[name]) for name in factors)
    return finding(
        f"SE {likelihood:.3f} by likelihood (log G = {math.log(4):.3f}), {count:.3f} by count; "
        f"factors within {worst:.1e}",
        worst < EXACT,
        likelihood > math.log(4),
    )


# ---------------------------------------------------------------- vital-dgrpo


def _difficulty_weights() -> Finding:
    groups = [[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0]]
    weighed = first_advantages(recipes.find("vital-dgrpo"), recorded(groups))
    plain = first_advantages(recipes.find("grpo"), recorded(groups))
    factors = [a / b for a, b in zip(weighed, plain, strict=True)]
    by_group = factors[::4]
    equal = [groups[1], groups[1][::-1], groups[1]]
    same = torch.equal(
        gradients(recipes.find("vital-dgrpo"), recorded(equal)), gradients(recipes.find("grpo"), recorded(equal))
    )
    return finding(
        f"weights {[round(one, 4) for one in by_group]} at means 1/4, 1/2, 3/4, mean {statistics.fmean(factors):.12f}; "
        f"equal difficulties give GRPO bit for bit: {same}",
        by_group == sorted(by_group, reverse=True),
        abs(statistics.fmean(factors) - 1) < EXACT,
        same,
    )


# ---------------------------------------------------------------- pvpo and aapo


def _static_baseline_is_unbiased() -> Finding:
    """V is remembered from before; groups of 1, 2 and 3 on a bandit; then divided by their deviation."""
    group, value = bandit(0.3), 0.7
    recipe, known = recipes.find("pvpo"), {"credit": {"values": {"0": value}}}
    gaps, spread = [], []
    for size in (1, 2, 3):
        mean, variance = group.moments(recipe, size, state=known)
        gaps.append(gap(mean, group.true_gradient()))
        single = [(reward - value) * slope for reward, slope in zip(group.rewards, group.slopes, strict=True)]
        square = math.fsum(c * float(step.square().sum()) for c, step in zip(group.chances, single, strict=True))
        spread.append(abs(variance - (square - float(group.true_gradient().square().sum())) / size))
    divided = _sum_of_divided(group, 3, value)
    return finding(
        f"G = 1, 2, 3: {max(gaps):.1e} from the true gradient, variance within {max(spread):.1e} of (E|A grad|^2 - "
        f"|grad J|^2)/G; divided by the group's deviation, {divided:.2f} off its best multiple",
        max(gaps) < EXACT,
        max(spread) < EXACT,
        divided > 0.05,
    )


def _sum_of_divided(group: Groups, size: int, value: float) -> float:
    """How far the expected gradient with A = (R - V)/(std + 0.1) is from any multiple of the true one.

    Rewards 0, 1/2 and 1, for with two values symmetry hides the bias.
    """
    group.rewards = [1.0, 0.5, 0.0]
    total = torch.zeros_like(group.policy.logits)
    for chance, drawn in group.samples(size):
        rewards = [group.rewards[n] for n in drawn]
        for n in drawn:
            advantage = (group.rewards[n] - value) / (statistics.stdev(rewards) + 0.1)
            total += chance * advantage * group.slopes[n] / size
    true = group.true_gradient()
    factor = float((total * true).sum() / true.square().sum())
    return gap(total, factor * true)


def _rows_with_reference(own: Sequence[float], reference: Sequence[float]) -> Document:
    rows = [{"group": "0", "scores": {"reward": one}, "logp": [-0.5 - 0.001 * n]} for n, one in enumerate(own)]
    rows += [
        {"group": "0", "scores": {"reward": one}, "logp": [-0.7 - 0.001 * n], "source": "baseline"}
        for n, one in enumerate(reference)
    ]
    return document(rows)


def _pvpo_measures_once() -> Finding:
    """A reference that was measured earlier serves later groups; an unmeasured scenario is left out."""
    pvpo = recipes.find("pvpo")
    measured = first_advantages(pvpo, _rows_with_reference([1.0, 0.0], [1.0, 0.0, 0.0, 0.0]))[:2]
    later = recorded([[1.0]])
    remembered = look(pvpo, {**later, "state": {"credit": {"values": {"0": 0.25}}}})
    unknown = look(pvpo, later)
    return finding(
        f"advantages {measured}; remembered {remembered['advantages']}; unmeasured kept: {unknown['kept']}",
        measured == [0.75, -0.25],
        remembered["advantages"] == [[0.75]],
        unknown["kept"] == [False],
    )


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


def _aapo_without_margin() -> Finding:
    batch = _rows_with_reference([1.0, 0.0, 0.4, 0.4], [0.0, 1.0, 0.5, 0.0])
    bare = recipes.find("aapo").but({"credit.low": 0.0, "credit.high": 0.0})
    plain = recipes.find("gpg").but({"credit.scale": "std", "credit.weigh": ()})
    apart = gap(gradients(bare, batch), gradients(plain, batch))
    return finding(f"{apart:.1e} from group-relative REINFORCE with a token mean", apart < EXACT)


CHECKS = (
    Check(
        "grpo",
        "Advantages have mean 0 and (sample) standard deviation 1, and are 0 in an all-equal group",
        _standardised,
        "arXiv:2402.03300, 4.1.2",
    ),
    Check(
        "grpo",
        "k3 is not negative, its value is unbiased for KL(pi || ref), its gradient that of KL(ref || pi)",
        _k3_of_a_distribution,
        "arXiv:2402.03300, equation 4; Schulman 2020; gradient derived here",
    ),
    Check(
        "grpo", "The process form with one final step equals the outcome form", _process_with_one_step, "derived here"
    ),
    Check(
        "grpo",
        "The process form sums normalised step rewards from each token on",
        _process_by_hand,
        "arXiv:2402.03300, 4.1.3",
    ),
    Check(
        "grpo",
        "At pi = pi_old the gradient is REINFORCE's, each sequence weighted 1/(G |o_i|)",
        _on_policy_reinforce,
        "derived here",
    ),
    Check(
        "grpo",
        "The iterative form resets the reference to the policy at each round",
        _reference_of_a_round,
        "arXiv:2402.03300, algorithm 1",
    ),
    Check(
        "dr-grpo",
        "Its expected gradient is (G-1)/G of the true one, over L",
        _dr_grpo_is_the_policy_gradient,
        "arXiv:2503.20783; factor derived here",
    ),
    Check(
        "dr-grpo",
        "GRPO rescales each prompt's gradient by a factor that tends to 1/sqrt(p(1-p))",
        _grpo_weighs_prompts,
        "arXiv:2503.20783, section 3",
    ),
    Check(
        "dr-grpo",
        "Wrong answers of 10 and 100 tokens: equal per-token gradient, ten times different under GRPO",
        _wrong_answers_of_two_lengths,
        "arXiv:2503.20783, section 3",
    ),
    Check(
        "two-grpo",
        "For G = 2, 4, 8, 16 the expected gradient is c_G(p) times one direction, with the binomial c_G",
        _pairs_and_groups_point_alike,
        "derived here",
    ),
    Check(
        "two-grpo",
        "A decided pair has advantages +1 and -1 and contrasts its two answers, an undecided one 0",
        _pairs_are_plus_and_minus_one,
        "arXiv:2510.00977",
    ),
    Check(
        "gpg",
        "On-policy it is token-mean, mean-centred GRPO without clip and KL; with F_norm = std, GRPO",
        _gpg_is_grpo_without_its_extras,
        "arXiv:2504.02546",
    ),
    Check(
        "gpg",
        "With idle groups it is the gradient of the others alone if lengths are equal, and not if they differ",
        _gpg_undoes_idle_groups,
        "arXiv:2504.02546; the second half derived here",
    ),
    Check(
        "gpg",
        "On a bandit alpha = 1 gives (G-1)/G of the true gradient; alpha keeps direction and enlarges",
        _gpg_on_a_bandit,
        "derived here",
    ),
    Check("loop", "A_k = K/(K-1) (R_k - mean R)", _leave_one_out_identity, "arXiv:2502.01600"),
    Check("loop", "On a bandit its expected gradient is the true one", _leave_one_out_is_unbiased, "derived here"),
    Check("remax", "Its expected gradient is the true one", _remax_is_unbiased, "arXiv:2310.10505"),
    Check(
        "remax",
        "It does not change when a constant of the prompt is added to the reward",
        _remax_ignores_offsets,
        "arXiv:2310.10505",
    ),
    Check(
        "remax",
        "Its variance is below REINFORCE's when rewards have offsets",
        _remax_variance,
        "arXiv:2310.10505, section 4",
    ),
    Check("remax", "The advantage fades as the policy becomes deterministic", _remax_fades, "arXiv:2310.10505"),
    Check(
        "remax",
        "With rewards per token it is the return-to-go minus the baseline",
        _remax_to_go,
        "verl, compute_remax_outcome_advantage",
    ),
    Check(
        "mapo",
        "The table of binary groups: GRPO at p = 1/2, no mirror symmetry, rare successes up, rare failures down",
        _mapo_table,
        "arXiv:2509.18849",
    ),
    Check(
        "bnpo",
        "alpha = beta = 1 is REINFORCE with the mean, 3/2 is GRPO up to one constant; 0 at p = 0 and p = 1",
        _bnpo_limits,
        "arXiv:2506.02864",
    ),
    Check("bnpo", "alpha and beta are fitted to the batch by moments", _bnpo_fit, "arXiv:2506.02864; authors' code"),
    Check(
        "bnpo",
        "The variance of the gradient estimate is least near (1 + a/3, 1 + b/3)",
        _bnpo_variance,
        "arXiv:2506.02864, theorem 1",
    ),
    Check("bnpo", "Several rewards get their own advantages, which are averaged", _bnpo_parts, "arXiv:2506.02864"),
    Check(
        "ngrpo",
        "All wrong gives -1/sqrt(G+1) each, all right 0, and the real ones never a positive mean",
        _ngrpo_table,
        "arXiv:2509.18851",
    ),
    Check(
        "s-grpo-noise",
        "p = 0 leaves GRPO as it is; with noise a lone odd label weighs 0, an even group 1 - 2p",
        _noise_free_weight,
        "arXiv:2508.05928",
    ),
    Check(
        "s-grpo-noise",
        "The weight minimises E[(w A_noisy - A_true)^2]",
        _noise_weight_is_least_squares,
        "arXiv:2508.05928",
    ),
    Check(
        "seed-grpo",
        "G answers of equal mass give 1 - alpha, one answer 1, whatever they are called; alpha = 0 is the base",
        _seed_factors,
        "arXiv:2505.12346",
    ),
    Check(
        "seed-grpo",
        "Semantic entropy by likelihood and by count, as by hand, cut at log G",
        _seed_estimators,
        "arXiv:2505.12346, equation 5",
    ),
    Check(
        "vital-dgrpo",
        "Weights fall with the group's mean, have mean 1, and are 1 when difficulties are equal",
        _difficulty_weights,
        "arXiv:2508.04416, abstract; form chosen here",
    ),
    Check(
        "pvpo",
        "With a baseline from elsewhere the estimate is unbiased for every group size, its variance the known one; "
        "division by the group's deviation makes it biased",
        _static_baseline_is_unbiased,
        "arXiv:2508.21104; derived here",
    ),
    Check(
        "pvpo",
        "The baseline is measured once and remembered; a group of one has an advantage",
        _pvpo_measures_once,
        "arXiv:2508.21104",
    ),
    Check(
        "aapo",
        "An all-right group with a failing reference gets 0.28 each, where GRPO has no gradient",
        _aapo_margin,
        "arXiv:2505.14264; authors' code",
    ),
    Check("aapo", "Without the margin it is group-relative REINFORCE", _aapo_without_margin, "derived here"),
)
