"""MASS: prompts of blocks, then which blocks a team has, then all prompts together (Zhou et al., arXiv:2502.02533).

Three stages. *Blocks*: the prompt of a single predictor is improved, then, with it, that of each block by itself in the
smallest team that has it; its incremental influence is `I_b = E(with it) / E(without)`. *Topology*: teams are drawn in
which block b is there with probability `softmax(I / t)_b`, those of more calls than a team may take are drawn anew, and
the best on the development cases is kept. *Workflow*: the prompts of that team are improved together.

Only the abstract and a summary were at hand. Ours are: how prompts are improved (rewritten in view of wrong answers,
as `reflective` does; the paper's optimiser of prompts is another); that a block that is there has one of its counts,
each as likely; that a team of the first stage may stay the best; that a share of 0 that is right counts as half a case,
so that influence is finite; how often each is tried.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from hocket.agents.search.plain import reflected
from hocket.agents.search.searcher import SearchBench, Searcher, SearchMethod, Trial
from hocket.core.errors import ConfigurationError
from hocket.core.texts import Block

First = Literal["prompts", "topology"]

DRAWS = 200
"""So many draws without a new team end the search for one."""


def activation(influence: Mapping[str, float], temperature: float) -> dict[str, float]:
    """How likely each block is there: softmax of influence over temperature."""
    top = max(influence.values())
    mass = {name: math.exp((one - top) / temperature) for name, one in influence.items()}
    return {name: one / sum(mass.values()) for name, one in mass.items()}


def drawn(blocks: Sequence[Block], chances: Mapping[str, float], draw: np.random.Generator) -> dict[str, int]:
    """A team: each block there with its chance, and then with one of its counts."""
    found = {}
    for block in blocks:
        there, which = draw.random() < chances[block.name], int(draw.integers(1, len(block.counts)))
        found[block.name] = block.counts[which] if there else block.counts[0]
    return found


@dataclass(frozen=True)
class BlocksToTeams(Searcher):
    """See the module.

    Attributes:
        proposals: prompts for the first predictor and for each block. topologies: teams that are measured.
        rounds: how often each prompt of the best team is rewritten. batch: practice cases looked at for a prompt.
        temperature: t; small, and only the most influential blocks are drawn. most: calls of a team.
        first: `topology` draws teams by the influence of blocks with the prompts they began with.
    """

    proposals: int = 4
    topologies: int = 12
    rounds: int = 2
    batch: int = 4
    temperature: float = 0.2
    most: int = 12
    first: First = "prompts"

    def __post_init__(self) -> None:
        for name, least in (("proposals", 0), ("topologies", 0), ("rounds", 0), ("batch", 1), ("most", 1)):
            if getattr(self, name) < least:
                raise ConfigurationError(f"searcher.{name} = {getattr(self, name)}: it must be at least {least}")
        if not self.temperature > 0:
            raise ConfigurationError(f"searcher.temperature = {self.temperature}: it must be above 0")
        if self.first not in get_args(First):
            raise ConfigurationError(f"searcher.first = {self.first!r}; choose from {', '.join(get_args(First))}")

    def check(self, bench: SearchBench) -> None:
        if not bench.blocks:
            raise ConfigurationError("mass builds teams of blocks, and the workflow has none; take --workflow blocks")

    def search(self, bench: SearchBench) -> None:
        alone = {block.name: block.counts[0] for block in bench.blocks}
        start = bench.measure(replace(bench.start, blocks=alone), "a single predictor", bench.trials[0])
        if start is None:
            return
        proposals = self.proposals if self.first == "prompts" else 0
        base, influence = self._by_block(bench, start, alone, proposals)
        best = self._by_topology(bench, base, influence)
        count = {**alone, **(best.texts.blocks or {})}
        roles = [block.role for block in bench.blocks if count[block.name] > block.counts[0]]
        roles = list(dict.fromkeys([bench.blocks[0].role, *roles]))
        for number in range(self.rounds * len(roles)):
            best = _better(best, reflected(bench, best, roles[number % len(roles)], number, self.batch))

    def _by_block(
        self, bench: SearchBench, start: Trial, alone: Mapping[str, int], proposals: int
    ) -> tuple[Trial, dict[str, float]]:
        """The single predictor with every block's prompt as improved by itself, and the influence of blocks."""
        base = self._improved(bench, start, bench.blocks[0].role, proposals)
        prompts, influence = dict(base.texts.prompts), dict[str, float]()
        for block in bench.blocks:
            smallest = replace(base.texts, blocks={**alone, block.name: block.counts[1]})
            small = bench.measure(smallest, f"with {block.name}", base)
            if small is None:  # It leaves no room in the context, say.
                influence[block.name] = 0.0
                continue
            if block.role != bench.blocks[0].role:
                small = self._improved(bench, small, block.role, proposals)
                if block.role in small.texts.prompts:
                    prompts[block.role] = small.texts.prompts[block.role]
            influence[block.name] = _share(small) / _share(base)
        texts = replace(base.texts, prompts=prompts)
        return bench.measure(texts, "every block's own prompt", base) or base, influence

    def _by_topology(self, bench: SearchBench, base: Trial, influence: Mapping[str, float]) -> Trial:
        """The best of teams drawn by influence, and of all before."""
        best, chances, tried = _better(base, bench.best), activation(influence, self.temperature), 0
        draw = bench.key.derive("topology").numpy()
        seen, idle = {base.texts.digest}, 0
        while tried < self.topologies and idle < DRAWS:
            texts, idle = replace(base.texts, blocks=drawn(bench.blocks, chances, draw)), idle + 1
            if texts.digest in seen or bench.calls(texts) > self.most:
                continue
            seen.add(texts.digest)
            tried, idle = tried + 1, 0
            best = _better(best, bench.measure(texts, f"topology {tried}", base))
        return best

    def _improved(self, bench: SearchBench, trial: Trial, role: str, proposals: int) -> Trial:
        for number in range(proposals):
            trial = _better(trial, reflected(bench, trial, role, number, self.batch))
        return trial


def _better(best: Trial, other: Trial | None) -> Trial:
    return other if other is not None and other.score > best.score else best


def _share(trial: Trial) -> float:
    return trial.score or 0.5 / len(trial.scores)


MASS = SearchMethod(
    name="mass",
    description="prompts of blocks, then which blocks a team has, then all its prompts",
    searcher=BlocksToTeams(),
    source="arXiv:2502.02533",
)
