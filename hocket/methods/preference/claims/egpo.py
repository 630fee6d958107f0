"""EGPO's claims."""

import math
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor

from hocket.core.batch import Level
from hocket.core.components import value_at
from hocket.core.keys import Key
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.claims.harness import below, gap, say
from hocket.lab.claims.shipped_check import ShippedRun
from hocket.lab.toys.answers import AnswerPolicy, Updating
from hocket.lab.toys.games import CYCLE, GameBandit, random_game, regularised_gap, rule_of
from hocket.methods.base.rloo import RLOO
from hocket.methods.preference.egpo import EGPO, ExtragradientStep, win_rates
from hocket.recipe import Recipe
from hocket.stages import Policy
from hocket.types import Quantity
from hocket.update.problem import Problem

claim = Claims("egpo", "arXiv:2503.08942")


def on(matrix: Tensor, beta: float, *, extra: bool = True) -> Recipe:
    recipe = EGPO.but({"shaping.0.wins.rule": rule_of(matrix), "objective.temperature": beta})
    return recipe.but({"update": ExtragradientStep(extra=extra)})


def flat(size: int) -> Tensor:
    return torch.full((size,), -math.log(size), dtype=torch.float64)


def stepped(matrix: Tensor, logits: Tensor, reference: Tensor, beta: float, eta: float, extra: bool) -> Tensor:
    """The logit form: a trial against the policy, then the step against the trial's."""

    def step(mu: Tensor) -> Tensor:
        return (1 - eta * beta) * logits + eta * beta * reference + eta * matrix @ mu

    opponent = torch.softmax(logits, 0)
    return step(torch.softmax(step(opponent), 0) if extra else opponent)


@claim("Its update is the logit form: theta (1 - eta beta) + eta beta theta_ref + eta P pi', pi' of a trial step.")
def its_update_is_the_logit_form_theta_eta_beta_theta_ref_eta_p_pi() -> Finding:
    gaps = []
    for number in range(3):
        matrix = random_game(5, "egpo", number)
        reference = torch.log_softmax(torch.tensor([0.3, -0.5, 0.2, 0.0, number / 3], dtype=torch.float64), -1)
        logits = torch.tensor([1.0, 0.0, -1.0, 0.5, 0.2], dtype=torch.float64)
        bandit = GameBandit((0,) * 5, flat(5), reference, (1,) * 5)
        for extra in (True, False):
            policy = AnswerPolicy(bandit, logits)
            Updating(on(matrix, 0.2, extra=extra), lr=0.5 * 4).step(bandit, policy)
            gaps.append(gap(policy.probs, torch.softmax(stepped(matrix, logits, reference, 0.2, 0.5, extra), 0)))
    return below(1e-12, off=max(gaps))


def iterated(matrix: Tensor, beta: float, eta: float, steps: int, *, extra: bool, every: int) -> list[float]:
    """The duality gap of the regularised game along iterates of the logit form."""
    reference = flat(len(matrix))
    logits, gaps = torch.linspace(1, -1, len(matrix), dtype=torch.float64), []
    for number in range(steps):
        logits = stepped(matrix, logits, reference, beta, eta, extra)
        if (number + 1) % every == 0:
            policy = torch.softmax(logits, 0)
            gaps.append(regularised_gap(matrix, policy, reference.exp(), beta))
    return gaps


@claim("On random games of ten answers the last iterate's duality gap falls geometrically, to below 1e-8.")
def on_random_games_of_ten_answers_the_last_iterates_duality_gap() -> Finding:
    ends, bends = [], []
    for number in range(5):
        gaps = iterated(random_game(10, "gap", number), 0.01, 2.0, 1200, extra=True, every=100)
        ends.append(gaps[-1])
        kept = [math.log(one) for one in gaps[1:] if one > 1e-12]
        steps = [a - b for a, b in pairwise(kept)]
        bends.append(max(steps) / min(steps) if min(steps) > 0 else math.inf)
    return Finding(max(ends) < 1e-8 and max(bends) < 3, say(last=max(ends), fastest_over_slowest_fall=max(bends)))


@claim("Single-step online IPO at the same step is slower, and on a strong cycle it circles.")
def single_step_online_ipo_at_the_same_step_is_slower_and_on_a() -> Finding:
    both = {extra: iterated(CYCLE, 0.02, 1.5, 400, extra=extra, every=400)[-1] for extra in (True, False)}
    games = [random_game(10, "gap", number) for number in range(5)]
    ends = {
        extra: [iterated(one, 0.01, 2.0, 400, extra=extra, every=400)[-1] for one in games] for extra in (True, False)
    }
    slower = [single / double for double, single in zip(ends[True], ends[False], strict=True)]
    return Finding(
        both[True] < 1e-6 and both[False] > 1e-2 and min(slower) > 1,
        say(cycle_extra=both[True], cycle_single=both[False], single_over_extra=slower),
    )


