"""ContraBAR's claims."""

from __future__ import annotations

import functools
import itertools
from dataclasses import replace
from itertools import pairwise
from statistics import fmean
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray

from hocket.core.batch import Batch
from hocket.core.keys import Key
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, say
from hocket.lab.claims.shipped_check import ShippedRun
from hocket.lab.toys.beliefs import beliefs, believing, fitted, fresh_play, moved, taught
from hocket.lab.toys.teams import measured
from hocket.methods.control.contrabar import CONTRABAR, Foretelling, ForetellingLoss
from hocket.objectives.entropy import EntropyBonus
from hocket.objectives.value import ValueLoss
from hocket.policies.beliefs import Paths, acting_beliefs
from hocket.policies.control import ControlPolicy
from hocket.train.loop import RunContext
from hocket.types import Evaluation, Quantity
from hocket.update.gradient import GradientStep
from hocket.zoo.joint.bandits import BanditWorld, bayes_optimal, last_pull_optimal
from hocket.zoo.joint.partners import Partner, last_round_optimal
from hocket.zoo.joint.partners import bayes_optimal as bayes_of_partners

claim = Claims("contrabar", "arXiv:2306.02418")
BANDIT, PARTNER = "recall:bandit", "recall:partner"


def _told(values: torch.Tensor) -> Evaluation:
    return Evaluation(logp=values.new_zeros(len(values)), belief=values)


# ---------------------------------------------------------------- the loss


@claim(
    "The loss is -sum_k log of the softmax of f(z, u_k) over the other episodes that lasted as long, float64, episodes "
    "of many lengths, negatives of others and of the same task."
)
def the_loss_is_sum_k_log_of_the_softmax_of_f_over_the_other() -> Finding:
    errors, sizes = {}, []
    for negatives in ("others", "same"):
        batch = fresh_play(believing(CONTRABAR, "recall:corridor?length=3", curriculum__prompts=4, rollout__samples=5))
        objective = ForetellingLoss(coefficient=0.7, ahead=3, negatives=negatives, size=5)
        told = torch.randn(batch.decisions, 20, dtype=torch.float64, generator=Key.of(2).torch())
        ours = float(objective(_told(told), batch).total())
        errors[negatives] = abs(ours - 0.7 * _by_hand(told.numpy(), batch, 3, same=negatives == "same")[0])
        sizes = torch.bincount(batch.occurrences.trajectory).tolist()
    return below(EXACT, len(set(sizes)) > 2, **errors)


def _by_hand(told: NDArray[np.float64], batch: Batch, ahead: int, *, same: bool) -> tuple[float, float]:
    """The loss of `[E, 5 (ahead + 1)]`, one decision and one k after the other, and the share that is told apart."""
    rows: list[list[int]] = [[] for _ in range(len(batch.scenario))]
    for decision, trajectory in zip(
        batch.occurrences.decision.tolist(), batch.occurrences.trajectory.tolist(), strict=True
    ):
        rows[trajectory].append(decision)
    total, right = 0.0, list[bool]()
    for me, own in enumerate(rows):
        near = [n for n in range(len(rows)) if n == me or not same or batch.scenario[n] == batch.scenario[me]]
        for t, k in itertools.product(range(len(own)), range(1, ahead + 1)):
            there = [n for n in near if len(rows[n]) > t + k]
            if me in there and len(there) > 1:
                scores = {n: float(told[own[t], 5 * k : 5 * k + 5] @ told[rows[n][t + k], :5]) for n in there}
                total -= scores[me] - float(np.log(np.sum(np.exp(list(scores.values())))))
                right.append(scores[me] == max(scores.values()))
    return total / len(batch.occurrences), fmean(right)


@claim(
    "Who knows the exact posterior tells what an arm pays from what it pays in other tasks better than who knows the "
    "prior (predicted); among episodes of the same task it gains nothing, exactly."
)
def who_knows_the_exact_posterior_tells_what_an_arm_pays_from_what() -> Finding:
    gains = {}
    for negatives, prompts, samples in (("others", 64, 1), ("same", 8, 8)):
        batch = fresh_play(believing(CONTRABAR, BANDIT, curriculum__prompts=prompts, rollout__samples=samples))
        objective = ForetellingLoss(ahead=1, negatives=negatives, size=4)  # type: ignore[arg-type]
        losses = [float(objective(_told(_exact(batch, informed)), batch).total()) for informed in (False, True)]
        gains[negatives] = losses[0] - losses[1]
    return Finding(gains["others"] > 0.02 and abs(gains["same"]) < EXACT, say(nats_gained=gains))


