"""CDPO's claims."""

from __future__ import annotations

import itertools
from dataclasses import replace
from statistics import fmean

import numpy as np

from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, gap, say
from hocket.lab.exact.counts import TransitionCounts
from hocket.lab.exact.mdp import Array, TabularMDP
from hocket.lab.exact.plan import PosteriorSampling
from hocket.lab.exact.solver import Solver, changed
from hocket.lab.exact.worlds import random, river
from hocket.methods.control.cdpo import CDPO, ConservativeDual, nearby, swept

claim = Claims("cdpo", "the paper, as the catalogue recalls it")
ROOT = Key.of(0).derive("cdpo")


def played(solver: Solver, one: TabularMDP, steps: int, seed: int = 0) -> tuple[list[Array], list[float]]:
    """The policies of a run, and what each lost to the optimum."""
    key = Key.of(seed)
    state, policies, lost = solver.init(one, key), [], []
    for step in range(steps):
        state, _ = solver.step(one, state, key.derive(step))
        policies.append(solver.answer(one, state))
        lost.append(one.optimum - one.value(policies[-1]))
    return policies, lost


def posteriors(count: int) -> list[tuple[TabularMDP, TransitionCounts]]:
    """Worlds of four states and three actions, of which some episodes were seen."""
    found = []
    for seed in range(count):
        one, counts = random(4, 3, seed=seed, horizon=4), None
        counts = TransitionCounts.none(one)
        for number in range(1 + 3 * seed):
            counts = counts.plus(one.episode(one.even, ROOT.derive("seen", seed, number)))
        found.append((one, counts))
    return found


@claim("With eta = 0 it is the certainty-equivalent policy, the best one in the posterior's mean model.")
def with_eta_0_it_is_the_certainty_equivalent_policy_the_best_one() -> Finding:
    gaps = []
    for seed in range(5):
        one, key = random(5, 3, seed=seed, horizon=5), Key.of(seed)
        solver = ConservativeDual(eta=0)
        state = solver.init(one, key)
        for step in range(20):
            weight = np.asarray(state["seen"]) + solver.prior
            model = replace(one, transition=weight / weight.sum(-1, keepdims=True))
            state, _ = solver.step(one, state, key.derive(step))
            gaps.append(model.optimum - model.value(solver.answer(one, state)))
    return Finding(max(gaps) < 1e-12, say(largest_loss_in_the_mean_model=max(gaps)))


@claim("With one posterior sample and no region it is posterior sampling, policy for policy.")
def with_one_posterior_sample_and_no_region_it_is_posterior() -> Finding:
    found, regions = [], []
    for seed in range(5):
        one = random(5, 3, seed=seed, horizon=5)
        sampling, _ = played(PosteriorSampling(prior=0.5), one, 40, seed)
        # The draws of one model are those of `PosteriorSampling`, as both take the key "model".
        found.append(gap(sampling, played(ConservativeDual(eta=1, models=1), one, 40, seed)[0]))
        regions.append(gap(sampling, played(ConservativeDual(models=1), one, 40, seed)[0]))
    return Finding(max(found) == 0 and min(regions) > 0.1, say(largest_difference=max(found), with_a_region=regions))


@claim("In the region around a row it takes the best shares, those that a search over all of them finds.")
def in_the_region_around_a_row_it_takes_the_best_shares_those_that() -> Finding:
    parts, gaps, moved = 20, [], []
    shares = [one for one in itertools.product(range(parts + 1), repeat=3) if sum(one) == parts]
    rows: Array = np.array(shares, np.float64) / parts
    noise = ROOT.derive("nearby").numpy()
    for eta in (0.0, 0.1, 0.35, 1.0) * 25:
        reference, gain = rows[noise.integers(len(rows))], noise.normal(size=3)
        near = rows[0.5 * np.abs(rows - reference).sum(-1) <= eta + 1e-12]
        found = nearby(reference[None], gain[None], eta)[0]
        gaps += [abs((near @ gain).max() - found @ gain), abs(found.sum() - 1), max(0.0, -found.min())]
        moved.append(0.5 * np.abs(found - reference).sum() - eta)
    return Finding(max(gaps) < 1e-12 and max(moved) < 1e-12, say(largest_difference=max(gaps), beyond_eta=max(moved)))


