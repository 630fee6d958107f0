"""Traces that a teacher finds."""

from __future__ import annotations

import json
from statistics import fmean

from hocket.lab.toys import orders
from hocket.methods.data_and_rollout.tree_opo.making import TraceSearch, TraceSettings


def test_what_the_search_of_a_teacher_finds_is_right(tmp_path):
    path = tmp_path / "traces.jsonl"
    teacher = f"{orders.__file__}:teacher"
    found = TraceSearch(TraceSettings("worked_sums", model=teacher, until="=", n=6, searches=20), path).run()
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 6
    assert found.right > 0.6
    assert fmean(len(row["traces"]) for row in rows) > 2
    for row in rows:
        texts = ["".join(trace) for trace in row["traces"]]
        assert set(texts) <= set(orders.right_answers(row["prompt"]))
        assert len(set(texts)) == len(texts)
        assert row["demonstration"] in texts
        for steps in row["traces"]:
            assert [step.find("=") for step in steps] == [*(len(step) - 1 for step in steps[:-1]), -1]
