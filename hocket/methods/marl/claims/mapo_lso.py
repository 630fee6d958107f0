"""MAPO-LSO's claims."""

from __future__ import annotations

import asyncio
import copy
import functools
from statistics import fmean
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from hocket import tasks
from hocket.core.batch import Batch
from hocket.core.keys import Key
from hocket.core.signals import rewards_by_occurrence
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, gap, say
from hocket.lab.claims.shipped_check import ShippedRun
from hocket.lab.toys.beliefs import believing, fresh_play, taught
from hocket.lab.toys.teams import interval
from hocket.methods.base.mappo import MAPPO
from hocket.methods.marl.mapo_lso import MAPO_LSO, LatentLoss, Latents, SlowTarget, Told, follow, joint, moments
from hocket.policies.beliefs import Paths
from hocket.policies.control import ControlPolicy
from hocket.recipe import Recipe
from hocket.train.loop import RunContext, train_step
from hocket.types import Evaluation

claim = Claims("mapo-lso", "arXiv:2406.02890")
PAIR, SEEDS, STEPS = "mpe:spread?agents=2", (0, 1, 2), 16
LOSS = "regularisers.2"
FEW = {"curriculum__prompts": 32}


def _latents(parts: RunContext) -> Latents:
    return cast(Latents, cast(Any, cast(ControlPolicy, parts.lead.policy).module.beliefs).learnt)


# ---------------------------------------------------------------- the loss


def _drawn(batch: Batch, size: int, inputs: int, ahead: int) -> torch.Tensor:
    """Something told of every decision, `[T, D]` float64."""
    wide = 3 * inputs + 3 + (2 * ahead + 3) * size
    return torch.randn(batch.decisions, wide, dtype=torch.float64, generator=Key.of(2).torch())


def _team() -> Batch:
    """Episodes of three, of many lengths, who leave one after the other."""
    task = "mapf:once?size=5&agents=3&length=9&density=0.1"
    return fresh_play(believing(MAPO_LSO, task, curriculum__prompts=8))


@claim(
    "The loss is c1 times the squares of what is seen, paid and comes next, plus c2 times minus the cosines and the "
    "surprise at the moves, float64, decision by decision; agents leave at times of their own."
)
def the_loss_is_c1_times_the_squares_of_what_is_seen_paid_and_comes() -> Finding:
    batch, errors = _team(), {}
    told = _drawn(batch, 4, 5, 2)
    for name, one, two in (("dynamics", 0.7, 0.0), ("foretold", 0.0, 0.3), ("both", 0.7, 0.3)):
        objective = LatentLoss(one, two, ahead=2, hidden=(4,))
        ours = float(objective(Evaluation(logp=told.new_zeros(len(told)), belief=told), batch).total())
        errors[name] = abs(ours - _by_hand(told.numpy(), batch, one, two))
    lengths = {len(one) for one in batch.observation}
    return below(EXACT, len(lengths) > 2, **errors)


def _by_hand(told: NDArray[np.float64], batch: Batch, dynamics: float, foretold: float) -> float:
    """The loss of `[T, D]`, latents of 4 numbers, sights of 5, two moves ahead: one decision after the other."""
    cuts = np.cumsum([5, 5, 1, 1, 4, 4, 4, 4, 4, 4, 1, 4])
    rows = [np.split(told[decision], cuts) for decision in batch.occurrences.decision.tolist()]
    assert batch.time is not None
    time = batch.time[batch.occurrences.decision].tolist()
    turn = batch.turn[batch.occurrences.decision].tolist()
    owner, paid = batch.occurrences.trajectory.tolist(), rewards_by_occurrence(batch).double().numpy()
    total = 0.0
    for me in range(len(rows)):
        beside = [n for n in range(len(rows)) if n != me and owner[n] == owner[me] and time[n] == time[me]]

        def said(part: int, own: int = me, others: list[int] = beside) -> NDArray[np.float64]:
            return rows[own][part] + (np.mean([rows[n][part + 1] for n in others], 0) if others else 0.0)

        squares = np.mean((said(0) - rows[me][12]) ** 2) + (said(2)[0] - paid[me]) ** 2
        told_ahead = 0.0
        for k in (1, 2):
            later = me + k
            if later < len(rows) and turn[later] == turn[me]:
                guess, true = said(4 + 2 * k), rows[later][11]
                told_ahead -= float(guess @ true / np.linalg.norm(guess) / np.linalg.norm(true))
                if k == 1:
                    squares += np.mean((said(4) - true) ** 2)
                    told_ahead += rows[me][10][0]
        total += dynamics * squares + foretold * told_ahead
    return total / len(rows)