def _exact(batch: Batch, informed: bool) -> torch.Tensor:
    """What foretells by counts: one-hot of (arm, pay) seen, then its log-probability after the move, `[T, 8]`."""
    told, every = np.zeros((batch.decisions, 8)), np.concatenate(batch.observation)
    for turn in range(batch.turns):
        counts = np.ones((2, 2))  # [arm, failures and successes], the prior's own.
        for row in torch.nonzero(batch.turn == turn).flatten().tolist():
            seen, arm = every[row], int(batch.action[row])
            if seen[:2].any():
                last, paid = int(seen[:2].argmax()), int(seen[2])
                told[row, 2 * last + paid] = 1
                counts[last, paid] += 1
            told[row, 4:] = -30.0  # An arm that is not pulled pays nothing.
            chance = counts[arm] / counts[arm].sum() if informed else np.full(2, 0.5)
            told[row, 4 + 2 * arm : 6 + 2 * arm] = np.log(chance)
    return torch.from_numpy(told)


# ---------------------------------------------------------------- the network


@claim(
    "What is foretold at t reads nothing that is seen later, and the moves t..t+k-1 alone: changes elsewhere are "
    "exactly 0."
)
def what_is_foretold_at_t_reads_nothing_that_is_seen_later_and_the() -> Finding:
    net = Foretelling(4, 3, (6,), 5, 3, discrete=True, key=Key.of(1))
    net.requires_grad_(False)
    draws = Key.of(4).torch()
    seen, action = torch.randn(2, 9, 4, generator=draws), torch.randint(3, (2, 9), generator=draws)
    here = Paths(seen, action, torch.arange(18).reshape(2, 9), Key.of(1))
    later_seen, later_moves = seen.clone(), action.clone()
    later_seen[:, 5:] += 1
    later_moves[:, 6:] = (later_moves[:, 6:] + 1) % 3
    before, unseen, moved = (
        net.told(one)[:, 4, 5:].reshape(2, 3, 5)
        for one in (here, replace(here, seen=later_seen), replace(here, action=later_moves))
    )
    apart = (moved - before).abs().amax((0, 2)).tolist()  # Moves 4, 5 are as they were; 6 enters for k = 3 alone.
    still = float((unseen - before).abs().max())
    return Finding(
        still == 0 and apart[0] == apart[1] == 0 < apart[2], say(of_what_is_seen_later=still, of_moves=apart)
    )


@claim("No gradient of PPO reaches the belief, and none of the contrast reaches actor or critic: exactly 0.")
def no_gradient_of_ppo_reaches_the_belief_and_none_of_the_contrast() -> Finding:
    strange, own = taught(believing(CONTRABAR, BANDIT, curriculum__prompts=8))
    return Finding(strange == 0 and own > 0, say(into_parts_of_others=strange, smallest_of_own=own))


@claim(
    "A batch is learnt from with the beliefs that it was sampled with: log-probs anew are those recorded, to 1e-5, "
    "after two steps of learning; with the beliefs of other moments they are not."
)
def a_batch_is_learnt_from_with_the_beliefs_that_it_was_sampled() -> Finding:
    parts = believing(CONTRABAR, BANDIT, 2, curriculum__prompts=8)
    batch, policy = fresh_play(parts), cast(ControlPolicy, parts.lead.policy)
    recorded = batch.logp["behaviour"].values
    with torch.no_grad():
        same = float((policy.evaluate(batch, frozenset({Quantity.LOGP})).logp - recorded).abs().max())
        policy._cache["beliefs"] = (batch.observation, acting_beliefs(policy, batch).roll(1, 0))
        other = float((policy.evaluate(batch, frozenset({Quantity.LOGP})).logp - recorded).abs().max())
    return Finding(same < 1e-5 < 1e-3 < other, say(largest_difference=same, with_other_beliefs=other))


