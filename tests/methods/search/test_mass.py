"""MASS at its edges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from hocket.agents.search.searcher import SearchBench
from hocket.core.texts import Texts
from hocket.lab.texts_worlds import searched
from hocket.methods.search.claims.mass import ENOUGH, PLENTY, SEEDS, run, varying, world
from hocket.methods.search.mass.blocks_world import Built
from hocket.methods.search.mass.method import BlocksToTeams


def test_a_share_of_0_counts_as_half_a_case() -> None:
    """Four cases, of which the single predictor gets none and each block's team one."""

    @dataclass(frozen=True)
    class Rare(Built):
        def play(self, texts: Texts, cases: Any, samples: int, **how: Any) -> list[Any]:
            more = any(one.counts[0] < (texts.blocks or {}).get(one.name, 0) for one in self.blocks)
            return [
                replace(one, score=float(more and case % 4 == 2))
                for case, one in zip(cases, super().play(texts, cases, samples, **how), strict=True)
            ]

    seen: dict[str, float] = {}

    @dataclass(frozen=True)
    class Watched(BlocksToTeams):
        def _by_topology(self, bench: SearchBench, base: Any, influence: Mapping[str, float]) -> Any:
            seen.update(influence)
            return super()._by_topology(bench, base, influence)

    one = Rare(able=0.3, effects=world(0).effects)
    searched(one, varying(0), Watched(proposals=0, rounds=0), seed=0, budget=PLENTY, practice=6, development=4)
    assert set(seen.values()) == {0.25 / 0.125}


def test_few_teams_are_measured_once() -> None:
    benches = [run(seed, replace(ENOUGH, temperature=1e-3, topologies=100))[1] for seed in SEEDS]
    tried = [sum(trial.how.startswith("topology") for trial in bench.trials) for bench in benches]
    assert max(tried) <= 2
