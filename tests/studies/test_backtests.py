"""Statistics of back-tests: against formulas by hand, against arch, and on returns without skill."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from hocket.apps.cli.parser import main
from hocket.apps.studies import backtests
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key

KEY = Key.of(0).derive("back-tests")


def _noise(*shape):
    return 0.01 * KEY.derive("noise", *shape).numpy().standard_normal(shape)


def test_blocks_are_runs_that_wrap_around_the_end():
    places = backtests.block_indices(KEY, 10, 4, draws=200)
    assert places.shape == (200, 10)
    within = np.diff(places, axis=1)[:, [0, 1, 2, 4, 5, 6, 8]]
    assert set(np.unique(within % 10)) == {1}
    assert np.bincount(places.ravel(), minlength=10).std() / 200 < 0.2


@pytest.mark.slow
def test_the_interval_of_dependent_returns_is_that_of_arch():
    bootstrap = pytest.importorskip("arch.bootstrap")
    noise, returns = _noise(600), np.zeros(600)
    for day in range(1, 600):
        returns[day] = 0.7 * returns[day - 1] + noise[day]
    returns += 0.003
    mine = backtests.sharpe_estimate(returns, KEY, block=20, draws=1000)
    other = bootstrap.CircularBlockBootstrap(20, returns, seed=1)
    low, high = other.conf_int(lambda row: row.mean() / row.std(ddof=1), reps=1000, method="percentile").ravel()
    assert mine.low == pytest.approx(low, abs=0.04)
    assert mine.high == pytest.approx(high, abs=0.04)
    alone = backtests.sharpe_estimate(returns, KEY, block=1, draws=1000)
    assert mine.high - mine.low > 1.5 * (alone.high - alone.low)


def test_what_strategies_have_in_common_cancels_in_their_difference():
    market, mine = _noise(500), 0.001 + 0.1 * _noise(500, 1)[:, 0]
    found = backtests.sharpe_difference(market + mine, market, KEY, draws=500)
    assert found.low > 0
    assert backtests.sharpe_difference(market, market, KEY, draws=50).to_json() == {"value": 0, "low": 0, "high": 0}


def test_the_probabilistic_ratio_is_the_formula_by_hand():
    returns = np.array([0.01, -0.02, 0.03, 0.015, -0.005, 0.02])
    mean = sum(returns) / 6
    moments = [sum((r - mean) ** power for r in returns) / 6 for power in (2, 3, 4)]
    ratio = mean / math.sqrt(moments[0] * 6 / 5)
    skew, kurtosis = moments[1] / moments[0] ** 1.5, moments[2] / moments[0] ** 2
    z = (ratio - 0.1) * math.sqrt(5) / math.sqrt(1 - skew * ratio + (kurtosis - 1) / 4 * ratio**2)
    assert backtests.probabilistic_sharpe(returns, 0.1) == pytest.approx(0.5 * (1 + math.erf(z / math.sqrt(2))))


def test_the_best_of_many_trials_without_skill_is_what_is_deflated_by():
    ratios = backtests.sharpe(_noise(250, 4000)).reshape(80, 50)
    expected = np.mean([backtests.best_of_trials(row.tolist()) for row in ratios])
    assert expected == pytest.approx(ratios.max(1).mean(), rel=0.05)
    trials = _noise(250, 50)
    best = int(backtests.sharpe(trials).argmax())
    assert backtests.probabilistic_sharpe(trials[:, best]) > 0.95
    assert backtests.deflated_sharpe(trials, best) < 0.8
    assert backtests.best_of_trials([0.3]) == 0.0


def test_splits_in_time_fit_on_the_past_alone():
    splits = backtests.time_splits(103, 4, gap=5)
    assert [(fit.stop, test.start, test.stop) for fit, test in splits] == [
        (18, 23, 43), (38, 43, 63), (58, 63, 83), (78, 83, 103),
    ]  # fmt: skip
    assert all(fit.start == 0 for fit, _ in splits)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: backtests.sharpe(np.full(10, 0.01)), "returns that do not vary have no Sharpe ratio"),
        (lambda: backtests.sharpe_difference(_noise(5), _noise(6), KEY), "returns of 5 and of 6 periods"),
        (lambda: backtests.block_indices(KEY, 5, 6), "a block of 6 periods does not fit in 5"),
        (lambda: backtests.time_splits(5, 9), "5 periods cannot be split into 9 folds"),
    ],
)
def test_bad_input_is_one_sentence(call, message):
    with pytest.raises(ConfigurationError, match=message):
        call()


def test_the_command_compares_columns_with_a_baseline(tmp_path, capsys):
    returns = _noise(300, 3)
    returns[:, 1] += 0.004
    lines = [f"day {day},{','.join(map(str, row))}" for day, row in enumerate(returns)]
    (tmp_path / "returns.csv").write_text("\n".join(["date,equal,skilled,random", *lines]))
    words = [str(tmp_path / "returns.csv"), "--baseline", "equal", "--draws", "200"]
    assert main(["backtest", *words, "--json"]) == 0
    rows = {row["strategy"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert rows["skilled"]["difference"]["low"] > 0
    assert rows["random"]["difference"]["low"] < 0 < rows["random"]["difference"]["high"]
    assert rows["skilled"]["deflated"] > 0.99
    assert main(["backtest", *words]) == 0
    assert "deflated" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        ("a,b\n1,2\n2,3\n3,1\n", ["--baseline", "c"], "--baseline c: "),
        ("a,b\n1,2\n", [], "takes a line of names and 3 periods or more, not 1"),
        ("a,b\n1,2\n2,x\n3,1\n", [], "column 'b': could not convert"),
        ("a,b\n1,2\n2,2\n3,2\n", [], "returns that do not vary"),
        ("a,b\n1,2\n2,nan\n3,2\n", [], "not finite"),
    ],
)
def test_a_file_that_is_no_back_test_is_refused(tmp_path, capsys, text, words, message):
    (tmp_path / "file.csv").write_text(text)
    assert main(["backtest", str(tmp_path / "file.csv"), "--draws", "20", *words]) == 2
    assert message in capsys.readouterr().err