# ---------------------------------------------------------------- the world and learning in it


@claim(
    "The Bayes-optimal return of two arms is 13/12 in two pulls, and in more than two above what the last pull tells."
)
def the_bayes_optimal_return_of_two_arms_is_13_12_in_two_pulls_and() -> Finding:
    short = BanditWorld(length=2)
    first = max(abs(bayes_optimal(short) - 13 / 12), abs(last_pull_optimal(short) - 13 / 12))
    gaps = [bayes_optimal(one) - last_pull_optimal(one) for one in (BanditWorld(length=length) for length in (2, 4, 6))]
    return Finding(first < 1e-4 and all(one < more for one, more in pairwise(gaps)), say(error=first, gaps=gaps))


@functools.cache
def _after(negatives: str, seed: int, steps: int) -> RunContext:
    """A run among partners with negatives of other scenarios or of the same."""
    if negatives == "others":
        return believing(CONTRABAR, PARTNER, steps, seed)
    same = CONTRABAR.but({"regularisers.2.negatives": "same"})
    return believing(same, PARTNER, steps, seed, curriculum__prompts=8, rollout__samples=8)


@claim(
    "After 70 steps a linear map of c_t tells the exact posterior of the partner's kind with R^2 above 0.9 in the mean "
    "of 3 seeds (predicted); that of a unit that has learnt nothing is below 0.3, and so is that of one that learnt "
    "from negatives of the same task (predicted: the signal vanishes).",
    slow=True,
)
def after_70_steps_a_linear_map_of_c_t_tells_the_exact_posterior_of() -> Finding:
    play = fresh_play(believing(CONTRABAR, PARTNER, curriculum__prompts=128), 77)
    ours, control, fresh = (
        [_linear(_after(negatives, seed, steps), play, _posterior(play)) for seed in range(3)]
        for negatives, steps in (("others", 70), ("same", 70), ("others", 0))
    )
    return Finding(
        fmean(ours) > 0.9 and max(*fresh, *control) < 0.3, say(r2=ours, of_same_task=control, of_an_untrained_one=fresh)
    )


def _posterior(play: Batch) -> NDArray[np.float64]:
    """Of the kinds before each decision, `[T, kinds]`, by Bayes' rule from one round to the next."""
    world, found = Partner(), np.zeros((play.decisions, Partner().kinds))
    every, kinds = np.concatenate(play.observation), np.arange(Partner().kinds)
    for turn in range(play.turns):
        chance = np.full(world.kinds, 1 / world.kinds)
        for row in torch.nonzero(play.turn == turn).flatten().tolist():
            situation, did = every[row][world.kinds : 3 * world.kinds].reshape(2, world.kinds)
            if did.any():
                fits = (kinds + situation.argmax()) % world.kinds == did.argmax()
                chance = chance * (world.slip / world.kinds + (1 - world.slip) * fits)
            chance = chance / chance.sum()
            found[row] = chance
    return found


@claim(
    "After 70 steps its return among partners is above the most that can be had without memory and more than 0.9 of "
    "the Bayes-optimal return, in each of 3 seeds (predicted), and above that of beliefs learnt from negatives of the "
    "same task.",
    slow=True,
)
def after_70_steps_its_return_among_partners_is_above_the_most_that() -> Finding:
    ours, control = (
        [measured(_after(negatives, seed, 70), 500) for seed in range(3)] for negatives in ("others", "same")
    )
    bound, best = last_round_optimal(Partner()), bayes_of_partners(Partner())
    holds = min(ours) > bound and min(ours) > 0.9 * best and min(ours) > max(control)
    return Finding(holds, say(returns=ours, of_same_task=control, without_memory=bound, bayes_optimal=best))


@claim(
    "In bandits, where little tells: after 12 steps a linear map of c_t tells the posterior means of the same random "
    "play better, in the mean of 3 seeds, than one of a belief learnt from negatives of the same task (predicted: in "
    "each, which is not so).",
    slow=True,
)
def in_bandits_where_little_tells_after_12_steps_a_linear_map_of_c() -> Finding:
    same = CONTRABAR.but({"regularisers.2.negatives": "same"})
    play = fresh_play(believing(CONTRABAR, BANDIT, curriculum__prompts=64), 77)
    groups = {"curriculum__prompts": 8, "rollout__samples": 8}
    ours, controls, fresh = (
        [_linear(believing(recipe, BANDIT, steps, seed, **settings), play, _means(play)) for seed in range(3)]
        for recipe, steps, settings in ((CONTRABAR, 12, {}), (same, 12, groups), (CONTRABAR, 0, {}))
    )
    return Finding(fmean(ours) > fmean(controls), say(r2=ours, of_same_task=controls, of_an_untrained_one=fresh))


