"""Benches trained over seeds, starts that are set token by token, and exact measures of what was learnt."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from hocket.lab.bench import Bench
from hocket.lab.claims.harness import SEEDS
from hocket.lab.policy import Tabular
from hocket.lab.toys.instances import Instances
from hocket.lab.world import Answer, World
from hocket.recipe import Recipe


def trained(
    world: World, recipe: Recipe, steps: int, /, *, seeds: Iterable[int] = SEEDS, **settings: Any
) -> list[Bench]:
    """A bench per seed after `steps`, without readings on the way; all instances of a world are asked."""
    if isinstance(world, Instances):
        settings = {"steps": steps, "prompts": world.count, **settings}
    return [Bench(world, recipe, seed, **settings).run(steps, every=steps + 1) for seed in seeds]


def logits(policy: Tabular, question: int, prefix: Answer, odds: dict[int, float], rest: float = 1e-6) -> None:
    """Sets the next token's distribution in a context; tokens not named get `rest` before normalisation."""
    row = torch.full((policy.world.tokens,), rest, dtype=torch.float64)
    for token, chance in odds.items():
        row[token] = chance
    policy.logits[policy.row(question, prefix)] = (row / row.sum()).log()


def starting(shares: Mapping[tuple[int, Answer], Any], rest: float = 1e-6) -> Callable[[Tabular], None]:
    """A start by question and prefix: the probabilities of all tokens, or of some as in `logits`."""

    def start(policy: Tabular) -> None:
        for (question, prefix), odds in shares.items():
            if isinstance(odds, Mapping):
                logits(policy, question, prefix, dict(odds), rest)
            else:
                policy.logits[policy.row(question, prefix)] = torch.as_tensor(odds, dtype=torch.float64).log()

    return start


def chances(bench: Bench, question: int = 0, prefix: Answer = ()) -> Tensor:
    """The next token's distribution in a context, `[V]`."""
    return torch.softmax(bench.policy.logits.detach()[bench.policy.row(question, prefix)], -1)


def answers_of(bench: Bench, question: int) -> tuple[list[Answer], Tensor]:
    """Every answer to a question and its probability."""
    with torch.no_grad():
        return list(bench.world.answers()), bench.policy.logp(question).exp()


def on(question: int, bench: Bench, measure: Callable[[int, Answer], float]) -> float:
    """The exact mean of `measure` over answers to one question."""
    with torch.no_grad():
        return float(bench.policy.expectation(question, [measure(question, reply) for reply in bench.world.answers()]))


def accuracy(question: int, bench: Bench) -> float:
    """The exact success rate on one question."""
    return on(question, bench, bench.world.correct or bench.world.reward)


def length(question: int, bench: Bench) -> float:
    """The exact mean length on one question."""
    return on(question, bench, lambda _, answer: len(answer))


def right_length(question: int, bench: Bench) -> float:
    """The exact mean length of right answers to one question."""
    rate = bench.world.correct or bench.world.reward
    total = on(question, bench, lambda q, answer: len(answer) * rate(q, answer))
    return total / max(accuracy(question, bench), 1e-12)


def area(bench: Bench) -> float:
    """The mean success rate over a run's readings: high for one that learnt early."""
    return fmean([reading.success for reading in bench.readings])
