"""Claims about forecasts that PPO tunes."""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass
from typing import cast

import numpy as np

from hocket import tasks
from hocket.core.batch import Batch
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.core.signals import paid_at_decisions
from hocket.credit.reinforce import ReturnToGo
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.claims.shipped_check import configured
from hocket.methods.applications.langtime.method import LANGTIME
from hocket.methods.applications.langtime.series import (
    CONTEXT,
    NAMES,
    PATCH,
    TRAINING,
    Floats,
    Forecasting,
    Forecasts,
    first_forecaster,
    losses,
    normal_windows,
    windows,
)
from hocket.policies.control import ControlPolicy
from hocket.recipes import find
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.loop import train_step
from hocket.types import Assignment

claim = Claims("langtime", "arXiv:2503.08271, the abstract; the parts of the reward and what is repeated are our own")

HORIZON = Forecasts().patches


@functools.cache
def _played() -> Batch:
    """Episodes of the recipe before any step."""
    task = tasks.find("forecast")
    parts = build_parts(configured(LANGTIME, "forecast", task, {}), task)
    assignments = [Assignment(task.scenario("train", number)) for number in range(40)]
    return pack(run_async(parts.player.play(assignments, key=Key.of(0))))


def _loss(forecast: Floats, truth: Floats) -> float:
    """What one patch loses, value by value."""
    gaps = [float(a - b) for a, b in zip(forecast, truth, strict=True)]
    square = sum(gap * gap for gap in gaps) / 4
    slope = sum((after - gap) ** 2 for gap, after in itertools.pairwise(gaps)) / 3
    return min(0.7 * square + 0.3 * slope, 5.0)


@claim("Advantages are those of the formula, with every repeated patch weighed one by one in float64; also discounted.")
def advantages_are_those_of_the_formula() -> Finding:
    batch, off, cut = _played(), [], 0
    paid = batch.scores["reward"].values.double().numpy()
    for gamma, lam in ((1.0, 0.95), (0.8, 0.5)):
        recipe = LANGTIME.but(**{"credit.gamma": gamma, "credit.lam": lam})
        got = recipe.credit(paid_at_decisions(batch, batch.scores["reward"].values)).advantage.numpy()
        raw = np.zeros(len(paid))
        for turn, states in enumerate(batch.joint):
            rows = np.asarray(states, np.float64)
            places = np.flatnonzero(batch.turn.numpy() == turn)
            truth, values = rows[0, 1 + PATCH :].reshape(HORIZON, PATCH), [0.0] * (HORIZON + 1)
            for made in range(HORIZON):
                lost = [_loss(rows[made, 1 : 1 + PATCH], truth[k]) for k in range(made, HORIZON)]
                cut += sum(value == 5.0 for value in lost)
                values[made] = -sum(gamma**k * value for k, value in enumerate(lost))
            ahead = 0.0
            for made in reversed(range(HORIZON)):
                error = paid[places[made]] + gamma * values[made + 1] - values[made]
                ahead = error + gamma * lam * ahead
                raw[places[made]] = ahead
        wanted = (raw - raw.mean()) / (raw.std(ddof=1) + 1e-8)
        off.append(float(np.abs(got - wanted[batch.occurrences.decision.numpy()]).max()))
    return Finding(max(off) < 1e-5 and cut > 0, say(off=max(off), losses_cut_off=cut))


@claim("With values by repetition advantages vary less than returns less their mean by half, before any whitening.")
def repetition_explains_most_of_what_windows_differ_in() -> Finding:
    batch = _played()
    paid = batch.scores["reward"].values.double().numpy()
    gained, returns = [], []
    for turn, states in enumerate(batch.joint):
        rows = np.asarray(states, np.float64)
        places, truth = np.flatnonzero(batch.turn.numpy() == turn), rows[0, 1 + PATCH :].reshape(HORIZON, PATCH)
        for made in range(HORIZON):
            to_go = float(paid[places[made:]].sum())
            returns.append((made, to_go))
            gained.append((made, to_go + sum(_loss(rows[made, 1 : 1 + PATCH], truth[k]) for k in range(made, HORIZON))))
    spread = [
        np.mean([np.var([value for place, value in pairs if place == made]) for made in range(HORIZON)])
        for pairs in (gained, returns)
    ]
    return Finding(bool(spread[0] < 0.5 * spread[1]), say(left=float(spread[0] / spread[1])))


