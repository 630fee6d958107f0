"""LENS's claims."""

import math
from statistics import mean, variance

import torch
from torch import Tensor

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import Claims, Finding, below, gap, inspect_rows, say
from hocket.lab.claims.shipped_check import configured
from hocket.lab.groups import document, first_advantages
from hocket.lab.toys.quick_worlds import choosing, leaning
from hocket.lab.toys.recorded_answers import shaped
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.lens import LENS, calibrated_reward
from hocket.recipe import Recipe
from hocket.tasks.sums import Sums

claim = Claims("lens", "arXiv 2510.08696")


@claim("the gradient of the likelihood is the policy gradient of the calibrated reward")
def the_gradient_of_the_likelihood_is_the_policy_gradient_of_the() -> Finding:
    rng, worst, eye = Key.of(0).derive("checks", "preferences", "lens").numpy(), 0.0, torch.eye(6, dtype=torch.float64)

    def likelihood(moved: Tensor) -> float:
        p = torch.softmax(moved, 0) / difficulty
        return float((pi * (right * p.log() + (1 - right) * (1 - p).log())).sum())

    for _ in range(20):
        logits, right = torch.from_numpy(rng.normal(size=6)), torch.from_numpy((rng.random(6) < 0.4).astype(float))
        pi = torch.softmax(logits, 0)
        difficulty = float(pi.max()) + 0.1
        reward = calibrated_reward(right, pi, torch.full_like(pi, difficulty), None)
        wanted = ((pi * reward)[:, None] * (eye - pi)).sum(0)
        slopes = [(likelihood(logits + step) - likelihood(logits - step)) / 2e-5 for step in 1e-5 * eye]
        worst = max(worst, gap(slopes, wanted.tolist()))
    return below(1e-8, largest_difference_from_finite_differences_on_20_policies=worst)


@claim("the reward is 1 for right answers, in (-inf, 0] for wrong ones, and falls with pi")
def the_reward_is_1_for_right_answers_in_inf_0_for_wrong_ones_and() -> Finding:
    # Confidences below D = 0.9.
    grid = torch.linspace(0, 0.89, 90, dtype=torch.float64)
    zeros, ones, limit = torch.zeros_like(grid), torch.ones_like(grid), torch.full_like(grid, 0.9)
    cases = ((zeros, None), (zeros, 1.0), (ones, None))
    exact, bounded, kept = (calibrated_reward(right, grid, limit, bound) for right, bound in cases)
    falling = all(bool((one[1:] < one[:-1]).all()) for one in (exact, bounded))
    holds = falling and bool((kept == 1).all()) and bool((exact <= 0).all()) and float(bounded.min()) >= -1
    saw = say(wrong_answers_from=0, as_pi_nears_D=float(exact.min()), bounded=float(bounded.min()), right_ones=1)
    return Finding(holds, saw)


@claim("as shipped, rewards are by hand: D from the group, the penalty bounded by 1, whatever the longest response is")
def as_shipped_rewards_are_by_hand_d_from_the_group_the_penalty() -> Finding:
    verdicts, logps = (1.0, 0.0, 0.0, 0.0), ([-1.5, -1.7], [-1.2, -1.5], [-2.5, -2.5], [-3.0])
    rows = [{"group": "g", "scores": {"reward": v}, "logp": logp} for v, logp in zip(verdicts, logps, strict=True)]
    sure, task = [math.exp(mean(logp)) for logp in logps], Sums()
    difficulty = min(1.0, max(max(sure), mean(sure) / ((1 + 0.5) / (4 + 1))))
    wanted = [v - (1 - v) * (c / (c + difficulty - c)) for v, c in zip(verdicts, sure, strict=True)]
    off = []
    for longest in (40, 96, 300):
        recipe = configured(LENS, task.name, task, {"decoding.max_tokens": longest}).recipe
        off.append(gap(shaped(recipe, rows), wanted))
    # Another estimate of D, or another bound, shows.
    others = (LENS.but({"shaping.0.difficulty": 1.0}), LENS.but({"shaping.0.limit": 0.5}))
    apart = [gap(shaped(other, rows), wanted) for other in others]
    return Finding(max(off) < 1e-12 and min(apart) > 1e-3, say(off_by=off, D=difficulty, another_D_or_bound=apart))