@claim("No gradient passes into what is to be told: the slow latents and what is seen, exactly 0; into all else some.")
def no_gradient_passes_into_what_is_to_be_told_the_slow_latents_and() -> Finding:
    batch = _team()
    told = _drawn(batch, 4, 5, 2).requires_grad_()
    terms = LatentLoss(ahead=2, hidden=(4,))(Evaluation(logp=told.new_zeros(len(told)), belief=told), batch)
    (slope,) = torch.autograd.grad(terms.total(), told)
    size = slope.abs().sum(0)
    into, least = float(size[-9:].max()), float(size[:-9].min())
    return Finding(into == 0 < least, say(into_what_is_to_be_told=into, least_elsewhere=least))


@claim("A step's figures are the parts of the loss, their means over decisions, and the least deviation of a latent's.")
def a_steps_figures_are_the_parts_of_the_loss_their_means_over() -> Finding:
    batch = _team()
    told = _drawn(batch, 4, 5, 2)
    now = Evaluation(logp=told.new_zeros(len(told)), belief=told)
    one, two = (LatentLoss(*pair, ahead=2, hidden=(4,))(now, batch) for pair in ((1.0, 0.0), (0.0, 1.0)))
    said = {name: float(value) for name, value in one.metrics.items()}
    squares = sum(said[f"latent/{name}"] for name in ("seen", "earned", "onward"))
    rest = said["latent/undone"] - 2 * said["latent/alike"]
    least = float(np.std(told[batch.occurrences.decision, -9:-5].numpy(), 0, ddof=1).min())
    return below(
        EXACT,
        dynamics=abs(float(one.total()) - squares),
        foretold=abs(float(two.total()) - rest),
        deviation=abs(said["latent/least_deviation"] - least),
    )


@claim(
    "Who is alone is told of by its own share; in a team the order does not matter, nor what others' own shares are."
)
def who_is_alone_is_told_of_by_its_own_share_in_a_team_the_order() -> Finding:
    shares, cell = (
        torch.randn(7, 6, dtype=torch.float64, generator=Key.of(3).torch()),
        torch.tensor([0] * 4 + [1, 1, 2]),
    )
    found, order = joint(shares, cell), torch.tensor([2, 0, 3, 1, 5, 4, 6])
    alone = gap(found[6], shares[6, :3])
    turned = gap(joint(shares[order], cell[order]), found[order])
    other = shares.clone()
    other[1:, :3] += 1
    return below(EXACT, alone=alone, other_order=turned, others_own_shares=gap(joint(other, cell)[0], found[0]))


@claim("A team decides at once what stands at one time of one trajectory.")
def a_team_decides_at_once_what_stands_at_one_time_of_one() -> Finding:
    batch = _team()
    cell, seen = moments(batch), batch.occurrences
    assert batch.time is not None
    pairs = list(zip(seen.trajectory.tolist(), batch.time[seen.decision].tolist(), strict=True))
    same = {(int(code), pair) for code, pair in zip(cell, pairs, strict=True)}
    sizes = torch.bincount(cell)
    alone = bool((moments(batch.but(time=None)) == torch.arange(len(cell))).all())
    holds = len(same) == len(set(pairs)) == len(sizes) and int(sizes.max()) == 3 > int(sizes.min()) and alone
    return Finding(holds, say(moments=len(sizes), largest_team=int(sizes.max()), smallest=int(sizes.min())))


