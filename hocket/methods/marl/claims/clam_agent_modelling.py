"""CLAM's claims."""

from __future__ import annotations

import functools
from statistics import fmean

import numpy as np
import torch
from numpy.typing import NDArray

from hocket.core.batch import Batch
from hocket.core.keys import Key
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, say
from hocket.lab.claims.shipped_check import ShippedRun
from hocket.lab.toys.beliefs import beliefs, believing, fitted, fresh_play, moved, taught
from hocket.lab.toys.teams import measured
from hocket.methods.marl.clam_agent_modelling import CLAM, Pooled, SameEpisode
from hocket.objectives.entropy import EntropyBonus
from hocket.objectives.value import ValueLoss
from hocket.policies.beliefs import Paths
from hocket.train.loop import RunContext
from hocket.types import Evaluation
from hocket.update.gradient import GradientStep
from hocket.zoo.joint.partners import Partner, bayes_optimal, informed_optimal, last_round_optimal

claim = Claims("clam-agent-modelling", "arXiv:2401.00132")
PARTNER, WORLD, SEEDS = "recall:partner", Partner(), (0, 1, 2)
LOSS = "regularisers.2"


def _told(values: torch.Tensor) -> Evaluation:
    return Evaluation(logp=values.new_zeros(len(values)), belief=values)


# ---------------------------------------------------------------- the loss


@claim(
    "The loss is -log of the softmax of x . x' / tau over all views of the episodes that lasted as long but the view "
    "itself and those without a moment, the mean of both views and of decisions at which both have one, float64, "
    "episodes of many lengths."
)
def the_loss_is_log_of_the_softmax_of_x_x_tau_over_all_views_of_the() -> Finding:
    batch = fresh_play(believing(CLAM, "recall:corridor?length=3", curriculum__prompts=12))
    told = torch.randn(batch.decisions, 10, dtype=torch.float64, generator=Key.of(2).torch())
    told[::3, :5], told[::7, 5:] = 0, 0
    ours = float(SameEpisode(coefficient=0.7, temperature=0.4, size=5)(_told(told), batch).total())
    sizes = torch.bincount(batch.occurrences.trajectory).tolist()
    return below(EXACT, len(set(sizes)) > 2, loss=abs(ours - 0.7 * _by_hand(told.numpy(), batch, 0.4)))


def _by_hand(told: NDArray[np.float64], batch: Batch, temperature: float) -> float:
    """The loss of `[E, 2 * 5]`, one view of one decision after the other."""
    rows: list[list[int]] = [[] for _ in range(batch.trajectories)]
    for decision, trajectory in zip(batch.occurrences.decision.tolist(), batch.occurrences.trajectory, strict=True):
        rows[int(trajectory)].append(decision)
    total, number = 0.0, 0
    for time in range(max(map(len, rows))):
        every = {
            (at, view): told[path[time], 5 * view : 5 * view + 5] for at, path in _there(rows, time) for view in (0, 1)
        }
        value = {place: vector for place, vector in every.items() if vector.any()}
        for at in {at for at, _ in value if (at, 0) in value and (at, 1) in value}:
            number += 1
            for view in (0, 1):
                scores = {other: value[at, view] @ value[other] / temperature for other in value if other != (at, view)}
                total -= (scores[at, 1 - view] - np.log(np.exp(list(scores.values())).sum())) / 2
    return total / number


def _there(rows: list[list[int]], time: int) -> list[tuple[int, list[int]]]:
    """The episodes that lasted so long, by number."""
    return [(at, path) for at, path in enumerate(rows) if len(path) > time]


@claim(
    "Views that tell the partner's kind and no more are told apart better than views that tell nothing, and than views "
    "that tell the kind of another episode (predicted)."
)
def views_that_tell_the_partners_kind_and_no_more_are_told_apart() -> Finding:
    batch = fresh_play(believing(CLAM, PARTNER))
    kinds = torch.from_numpy(np.concatenate([np.asarray(one) for one in batch.joint])).double()
    mute, other = torch.ones_like(kinds) / WORLD.kinds**0.5, kinds.roll(7 * WORLD.length, 0)
    losses = [float(SameEpisode()(_told(torch.cat([kinds, view], 1)), batch).total()) for view in (kinds, mute, other)]
    even = float(SameEpisode()(_told(torch.cat([mute, mute], 1)), batch).total())
    return Finding(losses[0] < even - 0.2 and losses[0] < min(losses[1:]) - 0.2, say(of_kinds=losses, of_none=even))


