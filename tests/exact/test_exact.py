"""Small worlds, what is computed of them, and `hocket solve`."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hocket.apps.cli.parser import main
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.exact.counts import TransitionCounts
from hocket.lab.exact.mdp import Array, TabularMDP
from hocket.lab.exact.panels import Panel
from hocket.lab.exact.solver import SOLVERS
from hocket.lab.exact.worlds import WORLDS, random, world


def enumerated(one: TabularMDP, policy: Array) -> float:
    """The expected return over all paths of three decisions, without recursion."""
    total, whole = 0.0, np.broadcast_to(policy, one.shape)
    for path in itertools.product(range(one.states), range(one.actions), repeat=3):
        states, actions = path[::2], path[1::2]
        pairs = list(enumerate(zip(states, actions, strict=True)))
        chance = one.start[states[0]] * np.prod([whole[t, s, a] for t, (s, a) in pairs])
        chance *= np.prod([one.transition[states[t], actions[t], states[t + 1]] for t in range(2)])
        total += chance * sum(one.discount**t * one.reward[s, a] for t, (s, a) in pairs)
    return float(total)


def test_values_are_those_of_all_paths() -> None:
    one = random(3, 2, seed=1, horizon=3)
    policy = Key.of(0).numpy().dirichlet(np.ones(2), size=(3, 3))
    assert one.value(policy) == pytest.approx(enumerated(one, policy), abs=1e-12)
    assert one.value(policy) == pytest.approx(float((one.visits(policy) * one.reward).sum()), abs=1e-12)
    every = (np.eye(2)[np.reshape(choice, (3, 3))] for choice in itertools.product((0, 1), repeat=9))
    assert one.optimum == pytest.approx(max(enumerated(one, chosen) for chosen in every), abs=1e-12)


def test_endless_worlds_agree_with_long_ones() -> None:
    one = random(4, 3, seed=2)
    policy = Key.of(0).numpy().dirichlet(np.ones(3), size=4)
    long = TabularMDP(one.transition, one.reward, one.start, horizon=400, discount=0.9)
    assert one.value(policy) == pytest.approx(long.value(policy), abs=1e-12)
    assert one.optimum == pytest.approx(long.optimum, abs=1e-12)
    assert one.value(policy) == pytest.approx(float((one.visits(policy) * one.reward).sum()) / 0.1, abs=1e-12)


def test_episodes_are_drawn_as_the_arrays_say() -> None:
    one = random(3, 2, seed=3, horizon=4)
    counts, returns = TransitionCounts.none(one), []
    for number in range(4000):
        episode = one.episode(one.even, Key.of(number))
        counts, returns = counts.plus(episode), [*returns, episode.rewards.sum()]
    assert np.abs(counts.mean() - one.transition).max() < 0.05
    assert np.mean(returns) == pytest.approx(one.value(one.even), abs=4 * np.std(returns) / 4000**0.5)
    again = one.episode(one.even, Key.of(7))
    assert (again.states == one.episode(one.even, Key.of(7)).states).all()


def test_draws_from_a_posterior_have_its_mean() -> None:
    counts = TransitionCounts(np.array([[[3.0, 0.0, 1.0]], [[0, 0, 0]], [[0, 9, 1]]]))
    drawn = counts.drawn(0.5, Key.of(0), 20_000)
    assert np.allclose(drawn.sum(-1), 1)
    assert np.abs(drawn.mean(0) - counts.mean(0.5)).max() < 0.01
    assert np.isfinite(TransitionCounts(np.zeros((2, 2, 2))).drawn(1e-6, Key.of(1), 500)).all()


@pytest.mark.parametrize("name", list(WORLDS.own))
def test_every_world_has_an_optimum_that_no_drawn_answer_beats(name: str) -> None:
    one: Any = world(name)
    assert one.name.startswith(name)
    if isinstance(one, TabularMDP):
        for seed in range(5):
            policy = Key.of(seed).numpy().dirichlet(np.ones(one.actions), size=one.shape[:-1])
            assert one.value(policy) <= one.optimum + 1e-12
        assert one.value(one.best.policy) == pytest.approx(one.optimum, abs=1e-10)


def test_a_run_cut_in_the_middle_ends_with_the_same_bits(tmp_path: Path, capsys: Any) -> None:
    flags = ["solve", "--method", "psrl", "--world", "river:4", "--quiet", "--json"]
    assert main([*flags, "--steps", "60", "--out", str(tmp_path / "whole")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert main([*flags, "--steps", "30", "--out", str(tmp_path / "cut")]) == 0
    with (tmp_path / "cut" / "metrics.jsonl").open("a") as file:
        file.write('{"step": 31, "val')  # What a process that was killed may leave.
    capsys.readouterr()
    assert main(["solve", "--resume", str(tmp_path / "cut"), "--steps", "60", "--quiet", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert {**again, "path": ""} == {**found, "path": ""}
    for one in ("metrics.jsonl", "state.npz"):
        assert (tmp_path / "whole" / one).read_bytes() == (tmp_path / "cut" / one).read_bytes()
    rows = [json.loads(line) for line in (tmp_path / "whole" / "metrics.jsonl").read_text().splitlines()]
    assert found["regret"] == pytest.approx(sum(row["gap"] for row in rows))
    assert found["regret"] > 0
    assert rows[-1]["gap"] < 0.2 * rows[0]["gap"]


def test_value_iteration_finds_the_optimum(capsys: Any, tmp_path: Path) -> None:
    for name in ("chain:8", "lock:5", "inventory:4", "grid:3x3"):
        out = ["--out", str(tmp_path / name.replace(":", "-")), "--steps", "300", "--quiet", "--json"]
        assert main(["solve", "--world", name, *out]) == 0
        assert json.loads(capsys.readouterr().out)["gap"] == pytest.approx(0, abs=1e-9)


def test_a_world_of_ones_own(tmp_path: Path, capsys: Any) -> None:
    one = random(3, 2, seed=5)
    np.savez(tmp_path / "mine.npz", transition=one.transition, reward=one.reward, discount=0.9)
    given = ["solve", "--world", str(tmp_path / "mine.npz"), "--steps", "300", "--quiet"]
    assert main([*given, "--out", str(tmp_path / "run"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["optimum"] == pytest.approx(one.best.value[0], abs=1e-12)


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ({"transition": np.ones((2, 2, 2))}, "sum to 1"),
        ({"transition": np.full((2, 2), 0.5)}, "shape"),
        ({"reward": np.array([[0.0, np.nan], [0, 0]])}, "not finite"),
        ({"start": np.array([0.5, 0.6])}, "sum to 1"),
        ({"discount": np.array(1.0)}, "discount"),
        ({"horizon": np.array(0)}, "horizon"),
        ({"wind": np.array(0)}, "wind"),
        ({"transition": np.array([["a"]])}, "cannot be read"),
    ],
)
def test_a_broken_world_is_one_sentence(broken: Any, words: str, tmp_path: Path, capsys: Any) -> None:
    whole = {"transition": np.full((2, 2, 2), 0.5), "reward": np.zeros((2, 2))}
    np.savez(tmp_path / "mine.npz", **{**whole, **broken})
    assert main(["solve", "--world", str(tmp_path / "mine.npz"), "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert len(re.findall("hocket:", said)) == 1


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--method", "prsl"], "did you mean 'psrl'"),
        (["--world", "lok:3"], "did you mean 'lock'"),
        (["--world", "lock:x"], "lock:10"),
        (["--world", "grid:4"], "grid:4x4"),
        (["--world", "gone.npz"], "gone.npz"),
        (["--method", "psrl", "--world", "chain:4"], "endless"),
        (["--method", "psrl", "--method.pior", "1"], "prior"),
        (["--method", "subpo", "--world", "lock:4"], "cover:3x3"),
        (["--method", "action-grouping", "--method.groups", "3"], "choose from 0, 1, 4"),
        (["--steps", "0"], "steps = 0"),
        (["--eta", "1"], "--method.NAME"),
        (["--resume", "nowhere"], "no run to continue"),
    ],
)
def test_bad_input_is_one_sentence(more: Sequence[str], words: str, tmp_path: Path, capsys: Any) -> None:
    out = [] if "--resume" in more else ["--out", str(tmp_path / "run")]
    assert main(["solve", *more, *out]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert len(re.findall("hocket:", said)) == 1


def test_the_page_shows_every_method_and_its_own_one_runs(tmp_path: Path, capsys: Any) -> None:
    page = (Path(__file__).parents[2] / "docs" / "exact.md").read_text()
    assert set(re.findall(r"^\| `([\w-]+)` \|", page, re.M)) == set(SOLVERS.own)
    own = tmp_path / "mine.py"
    own.write_text(page.partition("```python\n")[2].partition("```")[0])
    assert main(["solve", "--method", f"{own}:SOFTLY", "--out", str(tmp_path / "run"), "--quiet", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["gap"] < 0.05


def test_experts_of_ones_own(tmp_path: Path, capsys: Any) -> None:
    """Two of three are always right; asking two of them costs .02."""
    (tmp_path / "mine.py").write_text(
        "import numpy as np\n"
        "from hocket.lab.exact.panels import Panel\n"
        "truth = np.arange(40) % 4\n"
        "answers = np.stack([truth, truth, (truth + 1) % 4], 1)\n"
        "PANEL = Panel(answers, truth, np.zeros(40, int), name='mine')\n"
    )
    given = ["--method", "marl-focal", "--world", f"{tmp_path / 'mine.py'}:PANEL", "--steps", "50"]
    assert main(["solve", *given, "--out", str(tmp_path / "run"), "--quiet"]) == 0
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["value"] == pytest.approx(0.98)


@pytest.mark.parametrize(
    ("kinds", "words"),
    [([0] * 20 + [1] * 20, "see kind 1"), ([-1, 0] * 20, "see kind -1"), ([0] * 39, "give [Q, M]")],
)
def test_records_that_cannot_be_learnt_from_are_refused(kinds: list[int], words: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(words)):
        Panel(np.zeros((40, 3), np.int64), np.zeros(40, np.int64), np.array(kinds))