@claim("A forecast by hand: each patch after the last 16 values, its own included, and what it is paid.")
def a_forecast_by_hand() -> Finding:
    world, off, weights = Forecasts(), 0.0, first_forecaster(HORIZON)
    book, draw = world.open(8), Key.of(2).numpy()
    assert isinstance(book, Forecasting)
    book.reset(range(8), range(8))
    values = [list(row[:CONTEXT]) for row in book.truth]
    for made in range(HORIZON):
        action = draw.normal(size=(8, PATCH))
        sight = book.seen()[0]
        moved = book.step([action], np.ones(8, bool))
        for row in range(8):
            last = np.array(values[row][-CONTEXT:])
            patch = last @ weights[:CONTEXT] + weights[CONTEXT] + 0.25 * action[row]
            truth = book.truth[row, CONTEXT + PATCH * made : CONTEXT + PATCH * (made + 1)]
            off = max(off, abs(float(moved.rewards[row, 0]) + _loss(patch, truth)))
            off = max(off, float(np.abs(sight[row, :CONTEXT] - last).max()) * 1e-4)  # Sights are float32.
            values[row] += list(patch)
    return Finding(off < 1e-8 and bool(moved.terminated.all()), say(off=off))


@claim("No window reaches over a gap or from training into what is evaluated, and no later value changes a forecast.")
def nothing_is_seen_ahead() -> Finding:
    world, apart = Forecasts(), True
    with np.load(__file__.replace("claims/langtime.py", "langtime/two_series.npz")) as file:
        for name in NAMES:
            values, lengths = file[name], file[f"{name}_lengths"]
            cut, size = int(TRAINING * len(values)), CONTEXT + PATCH * HORIZON
            stretch = np.repeat(np.arange(len(lengths)), lengths)
            for split, low, high in (("train", 0, cut), ("eval", cut, len(values))):
                starts = [at for at in range(low, high - size + 1) if stretch[at] == stretch[at + size - 1]]
                expected = np.stack([values[at : at + size] for at in starts])
                apart &= np.array_equal(windows(name, HORIZON, split), expected)
    changes = []
    for later in (0.0, 3.0):
        book = cast(Forecasting, world.open(4))
        book.reset(range(4), range(4))
        book.truth[:, CONTEXT:] += later
        sights = []
        for _ in range(HORIZON):
            sights.append(book.seen()[0])
            book.step([np.zeros((4, PATCH))], np.ones(4, bool))
        changes.append(np.stack(sights))
    return Finding(apart and np.array_equal(changes[0], changes[1]), say(windows_as_expected=apart))


@claim(
    "Little is to be gained here: linear forecasts of all patches at once, in which no errors add up, have squares "
    "that are at most 6 % below those of the first forecaster on its own forecasts, at any patch of unseen windows."
)
def little_is_to_be_gained() -> Finding:
    shares = []
    for name in NAMES:
        train, unseen = (normal_windows(name, HORIZON, split) for split in ("train", "eval"))
        x, other = (np.concatenate([rows[:, :CONTEXT], np.ones((len(rows), 1))], 1) for rows in (train, unseen))
        direct = other @ np.linalg.solve(x.T @ x + 1e-3 * len(x) * np.eye(CONTEXT + 1), x.T @ train[:, CONTEXT:])
        values = unseen.copy()
        for made in range(HORIZON):
            last = values[:, made * PATCH : made * PATCH + CONTEXT]
            place = slice(CONTEXT + made * PATCH, CONTEXT + (made + 1) * PATCH)
            values[:, place] = np.concatenate([last, other[:, -1:]], 1) @ first_forecaster(HORIZON)
        squares = [
            ((rows - unseen[:, CONTEXT:]) ** 2).reshape(len(unseen), HORIZON, PATCH).mean((0, 2))
            for rows in (direct, values[:, CONTEXT:])
        ]
        shares.append(1 - squares[0] / squares[1])
    best = float(np.max(shares))
    return Finding(best < 0.06, say(most=best, glucose=shares[0].tolist(), sea=shares[1].tolist()))


# ---------------------------------------------------------------- what is learnt


