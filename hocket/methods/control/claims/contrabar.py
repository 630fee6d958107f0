"""ContraBAR's claims."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import pairwise
from statistics import fmean
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from hocket import tasks
from hocket.core.batch import Batch
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.environments.joint.bandits import Bandit, bayes_optimal, last_pull_optimal
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, below, say
from hocket.lab.claims.shipped import ShippedRun
from hocket.lab.toys.teams import interval, measured
from hocket.methods.control.contrabar import CONTRABAR, Foretelling, ForetellingLoss
from hocket.policies.beliefs import Paths
from hocket.policies.control import ControlPolicy
from hocket.recipe import Recipe
from hocket.train.annotate import annotate
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.loop import RunContext, collect, train_step
from hocket.types import Evaluation, Quantity

claim = Claims("contrabar", "arXiv:2306.02418")
BANDIT = "recall:bandit"


def _parts(task: str = BANDIT, prompts: int = 8, samples: int = 1, recipe: Recipe = CONTRABAR) -> RunContext:
    world = tasks.find(task)
    asked = [("recipe", recipe), ("task", task), ("curriculum.prompts", prompts), ("rollout.samples", samples)]
    return build_parts(configure(asked, world), world)


def _sampled(parts: RunContext, seed: int = 5) -> Batch:
    """A batch of fresh episodes with credit."""
    learner = parts.lead
    experience, _ = asyncio.run(collect(parts, Key.of(seed)))
    batch = annotate(pack(experience.trajectories), learner.recipe.reads, learner.policy, None)
    return learner.compute_credit(batch, {}, 1)


def _told(values: torch.Tensor) -> Evaluation:
    return Evaluation(logp=values.new_zeros(len(values)), belief=values)


# ---------------------------------------------------------------- the loss


@claim(
    "The loss is -sum_k log of the softmax of f(z, u_k) over the other episodes that lasted as long, float64, episodes "
    "of many lengths, negatives of others and of the same task."
)
def _() -> Finding:
    errors, sizes = {}, []
    for negatives in ("others", "same"):
        batch = _sampled(_parts("recall:corridor?length=3", prompts=4, samples=5))
        objective = ForetellingLoss(coefficient=0.7, ahead=3, negatives=negatives, size=5)
        told = torch.randn(batch.decisions, 20, dtype=torch.float64, generator=Key.of(2).torch())
        ours = float(objective(_told(told), batch).total())
        errors[negatives] = abs(ours - 0.7 * _by_hand(told.numpy(), batch, same=negatives == "same"))
        sizes = torch.bincount(batch.occurrences.trajectory).tolist()
    return below(EXACT, len(set(sizes)) > 2, **errors)


def _by_hand(told: NDArray[np.float64], batch: Batch, *, same: bool) -> float:
    """The loss of `[E, 4 * 5]`, one decision and one k after the other."""
    rows: list[list[int]] = [[] for _ in range(len(batch.scenario))]
    for decision, trajectory in zip(
        batch.occurrences.decision.tolist(), batch.occurrences.trajectory.tolist(), strict=True
    ):
        rows[trajectory].append(decision)
    total = 0.0
    for me, own in enumerate(rows):
        near = [n for n in range(len(rows)) if n == me or not same or batch.scenario[n] == batch.scenario[me]]
        for t, decision in enumerate(own):
            for k in (1, 2, 3):
                if t + k >= len(own):
                    continue
                scores = {
                    n: float(told[decision, 5 * k : 5 * k + 5] @ told[rows[n][t + k], :5])
                    for n in near
                    if len(rows[n]) > t + k
                }
                if len(scores) > 1:
                    total -= scores[me] - float(np.log(np.sum(np.exp(list(scores.values())))))
    return total / len(batch.occurrences)


@claim(
    "Who knows the exact posterior tells what an arm pays from what it pays in other tasks better than who knows the "
    "prior (predicted); among episodes of the same task it gains nothing, exactly."
)
def _() -> Finding:
    gains = {}
    for negatives, prompts, samples in (("others", 64, 1), ("same", 8, 8)):
        batch = _sampled(_parts(prompts=prompts, samples=samples))
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
def _() -> Finding:
    net = Foretelling(4, 3, (6,), 5, 3, discrete=True, key=Key.of(1))
    net.requires_grad_(False)
    draws = Key.of(4).torch()
    seen, action = torch.randn(2, 9, 4, generator=draws), torch.randint(3, (2, 9), generator=draws)
    here = Paths(seen, action)
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
def _() -> Finding:
    parts = _parts()
    batch, recipe, policy = _sampled(parts), parts.lead.recipe, cast(ControlPolicy, parts.lead.policy)
    now = policy.evaluate(batch, recipe.needs)
    *others, contrast = (term.total() for term in recipe.loss(now, batch))
    named = {
        name: [one for one in weights if one.requires_grad and (name != "belief" or _learnt(policy, one))]
        for name, weights in policy.parts().items()
    }
    of = {
        (name, what): sum(0.0 if one is None else float(one.abs().sum()) for one in _gradients(loss, weights))
        for name, weights in named.items()
        for what, loss in (("ppo", torch.stack(others).sum()), ("contrast", contrast))
    }
    strange = of["belief", "ppo"] + of["actor", "contrast"] + of["critic", "contrast"]
    own = min(of["belief", "contrast"], of["actor", "ppo"], of["critic", "ppo"])
    return Finding(strange == 0 and own > 0, say(into_parts_of_others=strange, smallest_of_own=own))


def _learnt(policy: ControlPolicy, weight: torch.Tensor) -> bool:
    beliefs = cast(Any, policy.module.beliefs)
    return any(weight is one for one in beliefs.learnt.parameters())


def _gradients(loss: torch.Tensor, weights: list[Any]) -> tuple[torch.Tensor | None, ...]:
    return torch.autograd.grad(loss, weights, retain_graph=True, allow_unused=True)


@claim(
    "A batch is learnt from with the beliefs that it was sampled with: log-probs anew are those recorded, to 1e-5, "
    "after two steps of learning; with the beliefs of other moments they are not."
)
def _() -> Finding:
    parts = _parts()
    for step in (1, 2):
        asyncio.run(train_step(parts, step))
    batch, policy = _sampled(parts), cast(ControlPolicy, parts.lead.policy)
    recorded = batch.logp["behaviour"].values
    with torch.no_grad():
        same = float((policy.evaluate(batch, frozenset({Quantity.LOGP})).logp - recorded).abs().max())
        policy._believed = (batch.observation, policy.beliefs(batch).roll(1, 0))
        other = float((policy.evaluate(batch, frozenset({Quantity.LOGP})).logp - recorded).abs().max())
    return Finding(same < 1e-5 < 1e-3 < other, say(largest_difference=same, with_other_beliefs=other))


# ---------------------------------------------------------------- the world and learning in it


@claim(
    "The Bayes-optimal return of two arms is 13/12 in two pulls, and in more than two above what the last pull tells."
)
def _() -> Finding:
    short = Bandit(length=2)
    first = max(abs(bayes_optimal(short) - 13 / 12), abs(last_pull_optimal(short) - 13 / 12))
    gaps = [bayes_optimal(one) - last_pull_optimal(one) for one in (Bandit(length=length) for length in (2, 4, 6))]
    return Finding(first < 1e-4 and all(one < more for one, more in pairwise(gaps)), say(error=first, gaps=gaps))


def _trained(settings: tuple[tuple[str, Any], ...], seed: int, steps: int) -> RunContext:
    world = tasks.find(BANDIT)
    parts = build_parts(configure([("task", BANDIT), ("seed", seed), ("steps", steps), *settings], world), world)
    for step in range(1, steps + 1):
        asyncio.run(train_step(parts, step))
    return parts


@claim(
    "After 40 steps its return is above that of memoryless PPO trained alike: of 5 seeds the 95 % interval of the "
    "difference is above 0 (predicted), and below the Bayes-optimal return.",
    slow=True,
)
def _() -> Finding:
    plain = CONTRABAR.but(regularisers=CONTRABAR.regularisers[:2])
    ours, theirs = (
        [measured(_trained((("recipe", recipe),), seed, 40), 500) for seed in SEEDS] for recipe in (CONTRABAR, plain)
    )
    low, high = interval([one - other for one, other in zip(ours, theirs, strict=True)])
    best = bayes_optimal(Bandit())
    return Finding(
        low > 0 and fmean(ours) < best, say(returns=ours, ppo=theirs, gain_from=low, to=high, bayes_optimal=best)
    )


@claim(
    "After 12 steps a linear map of c_t tells the posterior means of the same random play better, in the mean of 5 "
    "seeds, than one of a belief learnt from negatives of the same task (predicted: in each, which is not so).",
    slow=True,
)
def _() -> Finding:
    same = CONTRABAR.but({"regularisers.2.negatives": "same"})
    groups = (("curriculum.prompts", 8), ("rollout.samples", 8))
    play = _sampled(_parts(prompts=64), 77)
    ours, controls, fresh = (
        [_linear(_trained(settings, seed, steps), play) for seed in SEEDS]
        for settings, steps in (
            ((("recipe", CONTRABAR),), 12),
            ((("recipe", same), *groups), 12),
            ((("recipe", CONTRABAR),), 0),
        )
    )
    return Finding(fmean(ours) > fmean(controls), say(r2=ours, of_same_task=controls, of_an_untrained_one=fresh))


def _linear(parts: RunContext, play: Batch) -> float:
    """R^2 of the posterior means of both arms by a linear map of the beliefs, fitted to one half of the play."""
    means, every = np.zeros((play.decisions, 2)), np.concatenate(play.observation)
    for turn in range(play.turns):
        counts = np.ones((2, 2))
        for row in torch.nonzero(play.turn == turn).flatten().tolist():
            if every[row][:2].any():
                counts[int(every[row][:2].argmax()), int(every[row][2])] += 1
            means[row] = counts[:, 1] / counts.sum(1)
    beliefs = cast(ControlPolicy, parts.lead.policy).beliefs(play).double().numpy()
    inputs, half = np.column_stack([beliefs, np.ones(len(beliefs))]), play.decisions // 2
    fitted = np.linalg.lstsq(inputs[:half], means[:half], rcond=None)[0]
    left = ((inputs[half:] @ fitted - means[half:]) ** 2).sum()
    return float(1 - left / ((means[half:] - means[half:].mean(0)) ** 2).sum())


def _whole(shipped: ShippedRun) -> dict[str, float]:
    belief = cast(Any, cast(ControlPolicy, shipped.parts.lead.policy).module.beliefs)
    fresh = cast(Any, cast(ControlPolicy, _parts().lead.policy).module.beliefs)
    moved = sum(
        float((one - other).abs().sum())
        for one, other in zip(belief.acting.parameters(), fresh.acting.parameters(), strict=True)
    )
    return {"share told apart": shipped.mean("belief/told_apart"), "what acts moved by": moved}


claim.shipped(CONTRABAR, "regularisers", sees=_whole)
