"""Training on experience of an older policy."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from hocket.core.batch import Batch
from hocket.lab.bench import Bench, TablePlayer
from hocket.stages import Policy


def run_stale(
    bench: Bench, steps: int, *, lag: int, every: int = 10, after: Callable[[Policy, Batch], None] | None = None
) -> Bench:
    """`steps` steps of a fresh bench, each from samples of the policy as it was `lag` steps before; returns the bench.

    The first `lag` steps sample from the policy at the start. `after` is shown the policy and the batch of every step
    once the weights have changed.
    """
    player = bench.parts.player
    assert isinstance(player, TablePlayer)
    past = deque([bench.policy.frozen_copy()], maxlen=lag + 1)
    for _ in range(steps):
        player.policies["policy"] = past[0]
        result = bench.step()
        past.append(bench.policy.frozen_copy())
        if after is not None and result.batch is not None:
            after(bench.policy, result.batch)
        if bench.done % every == 0:
            bench.readings.append(bench.reading())
    player.policies["policy"] = bench.policy
    return bench