@claim("in an all-wrong group GRPO's gradient is 0 and this one lowers the surest wrong answer most")
def in_an_all_wrong_group_grpos_gradient_is_0_and_this_one_lowers() -> Finding:
    logps = ([-0.1, -0.2], [-1.0, -0.6], [-2.0, -1.5], [-0.9])
    rows = [{"group": "g", "scores": {"reward": 0.0}, "logp": logp} for logp in logps]
    plain, advantages = inspect_rows(GRPO, rows)["gradient"], first_advantages(LENS, document(rows))
    sure = [math.exp(mean(logp)) for logp in logps]
    falls = [advantage for _, advantage in sorted(zip(sure, advantages, strict=True))] == sorted(advantages)[::-1]
    saw = f"GRPO 0; advantages {[round(a, 2) for a in advantages]} at confidences {[round(s, 2) for s in sure]}"
    return Finding(not any(map(any, plain)) and falls and min(advantages) < 0, saw)


@claim("Where none is right D is at most 1, and what earns more than 1 counts as right.", "derived here")
def where_none_is_right_d_is_at_most_1_and_what_earns_more_than_1() -> Finding:
    logps = ([-0.9], [-1.3], [-1.1], [-1.6])
    wrong = [{"group": "g", "scores": {"reward": 0.0}, "logp": logp} for logp in logps]
    rich = [{**row, "scores": {"reward": 2.0}} for row in wrong]
    found, kept = shaped(LENS, wrong), shaped(LENS, rich)
    wanted = [-math.exp(*logp) for logp in logps]  # (c mean)/(0.5/5) is beyond 1, so that the penalty is c itself.
    return Finding(gap(found, wanted) < 1e-12 and kept == [2.0] * 4, say(wrong_ones=found, right_ones=kept))


@claim("Without a bound it is the formula itself, and refused where a probability reaches D.")
def without_a_bound_it_is_the_formula_itself_and_refused_where_a() -> Finding:
    rows = [{"group": "g", "scores": {"reward": 0.0}, "logp": [logp]} for logp in (-1.0, -2.0)]
    plain = LENS.but({"shaping.0.difficulty": 0.9, "shaping.0.limit": None})
    sure, refused = [math.exp(-1.0), math.exp(-2.0)], False
    off = gap(shaped(plain, rows), [-c / (0.9 - c) for c in sure])
    try:
        shaped(plain.but({"shaping.0.difficulty": 0.3}), rows)
    except ConfigurationError:
        refused = True
    bounded = shaped(LENS.but({"shaping.0.difficulty": 0.3}), rows)
    off = max(off, gap(bounded, [-1.0, -sure[1] / 0.3]))
    return Finding(off < 1e-12 and refused, say(off=off, refused=refused, with_a_bound=bounded))


RARE = choosing(16, 12, lambda question, token: float(token == question % 11 + 1))
UNLIKELY = leaning(0, 3.7)
"""A favourite mistake, so that about one in fifty answers is right."""


def firsts(recipe: Recipe, seed: int, steps: int) -> list[int]:
    """The step at which each question was first answered rightly, `steps` + 1 if never; two samples a step."""
    bench = Bench(RARE, recipe.but({"rollout.samples": 2}), seed=seed, lr=0.3, steps=steps, start=UNLIKELY)
    first: dict[str, int] = {}
    while len(first) < RARE.questions and bench.done < steps:
        right = [one.scenario.id for one in bench.step().trajectories if RARE.success(one) > 0]
        first = dict.fromkeys(right, bench.done) | first
    return [*first.values(), *[steps + 1] * (RARE.questions - len(first))]


@claim("from a 2 percent solve rate the first right answer is found earlier than by GRPO", slow=True)
def from_a_2_percent_solve_rate_the_first_right_answer_is_found() -> Finding:
    lens, grpo = ([step for seed in range(8) for step in firsts(recipe, seed, 70)] for recipe in (LENS, GRPO))
    error = math.sqrt(sum(variance(steps) / len(steps) for steps in (lens, grpo)))
    saw = say(success_at_first=Bench(RARE, GRPO, start=UNLIKELY).success(), questions_each=len(lens))
    saw += ", " + say(first_right_answer_at_step=mean(lens), GRPO=mean(grpo), standard_error_of_the_difference=error)
    return Finding(mean(grpo) - mean(lens) > 3 * error, saw)


claim.shipped(LENS, "shaping")
