"""SRPO's claims."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from hocket.core.keys import Key
from hocket.curriculum.random_order import Shuffled
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.toys.rates import coins, ledger_of
from hocket.lab.toys.recorded_answers import lines
from hocket.methods.base.grpo import GRPO
from hocket.methods.data_and_rollout.srpo import SRPO
from hocket.train.ledger import Ledger

claim = Claims("srpo", "arXiv:2504.14286")
ASKING: Any = SRPO.curriculum
RATES = (1.0, 0.0, 0.5, 1.0, 0.9, 0.0, 1.0, 0.1)


@claim("The first pass is everything once; later passes hold exactly what was not solved by every sample.")
def the_first_pass_is_everything_once_later_passes_hold_exactly() -> Finding:
    world, _ = coins([0.5] * len(RATES))
    whole = [one.id for one in ASKING(world, 0, 8, Ledger(), Key.of(0))]
    plain = [one.id for one in Shuffled()(world, 0, 8, Ledger(), Key.of(0))]
    ledger, kept = ledger_of(*RATES, samples=10), {f"lab/{n}" for n, rate in enumerate(RATES) if rate < 1}
    passes = [[one.id for one in ASKING(world, 8 * n, 8, ledger, Key.of(0))] for n in range(1, 30)]
    least = min(set(map(len, (set(one) for one in passes))))
    holds = (
        (ASKING.prompts, ASKING.pool) == (16, None)
        and whole == plain
        and all(set(one) == kept for one in passes)
        and least == len(kept)
    )
    return Finding(holds, say(kept=str(sorted(kept))))


@claim(
    "What all samples failed is never dropped, what was dropped comes back nowhere, and all solved means all are asked."
)
def what_all_samples_failed_is_never_dropped_what_was_dropped_comes() -> Finding:
    world, _ = coins([0.5] * 4)
    failed, solved = ledger_of(0.0, 1.0, 1.0, 1.0, samples=4), ledger_of(1.0, 1.0, 1.0, 1.0, samples=4)
    only = {one.id for n in range(10) for one in ASKING(world, 4 + n, 1, failed, Key.of(0))}
    every = {one.id for one in ASKING(world, 4, 4, solved, Key.of(0))}
    return Finding(only == {"lab/0"} and len(every) == 4, say(asked=str(sorted(only)), when_all_are_solved=len(every)))


EASY = (*[0.99] * 12, *[0.3] * 6)


@claim("After the first pass fewer groups are without signal than in GRPO, and hard scenarios end higher.")
def after_the_first_pass_fewer_groups_are_without_signal_than_in() -> Finding:
    world, start = coins(EASY)
    made = {
        one.name: [Bench(world, one, seed, start=start, prompts=6).run(30, every=40) for seed in range(4)]
        for one in (SRPO, GRPO)
    }
    silent = {
        name: [1 - fmean(r["groups/with_signal"] for r in b.history[3:]) / 6 for b in g] for name, g in made.items()
    }
    hard = {name: [3 * b.expected(lambda q, a: float(q >= 12 and a[0])) for b in g] for name, g in made.items()}
    holds = max(silent["srpo"]) < min(silent["grpo"]) and min(hard["srpo"]) > max(hard["grpo"])
    return Finding(holds, lines(silent_groups=silent, success_on_hard=hard))


claim.shipped(
    SRPO,
    without={"curriculum.solved": 2.0},
    task="worked_sums",
    settings={"curriculum.pool": 16, "curriculum.prompts": 8, "rollout.samples": 2},
    steps=4,
)
