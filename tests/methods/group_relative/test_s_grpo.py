"""Serial groups cut from one chain, and rewards that decay over exits."""

from __future__ import annotations

import numpy as np
from credit_cases import LAW
from hypothesis import given
from hypothesis import strategies as st
from rewards_cases import answer_rows
from rollout_cases import collect_thoughts, tokens_of

from hocket.core.packing import pack
from hocket.core.signals import returns
from hocket.lab.microscope import RecordedBatch
from hocket.methods.group_relative.s_grpo import DecayingExits, SerialGroup


def test_a_serial_group_is_cut_from_one_chain():
    experience, scored = collect_thoughts(SerialGroup(samples=4, phrase="</think>"), bias=1)
    assert len(experience.trajectories) == len(scored) == 8
    for group in (experience.trajectories[:4], experience.trajectories[4:]):
        chain = group[-1].turns[0]
        assert [t.info["exit"] for t in group] == [0, 1, 2, 3]
        kept = []
        for exit in group[:-1]:
            turn = exit.turns[0]
            own = 0
            while own < min(len(turn), len(chain)) and turn.action[own] == chain.action[own] and not turn.forced[own]:
                own += 1
            assert np.allclose(turn.logp[:own], chain.logp[:own])
            kept.append(own)
        assert len({t.sample for t in group}) == 4
        weights = pack(group).occurrences.weight
        assert float(weights.min()) in (0.0, 1.0)
    again, _ = collect_thoughts(SerialGroup(samples=4, phrase="</think>"), bias=1)
    assert [tokens_of(t) for t in again.trajectories] == [tokens_of(t) for t in experience.trajectories]


def test_the_kept_part_of_a_chain_is_its_own_and_the_phrase_is_not():
    experience, _ = collect_thoughts(SerialGroup(samples=3, phrase="s "), bias=1)
    for exit in experience.trajectories[:2]:
        forced = exit.turns[0].forced
        assert forced.sum() == 1
        place = int(forced.argmax())
        assert tokens_of(exit)[place] == 1
        assert not forced[:place].any()


@LAW
@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=7), st.randoms(use_true_random=False))
def test_exits_decay_in_their_order(pattern, rng):
    told = list(enumerate(pattern))
    rng.shuffle(told)
    recorded = [{**answer_rows([("a", v, 1, True)])[0], "info": {"exit": place, "chain": 0}} for place, v in told]
    found = returns(DecayingExits()(RecordedBatch({"version": 1, "trajectories": recorded}).batch)).tolist()
    wanted, seen = [], 0
    for verdict in pattern:
        seen += int(verdict)
        wanted.append(verdict * 2.0 ** -(seen - 1) if verdict else 0.0)
    assert found == [wanted[place] for place, _ in told]


def test_chains_decay_apart():
    recorded = [
        {**answer_rows([("a", 1.0, 1, True)])[0], "info": {"exit": exit, "chain": chain}}
        for chain, exit in ((0, 0), (1, 0), (0, 1), (1, 1))
    ]
    found = returns(DecayingExits()(RecordedBatch({"version": 1, "trajectories": recorded}).batch)).tolist()
    assert found == [1.0, 1.0, 0.5, 0.5]
