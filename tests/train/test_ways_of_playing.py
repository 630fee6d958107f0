"""Greedy and sampled figures of one policy: which leads, when both are shown, and where."""

import asyncio
import json
from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest
from rich.console import Console

import hocket
from hocket.apps.cli.display import closing
from hocket.apps.report.evaluation import evaluate_run
from hocket.apps.report.page import before_and_after, hero, page
from hocket.apps.report.reading import read_run
from hocket.core.keys import Key
from hocket.tasks.gym import GymTask
from hocket.train.evaluate import evaluate_both
from hocket.train.kinds.ways import Way, as_greedy, leads_of, ways_of, ways_shown
from hocket.train.progress import Progress
from hocket.types import Decoding, Scenario, Score, Trajectory

APART = {"return": 0.1, "low": 0.05, "high": 0.15, "sampled": 0.9, "sampled/low": 0.8, "sampled/high": 1.0, "n": 50}
CLOSE = {"return": 0.1, "low": 0.0, "high": 0.2, "sampled": 0.3, "sampled/low": 0.2, "sampled/high": 0.4, "n": 50}
ALONE = {"return": 0.1, "low": 0.05, "high": 0.15, "n": 50}

WAYS = ("sampled", "greedy")


def test_both_are_shown_where_their_intervals_are_apart():
    assert ways_shown(APART, APART, "return", "greedy") == ("greedy", "sampled")
    assert ways_shown(APART, APART, "return", "sampled") == ("sampled", "greedy")
    assert ways_shown(CLOSE, CLOSE, "return", "greedy") == ("greedy",)  # Ends that touch are not apart.
    assert ways_shown(CLOSE, CLOSE, "return", "sampled") == ("sampled",)
    assert ways_shown(CLOSE, APART, "return", "sampled") == ("sampled", "greedy")
    assert ways_shown(ALONE, ALONE, "return", "sampled") == ("greedy",)  # Nothing else was measured.
    assert ways_shown({}, {}, "return", "greedy") == ("greedy",)


def test_figures_of_a_way():
    assert as_greedy(APART, "return", "sampled") == {"return": 0.9, "low": 0.8, "high": 1.0}
    assert as_greedy(ALONE, "return", "sampled") == {}
    assert list(ways_of(ALONE, "return")) == ["greedy"]
    steady = Way("greedy", 500.0, 500.0, 500.0)
    assert steady.apart(Way("sampled", 92.0, 80.0, 104.0))
    assert not steady.apart(Way("sampled", 500.0, float("-inf"), float("inf")))


def test_what_tasks_name():
    assert leads_of(GymTask("CartPole-v1")) == "greedy"
    assert leads_of(hocket.tasks.find("forage:6x6-2p-2f")) == "sampled"
    assert leads_of(hocket.tasks.find("mapf:lifelong")) == "sampled"
    assert leads_of(hocket.tasks.find("mpe:spread")) == "greedy"
    assert leads_of(hocket.tasks.find("sums")) is None
    assert leads_of(hocket.tasks.find("maze")) == "greedy"


@dataclass(frozen=True)
class Coin:
    """Pays 1 where it is played at a temperature, 0 greedily."""

    leads: str = "sampled"
    name: str = "coin"
    kind: str = "control"

    def size(self, split):
        return None

    def scenario(self, split, number):
        return Scenario(str(number), "", seed=number)

    def success(self, trajectory):
        return float(trajectory.scores["reward"].value)

    def describe(self, trajectory):
        return {}

    async def play(self, asked, *, key):
        return [Trajectory(one.scenario, [], scores={"reward": Score(one.decoding.temperature)}) for one in asked]


def measured(leads):
    coin = Coin(leads)
    return asyncio.run(evaluate_both(coin, coin, (), decoding=Decoding(temperature=0.7), key=Key.of(0), n=4))


def test_both_ways_are_measured_on_the_same_scenarios_and_told():
    found = measured("sampled")
    assert (found.success, found.sampled.success, found.leading) == (0.0, pytest.approx(0.7), pytest.approx(0.7))
    assert [one.scenario.id for one in found.sampled.trajectories] == [one.scenario.id for one in found.trajectories]
    metrics, told = found.metrics(), found.summary()
    assert metrics["eval/return"] == told["return"] == 0.0
    assert metrics["eval/sampled"] == told["sampled"] == pytest.approx(0.7)
    assert metrics["eval/sampled/low"] == told["sampled/low"] <= 0.7
    assert measured("greedy").leading == 0.0
    assert replace(found, sampled=None).leading == 0.0


def test_the_best_is_by_the_way_that_leads():
    progress = Progress()
    progress.evaluated(measured("sampled"), 1, last=False)
    assert progress.best == {"success": pytest.approx(0.7), "step": 1}


def panel(summary, folder):
    console = Console(width=100, record=True, file=SimpleNamespace(write=lambda text: None, flush=lambda: None))
    console.print(closing(summary, folder, resume=""))
    return console.export_text()


def told(leads, after):
    return {
        "name": "r", "measure": "return", "leads": leads, "before": {**after, "step": 0}, "after": {**after, "step": 3},
        "seconds": 1.0, "steps": 3, "samples": [], "reason": "finished",
    }  # fmt: skip


def test_the_closing_panel(tmp_path):
    both = panel(told("sampled", APART), tmp_path).splitlines()
    first, second = (next(n for n, line in enumerate(both) if f"return, {way}" in line) for way in WAYS)
    assert first < second
    assert "0.9" in both[first]
    assert "0.1" in both[second]
    assert "with sampled" not in "".join(both)
    alone = panel(told("greedy", ALONE), tmp_path)
    assert "return, " not in alone
    assert "return, sampled" in panel(told("sampled", CLOSE), tmp_path)
    assert "greedy" not in panel(told("sampled", CLOSE), tmp_path)


def test_a_run_from_training_to_its_page(tmp_path):
    """Two steps of foraging: what is in its files and on its page, and what `hocket eval` prints."""
    settings = {"evaluation.n": 6, "evaluation.between": 2, "evaluation.every": 1, "curriculum.prompts": 2}
    run = hocket.train("forage:4x4-2p-1f", recipe="ippo", steps=2, runs=str(tmp_path), run="r", **settings)
    rows = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    assert all("eval/sampled" in row for row in rows)  # The one that leads is measured on the way, too.
    summary = json.loads((run.path / "summary.json").read_text())
    assert summary["leads"] == "sampled"
    assert summary["after"]["sampled"] == rows[-1]["eval/sampled"]
    assert summary["after"]["return"] == rows[-1]["eval/return"]
    assert summary["best"]["success"] == max(row["eval/sampled"] for row in rows[1:])
    found = evaluate_run(run.path, [], n=6, samples=0, task=None, which="last")
    assert [row[0] for row in found["rows"]] == ["sampled return", "greedy return"]
    assert found["rows"][0][1] == pytest.approx(rows[-1]["eval/sampled"])
    seen = read_run(run.path)
    seen.summary.update({"before": {**APART, "step": 0}, "after": {**APART, "step": 2}})
    top = hero(seen)
    assert top.what == "Mean return on 50 unseen episodes, sampled"
    assert (top.after, list(top.beside)) == ("0.9", ["greedy 0.1 → 0.1"])
    assert [row["name"] for row in before_and_after(seen)][:2] == ["return, sampled", "return, greedy"]
    assert "greedy 0.1 → 0.1" in page(seen)
