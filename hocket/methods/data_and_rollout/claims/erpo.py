"""ERPO's claims."""

from __future__ import annotations

from statistics import fmean
from typing import Any

import torch

from hocket.curriculum.scenario_worth import Even, Weighted
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.toys.rates import coins
from hocket.lab.toys.recorded_answers import lines
from hocket.methods.data_and_rollout.erpo import ERPO
from hocket.train.ledger import Ledger

claim = Claims("erpo", "arXiv:2511.04800")
HEATED: Any = ERPO.rollout


@claim(
    "Each visit that was solved throughout raises the next one's temperature, a wrong answer sets it back, T_max ends."
)
def each_visit_that_was_solved_throughout_raises_the_next_ones() -> Finding:
    ledger, seen, wanted, visits = Ledger(), [], [], 0
    for step, right in enumerate((4, 4, 3, 4, *[4] * 9, 0, 4), 1):
        seen.append(HEATED.temperature(1.0, ledger.history("q")))
        wanted.append(min(1.6, 1.0 + 0.1 * visits))
        for number in range(4):
            ledger.record("q", step, float(number < right))
        visits = visits + 1 if right == 4 else 0
    off = max(abs(one - other) for one, other in zip(seen, wanted, strict=True))
    plain = ERPO.curriculum == Weighted(Even(), prompts=16, pool=None, even=0.0)
    return Finding(
        plain and off < 1e-12 and max(seen) == 1.6 and HEATED.temperature(2.0, [1.0]) == 2.0, say(temperatures=seen)
    )


SATURATED = (*[0.97] * 6, *[0.5] * 6)


@claim("Learning reads log-probs at the temperature of sampling: the first ratio is 1 where scenarios are heated.")
def learning_reads_log_probs_at_the_temperature_of_sampling_the() -> Finding:
    world, start = coins(SATURATED)
    bench = Bench(world, ERPO, start=start, lr=0.05).run(6, every=10)
    result = bench.step()
    batch = result.batch
    assert batch is not None
    assert batch.temperature is not None
    hot = torch.unique(batch.temperature).tolist()
    each = batch.temperature.double()
    shares = float((each > 1).double().mean()), float(each.mean())
    told = (
        max(abs(result.metrics[f"rollout/{n}"] - one) for n, one in zip(("heated", "temperature"), shares, strict=True))
        < 1e-6
    )
    return Finding(
        len(hot) > 1 and max(hot) > 1.1 and result.metrics["kl/behaviour"] < 1e-6 and told,
        say(temperatures=hot, kl_to_the_sampler=result.metrics["kl/behaviour"]),
    )


@claim(
    "Where half of the scenarios are all but solved, more groups differ than at a fixed temperature; none gets worse."
)
def where_half_of_the_scenarios_are_all_but_solved_more_groups() -> Finding:
    world, start = coins(SATURATED)
    fixed = ERPO.but({"rollout.rise": 0.0}, name="fixed")
    made = {
        one.name: [Bench(world, one, seed, start=start).run(40, every=50) for seed in range(4)] for one in (ERPO, fixed)
    }
    signal = {
        name: [fmean(row["groups/with_signal"] for row in b.history) for b in group] for name, group in made.items()
    }
    ends = {name: [bench.success() for bench in group] for name, group in made.items()}
    holds = min(signal["erpo"]) > max(signal["fixed"]) and min(ends["erpo"]) > min(ends["fixed"]) - 0.01
    return Finding(holds, lines(groups_with_signal_of_12=signal, success=ends))


claim.shipped(
    ERPO,
    without={"rollout.rise": 0.0},
    task="worked_sums",
    settings={"curriculum.pool": 8, "curriculum.prompts": 8, "rollout.samples": 4},
    steps=5,
    sees=lambda run: {"heated": run.mean("rollout/heated")},
)
