"""Dialogues of two halves, trees of them, pairs of sibling messages, and what brevity and readability earn."""

from __future__ import annotations

import asyncio
import math
from statistics import fmean

import numpy as np
import pytest
import torch
from credit_cases import LAW, PATHS, dialogues_of
from hypothesis import given
from hypothesis import strategies as st
from rollout_cases import DIALOGUES, Stage, talk_bench, talked

from hocket.agents.workflows.library import find as workflow
from hocket.agents.workflows.pipeline import Pipeline
from hocket.core.batch import Recorded
from hocket.core.keys import Key
from hocket.core.signals import returns
from hocket.lab.talk import TalkBench
from hocket.methods.teams.optima import BestAbove, DialogueTree, MessageCost, Readability, SiblingTurns, TwoHalves
from hocket.recipes import find
from hocket.rollout.message_tree import MessageNode
from hocket.train.ledger import Ledger
from hocket.types import Assignment, Scenario, Trajectory, Turn

RIGHT, WRONG = "<answer>red</answer>", "<answer>blue</answer>"
SCENARIO = Scenario("one", "which", answer=RIGHT, metadata={"halves": ("left half", "right half")})


def talk(flow: TwoHalves, script: list[str]) -> Trajectory:
    """The dialogue in which message n is word n of the script."""
    names = {str(number): text for number, text in enumerate(script)}

    def prior(messages: tuple[object, ...], said: tuple[str, ...]) -> dict[str, float]:
        # Each agent's number of messages, with who speaks, tells which message of the dialogue comes.
        own = sum(message["role"] == "assistant" for message in messages)  # type: ignore[index]
        second = "right half" in str(messages[0]["content"]) or "right half" in str(messages[1:2])  # type: ignore[index]
        return {names[str(2 * own + second)]: 60.0}

    words = tuple(dict.fromkeys(script))
    bench = TalkBench(flow, [SCENARIO], words, find("grpo"), length=1, prior=prior)
    return bench.play(1)[0]


def test_each_sees_the_question_and_its_own_half() -> None:
    one = talk(TwoHalves(messages=4, system=None), ["hello", "hi", "well", "so"])
    told = [str(turn.prompt) for turn in one.turns]
    assert [turn.agent for turn in one.turns] == ["alice", "bob", "alice", "bob"]
    assert "left half" in told[0]
    assert "right half" not in told[0] + told[2]
    assert "left half" not in told[1] + told[3]
    assert "Alice: hello" in told[1]
    assert "Bob: hi" in told[2]
    assert "Alice: well" in told[3]
    assert one.turns[2].parent is one.turns[0]
    assert one.turns[3].parent is one.turns[1]
    assert one.scores["task"].value == 0.0


@pytest.mark.parametrize(
    ("agree", "script", "length", "reward"),
    [
        (False, ["hello", RIGHT, "x", "y"], 2, 1.0),
        (False, [WRONG, RIGHT, "x", "y"], 1, 0.0),
        (True, ["hello", RIGHT, RIGHT, "y"], 3, 1.0),
        (True, [WRONG, RIGHT, RIGHT, "y"], 3, 1.0),
        (True, [RIGHT, "x", "y", "z"], 4, 1.0),
        (True, [RIGHT, WRONG, "x", "z"], 4, 0.0),
    ],
)
def test_when_it_ends_and_what_counts(agree: bool, script: list[str], length: int, reward: float) -> None:
    one = talk(TwoHalves(messages=4, agree=agree, system=None), script)
    assert len(one.turns) == length
    assert one.scores["task"].value == reward


def test_a_pipeline_reads_all_that_was_said() -> None:
    bench = TalkBench(Pipeline(3), [Scenario("one", "say", answer="red")], ("red",), find("grpo"), length=1)
    (one,) = bench.play(1)
    assert [str(turn.prompt[-1]["content"]) for turn in one.turns] == [
        "say",
        "say\nNote 1: red",
        "say\nNote 1: red\nNote 2: red",
    ]
    assert one.scores["team"].value == 1.0


def test_both_are_found_by_name() -> None:
    assert workflow("two-halves?messages=6&agree=false") == TwoHalves(messages=6, agree=False)
    assert workflow("pipeline?agents=2").roles == ("agent_1", "agent_2")
    with pytest.raises(ValueError, match="messages"):
        TwoHalves(messages=0)
    with pytest.raises(ValueError, match="agents"):
        Pipeline(0)


def test_what_dialogues_have_in_common_is_one_object() -> None:
    found = talked(DialogueTree(expansions=6, children=3), talk_bench()).trajectories
    assert len(found) == 2 * 18
    by_text: dict[tuple[str, ...], set[int]] = {}
    for one in found:
        for length in range(1, 4):
            path = (one.scenario.id, *(turn.text for turn in one.turns[:length]))
            by_text.setdefault(path, set()).add(id(one.turns[length - 1]))
    assert all(len(same) == 1 for same in by_text.values())
    assert sum(len(one.turns) for one in found) > 1.5 * len(by_text)


def test_the_beginning_is_expanded_first_and_then_other_messages() -> None:
    found = talked(DialogueTree(expansions=1, children=5), talk_bench())
    assert found.metrics["rollout/expanded"] == 2
    firsts = {one.turns[0] for one in found.trajectories if one.scenario.id == "one"}
    more = talked(DialogueTree(expansions=4, children=5, alike=0.0), talk_bench()).trajectories
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
    tree, asked = DialogueTree(expansions=2, children=3), [Assignment(DIALOGUES[0])]
    found = asyncio.run(tree.collect(asked, play=stage.play, score=stage.score, ledger=Ledger(), key=Key.of(0)))
    assert [one.sample for one in found.trajectories] == list(range(6))