# ---------------------------------------------------------------- the network


def _network(masked: float) -> tuple[Latents, Paths]:
    net = Latents(4, 3, (6, 5), 2, masked=masked, discrete=True, key=Key.of(1)).double().requires_grad_(False)
    for weight in net.slow.parameters():
        weight.add_(0.1)
    draws = Key.of(4).torch()
    seen = torch.randn(3, 8, 4, generator=draws, dtype=torch.float64)
    action = torch.randint(3, (3, 8), generator=draws)
    return net, Paths(seen, action, torch.arange(24).reshape(3, 8), Key.of(8))


@claim(
    "What is told is each head's of the latent of what is left, step by step: of latent and move what is paid and "
    "comes next, of k moves from there what comes later, of two latents the move between; the target reads everything."
)
def what_is_told_is_each_heads_of_the_latent_of_what_is_left_step() -> Finding:
    net, paths = _network(0.4)
    told = Told.of(net.told(paths).flatten(0, 1), 5, 2)
    shown, moves = net.shown(paths), torch.eye(3, dtype=torch.float64)[paths.action]
    off: dict[str, float] = {}

    def compare(name: str, ours: torch.Tensor, wanted: torch.Tensor) -> None:
        off[name] = max(off.get(name, 0.0), gap(ours, wanted))

    for row in range(3):
        carried = slow = torch.zeros(1, 5, dtype=torch.float64)
        latents = []
        for time in range(8):
            seen = paths.seen[row, time][None]
            carried = net.step(seen * shown[row, time], carried)[1]
            slow = net.slow.onto(seen, slow)
            latents.append(carried)
            at, move = 8 * row + time, moves[row, time][None]
            compare("sees", told.sees[at], net.sees(carried)[0])
            compare("earns", told.earns[at], net.earns(torch.cat([carried, move], 1))[0])
            compare("goes_on", told.goes_on[at], net.goes_on(torch.cat([carried, move], 1))[0])
            compare("target", told.target[at], slow[0])
            compare("seen", told.seen[at], seen[0])
        for time in range(7):
            after = torch.cat([latents[time], latents[time + 1]], 1)
            chance = torch.softmax(net.undoes(after), 1)[0, paths.action[row, time]]
            compare("undone", told.undone[8 * row + time], -chance.log())
            state = latents[time]
            for k in range(min(2, 7 - time)):
                state = net.moves.onto(moves[row, time + k][None], state)
                compare("foretells", told.foretells[k][8 * row + time], net.foretells(state)[0])
    return below(EXACT, len(off) == 7, **off)


@claim("Of moves that are numbers the loss is half the square of what is said of them.")
def of_moves_that_are_numbers_the_loss_is_half_the_square_of_what() -> Finding:
    net, paths = _network(0.4)
    free = Latents(4, 2, (6, 5), 2, masked=0.4, discrete=False, key=Key.of(1)).double().requires_grad_(False)
    action = torch.randn(3, 8, 2, generator=Key.of(5).torch(), dtype=torch.float64)
    told = Told.of(free.told(Paths(paths.seen, action, paths.decision, paths.key)).flatten(0, 1), 5, 2)
    latent = free(paths.seen * free.shown(paths))
    said = free.undoes(torch.cat([latent[:, :-1], latent[:, 1:]], -1))
    wanted = (said - action[:, :-1]).square().sum(-1) / 2
    earns = free.earns(torch.cat([latent, action], -1))
    undone, paid = gap(told.undone.reshape(3, 8)[:, :-1], wanted), gap(told.earns, earns.flatten(0, 1))
    return below(EXACT, float((net.shown(paths) - free.shown(paths)).abs().max()) == 0, undone=undone, earns=paid)


