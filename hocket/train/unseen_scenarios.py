"""What evaluation measures: answers to unseen scenarios, and a recipe's own loss on recorded responses to them."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hocket.core.batch import Batch
from hocket.core.intervals import wilson
from hocket.core.keys import Key
from hocket.core.notices import say
from hocket.core.occurrences import apart
from hocket.core.packing import pack
from hocket.rewards.score import grade
from hocket.stages import Metrics, Reward
from hocket.train.aio import run_async
from hocket.train.describe import described
from hocket.train.evaluate import EvaluationResult, evaluate, evaluate_both, spread
from hocket.train.judges import asking
from hocket.train.kinds import held_out_of
from hocket.train.kinds.ways import SAMPLED, leads_of
from hocket.train.kinds.words import is_recorded
from hocket.train.loop import Playing, RunContext
from hocket.types import Assignment, Trajectory

ANSWERED = 32
"""How many scenarios are answered if nothing verifies answers: for their mean length, and as examples."""


async def measured(
    parts: RunContext, rewards: Sequence[Reward], *, n: int, key: Key, among: int | None = None, both: bool = False
) -> EvaluationResult:
    """The evaluation of the first learner on `n` scenarios of the split `eval`, see `hocket.train.evaluate.evaluate`.

    A recipe that learns from recorded responses is measured on those of the same scenarios too (`recorded_metrics`).
    Where nothing tells right answers from wrong ones, that is the success, and a few scenarios are answered to be
    shown; a scorer answers none. With `both` play is measured greedily and as it is sampled.
    """
    started = time.perf_counter()
    common: dict[str, Any] = {"decoding": parts.decoding, "key": key, "among": among, "journal": parts.journal}
    named, measure, recipe = held_out_of(parts.lead.recipe), parts.measure, parts.lead.recipe
    play = evaluate_both if both else evaluate
    if named is None:
        return _reported(await play(parts.task, parts.player, rewards, n=n, **common))
    responses, recorded = await recorded_metrics(parts, named, n=n, key=key, among=among)
    if measure.answers:
        result = _reported(await play(parts.task, parts.player, rewards, n=n, **common))
        return replace(result, recorded=recorded, seconds=time.perf_counter() - started)
    played = responses
    if recipe.objective.held_out is None:
        played = (await evaluate(parts.task, parts.player, (), n=min(n, ANSWERED), **common)).trajectories
    stem, total = named.partition("/")[0], recorded.get(f"{named.partition('/')[0]}/total", math.nan)
    return EvaluationResult(
        success=recorded.get(named, math.nan),
        low=recorded.get(f"{stem}/low", math.nan),
        high=recorded.get(f"{stem}/high", math.nan),
        n=int(total) if math.isfinite(total) else len({response.scenario.id for response in responses}),
        length=sum(trajectory.length for trajectory in played) / max(1, len(played)),
        seconds=time.perf_counter() - started,
        measure=measure,
        trajectories=played,
        recorded=recorded,
    )


def measured_by_run(parts: RunContext, *, full: int, n: int | None = None) -> EvaluationResult:
    """As a run measures itself: on `n` of the `full` number of scenarios, spread over all of them. Calls no judge.

    If the task declares `leads`, an evaluation of full size measures both greedy and sampled play. If sampled play
    leads, every evaluation does.
    """
    cheap = [reward for reward in parts.rewards if parts.judge is None or not any(asking([reward]))]
    leads, size = leads_of(parts.task), n or full
    both = leads == SAMPLED or (leads is not None and size >= full)
    return run_async(measured(parts, cheap, n=size, among=full, key=parts.key.derive("evaluation"), both=both))


def _reported(result: EvaluationResult) -> EvaluationResult:
    """Reports the problems of an evaluation, and returns it."""
    for problem in result.problems:
        say(f"evaluation: {problem}")
    return result


async def recorded_metrics(
    parts: RunContext, named: str, *, n: int, key: Key, among: int | None = None
) -> tuple[Sequence[Trajectory], Metrics]:
    """The recorded responses to `n` unseen scenarios, and the metrics of the first learner's loss on all together.

    They are credited and annotated as in a step. Of a share there is a 95 % interval besides, `low` and `high`, over
    what `total` counts: pairs, labels or lists. Pairs have mean lengths too, `length_chosen` and `length_rejected`, in
    decisions. Nothing is sampled, remembered or learnt.
    """
    recipe, task = parts.lead.recipe, parts.task

    async def score(trajectories: Sequence[Trajectory]) -> None:
        await grade(trajectories, parts.rewards, key=key.derive("score"), journal=parts.journal)

    scenarios = apart(task.scenario("eval", number) for number in spread(task, n, among))
    assignments = [Assignment(scenario, decoding=parts.decoding) for scenario in scenarios]
    if len(assignments) < 2 and getattr(recipe.rollout, "mismatched", False):
        return (), {}  # One alone has nobody to take an answer from.
    playing = Playing(parts.player, key.derive("evaluate"))
    rollout = recipe.rollout.collect(
        assignments, play=playing, score=score, ledger=parts.ledger, key=key.derive("rollout"), more=None
    )
    played = (await rollout).trajectories
    batch = pack(played)
    columns = described(played, task=task, player=parts.player, ledger=parts.ledger, reads=recipe.reads)
    credited, metrics = parts.lead.measured(batch.but(info=columns | dict(batch.info)), parts.weights)
    metrics = {name: value for name, value in metrics.items() if is_recorded(name)}
    return played, {**metrics, **_interval(metrics, named), **_lengths(credited)}


def _interval(metrics: Mapping[str, float], named: str) -> Metrics:
    stem, _, what = named.partition("/")
    total, share = metrics.get(f"{stem}/total", 0.0), metrics.get(named, math.nan)
    if what != "accuracy" or not total or not math.isfinite(share):
        return {}
    low, high = wilson(share * total, int(total))
    return {f"{stem}/low": low, f"{stem}/high": high}


def _lengths(batch: Batch) -> Metrics:
    pairs = batch.occurrences.pairs
    if pairs is None or not len(pairs):
        return {}
    chosen, rejected = batch.lengths().double()[pairs].mean(0).tolist()
    return {"pairs/length_chosen": chosen, "pairs/length_rejected": rejected}