@dataclass(frozen=True)
class Gain:
    """What training gained on 3,000 unseen windows: in what is paid, its half interval, and by series and patch.

    `loss` and `square` are shares of what was lost before, `[2, H]`, and `half` the half interval of `loss`.
    """

    paid: float
    interval: float
    loss: Floats
    half: Floats
    square: Floats


def _forecast(policy: ControlPolicy | None, count: int = 3000) -> tuple[Forecasting, Floats, Floats]:
    """Forecasts of unseen windows without noise, and the truth, `[B, H, PATCH]`; None is the first forecaster."""
    book = cast(Forecasting, Forecasts().open(count))
    book.reset(range(count), range(1, 2 * count, 2))
    action = np.zeros((count, PATCH))
    for _ in range(HORIZON):
        if policy is not None:
            action = policy.sample(book.seen()[0], np.full((count, PATCH), 0.5), np.zeros(count, np.float32))[0]
        book.step([action], np.ones(count, bool))
    forecast, truth = (rows[:, CONTEXT:].reshape(count, HORIZON, PATCH) for rows in (book.held, book.truth))
    return book, forecast, truth


@functools.cache
def _gained(recipe: str, seed: int) -> Gain:
    """Of `hocket train --task forecast --recipe RECIPE`, against the first forecaster on the same windows."""
    task = tasks.find("forecast")
    parts = build_parts(configured(find(recipe), "forecast", task, {"seed": seed}), task)
    for step in range(1, 61):
        run_async(train_step(parts, step))
    book, before, truth = _forecast(None)
    after = _forecast(cast(ControlPolicy, parts.lead.policy))[1]
    lost = [losses(rows, truth) for rows in (before, after)]
    squares = [((rows - truth) ** 2).mean(2) for rows in (before, after)]
    paid = (lost[0] - lost[1]).sum(1)
    loss, half, square = [], [], []
    for number in range(len(NAMES)):
        mine = book.number == number
        level, gap = lost[0][mine].mean(0), (lost[0] - lost[1])[mine]
        loss.append(gap.mean(0) / level)
        half.append(1.96 * gap.std(0) / math.sqrt(mine.sum()) / level)
        square.append(1 - squares[1][mine].mean(0) / squares[0][mine].mean(0))
    interval = 1.96 * float(paid.std()) / math.sqrt(len(paid))
    return Gain(float(paid.mean()), interval, np.stack(loss), np.stack(half), np.stack(square))


@claim(
    "`hocket train --recipe langtime` earns more on 3,000 unseen windows than before, beyond the interval of the "
    "difference by window, and no less than PPO with a critic by more than both intervals; in each of 2 seeds.",
    slow=True,
    learns=True,
)
def it_earns_more_on_unseen_windows() -> Finding:
    pairs = [(_gained("langtime", seed), _gained("ppo", seed)) for seed in range(2)]
    holds = all(
        mine.paid > mine.interval and mine.paid > other.paid - mine.interval - other.interval for mine, other in pairs
    )
    figures = {"gained": [mine.paid for mine, _ in pairs], "half_interval": [mine.interval for mine, _ in pairs]}
    return Finding(holds, say(**figures, ppo=[other.paid for _, other in pairs]))


@claim(
    "Its gain grows with the horizon: in each of 2 seeds the loss that it is paid by falls at the last patch on "
    "glucose and on sea, beyond the interval, and by more than at the first patch. In plain squares it falls there on "
    "sea alone, and rises on glucose.",
    "abstract",
    slow=True,
)
def its_gain_grows_with_the_horizon() -> Finding:
    runs = [_gained("langtime", seed) for seed in range(2)]
    grows = all(bool((run.loss[:, -1] > np.maximum(run.half[:, -1], run.loss[:, 0])).all()) for run in runs)
    squares = all(run.square[1, -1] > 0 > run.square[0, -1] for run in runs)
    figures = {
        f"{name}_{patch}": [float(run.loss[number, patch]) for run in runs]
        for number, name in enumerate(NAMES)
        for patch in (0, -1)
    }
    return Finding(
        grows and squares, say(**figures, squares=[float(run.square[k, -1]) for run in runs for k in (0, 1)])
    )


claim.shipped(LANGTIME, without={"credit": ReturnToGo(whiten=True)})
