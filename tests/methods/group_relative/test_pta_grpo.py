"""Plans that several solutions share, and credit of both by hand."""

from __future__ import annotations

import numpy as np
import pytest
from credit_cases import LAW, batch_of, experiences, make_turn
from hypothesis import given
from rollout_cases import Stage, assignments, collect_thoughts, tokens_of

from hocket.core.errors import ConfigurationError
from hocket.core.packing import pack
from hocket.core.signals import returns
from hocket.methods.group_relative.pta_grpo import (
    CLOSED,
    OPENED,
    PTA_GRPO_SFT,
    PlanReward,
    PlanTree,
    first_tokens,
    planned,
    planned_well,
    split,
    worked,
)
from hocket.rollout.branches import NUMBERED
from hocket.tasks.sums import Sums
from hocket.types import Assignment, Decoding, Scenario, Trajectory, Turn


def test_a_plan_is_one_turn_of_several_trajectories():
    rollout = PlanTree(plans=3, solutions=2, opening="", marker="", plan_tokens=2)
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
    experience, _ = collect_thoughts(PlanTree(plans=4, solutions=3, opening="", marker="", plan_tokens=1), bias=3)
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
    shaped, value = returns(PlanReward(weight=0.5)(batch)).tolist(), returns(batch).tolist()
    turns = [[] for _ in trajectories]
    for decision, owner in zip(batch.occurrences.decision.tolist(), batch.occurrences.trajectory.tolist(), strict=True):
        turns[owner].append(int(batch.turn[decision]))
    used = {int(owner) for owner in batch.occurrences.trajectory[batch.occurrences.weight != 0]}
    for owner, path in enumerate(turns):
        mates = [value[n] for n in used if turns[n][0] == path[0]] if path else []
        wanted = value[owner] + 0.5 * sum(mates) / len(mates) if owner in used else value[owner]
        assert shaped[owner] == pytest.approx(wanted, abs=1e-9)


def test_what_is_no_sum_needs_a_plan_of_its_own():
    with pytest.raises(ConfigurationError, match="no plan to imitate"):
        planned(Scenario("s", "Why?", "7"))
    said = planned(Scenario("s", "Why?", "7", {"plan": "look", "demonstration": "<answer>7</answer>"}))
    assert said.metadata["demonstration"] == "<plan>look</plan><answer>7</answer>"
    sums = planned(Scenario("s", "What is 12 - 5 + 103?", "110")).metadata["demonstration"]
    assert sums == "<plan>1. 12 - 5\n2. 103</plan><think>12-5=7+100=107+3=110</think><answer>110</answer>"
    assert worked([7, 0]) == "7+0=7"
    for prompt, told in (("?", {"plan": "a"}), ("?", {"demonstration": "b"}), ("Say 3 + 4 twice.", {})):
        with pytest.raises(ConfigurationError, match="no plan to imitate"):
            planned(Scenario("s", prompt, metadata=told))


def test_form():
    assert planned_well("<plan>a</plan><think>b</think><answer>c</answer>")
    for text in ("<plan>a</plan><plan>b</plan><answer>c</answer>", "a<plan>b</plan><answer>c</answer>", ""):
        assert not planned_well(text)


def test_a_stem_keeps_its_prompt_whatever_its_length():
    turn = make_turn(3)
    turn.observation, turn.prompt = turn.observation[:3], ({"role": "user", "content": "?"},)
    stem = first_tokens(turn, 2)
    assert len(stem) == 2
    assert len(stem.observation) == len(turn.observation)


class Words:
    """Characters as tokens."""

    def encode(self, text, after=()):
        return tuple(map(ord, text))

    def decode(self, tokens):
        return "".join(map(chr, tokens))


WORDS = Words()


def response(text, finish="stop", sample=0):
    action = np.array(WORDS.encode(text), np.int64)
    turn = Turn("p", "p", np.arange(len(text)), action, np.zeros(len(text), np.float32), text=text, finish=finish)
    return Trajectory(Scenario("s"), [turn], sample=sample)


@pytest.mark.parametrize(
    ("text", "finish", "marker", "plan"),
    [
        ("<plan>a", "length", CLOSED, "<plan>a"),
        ("<plan>a</plan>", "stop", CLOSED, "<plan>a</plan>"),
        ("<plan>a.", "stop", CLOSED, "<plan>a"),
        ("<plan><answer>3</answer>", "stop", CLOSED, None),
        ("a", "stop", CLOSED, None),
        ("<plan>a.", "stop", "", None),
    ],
)
def test_a_plan_ends_at_its_marker_at_its_length_or_before_the_end(text, finish, marker, plan):
    stem = PlanTree(plan_tokens=40, marker=marker)._stem(response(text, finish))
    assert (None if stem is None else WORDS.decode(stem.action.tolist())) == plan


def test_solutions_go_on_from_a_closed_plan_where_there_is_room():
    tree = PlanTree(plans=2, solutions=3, plan_tokens=40)
    asking = Assignment(Scenario("s"), decoding=Decoding(max_tokens=50), first=7)
    plan = tree._planning(asking, WORDS)
    assert (plan.samples, plan.budget, plan.decoding.max_tokens, plan.prefix) == (2, 40, 40, WORDS.encode(OPENED))
    assert CLOSED in plan.decoding.stop
    for text, sample in (("<plan>a", 2), ("<plan>a</plan>", 1)):
        root = response(text, "length", sample)
        branch = tree._branch(asking, root, root.turns[0], WORDS)
        assert branch.prefix == WORDS.encode("<plan>a</plan>")
        assert (branch.first, branch.samples, branch.budget) == (7 + NUMBERED + 3 * sample, 3, 50)
    for size, room in ((50 - len(CLOSED), False), (49 - len(CLOSED), True)):
        root = response("x" * size)
        assert (tree._branch(asking, root, root.turns[0], WORDS) is not None) == room


@pytest.mark.parametrize(
    ("tokens", "turns"), [([1, 2, 3], [[1, 2], [3]]), ([1, 4, 3], [[1, 4, 3]]), ([1, 2], [[1, 2]])]
)
def test_a_response_that_began_anew_stays_whole(tokens, turns):
    stem, own = (
        Turn("p", "p", np.arange(len(one)), np.array(one, np.int64), np.zeros(len(one), np.float32))
        for one in ([1, 2], tokens)
    )
    leaf = Trajectory(Scenario("s"), [own])
    split(leaf, stem)
    assert [one.action.tolist() for one in leaf.turns] == turns


def test_the_first_stage_shows_planned_demonstrations():
    asked = [Assignment(Sums().scenario("train", number)) for number in range(2)]
    stage = Stage(lambda name, sample: 1.0)
    stage.collect(PTA_GRPO_SFT.rollout, asked)
    told = [one.scenario.metadata["demonstration"] for one in stage.asked[0]]
    assert told == [planned(one.scenario).metadata["demonstration"] for one in asked]