# ---------------------------------------------------------------- the encoder


def _encoder() -> tuple[Pooled, Paths]:
    net = Pooled(4, 6, 2, 5, masked=0.3, views="apart", key=Key.of(1))
    net.requires_grad_(False)
    draws = Key.of(4).torch()
    seen, action = torch.randn(3, 9, 4, generator=draws), torch.zeros(3, 9, dtype=torch.long)
    return net, Paths(seen, action, torch.arange(27).reshape(3, 9), Key.of(8))


@claim("z_t reads nothing that is seen later, exactly, and all that was seen before as a set: no order of it matters.")
def z_t_reads_nothing_that_is_seen_later_exactly_and_all_that_was() -> Finding:
    net, paths = _encoder()
    later, mixed = paths.seen.clone(), paths.seen.clone()
    later[:, 5:] += 1
    mixed[:, :5] = mixed[:, [3, 1, 4, 0, 2]]
    before, unseen, turned = (net(one)[:, 4] for one in (paths.seen, later, mixed))
    other = float((net(mixed)[:, 3] - net(paths.seen)[:, 3]).abs().min())
    still, order = float((unseen - before).abs().max()), float((turned - before).abs().max())
    return Finding(still == 0 and order < 1e-6 < 1e-3 < other, say(later=still, order=order, another_set=other))


@claim("Step by step z is what it is along the whole history, to 1e-6.")
def step_by_step_z_is_what_it_is_along_the_whole_history_to_1e_6() -> Finding:
    net, paths = _encoder()
    carried, apart = torch.zeros(3, net.carries), 0.0
    for time, whole in enumerate(net(paths.seen).unbind(1)):
        belief, carried = net.step(paths.seen[:, time], carried)
        apart = max(apart, float((belief - whole).abs().max()))
    return Finding(apart < 1e-6, say(largest_difference=apart))


@claim("A moment is in exactly one of the two views: another content of it changes that view alone, the other by 0.")
def a_moment_is_in_exactly_one_of_the_two_views_another_content_of() -> Finding:
    net, paths = _encoder()
    shown, changed = net.shown(paths), paths.seen.clone()
    changed[:, 4] += 1
    now, then = (net.told(Paths(one, paths.action, paths.decision, paths.key))[:, 8] for one in (paths.seen, changed))
    moves = (now - then).abs().reshape(-1, 2, 5).amax(-1)
    inside, outside = moves[shown[:, 4] == 1], moves[shown[:, 4] == 0]
    once = bool((shown.sum(-1) == 1).all()) and 0.2 < float(shown[..., 0].mean()) < 0.8
    return Finding(
        once and float(outside.max()) == 0 < 1e-4 < float(inside.min()),
        say(in_the_view=float(inside.min()), in_the_other=float(outside.max())),
    )


@claim(
    "A view that has no moment yet is 0, and at the first weights, where its length would be 0, the gradient "
    "is of the size of the loss: less than 100, on episodes of one length and of many."
)
def a_view_that_has_no_moment_yet_is_0_and_at_the_first_weights() -> Finding:
    net, paths = _encoder()
    views = net.told(paths).reshape(3, 9, 2, 5)
    empty = net.shown(paths).cumsum(1) == 0
    off = float(views[empty].abs().max()) + float((views[~empty].norm(dim=-1) - 1).abs().max())
    sizes = {task: _first_gradient(task) for task in (PARTNER, "gym:CartPole-v1")}
    holds = bool(empty.any()) and off < 1e-5 and all(1e-4 < size < 100 for size in sizes.values())
    return Finding(holds, say(off=off, **{name.replace(":", "_"): size for name, size in sizes.items()}))


