"""The debaters of OPTAGENT, and the cases of its rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from hocket.agents.search.searcher import CaseResult
from hocket.core.keys import Key
from hocket.core.texts import Texts
from hocket.lab.texts_worlds import searched
from hocket.methods.search.claims.optagent import SEEDS, every, team
from hocket.methods.search.optagent.graph_world import Debaters
from hocket.methods.search.optagent.method import VerbalGraph


def test_the_exact_accuracy_is_what_playing_comes_to() -> None:
    gaps = []
    for seed in SEEDS[:3]:
        one = replace(team(seed), exact=False)
        edges = tuple(every(one)[seed::2])
        played = one.play(Texts(edges=edges), range(4000), 1, greedy=False, key=Key.of(seed))
        gaps.append(abs(fmean(each.score for each in played) - one.accuracy(frozenset(edges))))
    assert max(gaps) < 0.03


def test_rounds_go_through_the_cases_in_turn() -> None:
    seen = list[tuple[int, ...]]()

    @dataclass(frozen=True)
    class Watched(Debaters):
        def play(
            self, texts: Texts, cases: Sequence[int], samples: int, *, first: int = 0, greedy: bool, key: Key
        ) -> list[CaseResult]:
            if not greedy:
                seen.append((first, *cases))
            return super().play(texts, cases, samples, first=first, greedy=greedy, key=key)

    one = Watched((0.9, 0.6, 0.45), (0.9,) * 3, (0.4, 0.0, 0.1), exact=True)
    searched(
        one, lambda question: "KEEP", replace(VerbalGraph(), cases=2), seed=1, budget=10**7, practice=5, development=1
    )
    # The draw and the cases of rounds 0, 3, 4 and 5; in the second and third none connected is the best.
    assert seen[:4] == [(0, 0, 1), (1, 1, 2), (1, 3, 4), (2, 0, 1)]