def _means(play: Batch) -> NDArray[np.float64]:
    """The posterior means of both arms before each decision, `[T, 2]`."""
    means, every = np.zeros((play.decisions, 2)), np.concatenate(play.observation)
    for turn in range(play.turns):
        counts = np.ones((2, 2))
        for row in torch.nonzero(play.turn == turn).flatten().tolist():
            if every[row][:2].any():
                counts[int(every[row][:2].argmax()), int(every[row][2])] += 1
            means[row] = counts[:, 1] / counts.sum(1)
    return means


def _linear(parts: RunContext, play: Batch, wanted: NDArray[np.float64]) -> float:
    """R^2 of what is wanted by a linear map of the beliefs, fitted to one half of the play, on the other."""
    said = fitted(beliefs(parts, play), wanted)
    rest = wanted[len(wanted) - len(said) :]
    return float(1 - ((said - rest) ** 2).sum() / ((rest - rest.mean(0)) ** 2).sum())


@claim(
    "The figure is the share of what came k steps later that scores highest among what others saw then, where another "
    "lasted as long; by hand, also where no episode lasts `ahead` steps."
)
def the_figure_is_the_share_of_what_came_k_steps_later_that_scores() -> Finding:
    gaps, shares, ends = list[float](), list[float](), set[int]()
    for (task, ahead), negatives in itertools.product(
        (("recall:corridor?length=3", 3), ("recall:bandit?length=2", 5)), ("others", "same")
    ):
        batch = fresh_play(believing(CONTRABAR, task, curriculum__prompts=3, rollout__samples=3))
        told = torch.randn(batch.decisions, 5 * (ahead + 1), dtype=torch.float64, generator=Key.of(3).torch())
        terms = ForetellingLoss(ahead=ahead, negatives=negatives, size=5)(_told(told), batch)  # type: ignore[arg-type]
        shares.append(float(terms.metrics["belief/told_apart"]))
        gaps.append(abs(shares[-1] - _by_hand(told.numpy(), batch, ahead, same=negatives == "same")[1]))
        ends.add(int(torch.bincount(batch.occurrences.trajectory).max()))
    return Finding(max(gaps) < 1e-6 and 2 in ends and min(shares) < 0.5, say(largest_difference=max(gaps)))


@claim("What is seen and what is foretold are compared after layers that begin orthogonal, of gain 1.")
def what_is_seen_and_what_is_foretold_are_compared_after_layers() -> Finding:
    net = Foretelling(4, 3, (6,), 5, 3, discrete=True, key=Key.of(1))
    values = [torch.linalg.svdvals(layers.weights[-1].detach()) for layers in (net.sees, net.foretells)]
    return below(1e-5, off=max(float((one - 1).abs().max()) for one in values))


claim.constants(
    "It learns from a batch 8 times as a whole, with a bonus of 0.1 for entropy, and foretells 1, 2 and 3 ahead.",
    CONTRABAR,
    {
        "update": GradientStep(epochs=8, minibatches=1),
        "regularisers.0": ValueLoss(coefficient=0.5, aggregate="token-mean"),
        "regularisers.1": EntropyBonus(coefficient=0.1),
        "regularisers.2": ForetellingLoss(coefficient=1.0, ahead=3, negatives="others", hidden=(32,), size=16),
    },
)


def _whole(shipped: ShippedRun) -> dict[str, float]:
    return {
        "share told apart": shipped.mean("belief/told_apart"),
        "what acts moved by": moved(shipped.parts, believing(CONTRABAR, PARTNER)),
    }


claim.spares("told.shape[1] - 1 -> told.shape[1]", "as many steps later nobody is left")
claim.shipped(CONTRABAR, "regularisers", sees=_whole)