def sampled(per: int, seed: int) -> float:
    """The mean gap of the last rounds when the policy's own samples stand for answers and opponent."""
    generator = torch.Generator().manual_seed(seed)
    reference, gaps = flat(3), []
    updating = Updating(on(CYCLE, 0.2), lr=3.0)
    logits = torch.tensor([1.0, 0.0, -1.0], dtype=torch.float64)
    for number in range(40):
        drawn = torch.multinomial(torch.softmax(logits, 0), per, replacement=True, generator=generator)
        copies = tuple(torch.bincount(drawn, minlength=3).tolist())
        bandit = GameBandit((0, 0, 0), torch.log_softmax(logits, 0), reference, copies)
        policy = AnswerPolicy(bandit, logits)
        updating.step(bandit, policy)
        logits = policy.logits.detach()
        if number >= 25:
            gaps.append(regularised_gap(CYCLE, policy.probs, reference.exp(), 0.2))
    return sum(gaps) / len(gaps)


@claim("On samples the gap settles at a floor that shrinks with the batch.")
def on_samples_the_gap_settles_at_a_floor_that_shrinks_with_the() -> Finding:
    few, many = (sum(sampled(per, seed) for seed in range(2)) / 2 for per in (8, 64))
    return Finding(many < 0.5 * few, say(of_8=few, of_64=many))


@claim("The opponent of a win rate is the samples weighted by their ratio to who sampled them.", "derived")
def the_opponent_of_a_win_rate_is_the_samples_weighted_by_their() -> Finding:
    matrix, copies = random_game(3, "rates"), (1, 2, 3)
    old, now = (torch.tensor(one, dtype=torch.float64).log() for one in ((0.2, 0.3, 0.5), (0.6, 0.3, 0.1)))
    bandit = GameBandit((0, 0, 0), old, flat(3), copies)
    answers = bandit.answers()
    found = win_rates(bandit.batch(on(matrix, 0.2)), now[answers])
    share = torch.tensor(copies, dtype=torch.float64) * (now - old).exp()
    return below(1e-12, off=gap(found, (matrix @ (share / share.sum()))[answers]))


@claim("As shipped there is a trial, beta is 0.1 and all else RLOO's; by how much the trial moves win rates is told.")
def as_shipped_there_is_a_trial_beta_is_0_1_and_all_else_rloos_by() -> Finding:
    """Four answers, each sampled once by an even policy, and a step of plain descent."""
    matrix, logits = random_game(4, "as shipped"), torch.tensor([0.5, 0.0, -0.5, 0.2], dtype=torch.float64)
    recipe, bandit = (
        EGPO.but({"shaping.0.wins.rule": rule_of(matrix)}),
        GameBandit((0,) * 4, flat(4), flat(4), (1,) * 4),
    )
    policy = AnswerPolicy(bandit, logits)
    optimiser, needs = torch.optim.SGD([policy.logits], lr=0.3 * 3), frozenset({Quantity.LOGP})
    batch = bandit.batch(recipe)
    problem = Problem(batch, cast(Policy, policy), optimiser, recipe.loss, needs, Level.BATCH, False)
    told = recipe.update.step(problem, Key.of(0))["extragradient/moved"]
    tried = stepped(matrix, logits, flat(4), 0.1, 0.3, False)
    moved = (matrix @ (torch.softmax(tried, 0) - torch.softmax(logits, 0))).abs().mean()
    wanted = torch.softmax(stepped(matrix, logits, flat(4), 0.1, 0.3, True), 0)
    names = ("epochs", "minibatches", "clip_norm", "warmup", "weight_decay")
    same = all(value_at(EGPO, f"update.{name}") == value_at(RLOO, f"update.{name}") for name in names)
    return below(1e-12, same, update=gap(policy.probs, wanted), moved=abs(told - float(moved)))


def trialled(run: ShippedRun) -> dict[str, float]:
    """By how much the trial moved win rates."""
    return {"moved by the trial": run.mean("extragradient/moved")}


claim.spares("0.5 -> 20.0", "of an answer that does not count, which nobody reads")
claim.spares("egpo: credit = GroupRelative", "the update puts win rates in the place of the credit's advantages")
claim.spares("egpo: credit.leave_one_out = True", "the update puts win rates in the place of the credit's advantages")

claim.shipped(EGPO, "update", "objective", settings={"curriculum.prompts": 4}, sees=trialled)
