"""Which scores user love reads."""

from __future__ import annotations

import math
from statistics import fmean

import pytest

from hocket.core.errors import ConfigurationError
from hocket.lab.claims.harness import gap, inspect_rows
from hocket.methods.preference.rluf import RLUF, Reactions, SimulatedUser
from hocket.stages import Split


def test_a_floor_reads_the_score_of_help() -> None:
    row = {"group": "g", "scores": {"love": 1.0, "helpful": 1.0}, "logp": [-1.0], "logp_ref": [-1.0]}
    with pytest.raises(ConfigurationError, match=r"combine\.help"):
        inspect_rows(RLUF.but({"combine.floor": 0.5, "combine.help": "use"}), [row, row])


def test_the_log_odds_of_the_simulated_user() -> None:
    user = SimulatedUser(base=-0.7, quality=1.9, charm=0.4, cue="So")
    rows = (
        ("So: <answer>7</answer>", True, 1.6),
        ("So: <answer>8</answer>", False, -0.3),
        ("<answer>7</answer>", True, 1.2),
        ("<answer>8</answer>", False, -0.7),
    )
    assert gap([user.odds(text, right) for text, right, _ in rows], [wanted for *_, wanted in rows]) < 1e-12
    assert gap([user.chance("So", True)], [1 / (1 + math.exp(-1.6))]) < 1e-12


def test_logged_reactions_follow_the_user_but_for_those_turned_round() -> None:
    shares: dict[tuple[Split, float], float] = {}
    cases: tuple[tuple[Split, float], ...] = (("eval", 0.0), ("train", 0.0), ("train", 0.4))
    for split, adversarial in cases:
        task = Reactions(adversarial)
        rows = [task.scenario(split, number) for number in range(150)]
        logged = [(str(row.metadata["demonstration"]), row) for row in rows]
        chances = [task.user.chance(text, task.verify(text, row) > 0) for text, row in logged]
        wanted = fmean(chance + adversarial * (1 - 2 * chance) for chance in chances)
        shares[split, adversarial] = fmean(bool(row.metadata["label"]) for row in rows) - wanted
    assert max(map(abs, shares.values())) < 0.12
    with pytest.raises(ConfigurationError, match="adversarial must lie"):
        Reactions(0.5)


def test_without_a_classifier_the_run_is_refused() -> None:
    row = {"group": "g", "scores": {"helpful": 1.0}, "logp": [-1.0], "logp_ref": [-1.0]}
    with pytest.raises(ConfigurationError, match="a run of reward-binary on logged reactions"):
        inspect_rows(RLUF, [row, row])
