"""MAPO's claims."""

import math
from statistics import fmean

from hocket.core.signals import returns
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, below, gap, inspect_rows, say
from hocket.lab.toys.enumerable_groups import GRPO_EXACT, binary_advantages, binary_groups
from hocket.lab.toys.quick_worlds import guessing, mixed
from hocket.recipes import GRPO, MAPO

claim = Claims("mapo", "arXiv:2509.18849")


@claim("The table of binary groups: GRPO at p = 1/2, no mirror symmetry, rare successes up, rare failures down")
def the_table_of_binary_groups_grpo_at_p_1_2_no_mirror_symmetry() -> Finding:
    mapo, grpo = MAPO.but({"credit.weigh.0.ddof": 0, "credit.weigh.0.epsilon": 0.0}), GRPO_EXACT.but({"credit.ddof": 0})
    ours, plain = (binary_advantages(recipe, 8) for recipe in (mapo, grpo))
    groups, mirrored, ordered = binary_groups(8), True, True
    error = gap(ours[0] + ours[8], [0.0] * 16)
    for right in range(1, 8):
        p = right / 8
        share = 1 - 4 * p * (1 - p)
        wanted = [(1 - share) * (r - p) / math.sqrt(p * (1 - p)) + share * (r - p) / p for r in groups[right]]
        error, (up, *_, down) = max(error, gap(ours[right], wanted)), ours[right]
        if right != 4:
            mirrored &= abs(up + ours[8 - right][-1]) < EXACT
            ordered &= abs(down) < abs(plain[right][-1]) if p > 0.5 else up > plain[right][0]
    one_right, one_wrong, half = ours[1][0], ours[7][-1], ours[4] == plain[4]
    holds = error < EXACT and not mirrored and ordered and half and round(one_right, 3) == 5.095
    saw = say(error=error, one_right=one_right, GRPO=plain[1][0], one_wrong=one_wrong, GRPOs=plain[7][-1])
    return Finding(holds and round(one_wrong, 3) == -1.720, f"{saw}, {say(mirrored=mirrored, GRPO_at_half=half)}")


@claim("The mean form alone divides by the mean, whatever the certainty; mix 0 is GRPO", "section 3.2; derived")
def the_mean_form_alone_divides_by_the_mean_whatever_the_certainty() -> Finding:
    exact = {"credit.weigh.0.ddof": 0, "credit.weigh.0.epsilon": 0.0}
    mean_form, plain = (MAPO.but({**exact, "credit.weigh.0.mix": mix}) for mix in (1.0, 0.0))
    ours, z, groups = binary_advantages(mean_form, 8), binary_advantages(plain, 8), binary_groups(8)
    grpo = binary_advantages(GRPO_EXACT.but({"credit.ddof": 0}), 8)
    wanted = [[(r - n / 8) / (n / 8) if n else 0.0 for r in groups[n]] for n in range(9)]
    return Finding(gap(ours, wanted) < EXACT and gap(z, grpo) < EXACT, say(one_right=ours[1][0], one_wrong=ours[7][-1]))


def near_solved_sizes(bench: Bench, steps: int) -> list[float]:
    """|advantage| in mixed groups of which more than half are right, over `steps` further steps."""
    sizes: list[float] = []
    for batch in (bench.step().batch for _ in range(steps)):
        assert batch is not None
        at, value = batch.occurrences, returns(batch)
        for members in (batch.scenario == scenario for scenario in set(batch.scenario.tolist())):
            if 0.5 < float(value[members].mean()) < 1:
                sizes += at.advantage[members[at.trajectory]].abs().tolist()
    return sizes


@claim("No worse than GRPO on mixed difficulty, with smaller advantages on nearly solved prompts", slow=True)
def no_worse_than_grpo_on_mixed_difficulty_with_smaller_advantages() -> Finding:
    sizes, success = {}, {}
    for recipe in (MAPO, GRPO):
        benches = [Bench(guessing(), recipe, seed=seed, start=mixed) for seed in SEEDS]
        sizes[recipe.name] = fmean(size for bench in benches for size in near_solved_sizes(bench, 100))
        success[recipe.name] = [bench.success() for bench in benches]
    holds = fmean(success["mapo"]) > fmean(success["grpo"]) - 0.03 and sizes["mapo"] < 0.8 * sizes["grpo"]
    return Finding(holds, say(success=success, mean_size_of_A_on_prompts_more_than_half_solved=sizes))


@claim("As shipped sigma has G - 1, 1e-6 is added to sigma and mu, and p counts returns above a half.", "the release")
def as_shipped_sigma_has_g_1_1e_6_is_added_to_sigma_and_mu_and_p() -> Finding:
    off = 0.0
    for rewards in ([1.0, 0.6, 0.5, 0.0, 0.2], [1.0, 0.0, 0.0], [0.9, 0.7, 0.4, 1.0]):
        mu = fmean(rewards)
        sigma = math.sqrt(sum((r - mu) ** 2 for r in rewards) / (len(rewards) - 1))
        p = sum(r > 0.5 for r in rewards) / len(rewards)
        lam = 1 - 4 * p * (1 - p)
        wanted = [(1 - lam) * (r - mu) / (sigma + 1e-6) + lam * (r - mu) / (mu + 1e-6) for r in rewards]
        rows = [{"group": "q", "scores": {"reward": r}, "logp": [-1.0]} for r in rewards]
        off = max(off, gap([row[0] for row in inspect_rows(MAPO, rows)["advantages"]], wanted))
    return below(1e-10, off_by_hand=off)


claim.shipped(MAPO, "credit")
