"""The entropy corridor: its distance, its gradient, its history."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.core.batch import Level
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.schedules import Linear
from hocket.lab.documents import random_document
from hocket.lab.microscope import RecordedBatch
from hocket.methods.agents.epo_entropy import EntropyCorridor, EntropyHistory
from hocket.types import Evaluation

LAW = settings(max_examples=60, deadline=None, derandomize=True)
LEVELS = st.floats(0, 4, allow_nan=False)


def case(seed: int, usual=(1.0, 0.5), masked=False):
    document = random_document(Key.of(seed))
    rng = Key.of(seed).derive("trained").numpy()
    for row in document["trajectories"]:
        row["turn"] = [int(place >= 2) for place in range(len(row["logp"]))]
        if masked:
            row["trained"] = [bool(rng.random() < 0.6) for _ in row["logp"]]
    batch = RecordedBatch(document).batch
    return batch.but(info={**batch.info, "usual_entropy": [list(usual)] * batch.trajectories})


@LAW
@given(seed=st.integers(0, 10_000), masked=st.booleans(), grain=st.sampled_from(["turn", "decision"]))
def test_the_price_by_hand(seed, masked, grain):
    batch = case(seed, masked=masked)
    entropy = batch.entropy.clone().requires_grad_()
    terms = EntropyCorridor(coefficient=0.3, grain=grain)(Evaluation(entropy, entropy=entropy), batch)
    loss = terms.total()
    (slope,) = torch.autograd.grad(loss, [entropy], allow_unused=True) if loss.requires_grad else (None,)
    total, used = 0.0, set()
    rows = {}
    seen = batch.occurrences
    for place, number in enumerate(seen.trajectory.tolist()):
        decision = int(seen.decision[place])
        if seen.weight[place] != 0:
            rows.setdefault(number, {}).setdefault(int(batch.index[batch.turn[decision]]), []).append(decision)
    for turns in rows.values():
        length = sum(len(decisions) for decisions in turns.values())
        for turn, decisions in turns.items():
            mean = float(batch.entropy[decisions].mean())
            for decision in decisions:
                level = mean if grain == "turn" else float(batch.entropy[decision])
                usual = (1.0, 0.5)[turn]
                away = max(0.0, 0.8 * usual - level, level - 1.2 * usual)
                total += 0.3 * away / length / len(rows)
                used |= {decision} if away > 0 else set()
    assert float(loss.detach()) == pytest.approx(total, abs=1e-12)
    moved = set(torch.nonzero(slope).flatten().tolist()) if slope is not None else set()
    assert moved == used


def test_beta_follows_the_run_and_nothing_usual_costs_nothing():
    batch = case(0)
    corridor = EntropyCorridor(weight=Linear(0.0, 1.0))
    now = Evaluation(batch.entropy, entropy=batch.entropy)
    early, late = (float(corridor(now, batch.but(progress=share)).total()) for share in (0.0, 1.0))
    assert early == 0.0
    assert late > 0.0
    nothing = batch.but(info={**batch.info, "usual_entropy": [[None]] * batch.trajectories}, progress=1.0)
    assert float(corridor(now, nothing).total()) == 0.0


def test_a_turns_mean_may_not_be_split():
    assert EntropyCorridor().couples is Level.TRAJECTORY
    assert EntropyCorridor(grain="decision").couples is Level.DECISION


def test_without_entropies_or_history_it_says_what_is_missing():
    batch = case(0)
    with pytest.raises(ConfigurationError, match="entropy"):
        EntropyHistory()(batch.but(entropy=None), EntropyHistory().init())
    with pytest.raises(ConfigurationError, match="usual_entropy"):
        EntropyCorridor()(Evaluation(batch.entropy, entropy=batch.entropy), batch.but(info={}))


@pytest.mark.parametrize(
    "setting",
    [{"low": 1.1}, {"high": 0.9}, {"coefficient": -1.0}, {"form": "square"}, {"grain": "token"}, {"weight": -1.0}],
)
def test_settings_out_of_range_are_refused(setting):
    with pytest.raises(ValueError, match=r"band|coefficient|form|grain"):
        EntropyCorridor(**setting)