@claim("A share `masked` of moments is blanked, others in every step; at 0 none, and what acts reads all of them.")
def a_share_masked_of_moments_is_blanked_others_in_every_step_at_0() -> Finding:
    net, paths = _network(0.4)
    many = Paths(
        torch.ones(60, 50, 4).double(), torch.zeros(60, 50).long(), torch.arange(3000).reshape(60, 50), Key.of(8)
    )
    share = 1 - float(net.shown(many).mean())
    other = net.shown(Paths(many.seen, many.action, many.decision, Key.of(9)))
    moved = float((other != net.shown(many)).double().mean())
    whole = _network(0.0)[0]
    none = float((1 - whole.shown(many)).sum())
    carried, apart = torch.zeros(3, 5).double(), 0.0
    for time in range(8):
        latent, carried = net.step(paths.seen[:, time], carried)
        apart = max(apart, gap(latent, net(paths.seen)[:, time]))
    holds = abs(share - 0.4) < 0.03 and 0.4 < moved < 0.56 and none == 0 and apart < EXACT
    return Finding(holds, say(blanked=share, another_in_the_next_step=moved, at_0=none, step_by_step=apart))


@claim("No gradient of MAPPO reaches the latent, and none of the latent's losses actor or critic: exactly 0.")
def no_gradient_of_mappo_reaches_the_latent_and_none_of_the_latents() -> Finding:
    strange, own = taught(believing(MAPO_LSO, PAIR, **FEW))
    return Finding(strange == 0 and own > 0, say(into_parts_of_others=strange, smallest_of_own=own))


@claim(
    "After a step the slow encoder has moved by `rate` of its way to the learnt one, and what acts is the learnt one."
)
def after_a_step_the_slow_encoder_has_moved_by_rate_of_its_way_to() -> Finding:
    parts = believing(MAPO_LSO, PAIR, **FEW)
    before = copy.deepcopy(_latents(parts))
    asyncio.run(train_step(parts, 1))
    now = _latents(parts)
    follow(before, 0.3)  # Both are one at first, and stay so.
    still = gap(
        [one.tolist() for one in before.slow.parameters()], [one.tolist() for one in before.memory.parameters()]
    )
    trio = zip(before.slow.parameters(), now.slow.parameters(), now.memory.parameters(), strict=True)
    off = max(gap(slow, old + 0.3 * (learnt - old)) for old, slow, learnt in trio)
    acting = cast(Any, cast(ControlPolicy, parts.lead.policy).module.beliefs).acting
    apart = max(gap(a, b) for a, b in zip(acting.memory.parameters(), now.memory.parameters(), strict=True))
    moved = max(gap(a, b) for a, b in zip(before.slow.parameters(), now.slow.parameters(), strict=True))
    return Finding(still == 0 and off < 1e-6 < moved and apart == 0, say(off=off, moved=moved, acting_off=apart))


@claim("With both coefficients at 0 it is MAPPO: the weights are equal bit for bit, in spread and foraging.")
def with_both_coefficients_at_0_it_is_mappo_the_weights_are_equal() -> Finding:
    nothing = MAPO_LSO.but({f"{LOSS}.dynamics": 0.0, f"{LOSS}.foretold": 0.0})
    furthest, moved = 0.0, 0.0
    for task in ("mpe:spread?agents=2&length=8", "forage:5x5-3p-1f?length=6"):
        ours, theirs = _weights(nothing, task, 2), _weights(MAPPO, task, 2)
        furthest = max(furthest, gap(ours, theirs))
        moved = max(moved, gap(ours, _weights(MAPPO, task, 0)))
    return Finding(furthest == 0 < moved, say(largest_difference_of_weights=furthest, moved=moved))


