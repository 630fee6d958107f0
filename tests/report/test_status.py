"""Where a run stands, from what it left."""

from __future__ import annotations

import json
from pathlib import Path

from tiny_runs import call

from hocket.apps.report.page import page
from hocket.apps.report.reading import read_run

SAMPLER = {"name": "sampler 2", "where": "process 7 on here", "version": 3, "episodes": 1200, "busy": 6.0}


def a_run(folder: Path) -> Path:
    run = folder / "run"
    run.mkdir()
    rows = [{"step": 0, "eval/accuracy": 0.1}, {"step": 4, "reward/mean": 0.5, "agreement/stale": 1.0}]
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (run / "config.yaml").write_text("task: sums\nsteps: 9\nrecipe: {name: grpo}\n")
    (run / "messages.txt").write_text("a remark\nsampler 2 ended by SIGKILL; what it was asked another does\n")
    cluster = {"seconds": 8.0, "samplers": [{**SAMPLER, "sent": 24_000_000, "received": 400_000, "lost": 1}]}
    cluster |= {"lag": {"0": 1, "2": 3}, "dropped": 5}
    (run / "cluster.json").write_text(json.dumps(cluster))
    return run


def test_status_tells_the_step_the_samplers_and_the_faults(tmp_path: Path) -> None:
    said = call("status", a_run(tmp_path))
    assert said.code == 0, said.err
    told = " ".join(said.out.split())
    assert "run step 4 of 9, the last one 0 s ago" in told
    assert "version 3 1,200 75% 24.0 MB 0.4 MB 1 times" in told
    assert "sampler 2 ended by SIGKILL" in told
    assert "old by 0 versions 25%, 2 versions 75%; 5 groups grew too old" in told
    assert "a remark" not in told


def test_status_as_data(tmp_path: Path) -> None:
    found = call("status", a_run(tmp_path), "--json").json
    assert found["step"] == 4
    assert found["stale"] == 1.0
    assert found["samplers"][0]["episodes"] == 1200
    assert len(found["faults"]) == 1


def test_a_run_without_samplers_has_a_status_too(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    (run / "cluster.json").unlink()
    (run / "messages.txt").unlink()
    assert call("status", run).out.startswith("run  step 4 of 9")
    assert "Sampler processes" not in page(read_run(run))


def test_the_page_shows_who_sampled(tmp_path: Path) -> None:
    shown = page(read_run(a_run(tmp_path)))
    assert "Sampler processes (1)" in shown
    assert "<td>75%</td><td>24.0 MB</td>" in shown
    assert "2 versions 75%" in shown


def test_who_learns_which_policy_is_told(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    told = [{"name": "learner 0", "where": "process 7 on here", "learns": ["planner", "judge"]}]
    told += [{"name": "learner 1 (worker)", "where": "process 8 on here", "learns": ["worker"]}]
    (run / "cluster.json").write_text(json.dumps({"learners": told}))
    (run / "messages.txt").write_text("learner 1 (worker) ended by SIGKILL; the run continues from step 3\n")
    said = " ".join(call("status", run).out.split())
    assert "learner 0 process 7 on here planner, judge learner 1 process 8 on here worker" in said
    assert "learner 1 (worker) ended by SIGKILL" in said
    shown = page(read_run(run))
    assert "Learner processes (2)" in shown
    assert "<td>learner 0</td><td>process 7 on here</td><td>planner, judge</td>" in shown


def test_what_is_no_run_is_said(tmp_path: Path) -> None:
    said = call("status", tmp_path / "nothing")
    assert said.code == 2
    assert "nothing" in said.err
