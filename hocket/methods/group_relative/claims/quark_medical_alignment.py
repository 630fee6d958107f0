"""QuarkMed alignment's claims."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import Any, cast

import torch

from hocket.core.batch import Level, LevelScores
from hocket.core.signals import REWARD
from hocket.lab.claims.harness import Claims, Finding, below, each, gap, runs, say
from hocket.lab.hand_formulas import CountedAnswer, off, stale_rows, standardised
from hocket.lab.microscope import RecordedBatch
from hocket.lab.toys.enumerable_groups import scored_document
from hocket.lab.world import World
from hocket.recipes import GRPO, QUARK

claim = Claims("quark-medical-alignment", "arXiv:2602.11661; factors as chosen here")


@claim("advantages are those counted by hand: frozen scales, weakness at most 10 deviations, risk and redundancy")
def advantages_are_those_counted_by_hand_frozen_scales_weakness_at() -> Finding:
    def rewarded(rows: Sequence[Mapping[str, Any]], level: Mapping[str, float]) -> dict[str, float]:
        scores = {k: torch.tensor([row["scores"][k] for row in rows], dtype=torch.float64) for k in level}
        z = {k: (scores[k] - {"a": 0.4, "b": 0.2}[k]) / {"a": 0.3, "b": 0.5}[k] for k in level}
        both = max(0.0, float(torch.corrcoef(torch.stack(list(z.values())))[0, 1]))
        now = {k: min(10.0, max(-10.0, 0.8 * level[k] + 0.2 * float(z[k].mean()))) for k in level}
        raw = {k: {"a": 2.0, "b": 1.0}[k] * math.exp(-now[k]) / (1 + both) for k in level}
        total = sum((raw[k] / sum(raw.values()) * z[k] for k in level), torch.zeros(len(rows), dtype=torch.float64))
        return {row["id"]: float(value) for row, value in zip(rows, total, strict=True)}

    def credit(members: Sequence[CountedAnswer], earned: Mapping[str, float]) -> list[float]:
        return standardised([replace(one, reward=earned[one.row["id"]]) for one in members])

    gaps, recipe = [], QUARK.but({"combine.risk": {"a": 2.0}})
    for rows in stale_rows("quark"):
        for row in rows:
            row["scores"] = {"a": row["scores"]["reward"] + 0.3 * row["value"][0], "b": row["value"][0]}
        for level in ({"a": 0.7, "b": -0.5}, {"a": 0.7, "b": 30.0}):
            known = {"mean": {"a": 0.4, "b": 0.2}, "deviation": {"a": 0.3, "b": 0.5}, "level": level}
            earned = rewarded([row for row in rows if any(row["trained"])], level)
            gaps.append(off(recipe, rows, credit=partial(credit, earned=earned), state={"combine": known}))
    return Finding(max(gaps) < 1e-11, say(off_by_hand=max(gaps)))


def rewards(seed: int, unit: float) -> torch.Tensor:
    """Of three batches in a row, with one source in another unit."""
    state, values = QUARK.init(), []
    for step in range(3):
        batch = RecordedBatch(scored_document(seed * 3 + step, ("a", "b", "c"), (1.0, unit, 1.0))).batch
        batch, state = QUARK.compute_credit(batch, state, {"a": 1.0, "b": 1.0, "c": 1.0})
        values.append(batch.scores["reward"].values)
    return torch.cat(values)


def share(document: Mapping[str, Any], names: Sequence[str]) -> float:
    """The part of the reward that sources `names` have, by how it changes when they are moved by one deviation."""
    batch, combine = RecordedBatch(document).batch, cast(Any, QUARK.combine)
    weights, scores = dict.fromkeys(batch.scores, 1.0), dict(batch.scores)
    _, state = combine(batch, weights, combine.init())
    # The move is the same for every trajectory, so correlations stay; only the level changes, which is held.
    level = {name: value - (0.25 if name in names else 0.0) for name, value in state["level"].items()}
    for name in names:
        scores[name] = LevelScores(Level.TRAJECTORY, scores[name].values + state["deviation"][name])
    pairs = ((batch, state), (batch.but(scores=scores), {**state, "level": level}))
    base, shifted = (combine(one, weights, held)[0].scores["reward"].values for one, held in pairs)
    return float((shifted - base).mean())


@claim("a source in another unit leaves the reward unchanged; a source given twice does not double its weight")
def a_source_in_another_unit_leaves_the_reward_unchanged_a_source() -> Finding:
    changes, ratios = [], []
    for seed in range(6):
        changes.append(gap(rewards(seed, 1.0), rewards(seed, 1000.0)))
        document = scored_document(seed, ("a", "b", "c"))
        once = share(document, ("a",))
        for row in document["trajectories"]:
            row["scores"]["again"] = row["scores"]["a"]
        ratios.append(share(document, ("a", "again")) / once)
    figures = say(largest_change_of_a_reward=max(changes), weight_of_a_source_given_twice=ratios)
    return Finding(max(changes) < 1e-9 and max(ratios) < 1.5, figures)


LOUD, QUIET = (100.0, 98.0, 0.0, 20.0, 0.0), (0.0, 0.9, 1.0, 0.1, 0.0)
"""A loud objective, 100 times the quiet one: one extreme answer, a compromise, the other extreme, and nothing."""


@claim(
    "with scales 100:1 a raw sum ignores the quiet objective; the frozen scale lifts it and costs the other < 5%",
    "arXiv:2602.11661",
    slow=True,
)
def with_scales_100_1_a_raw_sum_ignores_the_quiet_objective_the() -> Finding:
    # The world's own empty reward is constant, so that it never gets a scale.
    parts = {"loud": lambda q, a: LOUD[a[0]], "quiet": lambda q, a: QUIET[a[0]]}
    sides = (GRPO.but(name="raw"), QUARK.but(name="scaled"))
    made = runs(World(2, 5, 1, lambda q, a: 0.0, parts=parts), *sides, steps=120, every=120)
    quiet = each(made, lambda run: run.expected(parts["quiet"]))
    loud = each(made, lambda run: run.expected(parts["loud"]) / 100)
    holds = min(quiet["scaled"]) > max(quiet["raw"]) + 0.3
    holds &= all(scaled >= 0.95 * raw for raw, scaled in zip(*loud.values(), strict=True))
    return Finding(holds, say(quiet=quiet, loud=loud))


@claim("a temperature and an epsilon divide; a weight or risk not named is 1, and scores of turns are only weighed")
def a_temperature_and_an_epsilon_divide_a_weight_or_risk_not_named() -> Finding:
    a, b, turns = (0.1, 0.9, 0.4, 0.7), (0.3, 0.2, 0.8, 0.6), (0.5, -1.0, 2.0, 0.25)
    rows = [
        {"group": "q", "scores": {"a": one, "b": other}, "turn_scores": [{"c": turn, "d": turn}], "logp": [-1.0]}
        for one, other, turn in zip(a, b, turns, strict=True)
    ]
    settings = {"risk": {"a": 3.0}, "temperature": 0.5, "epsilon": 0.1, "momentum": 0.5}
    combine: Any = QUARK.but({f"combine.{name}": value for name, value in settings.items()}).combine
    known = {"mean": {"a": 0.4, "b": 0.2}, "deviation": {"a": 0.3, "b": 0.5}, "level": {"a": 0.2, "b": -0.1}}
    batch, _ = combine(RecordedBatch({"version": 1, "trajectories": rows}).batch, {"a": 2.0, "c": 0.25}, known)
    z = [[(one - 0.4) / (0.3 + 0.1) for one in a], [(one - 0.2) / (0.5 + 0.1) for one in b]]
    # Redundancy is the same of both, and falls out.
    raw = [6 * math.exp(-(0.1 + fmean(z[0]) / 2) / 0.5), math.exp(-(-0.05 + fmean(z[1]) / 2) / 0.5)]
    wanted = [(raw[0] * one + raw[1] * other) / sum(raw) for one, other in zip(*z, strict=True)]
    off_by_hand = gap(batch.scores[REWARD[Level.TRAJECTORY]].values, torch.tensor(wanted, dtype=torch.float64))
    off_turns = gap(batch.scores[REWARD[Level.TURN]].values, torch.tensor(turns, dtype=torch.float64) * 1.25)
    return below(1e-12, off_by_hand=off_by_hand, scores_of_turns_off=off_turns)


@claim("a source that is constant in the first batch has no scale, though rounding may give it a deviation", "derived")
def a_source_that_is_constant_in_the_first_batch_has_no_scale() -> Finding:
    rows = [{"group": "q", "scores": {"a": 0.1, "b": other}, "logp": [-1.0]} for other in (0.0, 1.0, 1.0)]
    batch = RecordedBatch({"version": 1, "trajectories": rows}).batch
    combine: Any = QUARK.combine
    rounded = float(batch.scores["a"].values.std())
    _, state = combine(batch, {}, combine.init())
    return Finding(rounded > 0 and list(state["mean"]) == ["b"], say(deviation_of_a_constant=rounded))


claim.spares("1.0 -> 40.0", "no correlation is above 1 but by rounding")

claim.shipped(QUARK, "combine")