def _first_gradient(task: str) -> float:
    """The length of the loss's gradient before the first step."""
    parts = believing(CLAM, task, curriculum__prompts=8)
    batch, policy = fresh_play(parts), parts.lead.policy
    loss = SameEpisode()(policy.evaluate(batch, SameEpisode.needs), batch).total()
    weights = [weight for weight in policy.module.parameters() if weight.requires_grad]
    slopes = torch.autograd.grad(loss, weights, allow_unused=True)
    return float(sum(float(slope.square().sum()) for slope in slopes if slope is not None) ** 0.5)


@claim(
    "Views of some moments have length 1; free ones lack each moment with chance `masked`, each by draws of its own."
)
def views_of_some_moments_have_length_1_free_ones_lack_each_moment() -> Finding:
    net = Pooled(4, 6, 2, 5, masked=0.3, views="free", key=Key.of(1)).requires_grad_(False)
    seen = torch.randn(40, 50, 4, generator=Key.of(4).torch())
    paths = Paths(seen, torch.zeros(40, 50), torch.arange(2000).reshape(40, 50), Key.of(8))
    hidden = (1 - net.shown(paths)).double()
    shares, both = hidden.mean((0, 1)).tolist(), float(hidden.prod(-1).mean())
    lengths = net.told(paths).reshape(40, 50, 2, 5).norm(dim=-1)
    off = float((lengths - 1).abs()[(1 - hidden).cumsum(1) > 0].max())
    near = max(abs(one - 0.3) for one in shares) < 0.04 and abs(both - 0.09) < 0.03
    return Finding(near and off < 1e-5, say(hidden=shares, in_both=both, off_length_1=off))


@claim(
    "Told apart are views whose nearest is the other one of their episode: all, where both are the same and no others."
)
def told_apart_are_views_whose_nearest_is_the_other_one_of_their() -> Finding:
    batch = fresh_play(believing(CLAM, "recall:corridor?length=3", curriculum__prompts=6))
    identity = torch.eye(6, dtype=torch.float64)[batch.occurrences.trajectory]
    pairs = [torch.cat([identity, other], 1) for other in (identity, identity.roll(1, 1))]
    right, wrong = (float(SameEpisode()(_told(pair), batch).metrics["belief/told_apart"]) for pair in pairs)
    return Finding(right == 1 and wrong < 0.5, say(of_the_same=right, of_others=wrong))


@claim("No gradient of PPO reaches the encoder, and none of the contrast reaches actor or critic: exactly 0.")
def no_gradient_of_ppo_reaches_the_encoder_and_none_of_the_contrast() -> Finding:
    strange, own = taught(believing(CLAM, PARTNER))
    return Finding(strange == 0 and own > 0, say(into_parts_of_others=strange, smallest_of_own=own))


# ---------------------------------------------------------------- partners whose kind is not told


@functools.cache
def _after(what: str, seed: int, steps: int) -> RunContext:
    """A run of the recipe, of it with an encoder that learns nothing, or with views that share moments."""
    recipe = {
        "clam": CLAM,
        "untrained": CLAM.but({f"{LOSS}.coefficient": 0.0}),
        "free": CLAM.but({f"{LOSS}.views": "free", f"{LOSS}.masked": 0.3}),
    }[what]
    return believing(recipe, PARTNER, steps, seed)


def _by_time(parts: RunContext, parted: int = 4) -> list[float]:
    """How often the kind that a linear map of z says is right, by parts of the episode of equal length."""
    play = fresh_play(believing(CLAM, PARTNER, curriculum__prompts=128), 77)
    kinds = np.concatenate([np.asarray(part) for part in play.joint])
    guesses = fitted(beliefs(parts, play), kinds.astype(np.float64))
    right = guesses.argmax(1) == kinds[len(kinds) - len(guesses) :].argmax(1)
    return [float(part.mean()) for part in np.array_split(right.reshape(-1, WORLD.length), parted, 1)]