def _weights(recipe: Recipe, task: str, steps: int) -> torch.Tensor:
    """Of a run after so many steps, flat."""
    module = cast(ControlPolicy, believing(recipe, task, steps, curriculum__prompts=8).lead.policy).module
    return torch.cat([one.detach().flatten() for one in module.parameters()])


# ---------------------------------------------------------------- what it learns


@functools.cache
def _run(recipe: str, seed: int) -> tuple[tuple[float, ...], dict[str, float], dict[str, float]]:
    """The mean return of an agent in every step, and what was told in the first and in the last."""
    of = {"mapo-lso": MAPO_LSO, "mappo": MAPPO}[recipe]
    parts = believing(of, PAIR, 0, seed, **FEW)
    rows = [asyncio.run(train_step(parts, step)).metrics for step in range(1, STEPS + 1)]
    agents = len(cast(Any, tasks.find(PAIR)).world.agents)
    first, last = ({name: row[name] for name in row if name.startswith("latent/")} for row in (rows[0], rows[-1]))
    return tuple(row["reward/mean"] / agents for row in rows), first, last


@claim(
    "After 16 steps the mean cosine of what is told up to three moves ahead is above 0.7 and was below 0.6 within the "
    "first, the next latent is told with a smaller error, and no number of the latent is the same everywhere, in each "
    "of 3 seeds (predicted).",
    slow=True,
)
def after_16_steps_the_mean_cosine_of_what_is_told_up_to_three() -> Finding:
    ends = [_run("mapo-lso", seed)[1:] for seed in SEEDS]
    first, last = ([one[end]["latent/alike"] for one in ends] for end in (0, 1))
    errors = [[one[end]["latent/onward"] for one in ends] for end in (0, 1)]
    least = [one[1]["latent/least_deviation"] for one in ends]
    drops = all(new < old for old, new in zip(*errors, strict=True))
    return Finding(
        max(first) < 0.6 and min(last) > 0.7 and drops and min(least) > 0.05,
        say(cosine_in_the_first_step=first, in_the_last=last, error_first=errors[0], error_last=errors[1], least=least),
    )


@claim(
    "In spread with two its mean return over the first 16 steps is not told apart from MAPPO's over 3 seeds: the 95 % "
    "interval of the difference holds 0 (predicted: above 0).",
    slow=True,
)
def in_spread_with_two_its_mean_return_over_the_first_16_steps_is() -> Finding:
    ours, theirs = ([fmean(_run(name, seed)[0]) for seed in SEEDS] for name in ("mapo-lso", "mappo"))
    apart = [one - other for one, other in zip(ours, theirs, strict=True)]
    low, high = interval(apart)
    return Finding(low < 0 < high, say(ours=ours, mappo=theirs, difference=apart))


claim.constants(
    "Both coefficients are 1, three moves are told ahead, 0.2 of moments blanked; the slow encoder moves by 0.3.",
    MAPO_LSO,
    {
        LOSS: LatentLoss(1.0, 1.0, ahead=3, masked=0.2, hidden=(32,)),
        "hooks": (SlowTarget(0.3),),
        "update": MAPPO.update,
    },
)


def _moved(shipped: ShippedRun) -> dict[str, float]:
    fresh, now = (_latents(run) for run in (believing(MAPO_LSO, "mpe:spread"), shipped.parts))
    pairs = zip(fresh.slow.parameters(), now.slow.parameters(), strict=True)
    return {
        "slow encoder moved by": max(gap(one, other) for one, other in pairs),
        "error of what is seen": shipped.mean("latent/seen"),
    }


claim.shipped(MAPO_LSO, "regularisers", sees=_moved)
claim.spares("1.0 -> 40.0", "the scale of first weights")
claim.spares("seen.trajectory * span + time -> seen.trajectory * span - time", "tells every time apart as well")
claim.spares("mapo-lso: regularisers.0.horizon = 5120", "no length divides a mean over tokens")
claim.spares("mapo-lso: regularisers.1.horizon = 5120", "no length divides a mean over tokens")
