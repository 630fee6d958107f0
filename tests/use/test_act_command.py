"""`hocket act`, and `hocket play` on a controller."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from tiny_runs import Said, call

import hocket


@pytest.fixture
def runs(controllers: Path) -> Path:
    return controllers


def act(runs: Path, name: str, *flags: str | Path) -> Said:
    return call("act", runs / name, *flags)


@pytest.mark.parametrize("flags", [(), ("--sampled",)])
def test_episodes_are_those_of_the_evaluation(runs: Path, flags: tuple[str, ...]) -> None:
    said = act(runs, "cart", "--episodes", "3", "--json", *flags)
    assert said.code == 0, said.err
    measured = hocket.load(runs / "cart").evaluate(n=3)
    measured = measured.sampled or measured if flags else measured
    assert [episode["returns"]["agent"] for episode in said.json["episodes"]] == list(measured.each)
    actions = [trajectory.turns[0].action.tolist() for trajectory in measured.trajectories]
    assert [episode["actions"]["agent"] for episode in said.json["episodes"]] == actions


def test_every_step_is_shown(runs: Path) -> None:
    said = act(runs, "cart", "--seed", "2")
    lines = said.out.splitlines()
    assert lines[0].startswith("step    1  action ")
    assert lines[0].endswith("reward 1")
    assert lines[-1].startswith("episode 2 (CartPole-v1/5): ")
    assert f"{len(lines) - 1} steps, return {len(lines) - 1}" in lines[-1]
    assert len(act(runs, "cart", "--episodes", "2", "--quiet").out.splitlines()) == 2


def test_all_agents_of_a_team_are_shown(runs: Path) -> None:
    said = act(runs, "team")
    assert said.code == 0, said.err
    assert "agent_0 " in said.out.splitlines()[0]
    assert "   agent_1 " in said.out.splitlines()[0]
    assert "5 steps, agent_0 -" in said.out.splitlines()[-1]


def test_an_environment_drawn_as_text(runs: Path) -> None:
    said = act(runs, "lake", "--render", "ansi")
    assert said.code == 0, said.err
    assert "FHFH" in said.out
    assert "reward 0" in said.out


def test_a_film(runs: Path, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("pygame")
    said = act(runs, "cart", "--video", tmp_path / "cart.gif")
    assert said.code == 0, said.err
    with image.open(tmp_path / "cart.gif") as film:
        assert film.n_frames > 3
        assert film.size == (600, 400)


@pytest.mark.parametrize(
    ("name", "flags", "sentence"),
    [
        ("pend", ("--render", "ansi"), "task gym:Pendulum-v1 is not drawn as ansi; it knows human, rgb_array"),
        ("team", ("--render", "ansi"), "task mpe:spread?agents=2&length=5 draws nothing"),
        ("team", ("--video", "x.gif"), "draws nothing; leave --video out"),
        ("cart", ("--video", "x.mp4"), "name a file that ends in .gif"),
        ("cart", ("--video", "there/x.gif"), "there is no folder there"),
        ("cart", ("--video", "x.gif", "--render", "ansi"), "choose one"),
    ],
)
def test_what_cannot_be_shown(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, flags: tuple[str, ...], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    said = act(runs, name, *flags)
    assert said.code == 2, said.out
    assert sentence in said.err


def test_language_models_are_sent_to_play() -> None:
    said = call("act", "nano")
    assert said.code == 2
    assert "talk to it: hocket play RUN" in said.err


# ---------------------------------------------------------------- play


def typed(monkeypatch: pytest.MonkeyPatch, lines: str, run: Path, *flags: str) -> Said:
    monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
    return call("play", run, *flags)


def test_a_person_steps_through_an_episode(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = typed(monkeypatch, "/help\n2\n2\n7\nup\n/bogus\n1\n\n/run\n\n/quit\n", runs / "lake")
    assert said.code == 0, said.err
    assert "the policy plays the episode to its end" in said.out
    assert said.out.index("observation 0") < said.out.index("observation 1") < said.out.index("observation 2")
    assert "'7' is no action; choose from 0, 1, 2, 3" in said.out
    assert "there is no command /bogus" in said.out
    assert "observation 6" in said.out  # Right, right, down.
    assert "the episode is over" in said.out
    assert "episode 1: FrozenLake-v1/3" in said.out


def test_vectors_are_typed_as_numbers(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = typed(monkeypatch, "x\n1 2\n0.5\n\n\n\n", runs / "pend")
    assert said.out.count("is no action; an action is 1 numbers") == 2
    assert "the episode is over after 4 steps" in said.out


def test_enter_alone_plays_what_act_shows(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cart", "corridor"):
        (episode,) = act(runs, name, "--seed", "1", "--json").json["episodes"]
        said = typed(monkeypatch, "\n" * (episode["steps"] + 1), runs / name, "--seed", "1")
        assert f"after {episode['steps']} steps: return {episode['returns']['agent']:g}" in said.out
        watched = typed(monkeypatch, "", runs / name, "--seed", "1", "--seat", "none")
        assert f"after {episode['steps']} steps: return {episode['returns']['agent']:g}" in watched.out


@pytest.mark.parametrize(
    ("name", "flags", "sentence"),
    [
        ("team", (), "has several agents; play beside them with hocket arena --task 'mpe:spread?agents=2&length=5'"),
        ("cart", ("--logp",), "--logp is for language models"),
        ("cart", ("--max-tokens", "3"), "--max-tokens is for language models"),
        ("cart", ("--seat", "agnt"), "--seat agnt: there is no such seat; did you mean 'agent'?"),
        ("cart", ("--temperature", "0.5"), "a controller plays greedily, 0, or as it was trained, 1"),
    ],
)
def test_what_cannot_be_played(
    runs: Path, monkeypatch: pytest.MonkeyPatch, name: str, flags: tuple[str, ...], sentence: str
) -> None:
    said = typed(monkeypatch, "", runs / name, *flags)
    assert said.code == 2
    assert sentence in said.err
