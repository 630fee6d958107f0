"""What holds for every credit of teams, chains with turns of unknown value, and settings that are refused."""

from __future__ import annotations

import pytest
import torch
from credit_cases import (
    LAW,
    batch_of,
    by_trajectory,
    counted_turns,
    experiences,
    make,
    make_turn,
    valued,
)
from hypothesis import given
from hypothesis import strategies as st

from hocket.core.batch import GroupBy, Level
from hocket.core.components import from_plain, to_plain
from hocket.credit.gae import GAE
from hocket.methods.teams.at_grpo import PromptRelative
from hocket.methods.teams.comam import RankConsistent
from hocket.methods.teams.marft import AgentGAE
from hocket.methods.teams.mmgrpo import ModuleRelative
from hocket.types import Score

MODES = ["truncate", "fill-last", "fill-random", "ragged"]


ALL = [PromptRelative(), *(ModuleRelative(counts=mode) for mode in MODES), AgentGAE(), AgentGAE(level="token")]


ALL += [RankConsistent(), RankConsistent(weigh="equal", local=0.0), RankConsistent(weigh="local", scale=None)]


# ---------------------------------------------------------------- every one of them


@pytest.mark.parametrize("credit", ALL, ids=repr)
@LAW
@given(experiences(sources=("own", "own", "baseline")), st.integers(0, 10**6))
def test_it_is_pure_finite_and_leaves_out_what_does_not_count(credit, trajectories, seed):
    batch = valued(batch_of(trajectories), seed)
    before = batch.occurrences.advantage.clone()
    seen = credit(batch)
    again = credit(batch)
    assert torch.equal(seen.advantage, again.advantage)
    assert torch.equal(batch.occurrences.advantage, before)
    assert seen.advantage.dtype is torch.float64
    assert bool(torch.isfinite(seen.advantage).all())
    assert bool((seen.weight[batch.occurrences.weight == 0] == 0).all())
    for trajectory, row in zip(trajectories, by_trajectory(batch, seen.advantage), strict=True):
        place = 0
        for turn, counted in zip(trajectory.turns, counted_turns(trajectory), strict=True):
            assert counted or row[place : place + len(turn)] == [0.0] * len(turn)
            place += len(turn)


@pytest.mark.parametrize("credit", [c for c in ALL if not isinstance(c, AgentGAE)], ids=repr)
@LAW
@given(experiences(), st.randoms(use_true_random=False))
def test_the_order_of_trajectories_does_not_matter(credit, trajectories, shuffler):
    order = list(range(len(trajectories)))
    shuffler.shuffle(order)
    straight, turned = batch_of(trajectories), batch_of([trajectories[n] for n in order])
    turned = turned.but(order=torch.tensor(order))
    one, other = credit(straight), credit(turned)
    for column in ("advantage", "weight"):
        left = by_trajectory(straight, getattr(one, column))
        right = by_trajectory(turned, getattr(other, column))
        for place, number in enumerate(order):
            # A shared turn keeps what the first of its trajectories said of it, so only unshared ones are compared.
            if len({id(t) for one in trajectories for t in one.turns}) == sum(len(one.turns) for one in trajectories):
                assert right[place] == pytest.approx(left[number], abs=1e-9)


@pytest.mark.parametrize("credit", ALL, ids=repr)
def test_it_goes_through_a_configuration(credit):
    assert from_plain(to_plain(credit), type(credit), "credit") == credit


# ---------------------------------------------------------------- chains of agents


def two_policies(known):
    """Turns of `ours`, then `theirs`, then `ours`; values are known where `known` says so, by turn."""
    turns = [make_turn(2, agent="ours"), make_turn(3, agent="theirs"), make_turn(1, agent="ours")]
    row = make("x", 1.0, turns=turns)
    row.scores["turns"] = Score([0.0, 0.25, 0.0], Level.TURN)
    batch = valued(batch_of([row]))
    return batch.but(valued=torch.tensor([known[turn] for turn in batch.turn.tolist()]))


@pytest.mark.parametrize(
    "credit", [GAE(lam=0.9, whiten=False), AgentGAE(level="token", whiten=False), AgentGAE(whiten=False)]
)
def test_turns_of_unknown_value_take_no_time(credit):
    """The chain is that of the known turns alone, their rewards standing where the others were passed over."""
    batch = two_policies([True, False, True])
    seen = credit(batch)
    short = make("x", 1.0, turns=[make_turn(2, agent="ours"), make_turn(1, agent="ours")])
    short.scores["turns"] = Score([0.25, 0.0], Level.TURN)
    plain = batch_of([short]).but(value=batch.value[[0, 1, 5]], final_value=torch.zeros(1))
    want = credit(plain)
    assert seen.advantage[[0, 1, 5]].tolist() == pytest.approx(want.advantage.tolist())
    assert seen.advantage[2:5].tolist() == [0.0] * 3
    assert seen.target[[0, 1, 5]].tolist() == pytest.approx(want.target.tolist())
    everything = credit(two_policies([True, True, True]))
    assert everything.advantage[0] != pytest.approx(float(seen.advantage[0]))


# ---------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (PromptRelative, {"scale": "mad"}),
        (ModuleRelative, {"counts": "pad"}),
        (ModuleRelative, {"scale": "mad"}),
        (ModuleRelative, {"format_failure_score": 0.0}),
        (ModuleRelative, {"group_size": 1}),
        (AgentGAE, {"level": "turn"}),
        (AgentGAE, {"lam": 1.5}),
        (RankConsistent, {"weigh": "rank"}),
        (RankConsistent, {"temperature": 0.0}),
        (RankConsistent, {"scale": "mad"}),
    ],
)
def test_wrong_settings_are_refused(kind, settings):
    with pytest.raises(ValueError, match=r"must|choose"):
        kind(**settings)


def test_groups_by_agent_are_of_turns():
    assert GroupBy("role").level is Level.TURN
