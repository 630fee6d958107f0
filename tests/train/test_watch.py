"""What blows up is said once, by what and since when; what is large, or learns, is left alone."""

import json
import math

import gymnasium as gym
import numpy as np
import pytest

import hocket
from hocket.apps.report.diagnosis import diagnose
from hocket.run import Trainer
from hocket.train.config import configure
from hocket.train.trainer import resumed
from hocket.train.watch import Watch


def seen(phases=None, **series):
    """The watch after a run of these metrics (`/` written as `__`), and what it said at which step."""
    watch, said = Watch(), []
    for step, values in enumerate(zip(*series.values(), strict=True), 1):
        names = (name.replace("__", "/") for name in series)
        row = {
            "step": step,
            "groups/with_signal": 4.0,
            "a/groups/with_signal": 4.0,
            **dict(zip(names, values, strict=True)),
        }
        sentence = watch.see(row, phases[step - 1] if phases else 0)
        said += [(step, sentence)] if sentence else []
    return watch, said


PARL = [0.37, 0.3, -1, -5, -20, -80, -200, -648, -3e3, -2e4, -8e4, -3.2e5]
GROWING = [0.3 * 4**n for n in range(14)]


@pytest.mark.parametrize(
    ("metric", "values", "since"),
    [
        ("reward__shaped", PARL, 10),
        ("reward__mean", [10.0**n for n in range(10)], 8),
        ("reward__mean", [-(10.0**n) for n in range(10)], 8),
        ("reward__dcg", [10.0**n for n in range(10)], 8),
        ("gradient__norm", GROWING, 10),
        ("a__gradient__norm", GROWING, 10),
        ("loss", [-value for value in GROWING], 10),
        ("value__largest", GROWING, 10),
        ("ratio__furthest", GROWING, 10),
        ("kl__behaviour", GROWING, 10),
        ("gradient__norm", [0.3] * 5 + [1e6] * 6, 10),  # One jump that stays is no spike.
        ("gradient__norm", [1.6e10, 0.3], 1),  # Too large wherever it begins.
        ("loss", [0.1, 0.1, math.nan, 0.1], 3),
        ("a__loss", [0.1, math.inf, 0.1], 2),
        ("gradient__norm", [0.1, math.inf], 2),
        ("reward__mean", [0.1, -math.inf], 2),
        ("update__skipped", [0.0, 0.0, 2.0], 3),
        ("sampling__nan", [0.0, 0.25], 2),
        ("a__ratio__saturated", [0.0, 0.3, 0.1, 0.2, 0.4, 0.9], 6),
    ],
)
def test_what_blows_up_is_said_once(metric, values, since):
    watch, said = seen(**{metric: values})
    name = metric.replace("__", "/")
    assert watch.since == {name: since}
    ((step, sentence),) = said
    assert step == since
    assert sentence.startswith(f"{name} ")
    assert "lower update.lr" in sentence
    assert watch.metrics() == {f"watch/{name}/since": float(since)}


HITS = [1e4, 3e4, 1e5, 3e5, 1e6, 1e6, 1e6, 1e6, 1e6]
RISING = [20.0, 30, 60, 100, 200, 300, 500, 500, 500, 500, 500]


@pytest.mark.parametrize(
    "series",
    [
        {"reward__mean": [1e6] * 12, "loss": [1e12] * 12, "gradient__norm": [1e9] * 12, "value__largest": [1e6] * 12},
        {"reward__mean": [1e6 * (1 + n % 3) for n in range(12)], "loss": [1e12 / (1 + n) for n in range(12)]},
        {"reward__mean": [-1e9 * 0.9**n for n in range(12)]},
        # Nothing for long, then the jackpot, now and then and ever more often; its values' errors go with the square.
        {"reward__mean": [0] * 9 + [1e6] * 9, "loss": [0.1] * 9 + [1e12] * 9, "gradient__norm": [0.1] * 9 + [1e9] * 9},
        {"reward__mean": [0.0] * 4 + HITS, "loss": [0.1] * 4 + [one**2 for one in HITS]},
        {"reward__mean": RISING, "loss": [one**2 for one in RISING], "value__largest": RISING},
        {"gradient__norm": [1e-4, 1e-3, 1e-2, 0.1, 0.1, 0.3, 1.0, 10.0, 100.0]},  # Small numbers have room.
        {"ratio__saturated": [0.0, 0.5, 0.5, 0.1, 0.5, 0.5]},
        {"gradient__norm": [0.3] * 5 + [1e6] + [0.3] * 5 + [1e7] + [0.3]},  # Spikes.
        {"loss": [math.nan] * 3, "a__groups__with_signal": [0.0] * 3, "groups__with_signal": [0.0] * 3},
        {"reward__mean": [math.nan, 0.5, math.nan], "entropy": [math.nan, math.nan, math.inf]},
        {"eval__return": GROWING, "time__step": GROWING, "length__mean": GROWING, "value__explained": GROWING},
    ],
)  # fmt: skip
def test_what_is_large_or_learns_is_left_alone(series):
    watch, said = seen(**series)
    assert (watch.since, said) == ({}, [])


def test_the_others_are_noted_without_a_word():
    watch, said = seen(reward__shaped=PARL, gradient__norm=[abs(one) / 50 for one in PARL])
    assert list(watch.since) == ["reward/shaped"]
    watch, said = seen(reward__shaped=PARL, loss=[0.1] * 11 + [math.nan])
    assert watch.since == {"reward/shaped": 10, "loss": 12}
    assert len(said) == 1


