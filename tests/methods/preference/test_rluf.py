"""Which scores user love reads."""

from __future__ import annotations

import numpy as np
import pytest

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.claims.harness import gap, inspect_rows
from hocket.methods.preference.rluf import RLUF, SimulatedUser
from hocket.train.aio import run_async
from hocket.types import Scenario, Trajectory, Turn


def test_a_floor_reads_the_score_of_help() -> None:
    row = {"group": "g", "scores": {"love": 1.0, "helpful": 1.0}, "logp": [-1.0], "logp_ref": [-1.0]}
    with pytest.raises(ConfigurationError, match=r"combine\.help"):
        inspect_rows(RLUF.but({"combine.floor": 0.5, "combine.help": "use"}), [row, row])


def test_the_log_odds_of_the_simulated_user() -> None:
    user, none = SimulatedUser(base=-0.7, quality=1.9, charm=0.4, brief=18), np.zeros(1, np.int64)
    told = (
        ("7", "<answer>7</answer>", 1.6),
        ("7", "<answer>8</answer>", -0.3),
        ("7", "So: <answer>7</answer>", 1.2),
        ("7", "So: <answer>8</answer>", -0.7),
        (None, 18 * "x", -0.3),
        (None, 19 * "x", -0.7),
    )
    played = [
        Trajectory(Scenario("s", "?", right), [Turn("policy", "policy", none, none, text=text)])
        for right, text, _ in told
    ]
    odds = run_async(user(played, key=Key.of(0)))
    assert gap(list(odds), [wanted for *_, wanted in told]) < 1e-12
