"""What `hocket eval` compares with: the best of a scenario, and a policy that was trained on the task."""

from __future__ import annotations

import pytest

import hocket
from hocket.apps.cli.parser import main
from hocket.apps.report.evaluation import evaluate_run
from hocket.apps.report.shift import shift_drop
from hocket.core.errors import ConfigurationError
from hocket.core.worlds import BestValue
from hocket.zoo.joint.recall import Corridor

HOME, SHIFTED = "recall:corridor?length=2", "recall:corridor?length=4"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    settings = {"evaluation.n": 1, "evaluation.every": 0, "threads": 1, "curriculum.prompts": 2, "runs": str(folder)}
    for name, task in (("home", HOME), ("shifted", SHIFTED)):
        hocket.train(task, recipe="ippo", steps=1, run=name, **settings)
    return folder


def test_the_drop_is_the_mean_difference_by_scenario(runs):
    found = shift_drop(runs / "home", runs / "shifted", (), n=8, task=SHIFTED, which="last")
    (_, away, *_), (_, native, *_), (name, drop, low, high) = found["rows"]
    assert name == "drop"
    assert drop == pytest.approx(native - away)
    assert low <= drop <= high
    same = shift_drop(runs / "shifted", runs / "shifted", (), n=4, task=None, which="last")
    assert same["rows"][-1][1:] == (0, 0, 0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--task", HOME],
            "shifted was trained on recall:corridor?length=4. Train one with --task recall:corridor?length=2",
        ),
        (["--samples", "2"], "--samples and --beside are two measurements"),
    ],
)
def test_a_run_that_was_trained_elsewhere_is_refused(runs, capsys, words, message):
    assert main(["eval", str(runs / "home"), "--beside", str(runs / "shifted"), "--n", "2", *words]) == 2
    assert message in capsys.readouterr().err


def _measured(run, n=8):
    return {name: values for name, *values in evaluate_run(run, (), n=n, samples=0, task=None, which="last")["rows"]}


def test_eval_tells_the_gap_to_the_best_of_the_same_scenarios(runs):
    rows = _measured(runs / "home")
    assert rows["the best"][0] == 4.0
    gap, low, high = rows["gap to the best"]
    assert gap == pytest.approx(4.0 - rows["greedy return"][0])
    assert low <= gap <= high


def test_nothing_beats_an_oracle(runs, monkeypatch):
    monkeypatch.setattr(Corridor, "oracle", lambda self, seed: BestValue(50.0, exact=False))
    assert _measured(runs / "home")["the bound"][0] == 50.0
    monkeypatch.setattr(Corridor, "oracle", lambda self, seed: BestValue(-50.0))
    with pytest.raises(ConfigurationError, match=r"corridor/1 earned .* nothing earns more than -50"):
        _measured(runs / "home", 1)
