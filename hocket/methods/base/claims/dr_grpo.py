"""Dr. GRPO's claims."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev

import torch

from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, below, inspect_rows, say
from hocket.lab.dialogue import Dialogue, DialogueBench
from hocket.lab.groups import gap, recorded
from hocket.lab.hand_formulas import CountedAnswer, centred, off, stale_rows
from hocket.lab.policy import Tabular
from hocket.lab.toys.enumerable_groups import GRPO_EXACT, bandit, sentences
from hocket.lab.world import Answer
from hocket.recipes import DR_GRPO, GRPO

claim = Claims("dr-grpo", "arXiv:2503.20783, section 3")


@claim("Its expected gradient is (G-1)/G of the true one, over L", "arXiv:2503.20783; factor derived here")
def its_expected_gradient_is_g_of_the_true_one_over_l() -> Finding:
    group, recipe = sentences({(1, 0): 1.0, (0,): 0.25}), DR_GRPO.but({"objective.horizon": 7})
    true = group.true_gradient()
    gaps = (gap(group.gradient(recipe, size), true * (size - 1) / size / 7) for size in (2, 3, 4, 6))
    return below(EXACT, difference_at_G_of_2_3_4_and_6=max(gaps))


@claim("Advantages, loss and gradient are those counted by hand, over L = 128")
def advantages_loss_and_gradient_are_those_counted_by_hand_over_l() -> Finding:
    def loss(answers: Sequence[CountedAnswer]) -> tuple[torch.Tensor, dict[str, float]]:
        parts = [((one.logp - one.old).exp(), one.advantage) for one in answers]
        gains = [torch.minimum(r * a, r.clamp(0.8, 1.2) * a).sum() for r, a in parts]
        return -torch.stack(gains).mean() / 128, {}

    return below(EXACT, off_by_hand=max(off(DR_GRPO, rows, loss, centred) for rows in stale_rows("dr-grpo")))


@claim("GRPO rescales each prompt's gradient by a factor that tends to 1/sqrt(p(1-p))")
def grpo_rescales_each_prompts_gradient_by_a_factor_that_tends_to_1() -> Finding:
    # GRPO without its length term, ddof 0: the factor on a prompt's gradient as G grows.
    recipe = GRPO_EXACT.but({"objective.aggregate": "sequence-sum", "credit.ddof": 0})
    shown, gaps, far = {}, [], []
    for success in (0.1, 0.5):
        group, factors, limit = bandit(success, wrong=1), [], 1 / math.sqrt(success * (1 - success))
        true = group.true_gradient()
        for step in (group.gradient(recipe, size) for size in (4, 16, 48)):
            factors.append(float((step * true).sum() / true.square().sum()))
            gaps.append(gap(step, factors[-1] * true))
        far.append(abs(factors[-1] / limit - 1))
        shown[f"p {success}:"] = f"{' '.join(f'{one:.4f}' for one in factors)} -> {limit:.4f}"
    return Finding(max(gaps) < EXACT and max(far) < 0.1, say(factors_at_G_of_4_16_and_48=shown))


@claim("Wrong answers of 10 and 100 tokens: equal per-token gradient, ten times different under GRPO")
def wrong_answers_of_10_and_100_tokens_equal_per_token_gradient_ten() -> Finding:
    batch = recorded([[1.0, 0.0, 0.0]], lengths=[[5, 10, 100]])["trajectories"]
    rows = {recipe.name: inspect_rows(recipe, batch)["gradient"] for recipe in (GRPO, DR_GRPO)}
    ratio = {name: short[0] / long[0] for name, (_, short, long) in rows.items()}
    holds = abs(ratio["grpo"] - 10) < 1e-9 and abs(ratio["dr-grpo"] - 1) < EXACT
    shown = {name: f"{one:.6f}" for name, one in ratio.items()}
    return Finding(holds, say(per_token_gradient_of_the_short_wrong_answer_over_the_long_ones=shown))


# The environment's first token says whether this attempt can succeed; then the policy writes until it ends.
HOPELESS = Dialogue(
    *(1, 3, 7, lambda question, answer: 0.0),
    end=0,
    reply=lambda question, tokens, hidden: int(hidden) if not tokens else None,
    hide=lambda question, key: 1 + key.word % 2,
    verdict=lambda question, answer, hidden: float(hidden == 1),
)


def wrong_length(policy: Tabular) -> float:
    """How many tokens the policy writes where it cannot succeed, exactly."""
    table = torch.softmax(policy.logits.detach(), -1)

    def rest(prefix: Answer) -> float:
        if policy.world.finished(prefix):
            return 0.0
        chances: list[float] = table[policy.row(0, prefix)].tolist()
        return 1.0 + math.fsum(chance * rest((*prefix, token)) for token, chance in enumerate(chances))

    return rest((2,))


@claim("Wrong answers grow longer under GRPO and not under Dr. GRPO, at equal success", slow=True)
def wrong_answers_grow_longer_under_grpo_and_not_under_dr_grpo_at() -> Finding:
    drift, success = {}, {}
    for recipe in (GRPO, DR_GRPO):
        often = recipe.but({"rollout.samples": 16})
        benches = [DialogueBench(HOPELESS, often, seed=seed, lr=0.02) for seed in SEEDS]
        start = wrong_length(benches[0].policy)
        drift[recipe.name] = [wrong_length(bench.run(60).policy) - start for bench in benches]
        success[recipe.name] = fmean(bench.earned(40) for bench in benches)
    grpo, own = drift["grpo"], drift["dr-grpo"]
    holds = min(grpo) > max(max(own) + 0.3, 0.5) and fmean(own) < 2.5 * stdev(own) / math.sqrt(len(SEEDS))
    return Finding(holds, say(length_of_wrong_answers_at_first=start, drift=drift, success=success))


claim.shipped(DR_GRPO, "credit")
claim.shipped(DR_GRPO, "objective")
