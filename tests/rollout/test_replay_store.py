"""What is kept of earlier samples comes back as it was, and where it cannot hold it is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_runs import TINY, call

from hocket.core.errors import HocketError
from hocket.core.keys import Key
from hocket.rollout.nucleus import NucleusMask
from hocket.rollout.replay_store import AGE, ReplayStore, chosen
from hocket.types import Decoding, End, Level, Scenario, Score, Trajectory, Turn

WORTHS = st.lists(st.integers(-3, 3).map(float), max_size=9)


def episode(worth: float = 1.0, name: str = "s") -> Trajectory:
    """Three turns, of which the third goes on from the first."""
    draw = Key.of(7).numpy()
    turns: list[Turn] = []
    for number, parent in enumerate((None, None, 0)):
        action = draw.integers(0, 50, 4)
        turns.append(
            Turn(
                "a", "policy", draw.integers(0, 50, 3), action, -draw.random(4).astype(np.float32), role="r",
                parent=None if parent is None else turns[parent], version=np.full(4, 3), forced=action > 40,
                segment=np.arange(4), state=f"{number}", finish="length", text="x",
                prompt=({"role": "user", "content": "?"},),
                decoding=Decoding(0.7, stop=("y",)), extras={"call": number},
                time=np.arange(4), end=End(False, True, np.ones(2)) if number == 1 else None,
            )
        )  # fmt: skip
    scores = {"r": Score(worth), "turns": Score([0.0, None, 0.0], Level.TURN, "well")}
    info = {"calls": [{"name": "search"}], "odd": object()}
    return Trajectory(Scenario(name), turns, scores=scores, terminated=False, truncated=True, info=info)


def test_what_comes_back_is_what_was_kept():
    store, known = ReplayStore(), episode()
    state = store.add(store.add(store.init(), [known]), [])
    (back,) = store.draw(state, known.scenario, 1, "recent", Key.of(0))
    assert (back.source, AGE.get(back), back.truncated, back.terminated) == ("replay", 2, True, False)
    assert back.scores == known.scores
    assert back.info["calls"] == known.info["calls"]
    assert "odd" not in back.info
    assert back.turns[2].parent is back.turns[0]
    for old, new in zip(known.turns, back.turns, strict=True):
        for name in ("observation", "action", "logp", "version", "forced", "segment", "time"):
            np.testing.assert_array_equal(getattr(new, name), getattr(old, name))
        for name in ("agent", "policy", "role", "state", "finish", "text", "prompt", "decoding", "extras"):
            assert getattr(new, name) == getattr(old, name), name
    assert [turn.end is None for turn in back.turns] == [True, False, True]
    assert vars(back.turns[1].end) == vars(known.turns[1].end)


def test_a_state_is_never_changed_and_what_failed_is_not_kept():
    store = ReplayStore(size=2, scenarios=2)
    first = store.add(store.init(), [episode(name="a")])
    second = store.add(first, [episode(name=name) for name in "aab"] + [replace(episode(), failure="it broke")])
    third = store.add(second, [episode(name="c")])
    assert [store.count(first, name) for name in "abc"] == [1, 0, 0]
    assert [store.count(second, name) for name in "abc"] == [2, 1, 0]
    assert [store.count(third, name) for name in "abc"] == [0, 1, 1]


@settings(max_examples=60, deadline=None)
@given(worth=WORTHS, count=st.integers(0, 10), take=st.sampled_from(["all", "recent", "best", "spread", "any"]))
def test_so_many_different_ones_are_drawn(worth, count, take):
    places = chosen(worth, count, take, Key.of(3))
    assert places == sorted(set(places))
    assert len(places) == min(count, len(worth))
    assert all(0 <= place < len(worth) for place in places)


def test_what_was_sampled_under_a_mask_is_refused():
    one = episode()
    one.turns[0].decoding = Decoding(mask=NucleusMask(0.5))
    with pytest.raises(HocketError, match="sampled under a mask of actions cannot be replayed"):
        ReplayStore().add(ReplayStore().init(), [one])


@pytest.mark.parametrize("more", [["--overlap", "1"], ["--order", "arrival", "--cluster", "local", "--samplers", "1"]])
def test_steps_that_are_collected_ahead_are_refused(more: list[str], tmp_path: Path):
    said = call("train", *TINY, "--recipe", "repo-replay", "--steps", "1", "--runs", tmp_path, *more)
    assert said.code == 2
    assert "WithReplays of recipe repo-replay remembers earlier steps" in said.err
