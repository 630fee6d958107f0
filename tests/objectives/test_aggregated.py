"""Denominators by prompt, by turns of one length, and none."""

from __future__ import annotations

import pytest

from hocket.core.keys import Key
from hocket.lab.documents import random_document
from hocket.lab.microscope import inspect
from hocket.methods.base.grpo import GRPO
from hocket.methods.base.reinforce import REINFORCE
from hocket.objectives.denominators import Aggregated
from hocket.objectives.log_ratio import LogRatioPenalty
from hocket.objectives.policy_gradient import PolicyGradient


def uneven():
    """Groups of 4, 3 and 2 answers."""
    document = random_document(Key.of(3).derive("aggregated"), gap=0.0)
    rows = document["trajectories"]
    document["trajectories"] = [*rows[:4], *rows[4:7], *rows[8:10]]
    return document


@pytest.mark.parametrize("form", ["prompt-mean", "token-sum"])
def test_by_hand(form):
    document = uneven()
    rows = document["trajectories"]
    found = inspect(REINFORCE.but({"objective": Aggregated(of=PolicyGradient(), form=form)}), document)["gradient"]
    for row, slopes in zip(rows, found, strict=True):
        own = sum(len(other["logp"]) for other in rows if other["group"] == row["group"])
        divisor = 3 * own if form == "prompt-mean" else 1
        assert slopes == pytest.approx([-row["scores"]["reward"] / divisor] * len(slopes))


def test_turns_of_one_length_by_hand():
    """Two answers of two turns and of one, of which one turn does not count."""
    base = {"group": "g", "scores": {"reward": 1.0}}
    rows = [
        {**base, "logp": [-1.0] * 4, "turn": [0, 0, 0, 1]},
        {**base, "logp": [-1.0] * 3, "turn": [0, 1, 1], "trained": [False, True, True]},
        {**base, "logp": [-1.0]},
    ]
    objective = Aggregated(of=PolicyGradient(), form="turn-constant-length", horizon=5)
    found = inspect(REINFORCE.but({"objective": objective}), {"version": 1, "trajectories": rows})["gradient"]
    each = -1.0 / (4 * 5)
    assert [slope for row in found for slope in row] == pytest.approx([each] * 4 + [0.0, each, each] + [each])
    with pytest.raises(ValueError, match="horizon"):
        Aggregated(horizon=0)


def test_terms_of_whole_trajectories_are_refused():
    with pytest.raises(ValueError, match="one each"):
        inspect(GRPO.but({"objective": Aggregated(of=LogRatioPenalty())}), uneven())
    with pytest.raises(ValueError, match="form"):
        Aggregated(form="group-mean")


def test_it_asks_for_what_its_objective_does():
    wrapped = Aggregated(of=GRPO.objective)
    assert (wrapped.reads, wrapped.needs, wrapped.couples) == (
        GRPO.objective.reads,
        GRPO.objective.needs,
        GRPO.objective.couples,
    )
    assert wrapped.idle_without_advantage
