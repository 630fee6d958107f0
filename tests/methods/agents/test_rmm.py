"""RMM's bank and rounds."""

from __future__ import annotations

from hocket.agents.search.searcher import SearchBench
from hocket.core.keys import Key
from hocket.core.texts import Texts
from hocket.lab.texts_worlds import searched
from hocket.methods.agents.claims.rmm import MEMORIES, Dialogue, talked
from hocket.methods.agents.rmm import ReflectiveMemory, prospect


def test_after_every_round_bank_and_reranker_are_measured() -> None:
    bench = talked(0, rounds=3)
    parents = [trial.parent for trial in bench.trials]
    learnt = [trial.texts.recall is not None and bool(trial.texts.recall.learnt) for trial in bench.trials]
    holds = parents == [None, 0, 1, 2, 3] and learnt == [False, False, True, True, True]
    assert holds


def test_memories_merged_wrongly_are_added() -> None:
    said = iter(["one is here\none is here", "two is there", "MERGE 9: nonsense", "three is here", "MERGE 1:", " - \n"])
    bench = SearchBench(Dialogue((0,)), lambda question: next(said), Texts(), Key.of(0), 10, 1, 1)  # type: ignore[arg-type]
    bank: tuple[str, ...] = ()
    for number in range(4):
        bank = prospect(bench, bank, f"session {number}")
    assert bank == ("one is here", "two is there", "three is here")


def test_without_a_memory_nothing_is_measured() -> None:
    order = list(range(len(MEMORIES)))
    bench = searched(Dialogue(order), lambda question: "- ", ReflectiveMemory(), practice=16, development=8)
    assert len(bench.trials) == 1
    assert bench.spent == 8 + 16
