"""Measuring a policy that answers nothing, such as a scorer: by its own loss on recorded data that it was not shown."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from hocket.core.intervals import wilson
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.rewards.score import grade
from hocket.train.describe import described
from hocket.train.evaluate import Evaluated, spread
from hocket.train.kinds import kind_of, measure_of
from hocket.train.loop import Playing, RunContext
from hocket.types import Assignment, Trajectory


async def measure_held_out(parts: RunContext, *, n: int, key: Key, among: int | None = None) -> Evaluated:
    """The metrics of the first learner's loss on `n` scenarios of the split `eval`, all together.

    Which ones is as in `hocket.train.evaluate.evaluate`. The metric that `Objective.held_out` names is the success; of
    a share there is an interval over what it counts, pairs or labels. Nothing is sampled and nothing remembered.
    """
    started = time.perf_counter()
    recipe, task = parts.lead.recipe, parts.task
    named = recipe.objective.held_out
    assert named is not None

    async def score(trajectories: Sequence[Trajectory]) -> None:
        await grade(trajectories, parts.rewards, key=key.derive("score"), journal=parts.journal)

    asked = [Assignment(task.scenario("eval", number), decoding=parts.decoding) for number in spread(task, n, among)]
    playing = Playing(parts.player, key.derive("evaluate"))
    rollout = recipe.rollout.collect(
        asked, play=playing, score=score, ledger=parts.ledger, key=key.derive("rollout"), more=None
    )
    played = (await rollout).trajectories
    batch = pack(played)
    told = described(played, task=task, player=parts.player, ledger=parts.ledger, reads=recipe.reads)
    found = parts.lead.measured(batch.but(info=told | dict(batch.info)), parts.weights)
    measure, total = measure_of(recipe, kind_of(task)), found.get(f"{named.partition('/')[0]}/total", math.nan)
    success = found.get(named, math.nan)
    interval = wilson(success * total, int(total)) if measure.share and total > 0 else (math.nan, math.nan)
    apart = {named, f"{named.partition('/')[0]}/total"}
    return Evaluated(
        success=success,
        low=interval[0],
        high=interval[1],
        n=int(total) if math.isfinite(total) else len(asked),
        length=sum(one.length for one in played) / max(1, len(played)),
        seconds=time.perf_counter() - started,
        measure=measure,
        traits={name.rpartition("/")[2]: value for name, value in found.items() if name not in apart},
        trajectories=played,
    )
