"""Swarms of tables: nodes with a table each that learn a world together, through the messages of any swarm."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_pre_hook

from hocket.core.outcomes import StepResult
from hocket.distributed.swarm.node import join, off_policy
from hocket.distributed.swarm.swarm import Deliver, Swarm, whole
from hocket.lab.bench import Bench
from hocket.lab.policy import Tabular
from hocket.lab.world import World
from hocket.recipe import Recipe
from hocket.stages import Metrics
from hocket.train.aio import run_async
from hocket.train.loop import RunContext, train_step


@dataclass
class TableSwarm:
    """Tables that learn together.

    Attributes:
        world: what they learn. recipes: of each node; they ask `curriculum.prompts` scenarios a step.
        seed: of all; each node draws from its own. start: of each table. deliver, recompute: of the swarm.
        ends: after how many steps a node fails, by its number.
        benches: the nodes. results: of each node's steps.
    """

    world: World
    recipes: Sequence[Recipe]
    seed: int = 0
    lr: float = 0.05
    start: Callable[[Tabular], None] | None = None
    deliver: Deliver = whole
    recompute: bool = True
    ends: Mapping[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.swarm = Swarm(deliver=self.deliver, recompute=self.recompute)
        self.benches: list[Bench] = []
        self.metrics: list[list[Metrics]] = [[] for _ in self.recipes]
        self.last: dict[int, StepResult] = {}
        for number, recipe in enumerate(self.recipes):
            prompts, seed = recipe.curriculum.prompts, 1000 * self.seed + number
            bench = Bench(self.world, recipe, seed, self.lr, prompts=prompts, start=self.start)
            line = self.swarm.line(f"node-{number}", bench.parts.task)
            join(bench.parts, line)
            self.swarm.add(line, self._stepping(number, bench))
            self.benches.append(bench)

    def _stepping(self, number: int, bench: Bench) -> Callable[[], None]:
        def step() -> None:
            if bench.done == self.ends.get(number):
                raise RuntimeError("killed")
            self.last[number] = result = bench.step()
            self.metrics[number].append({**result.metrics, **off_policy(result)})

        return step

    def run(self, steps: int) -> TableSwarm:
        """So many rounds; returns itself."""
        for _ in range(steps):
            self.swarm.round()
        return self

    def counts(self, what: str) -> int:
        """How many messages came to this at all nodes, as in `Pool.counts`."""
        return sum(member.line.pool.counts[what] for member in self.swarm.members.values())

    def cumulative(self, nodes: Sequence[int] | None = None) -> float:
        """The mean reward of own samples, summed over steps, mean over nodes."""
        chosen = range(len(self.benches)) if nodes is None else nodes
        return fmean(sum(row["reward/own"] for row in self.metrics[number]) for number in chosen)

    def mean(self, metric: str, nodes: Sequence[int] | None = None) -> float:
        """The mean of a metric over the steps of these nodes that have it."""
        chosen = range(len(self.benches)) if nodes is None else nodes
        return fmean(row[metric] for number in chosen for row in self.metrics[number] if metric in row)


def stepping(parts: RunContext, results: list[StepResult], gradients: list[Tensor]) -> Callable[[], None]:
    """Makes the next step of a run, and keeps its result and its gradients, flat."""

    def step() -> None:
        def record(optimiser: torch.optim.Optimizer, *_: object) -> None:
            slopes = (p.grad for group in optimiser.param_groups for p in group["params"] if p.grad is not None)
            gradients.append(torch.cat([slope.flatten() for slope in slopes]).double())

        hook = register_optimizer_step_pre_hook(record)
        try:
            results.append(run_async(train_step(parts, next(number))))
        finally:
            hook.remove()

    number = itertools.count(1)
    return step
