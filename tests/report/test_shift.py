"""`hocket eval --task SHIFTED --beside RUN2`: what a policy loses where it was not trained."""

from __future__ import annotations

import pytest

import hocket
from hocket.apps.cli.parser import main
from hocket.apps.report.shift import shift_drop

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
