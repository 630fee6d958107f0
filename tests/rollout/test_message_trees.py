"""Trees of messages: what is shared, what is expanded, what is backed up."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rollout_cases import Stage

from hocket.core.components import from_plain, to_plain
from hocket.core.keys import Key
from hocket.core.markup import edit_distance
from hocket.lab.talk import TalkBench, total
from hocket.methods.teams.masprm import MESSAGE_VALUES, MessageSearch
from hocket.methods.teams.optima import DialogueTree
from hocket.recipes import find
from hocket.rollout.alternating import AlternatingRollout
from hocket.rollout.independent import Independent
from hocket.rollout.message_search import UCT, Tree
from hocket.rollout.message_tree import MessageNode, grafted
from hocket.train.ledger import Ledger
from hocket.train.loop import Playing
from hocket.types import Assignment, Experience, Scenario, Trajectory, Turn
from hocket.workflows.pipeline import Pipeline

WORDS = ("red", "blue", "green")
SCENARIOS = [Scenario(name, name, answer="red") for name in ("one", "two")]
LAW = settings(max_examples=60, deadline=None, derandomize=True)


def slow_distance(one: str, other: str) -> int:
    row = list(range(len(other) + 1))
    for i, left in enumerate(one, start=1):
        last = row
        row = [i]
        for j, right in enumerate(other, start=1):
            row.append(min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (left != right)))
    return row[-1]


@LAW
@given(st.text("abé😀", max_size=8), st.text("abé😀", max_size=8))
def test_edit_distance(one: str, other: str) -> None:
    assert edit_distance(one, other) == slow_distance(one, other) == edit_distance(other, one)


def bench(recipe: str = "grpo") -> TalkBench:
    return TalkBench(Pipeline(), SCENARIOS, WORDS, find(recipe), length=1)


def collected(rollout: DialogueTree | MessageSearch, found: TalkBench) -> Experience:
    async def score(trajectories: list[Trajectory]) -> None:
        return None

    asked = [Assignment(one, decoding=found.parts.decoding) for one in SCENARIOS]
    play = Playing(found.player, Key.of(2))
    return asyncio.run(rollout.collect(asked, play=play, score=score, ledger=Ledger(), key=Key.of(3)))


def test_what_dialogues_have_in_common_is_one_object() -> None:
    found = collected(DialogueTree(expansions=6, children=3), bench()).trajectories
    assert len(found) == 2 * 18
    by_text: dict[tuple[str, ...], set[int]] = {}
    for one in found:
        for length in range(1, 4):
            path = (one.scenario.id, *(turn.text for turn in one.turns[:length]))
            by_text.setdefault(path, set()).add(id(one.turns[length - 1]))
    assert all(len(same) == 1 for same in by_text.values())
    assert sum(len(one.turns) for one in found) > 1.5 * len(by_text)


def test_the_beginning_is_expanded_first_and_then_other_messages() -> None:
    found = collected(DialogueTree(expansions=1, children=5), bench())
    assert found.metrics["rollout/expanded"] == 2
    firsts = {one.turns[0] for one in found.trajectories if one.scenario.id == "one"}
    more = collected(DialogueTree(expansions=4, children=5, alike=0.0), bench()).trajectories
    again = [one for one in more if one.scenario.id == "one"]
    # Later expansions begin with a message of the first.
    assert {turn.text for turn in firsts} >= {one.turns[0].text for one in again[5:]}
    assert len({id(one.turns[0]) for one in again[5:10]}) == 1


def test_messages_like_an_expanded_one_are_passed_over() -> None:
    """With alike = 1 everything is alike after the first message, so the beginning is taken again."""
    tree = DialogueTree(expansions=3, children=1, alike=1.0)
    node = MessageNode()
    turns = [
        Turn("a", "p", np.zeros(1, np.int64), np.array([n]), text=text) for n, text in enumerate(("aa", "ab", "b"))
    ]
    kids = [node.add(turn) for turn in turns]
    for kid in kids:
        kid.add(Turn("b", "p", np.zeros(1, np.int64), np.array([0]), text="end"))
    assert tree._chosen(node, [node], Key.of(0)) in kids
    assert tree._chosen(node, [node, kids[0]], Key.of(0)) is node
    near = DialogueTree(expansions=3, children=1, alike=0.5)
    # One of two characters differs: a distance of 1/3.
    assert {near._chosen(node, [node, kids[0]], Key.of(n)) for n in range(8)} == {kids[2]}


def test_promising_messages_are_drawn_more_often() -> None:
    node = MessageNode()
    kids = [node.add(Turn("a", "p", np.zeros(1, np.int64), np.array([n]), text=text)) for n, text in enumerate("abc")]
    for kid, value in zip(kids, (0.0, 2.0, 1.0), strict=True):
        kid.add(Turn("b", "p", np.zeros(1, np.int64), np.array([0]))).back_up(value)
    tree = DialogueTree(alike=0.0, top=2)
    drawn = [tree._chosen(node, [node], Key.of(n)) for n in range(300)]
    share = drawn.count(kids[1]) / 300
    assert kids[0] not in drawn
    assert share == pytest.approx(1 / (1 + np.exp(-1)), abs=0.1)


def test_a_player_without_workflows_gives_trees_of_one_level() -> None:
    stage = Stage(lambda scenario, sample: float(sample % 2))
    tree, asked = DialogueTree(expansions=2, children=3), [Assignment(SCENARIOS[0])]
    found = asyncio.run(tree.collect(asked, play=stage.play, score=stage.score, ledger=Ledger(), key=Key.of(0)))
    assert [one.sample for one in found.trajectories] == list(range(6))


def test_failed_dialogues_are_kept_out_of_the_tree() -> None:
    stage = Stage(lambda scenario, sample: None if sample == 1 else 1.0)
    tree, asked = DialogueTree(expansions=2, children=2), [Assignment(SCENARIOS[0])]
    found = asyncio.run(tree.collect(asked, play=stage.play, score=stage.score, ledger=Ledger(), key=Key.of(0)))
    assert len(found.trajectories) == 4
    assert found.metrics["rollout/messages"] == 3


def test_a_search_visits_add_up_and_episodes_say_what_their_messages_were_worth() -> None:
    found = bench("masprm")
    rollout = MessageSearch(searches=10, rule=UCT(candidates=3))
    episodes = collected(rollout, found).trajectories
    assert all(len(MESSAGE_VALUES.get(one)) == 3 for one in episodes)
    for one in episodes:
        assert MESSAGE_VALUES.get(one)[-1] == 2 * total(one) - 1
        assert {turn.policy for turn in one.turns} == {"policy"}
        assert all(turn.logp is None for turn in one.turns)
    assert len({id(one) for one in episodes}) == len(episodes)


def test_uct_takes_the_largest_bound() -> None:
    node = MessageNode()
    kids = [node.add(Turn("a", "p", np.zeros(1, np.int64), np.array([n]))) for n in range(3)]
    for _ in range(3):
        kids[0].back_up(0.5)
    kids[1].back_up(0.4)
    assert UCT(c=0.0).chosen(node) is kids[0]
    # sqrt(ln 4) = 1.18: 0.5 + 0.68 c against 0.4 + 1.18 c, and 1.18 c for the unvisited one, as if visited once.
    assert UCT(c=0.1).chosen(node) is kids[0]
    assert UCT(c=1.0).chosen(node) is kids[1]
    assert UCT(c=None).chosen(node) is kids[2]


def test_the_mean_of_a_node_is_over_the_ends_below_it() -> None:
    found = bench("masprm")
    tree = Tree(Assignment(SCENARIOS[0], decoding=found.parts.decoding), Key.of(1))
    play = Playing(found.player, Key.of(4))

    async def judge(episodes: list[Trajectory]) -> list[float]:
        return [2 * total(one) - 1 for one in episodes]

    async def go() -> None:
        for _ in range(30):
            await UCT(candidates=2).search([tree], play=play, judge=judge)

    asyncio.run(go())
    for node in tree.root.below():
        ends = [one for one in node.below() if one.episodes]
        weights = sum(one.visits for one in ends)
        if weights:
            want = sum(one.visits * (2 * total(one.episodes[0]) - 1) for one in ends) / weights
            assert node.mean == pytest.approx(want)
            assert node.visits == weights


def test_grafting_keeps_the_chain_of_each_conversation() -> None:
    found = bench()
    root = MessageNode()
    for one in found.play(30):
        if one.scenario.id == "one":
            grafted(root, one)
    for node in root.below():
        for one in node.episodes:
            assert one.turns == list(node.path)
            assert all(turn.parent is None or turn.parent in one.turns for turn in one.turns)


def test_rollouts_take_turns() -> None:
    first, second = Independent(samples=2), DialogueTree()
    both = AlternatingRollout((first, second), every=3)
    assert [both.at(step) for step in range(1, 8)] == [first] * 3 + [second] * 3 + [first]
    assert not both.plays_reference
    assert AlternatingRollout((first, MessageSearch())).plays_reference
    assert from_plain(to_plain(both)) == both


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: DialogueTree(expansions=0), "at least 1"),
        (lambda: DialogueTree(expansions=1, children=1), "two episodes"),
        (lambda: DialogueTree(alike=1.5), "alike"),
        (lambda: UCT(candidates=0), "candidates"),
        (lambda: MessageSearch(searches=0), "searches"),
        (lambda: AlternatingRollout(()), "members"),
    ],
)
def test_bad_settings_are_refused(make: object, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        make()  # type: ignore[operator]
