"""Questions of one token, each with a success rate of its own at the start, and ledgers that know of rates."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from hocket.lab.policy import Tabular
from hocket.lab.world import World
from hocket.train.ledger import Ledger


def coins(rates: Sequence[float]) -> tuple[World, Callable[[Tabular], None]]:
    """A world of two answers, 1 the right one, and the start at which question q is right with probability rates[q]."""
    world = World(len(rates), 2, 1, lambda question, answer: float(answer[0]))

    def start(policy: Tabular) -> None:
        for question, rate in enumerate(rates):
            policy.logits[policy.row(question, ()), 1] = math.log(rate / (1 - rate))

    return world, start


def ledger_of(*rates: float, samples: int = 1000) -> Ledger:
    """One in which scenario lab/q was tried so often, right at the rate of place q, in one group."""
    ledger = Ledger()
    for question, rate in enumerate(rates):
        for number in range(samples):
            ledger.record(f"lab/{question}", 1, float(number < rate * samples))
    return ledger