def test_failed_dialogues_are_kept_out_of_the_tree() -> None:
    stage = Stage(lambda scenario, sample: None if sample == 1 else 1.0)
    tree, asked = DialogueTree(expansions=2, children=2), [Assignment(DIALOGUES[0])]
    found = asyncio.run(tree.collect(asked, play=stage.play, score=stage.score, ledger=Ledger(), key=Key.of(0)))
    assert len(found.trajectories) == 4
    assert found.metrics["rollout/messages"] == 3


def pairs_by_hand(
    rows: list[tuple[tuple[int, ...], float, str, bool]], credit: SiblingTurns
) -> list[tuple[object, ...]]:
    leaves: dict[tuple[str, tuple[int, ...]], list[float]] = {}
    for path, reward, scenario, counts in rows:
        for length in range(1, len(path) + 1):
            if counts:
                leaves.setdefault((scenario, path[:length]), []).append(reward)
    mean = {node: fmean(found) for node, found in leaves.items()}
    kept = []
    for scenario in sorted({one[2] for one in rows}):
        mine = [node for node in mean if node[0] == scenario]
        here = []
        for history in {path[:-1] for _, path in mine}:
            worth = sorted(mean[node] for node in mine if node[1][:-1] == history)
            if worth[-1] - worth[0] > credit.margin and worth[-1] > credit.least:
                here.append((worth[-1], worth[0]))
        here.sort(reverse=True)
        kept += [(scenario, *pair) for pair in here[: max(1, int(credit.share * len(here) + 1e-9))]]
    return kept


@LAW
@given(PATHS, st.sampled_from([0.0, 0.3]), st.sampled_from([0.5, 1.0]))
def test_pairs_are_best_and_worst_answers_to_one_history(rows, margin, share):
    credit = SiblingTurns(margin=margin, least=0.1, share=share)
    batch = dialogues_of(rows)
    seen = credit(batch)
    assert seen.pairs is not None
    assert seen.compared is not None
    reward = [one[1] for one in rows]
    found = []
    for (better, worse), (left, right) in zip(seen.pairs.tolist(), seen.compared.tolist(), strict=True):
        visits = [
            list(dict.fromkeys(batch.turn[seen.decision[seen.trajectory == one]].tolist())) for one in (better, worse)
        ]
        place = visits[0].index(left)
        assert place == visits[1].index(right)
        assert visits[0][:place] == visits[1][:place]
        assert left != right
        value = []
        for turn in (left, right):
            through = seen.trajectory[(batch.turn[seen.decision] == turn)].unique().tolist()
            value.append(fmean(reward[one] for one in through))
        found.append((rows[better][2], *value))
    want = pairs_by_hand(rows, credit)
    assert len(found) == len(want)
    if share == 1.0:
        for one, other in zip(sorted(found), sorted(want), strict=True):
            assert one == pytest.approx(other)
    used = {
        (int(t), int(u)) for t, u, w in zip(seen.trajectory, batch.turn[seen.decision], seen.weight, strict=True) if w
    }
    wanted = set(zip(seen.pairs.flatten().tolist(), seen.compared.flatten().tolist(), strict=True))
    assert used == wanted


@LAW
@given(PATHS, st.sampled_from([0.0, 0.5]), st.sampled_from([0.5, 1.0]))
def test_only_the_best_of_each_group_is_kept(rows, least, share):
    batch = dialogues_of(rows)
    seen = BestAbove(least=least, share=share)(batch)
    kept = set(seen.trajectory[seen.weight != 0].tolist())
    best = {}
    for number, (_, reward, scenario, counts) in enumerate(rows):
        if counts and reward > least and (scenario not in best or reward > rows[best[scenario]][1]):
            best[scenario] = number
    ranked = sorted(best.values(), key=lambda one: (-rows[one][1], one))
    assert kept == set(ranked[: math.ceil(share * len(ranked))])
    assert bool((seen.advantage == (seen.weight != 0).double()).all())


@LAW
@given(PATHS, st.floats(0, 2))
def test_cost_and_readability_are_the_formulas(rows, weight):
    batch = dialogues_of(rows)
    found = returns(Readability(weight=0.5, floor=0.2)(MessageCost(weight=weight)(batch))).tolist()
    seen, reference = batch.occurrences, batch.logp["reference"].values
    sizes = [sum(message + 1 for message in path) for path, *_ in rows]
    for number, (path, reward, scenario, counts) in enumerate(rows):
        mates = [sizes[n] for n, one in enumerate(rows) if one[2] == scenario and one[3]]
        own = reference[seen.decision[seen.trajectory == number]]
        worst = max(float(-part.mean()) for part in torch.split(own, [message + 1 for message in path]))
        cost = weight * sizes[number] / max(mates) if counts else 0.0
        assert found[number] == pytest.approx(reward - cost + 0.5 / max(worst, 0.2))


def test_a_certain_message_is_worth_a_finite_reward():
    batch = dialogues_of([((0,), 1.0, "a", True)])
    sure = Recorded(torch.zeros(batch.decisions), torch.ones(batch.decisions, dtype=torch.bool))
    batch = batch.but(logp={**batch.logp, "reference": sure})
    assert returns(Readability(weight=1.0, floor=0.1)(batch)).tolist() == [11.0]


def test_unknown_log_probs_read_as_nothing():
    batch = dialogues_of([((0,), 1.0, "a", True)])
    unknown = Recorded(torch.zeros(batch.decisions), torch.zeros(batch.decisions, dtype=torch.bool))
    batch = batch.but(logp={**batch.logp, "reference": unknown})
    assert returns(Readability()(batch)).tolist() == [1.0]
