"""Plans that several solutions share, and credit of both by hand."""

from __future__ import annotations

import pytest
from credit_cases import LAW, batch_of, experiences
from hypothesis import given
from rollout_cases import Stage, assignments, collect_thoughts, tokens_of

from hocket.core.packing import pack
from hocket.core.signals import returns
from hocket.methods.group_relative.pta_grpo import PlanAndSolution, PlanTree


def test_a_plan_is_one_turn_of_several_trajectories():
    rollout = PlanTree(plans=3, solutions=2, marker="", plan_tokens=2)
    experience, scored = collect_thoughts(rollout, bias=1)
    batch = pack(experience.trajectories)
    shared = [t for t in experience.trajectories if len(t.turns) == 2]
    assert shared
    for one, other in zip(shared[::2], shared[1::2], strict=True):
        assert one.turns[0] is other.turns[0] is one.turns[1].parent
        assert len(one.turns[0]) == 2
        assert len(one.turns[1].observation) == len(one.turns[1])
        assert not one.turns[1].forced.any()
    occurrences = sum(len(tokens_of(t)) for t in experience.trajectories)
    assert len(batch.occurrences) == occurrences
    assert batch.decisions == occurrences - 2 * len(shared) // 2
    assert len(scored) == len(experience.trajectories)


def test_a_response_that_ends_within_its_plan_stands_alone():
    experience, _ = collect_thoughts(PlanTree(plans=4, solutions=3, marker="", plan_tokens=1), bias=3)
    alone = [t for t in experience.trajectories if tokens_of(t) in ([3], [4])]
    assert alone
    assert all(len(t.turns) == 1 for t in alone)


def test_without_words_every_episode_is_a_plan():
    stage = Stage(lambda name, sample: 1.0)
    found = stage.collect(PlanTree(plans=2, solutions=3), assignments("a", "b"))
    assert len(found.trajectories) == 12
    assert all(len(t.turns) == 1 for t in found.trajectories)


@LAW
@given(experiences(sources=("own", "baseline")))
def test_plans_by_hand(trajectories):
    batch = batch_of(trajectories)
    given, value = PlanAndSolution()(batch), returns(batch).tolist()
    paths = [[] for _ in trajectories]
    for place, (decision, owner) in enumerate(
        zip(batch.occurrences.decision.tolist(), batch.occurrences.trajectory.tolist(), strict=True)
    ):
        paths[owner].append((place, int(batch.turn[decision])))
    used = {int(owner) for owner in batch.occurrences.trajectory[batch.occurrences.weight != 0]}
    for owner, path in enumerate(paths):
        group = [n for n in used if batch.scenario[n] == batch.scenario[owner]]
        plans = {paths[n][0][1]: [value[m] for m in group if paths[m][0][1] == paths[n][0][1]] for n in group}
        worth = {plan: sum(found) / len(found) for plan, found in plans.items()}
        for place, turn in path:
            first = turn == path[0][1]
            if first:
                wanted = worth[turn] - sum(worth.values()) / len(worth) if turn in worth else 0.0
            else:
                wanted = value[owner] - sum(value[n] for n in group) / len(group) if owner in used else 0.0
            assert float(given.advantage[place]) == pytest.approx(wanted, abs=1e-9)
