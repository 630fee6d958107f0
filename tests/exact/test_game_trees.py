"""Games of hidden cards as arrays: what is refused, and what a solver is told."""

from __future__ import annotations

import numpy as np
import pytest

from hocket.core.errors import ConfigurationError
from hocket.lab.exact import trees
from hocket.lab.exact.worlds import world
from hocket.train.solve import SolveRun, SolveSettings

pytest.importorskip("pyspiel")


def test_a_game_is_known_by_its_name_and_its_values():
    game = world("openspiel:kuhn_poker")
    assert game.name == "openspiel:kuhn_poker"
    assert np.allclose(game.returns(game.even), [0.125, -0.125])
    assert game.optimum == 0.0
    assert game.value(game.even) == pytest.approx(-11 / 12)


def test_simultaneous_moves_do_not_see_each_other():
    game = world("openspiel:matrix_rps")
    assert game.moves.tolist() == [3, 3]


def test_an_unknown_game_is_refused():
    with pytest.raises(ConfigurationError, match="OpenSpiel has no game 'kuhn'"):
        world("openspiel:kuhn")


def test_a_large_game_is_refused(monkeypatch):
    monkeypatch.setattr(trees, "LARGEST", 50)
    with pytest.raises(ConfigurationError, match="more than 50 histories"):
        world("openspiel:kuhn_poker")


def test_a_solver_of_other_worlds_says_so(tmp_path):
    with pytest.raises(ConfigurationError, match="solves a TabularMDP; openspiel:kuhn_poker is a TreeGame"):
        SolveRun(SolveSettings("cdpo", "openspiel:kuhn_poker"), tmp_path)
    with pytest.raises(ConfigurationError, match="solves a TreeGame"):
        SolveRun(SolveSettings("mds-mmds", "lock:4"), tmp_path / "other")
