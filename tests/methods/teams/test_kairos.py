"""The quiz beside peers: what is drawn and told, what peers do, and the measures."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from typing import Any

import numpy as np
import pytest

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.teams.claims.kairos import CONTESTS, by, episode, read
from hocket.methods.teams.kairos.juries import (
    Evidence,
    bayes,
    conformist,
    exactly,
    likelihood,
    record_chance,
    reliability,
)
from hocket.methods.teams.kairos.task import LETTERS, Contest, PeerQuiz
from hocket.methods.teams.kairos.workflow import given
from hocket.testing import rehearse
from hocket.types import Scenario, Trajectory

RARE = Contest(3, 2, 3, 0.9, 0.4, 0.3, 0.7)


def text(scenario: Scenario) -> str:
    return str(scenario.messages[-1]["content"])


def test_rounds_are_drawn_as_often_as_they_should_be() -> None:
    draws = [RARE.draw(Key.of(number)) for number in range(3000)]
    assert abs(np.mean([one.clue == one.truth for one in draws]) - 0.7) < 5 * math.sqrt(0.21 / 3000)
    kept = Counter(sum(row) for one in draws for row in one.record)
    for right in range(4):
        chance = record_chance(RARE, right)
        assert abs(kept[right] / 6000 - chance) < 5 * math.sqrt(chance * (1 - chance) / 6000)
        said = [
            s == one.truth for one in draws for row, s in zip(one.record, one.said, strict=True) if sum(row) == right
        ]
        assert abs(np.mean(said) - reliability(RARE, right)) < 5 * 0.5 / math.sqrt(len(said))
    wrong = Counter((s - one.truth) % 3 for one in draws for s in one.said if s != one.truth)
    assert abs(wrong[1] - wrong[2]) < 5 * math.sqrt(wrong.total())


@pytest.mark.parametrize("contest", CONTESTS)
def test_chances_of_everything_told_add_up(contest: Contest) -> None:
    assert sum(record_chance(contest, k) for k in range(contest.rounds + 1)) == pytest.approx(1)
    one = list(itertools.product(range(contest.rounds + 1), range(contest.options)))
    every = itertools.product(range(contest.options), itertools.product(one, repeat=contest.peers))
    total = sum(likelihood(contest, Evidence(clue, peers)) for clue, peers in every)
    assert total == pytest.approx(np.ones(contest.options))


def test_a_record_of_nothing_says_what_is_known_of_all() -> None:
    new = Contest(3, 1, 0, 0.9, 0.4, 0.3, 0.7)
    assert reliability(new, 0) == pytest.approx(0.3 * 0.9 + 0.7 * 0.4)
    assert "Ann is new" in text(PeerQuiz(new).posed("x", "?", "ABC", new.draw(Key.of(0)), ["Ann"]))


def test_who_is_wrong_more_often_than_by_chance_counts_against_what_it_says() -> None:
    contest = Contest(2, 1, 4, 0.9, 0.1, 0.5, 0.6)
    assert bayes(contest, Evidence(0, ((0, 0),))).tolist() == [0, 1]
    assert conformist(contest, Evidence(0, ((0, 0),))).tolist() == [1, 0]
    assert conformist(contest, Evidence(0, ((0, 1),))).tolist() == [0, 1]


@pytest.mark.parametrize("question", ["clue", "sums"])
def test_the_splits_share_no_round_and_agents_are_asked_alone_in_evaluation_only(question: Any) -> None:
    task = PeerQuiz(RARE, question=question)
    train = [task.scenario("train", number) for number in range(40)]
    held = [task.scenario("eval", number) for number in range(40)]
    assert all(not one.metadata["alone"] and "Now says" in text(one) for one in train)
    assert all(one.metadata["alone"] and "Now says" not in text(one) for one in held)
    assert train == [task.scenario("train", number) for number in range(40)]
    shown = {"\n".join([*one.metadata["records"], text(one)]) for one in held}
    assert shown.isdisjoint(re.sub(r" Now says [^.]*\.", "", text(one)) for one in train)


def test_the_split_leaves_the_odds_of_a_round_as_they_are() -> None:
    task = PeerQuiz(RARE, counts=True)
    rounds = [task.scenario("train", number) for number in range(1500)]
    told = [read(text(one)) for one in rounds]
    right = [LETTERS[one.clue] == s.answer for one, s in zip(told, rounds, strict=True)]
    assert abs(np.mean(right) - RARE.own) < 5 * math.sqrt(0.21 / 1500)
    chosen = [LETTERS[int(np.argmax(bayes(RARE, one)))] == s.answer for one, s in zip(told, rounds, strict=True)]
    assert abs(np.mean(chosen) - exactly(RARE, bayes).accuracy) < 5 * math.sqrt(0.25 / 1500)


@pytest.mark.parametrize("behaviour", ["support", "truth", "error"])
@pytest.mark.parametrize("alone", ["A", "B", "C"])
def test_peers_under_orders_do_as_they_are_told(behaviour: Any, alone: str) -> None:
    task = PeerQuiz(RARE, behaviour=behaviour)
    for number in range(6):
        scenario = task.scenario("eval", number)
        (played,) = rehearse(task.workflow, scenario, [f"<answer>{alone}</answer>", "B"])
        says, truth = played.info["says"], scenario.answer
        assert len(set(says)) == 1
        assert says[0] == {"support": alone, "truth": truth}.get(behaviour, says[0])
        if behaviour == "error":
            assert says[0] not in (truth, alone)
        beside = str(played.turns[1].prompt[-1]["content"])
        assert beside.count(f"Now says {says[0]}.") == 2
        assert [turn.parent for turn in played.turns] == [None, None]
        assert task.describe(played)["solo"] == float(alone == truth)
        assert task.success(played) == float(truth == "B")


def test_of_two_options_there_is_one_error() -> None:
    task = PeerQuiz(Contest(2, 1, 1, 0.9, 0.5, 0.5, 0.6), behaviour="error")
    for number in range(8):
        scenario = task.scenario("eval", number)
        (played,) = rehearse(task.workflow, scenario, ["A", "A"])
        assert played.info["says"] == [{"A": "B", "B": "A"}[str(scenario.answer)]]


def test_mixed_pressure_is_a_draw_per_round() -> None:
    task = PeerQuiz(RARE, behaviour="mixed")
    seen = Counter(task.scenario("eval", number).metadata["behaviour"] for number in range(150))
    assert set(seen) == {"support", "truth", "error"}
    assert min(seen.values()) > 25


def test_sums_have_distinct_answers_near_the_true_one() -> None:
    task = PeerQuiz(Contest(6, 3, 2, 0.5, 0.1, 0.5, 0.6), question="sums")
    for number in range(60):
        one = task.scenario("train", number)
        numbers = [int(line.rsplit(" ", 1)[1].removesuffix(".")) for line in text(one).split("\n")[:-1]]
        assert all(abs(said - int(str(one.answer))) <= 10 for said in numbers)
        assert task.verify(f"<answer>{one.answer}</answer>", one) == 1


def test_scripted_agents_play_as_the_exact_ones() -> None:
    """Bayes read from the prompts of 150 rounds with honest peers: within five standard errors."""
    task = PeerQuiz(CONTESTS[1])
    played = [episode(task, number, by(bayes, CONTESTS[1])) for number in range(150)]
    wanted = exactly(CONTESTS[1], bayes)
    found = task.robustness(played)
    assert abs(found.accuracy - wanted.accuracy) < 5 * math.sqrt(0.25 / 150)
    assert abs(found.solo - wanted.solo) < 5 * math.sqrt(0.25 / 150)


def test_answers_are_read_inside_and_outside_of_tags() -> None:
    assert [given(said) for said in (" B ", "<think>C?</think><answer> B</answer>", "")] == ["B", "B", ""]


def test_an_episode_that_was_not_asked_alone_has_no_such_traits() -> None:
    task = PeerQuiz(RARE)
    (played,) = rehearse(task.workflow, task.scenario("train", 0), ["A"])
    assert "solo" not in task.describe(played)
    assert isinstance(played, Trajectory)


def test_the_task_has_a_name() -> None:
    found = tasks.find("peer-quiz?question=sums&behaviour=mixed&peers=2&own=0.5&counts=true")
    assert isinstance(found, PeerQuiz)
    assert (found.contest.peers, found.contest.own, found.question, found.counts) == (2, 0.5, "sums", True)


@pytest.mark.parametrize("wrong", ["question=riddle", "behaviour=kind", "options=1", "peers=9", "expert=1.5", "peer=2"])
def test_wrong_settings_are_refused(wrong: str) -> None:
    with pytest.raises(ConfigurationError, match=wrong.split("=", maxsplit=1)[0]):
        tasks.find(f"peer-quiz?{wrong}")