@claim(
    "After 50 steps a linear map of z tells the partner's kind above chance in the first five rounds, and rises from "
    "there to more than 0.9 in the last, in each of 3 seeds (predicted); that of an encoder that has learnt nothing is "
    "lower at every time.",
    slow=True,
)
def after_50_steps_a_linear_map_of_z_tells_the_partners_kind_above() -> Finding:
    ours, fresh = ([_by_time(_after("clam", seed, steps)) for seed in SEEDS] for steps in (50, 0))
    rises = all(rates[0] > 0.5 and rates[0] < rates[1] < rates[-1] and rates[-1] > 0.9 for rates in ours)
    higher = all(all(mine > plain for mine, plain in zip(*pair, strict=True)) for pair in zip(ours, fresh, strict=True))
    ends = ([rates[0] for rates in group] + [rates[-1] for rates in group] for group in (ours, fresh))
    return Finding(rises and higher, say(chance=1 / WORLD.kinds, **dict(zip(("ours", "untrained"), ends, strict=True))))


@claim(
    "After 50 steps its return is, in each of 3 seeds, above the most that can be had without memory, and more than "
    "0.85 of what who is told the kind can have at most (predicted).",
    slow=True,
)
def after_50_steps_its_return_is_in_each_of_3_seeds_above_the_most() -> Finding:
    ours = [measured(_after("clam", seed, 50), 500) for seed in SEEDS]
    bounds = {"without_memory": last_round_optimal(WORLD), "bayes": bayes_optimal(WORLD)}
    informed = informed_optimal(WORLD)
    return Finding(
        min(ours) > bounds["without_memory"] and min(ours) > 0.85 * informed,
        say(returns=ours, informed=informed, **bounds),
    )


@claim(
    "Trained alike with an encoder that learns nothing its return is lower by more than 1, in each of 3 seeds, and "
    "below what can be had without memory (predicted: lower).",
    slow=True,
)
def trained_alike_with_an_encoder_that_learns_nothing_its_return_is() -> Finding:
    ours, other = ([measured(_after(what, seed, 50), 500) for seed in SEEDS] for what in ("clam", "untrained"))
    lower = all(one - plain > 1 for one, plain in zip(ours, other, strict=True))
    return Finding(lower and max(other) < last_round_optimal(WORLD), say(returns=ours, untrained=other))


@claim(
    "Views that share moments tell the episode by its noise: after 12 steps the kind is told worse in the last five "
    "rounds than with views apart, in the mean of 3 seeds (predicted: in each), though views are told apart 10 times "
    "as often.",
    slow=True,
)
def views_that_share_moments_tell_the_episode_by_its_noise_after_12() -> Finding:
    ends = {what: [_by_time(_after(what, seed, 12))[-1] for seed in SEEDS] for what in ("clam", "free")}
    shares = {what: fmean(_apart(_after(what, seed, 12)) for seed in SEEDS) for what in ends}
    return Finding(
        fmean(ends["clam"]) > fmean(ends["free"]) and shares["free"] > 10 * shares["clam"],
        say(kind_told=ends["clam"], with_shared_moments=ends["free"], told_apart=shares),
    )


def _apart(parts: RunContext) -> float:
    """How often a view's nearest is the other one of its episode."""
    play, learner = fresh_play(parts), parts.lead
    contrast = learner.recipe.regularisers[2]
    terms = contrast(learner.policy.evaluate(play, contrast.needs), play)
    return float(terms.metrics["belief/told_apart"])


claim.constants(
    "It learns from a batch 8 times as a whole, with a bonus of 0.1 for entropy, and contrasts at tau = 0.5.",
    CLAM,
    {
        "update": GradientStep(epochs=8, minibatches=1),
        "regularisers.0": ValueLoss(coefficient=0.5, aggregate="token-mean"),
        "regularisers.1": EntropyBonus(coefficient=0.1),
        LOSS: SameEpisode(1.0, temperature=0.5, views="apart", masked=0.5, wide=32, heads=2, size=16),
    },
)


def _whole(shipped: ShippedRun) -> dict[str, float]:
    return {
        "share told apart": shipped.mean("belief/told_apart"),
        "what acts moved by": moved(shipped.parts, believing(CLAM, PARTNER)),
    }


claim.shipped(CLAM, "regularisers", sees=_whole)
claim.spares("1.0 -> 40.0", "the scale of first weights")
claim.spares("1e-09 -> 4e-08", "only keeps from dividing by the weight of no moment at all")
claim.spares("2 * number + view -> 2 * number - view", "counts other draws, each once as well")
claim.spares("-1 -> 1", "what two views are to each other is the same in both orders")
