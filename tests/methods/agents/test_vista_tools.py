"""VisTA's toolbox: how often lists of tools are right."""

from __future__ import annotations

from statistics import fmean

from hocket.methods.agents.claims.vista_tools import BOX, EVENLY, TASK, oracle
from hocket.methods.agents.vista_tools.task import GOOD, TOOLS, most_said


def test_how_often_a_list_of_tools_is_right() -> None:
    cases, off = [TASK.scenario("train", number) for number in range(4000)], 0.0
    for called in (("scan",), ("trace", "scan"), ("count", "match", "read"), TOOLS):
        for kind in GOOD:
            seen_of = [one for one in cases if one.metadata["kind"] == kind]
            hits = [most_said([one.metadata["readings"][tool] for tool in called]) == one.answer for one in seen_of]
            due = BOX.accuracy(kind, called)
            off = max(off, abs(fmean(hits) - due) / (due * (1 - due) / len(hits)) ** 0.5)
    _listed, fixed = BOX.best(EVENLY)
    every = fmean(BOX.accuracy(kind, TOOLS) for kind in GOOD)
    assert off < 3.5
    assert oracle() > fixed + 0.2
    assert fixed > every