@claim("Every sweep raises the value averaged over the models, within the region, until no step alone can raise it.")
def every_sweep_raises_the_value_averaged_over_the_models_within() -> Finding:
    gains, apart, left = [], [], []
    for number, (one, counts) in enumerate(posteriors(8)):
        models = counts.drawn(0.5, ROOT.derive("models", number), 5)
        reference = replace(one, transition=counts.mean(0.5)).best.policy
        values, policy = [_average(one, models, reference)], reference
        for _ in range(12):
            policy = swept(one, models, policy, reference, 0.3)
            values.append(_average(one, models, policy))
        gains += [after - before for before, after in itertools.pairwise(values)]
        apart.append(0.5 * np.abs(policy - reference).sum(-1).max())
        left.append(max(_average(one, models, other) for other in _changed(policy, reference, 0.3)) - values[-1])
    holds = min(gains) > -1e-12 and max(gains) > 1e-3 and max(apart) < 0.3 + 1e-12 and max(left) < 1e-9
    return Finding(holds, say(least_gain=min(gains), most=max(gains), apart=max(apart), one_step_more=max(left)))


def _average(one: TabularMDP, models: Array, policy: Array) -> float:
    return fmean(replace(one, transition=model).value(policy) for model in models)


def _changed(policy: Array, reference: Array, eta: float) -> list[Array]:
    """Policies that differ in one row, by other shares of the region around the certain reference."""
    found = []
    for place in np.ndindex(*policy.shape[:-1]):
        for action in range(policy.shape[-1]):
            other = policy.copy()
            other[place] = (1 - eta) * reference[place] + eta * np.eye(policy.shape[-1])[action]
            found.append(other)
    return found


@claim(
    "Over 16 drawn worlds and the river regret falls off, is not above PSRL's, and policies change a quarter as much.",
    slow=True,
)
def over_16_drawn_worlds_and_the_river_regret_falls_off_is_not() -> Finding:
    holds, said = True, {}
    for kind, worlds in (("drawn", [random(6, 3, seed=20 + n, horizon=6) for n in range(16)]), ("river", [RIVER] * 4)):
        sampling = [_regret(PosteriorSampling(prior=0.5), one, seed) for seed, one in enumerate(worlds)]
        careful = [_regret(CDPO.solver, one, seed) for seed, one in enumerate(worlds)]
        alone = [_regret(ConservativeDual(eta=0), one, seed) for seed, one in enumerate(worlds)]
        early, late, moves = (fmean(column) for column in zip(*careful, strict=True))
        before, after, others = (fmean(column) for column in zip(*sampling, strict=True))
        holds &= late < 0.7 * early and early + late < before + after + 1 and moves < others / 4
        stuck = {
            name: sum(row[1] > 0.8 * row[0] and row[1] > 1 for row in rows)
            for name, rows in (("cdpo", careful), ("psrl", sampling), ("reference alone", alone))
        }
        said[f"{kind}: regret of each half"] = f"{early:.2f} and {late:.2f} (PSRL {before:.2f} and {after:.2f})"
        said[f"{kind}: changes"] = f"{moves:.4f} (PSRL {others:.4f})"
        said[f"{kind}: worlds of {len(worlds)} where it does not fall off"] = str(stuck)
    return Finding(holds, say(**said))


RIVER = river(4)


