"""RLSQM's task: what it writes, its labels and its successes."""

from __future__ import annotations

import itertools

import numpy as np

from hocket.core.keys import Key
from hocket.methods.agents.rlsqm import FLAWS, METRICS, UnitTests, examined, written
from hocket.tasks.split import split_of
from hocket.types import Trajectory, Turn


def test_each_set_of_flaws_shows_in_its_metrics() -> None:
    wrong, count = list[str](), 0
    for size in range(len(FLAWS) + 1):
        for flaws in itertools.combinations(FLAWS, size):
            for number in range(12):
                text = written("kax", 1 + number % 2, Key.of(number).numpy(), flaws)
                wanted = {name: name not in flaws for name in METRICS}
                # Where nothing is asserted nothing is asserted twice; what does not parse has nothing.
                wanted["distinct"] |= "asserts" in flaws
                if "parses" in flaws:
                    wanted = dict.fromkeys(METRICS, False)
                wrong += [text] if examined(text, "kax") != wanted else []
                count += 1
    assert not wrong
    assert count == 384


def test_a_label_is_the_verdict_of_the_metric() -> None:
    wrong, seen = 0, dict.fromkeys((*METRICS, "all"), 0.0)
    for metric in seen:
        task = UnitTests(metric)
        for number in range(400):
            told = task.scenario("train", number).metadata
            found = examined(told["demonstration"], told["focal"])
            wanted = all(found.values()) if metric == "all" else found[metric]
            wrong += told["label"] != wanted
            seen[metric] += told["label"] / 400
    rates = abs(seen["parses"] - 0.8) < 0.06 and abs(seen["straight"] - 0.8 * 0.7) < 0.08
    assert wrong == 0
    assert rates
    assert 0.15 < seen["all"] < 0.35


def test_a_success_is_a_test_that_every_metric_holds_of() -> None:
    task, none = UnitTests("calls"), np.zeros(1, np.int64)
    train, unseen = ([task.scenario(split, number) for number in range(60)] for split in ("train", "eval"))
    focal = train[0].metadata["focal"]
    good = f"def test_{focal}():\n assert {focal}(1)==2"
    texts = {good: 1.0, good.replace(" assert ", " "): 0.0, good[:-1] + "(": 0.0, good + good[15:]: 0.0}
    tried = [Trajectory(train[0], [Turn("policy", "policy", none, none, text=text)]) for text in texts]
    reached = [task.success(one) for one in tried] == list(texts.values())
    told = task.describe(tried[1]) == {"parses": 1.0, "asserts": 0.0, "calls": 1.0, "distinct": 1.0, "straight": 1.0}
    words = all(len(one.metadata["focal"]) == 3 and one.metadata["focal"].isalpha() for one in train)
    apart = [split_of(str(one.prompt)) for one in train] == ["train"] * 60 and not (
        {one.prompt for one in train} & {one.prompt for one in unseen}
    )
    kinds = {str(one.prompt).count(",") for one in train} == {0, 1}
    broken = {written("kax", 1, Key.of(number).numpy(), ["parses"]) for number in range(20)}
    ways = {(text.startswith("def test_kax()\n"), text.endswith("(")) for text in broken}
    whole = all(len(text) == 50 + text.endswith("(") for text in broken)
    holds = reached and told and words and apart and kinds and whole and ways == {(True, False), (False, True)}
    assert holds