def test_every_phase_has_a_scale_of_its_own():
    values = [1.0] * 5 + [1e6 * 2**n for n in range(6)]
    assert seen(loss=values)[0].since == {"loss": 10}
    assert seen([0] * 5 + [1] * 6, loss=values)[0].since == {}


@pytest.mark.parametrize("cut", range(13))
def test_a_watch_that_is_made_anew_from_the_rows_goes_on_as_it_was(cut):
    rows, whole, said = [], Watch(), []
    for step, value in enumerate(PARL, 1):
        row = {"step": step, "reward/shaped": value}
        said.append(whole.see(row))
        rows.append({**row, **whole.metrics()})
    again = Watch.over([{"step": 0}, *json.loads(json.dumps(rows[:cut]))], lambda step: 0)
    for row, sentence in zip(rows[cut:], said[cut:], strict=True):
        assert again.see({"step": row["step"], "reward/shaped": row["reward/shaped"]}) == sentence
    assert again.since == whole.since == {"reward/shaped": 10}


def test_the_report_says_it():
    rows = [{"step": 0}, *({"step": n, "reward/mean": 0.3} for n in range(1, 9))]
    assert diagnose(rows) == []
    rows[-1] |= {"watch/gradient/norm/since": 7.0, "watch/reward/shaped/since": 8.0}
    (sentence,) = diagnose(rows)
    assert sentence.startswith("The run diverged (gradient/norm since step 7, reward/shaped since step 8): ")


class Ruin(gym.Env):
    """One step an episode; it pays 1e6, or as `ruins` ten times as much in every training step as in the one before."""

    observation_space, action_space = gym.spaces.Box(-1, 1, (1,), np.float32), gym.spaces.Discrete(2)
    resets = 0

    def __init__(self, ruins=False):
        self.ruins = ruins

    def reset(self, *, seed=None, options=None):
        Ruin.resets += seed % 2 == 0  # Odd seeds are evaluation's.
        return np.zeros(1, np.float32), {}

    def step(self, action):
        size = 10.0 ** ((Ruin.resets - 1) // 4) if self.ruins else 1e6
        return np.zeros(1, np.float32), size * (1 + float(action)), True, False, {}


gym.register("Ruin-v0", entry_point=Ruin)
SETTINGS = {"curriculum.prompts": 4, "rollout.samples": 1, "evaluation.n": 2, "evaluation.every": 0, "update.epochs": 1}


def rows_of(path):
    return [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]


def test_a_run_says_it_in_its_messages_metrics_and_summary(tmp_path):
    Ruin.resets = 0
    run = hocket.train("gym:Ruin-v0?ruins=true", recipe="ppo", steps=11, runs=str(tmp_path), run="r", **SETTINGS)
    summary, rows = json.loads((run.path / "summary.json").read_text()), rows_of(run.path)
    since = summary["watch"]["reward/mean"]
    assert 7 <= since <= 9
    assert rows[since]["watch/reward/mean/since"] == since
    assert "watch/reward/mean/since" not in rows[since - 1]
    told = [line for line in (run.path / "messages.txt").read_text().splitlines() if "has grown" in line]
    assert len(told) == 1
    assert told[0].startswith(f"step {since}: reward/mean has grown to ")
    assert "The run diverged (reward/mean since step" in (run.path / "report.html").read_text()


def test_ruin_by_the_learning_rate_is_said_in_the_step_that_samples_with_it(tmp_path):
    run = hocket.train(
        "sums", steps=2, runs=str(tmp_path), run="r",
        **{"update.lr": 1e30, "curriculum.prompts": 2, "rollout.samples": 4, "evaluation.n": 50, "evaluation.every": 0},
    )  # fmt: skip
    summary = json.loads((run.path / "summary.json").read_text())
    assert summary["watch"] == {"sampling/nan": 2}
    assert (run.path / "messages.txt").read_text().count("step 2: sampling/nan is 100%") == 1
    page = (run.path / "report.html").read_text()
    assert "The probabilities of the policy are not numbers since step 2" in page
    assert "update.lr, 1e+30 here" in page
    assert "raise decoding.max_tokens" not in page


def test_saturated_ratios_are_told_as_a_share(tmp_path):
    changes = {**SETTINGS, "update.lr": 1e4, "update.minibatches": 4, "evaluation.n": 4}
    run = hocket.train("gym:CartPole-v1", recipe="ppo", steps=1, runs=str(tmp_path), run="r", **changes)
    share = rows_of(run.path)[1]["ratio/saturated"]
    assert 0 < share <= 1


def test_a_large_reward_from_the_start_is_nothing_to_say(tmp_path):
    run = hocket.train("gym:Ruin-v0", recipe="ppo", steps=8, runs=str(tmp_path), run="r", **SETTINGS)
    assert json.loads((run.path / "summary.json").read_text())["watch"] == {}
    assert not any("watch" in key for row in rows_of(run.path) for key in row)


def test_a_resumed_run_says_it_at_the_same_step(tmp_path):
    def begun(name, steps):
        pairs = {"task": "gym:Ruin-v0?ruins=true", "recipe": "ppo", "steps": steps, "runs": str(tmp_path), "run": name}
        Ruin.resets = 0
        return Trainer(configure([*pairs.items(), *SETTINGS.items()], hocket.tasks.find(pairs["task"])))

    whole = begun("whole", 11)
    whole.run()
    part = begun("part", 6)
    part.run()
    Ruin.resets = 6 * 4
    again = resumed(tmp_path / "part", steps=11)
    again.run()
    keys = [
        [{k: v for k, v in row.items() if "watch" in k} for row in rows_of(tmp_path / n)] for n in ("whole", "part")
    ]
    assert keys[0] == keys[1]
    assert any(keys[0])
