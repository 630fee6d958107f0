"""The simulation of asynchronous training on many nodes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Literal

import pytest

from hocket.apps.cli import main
from hocket.core.errors import ConfigurationError
from hocket.distributed.cluster.simulation import Fleet, Simulation, arrival

SMALL = Fleet(nodes=20, places=4, batch=32, steps=12, learn=12.0)


@pytest.mark.parametrize("order", ["start", "arrival"])
@pytest.mark.parametrize("lag", [0, 1, 2, 4])
def test_faults_break_neither_the_run_nor_the_lag(order: Literal["start", "arrival"], lag: int) -> None:
    fleet = replace(SMALL, order=order, lag=lag, die=0.3, slow=0.1, lost=0.01, seed=lag)
    found = Simulation(fleet).run()
    assert max(map(int, found["lag"])) <= lag
    assert sum(found["lag"].values()) == 12 * 32
    assert found == Simulation(fleet).run()


def test_the_learner_is_busier_with_more_lag() -> None:
    busy = [Simulation(replace(SMALL, lag=lag)).run()["learner/busy"] for lag in (0, 1, 4)]
    assert busy[0] < busy[1] <= busy[2]


def test_relays_bring_weights_to_a_thousand_nodes() -> None:
    fleet = Fleet(nodes=1000, weights=64e9, link=1e9)
    assert 512 <= max(arrival(fleet, node) for node in range(1000)) <= 1.5 * 512
    assert arrival(replace(fleet, relays=False), 999) > 500_000


def test_a_run_without_nodes_says_so() -> None:
    with pytest.raises(ConfigurationError, match="no node is left"):
        Simulation(replace(SMALL, die=1.0)).run()


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--nodes", "4", "--batch", "8", "--steps", "3", "--link", "50Mbit", "--delay", "80ms"]
    assert main(["simulate", *few, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bytes"] == 4.8e6 * 4 * 3
    assert main(["simulate", "--link", "fast"]) == 2
    assert main(["simulate", "--die", "2"]) == 2