def _regret(solver: Solver, one: TabularMDP, seed: int, steps: int = 400) -> tuple[float, float, float]:
    """The regret of each half, and the mean change of policies."""
    policies, lost = played(solver, one, steps, seed)
    moves = fmean(changed(before, after) for before, after in itertools.pairwise(policies))
    return sum(lost[: steps // 2]), sum(lost[steps // 2 :]), moves


@claim(
    "A run is the module's, episode by episode in plain loops: reference, draws, sweeps, the region and the figures."
)
def a_run_is_the_modules_episode_by_episode_in_plain_loops() -> Finding:
    gaps, apart, starts = [], [], []
    for seed in range(3):
        one, key = replace(random(4, 3, seed=seed, horizon=4), discount=0.9), Key.of(seed)
        one = replace(one, start=np.array([0.5, 0.5, 0.0, 0.0]))
        solver, seen = ConservativeDual(eta=0.3, models=3, prior=0.7, sweeps=2), np.zeros_like(one.transition)
        state = solver.init(one, key)
        gaps.append(gap(solver.answer(one, state).tolist(), one.even.tolist()))
        for step in range(6):
            mean = (seen + 0.7) / (seen + 0.7).sum(-1, keepdims=True)
            reference = replace(one, transition=mean).best.policy
            models = TransitionCounts(seen).drawn(0.7, key.derive(step).derive("model"), 3)
            policy = reference
            for _ in range(2):
                reached = [np.stack([one.start] * 3)]
                for at in range(4):
                    moves = [np.einsum("sa,sat->st", policy[at], model) for model in models]
                    reached.append(np.stack([here @ move for here, move in zip(reached[-1], moves, strict=True)]))
                better, value = np.zeros_like(policy), np.zeros((3, 4))
                for at, place in itertools.product(reversed(range(4)), range(4)):
                    if place == 0:
                        ahead, value = value, np.zeros((3, 4))
                    quality = np.array([one.reward[place] + 0.9 * models[m, place] @ ahead[m] for m in range(3)])
                    likely = reached[at][:, place]
                    starts.append(bool(likely.any()))
                    gain = (likely if likely.any() else np.ones(3)) @ quality
                    row, left = reference[at, place].copy(), 0.3
                    for action in np.argsort(gain)[:-1]:
                        moved = min(row[action], left)
                        row[action], row[gain.argmax()], left = (
                            row[action] - moved,
                            row[gain.argmax()] + moved,
                            left - moved,
                        )
                    better[at, place], value[:, place] = row, quality @ row
                policy = better
            state, told = solver.step(one, state, key.derive(step))
            episode = one.episode(policy, key.derive(step).derive("episode"))
            for before, action, after in zip(episode.states[:-1], episode.actions, episode.states[1:], strict=True):
                seen[before, action, after] += 1
            apart.append(max(0.5 * abs(policy[place] - reference[place]).sum() for place in np.ndindex(4, 4)))
            gaps += [abs(told["return"] - episode.rewards.sum()), abs(told["from reference"] - apart[-1])]
            gaps += [
                gap(solver.answer(one, state).tolist(), policy.tolist()),
                gap(state["seen"].tolist(), seen.tolist()),
            ]
    holds = max(gaps) < 1e-9 and max(apart) > 0.2 and not all(starts)
    return Finding(holds, say(largest_difference=max(gaps), from_reference=apart))


@claim("What gains no more than a negligible sum stays, and of such actions the first takes what others lose.")
def what_gains_no_more_than_a_negligible_sum_stays_and_of_such() -> Finding:
    reference, hair = np.array([[0.3, 0.3, 0.4]]), 1e-13
    found = [nearby(reference, np.array([gain]), 1.0)[0].tolist() for gain in ([1, 1 + hair, 0], [1 + hair, 1, 0])]
    return Finding(gap(found, [[0.7, 0.3, 0.0]] * 2) < 1e-15, say(shares=str(found)))


claim.spares("-1 -> 1", "the last of two dimensions")
claim.spares("1.0 -> 40.0", "where all models count alike, how much they count changes no order")
claim.solved(CDPO, {"eta": 0.0}, better={"regret": -1})
