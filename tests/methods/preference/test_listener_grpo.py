"""The task whose verdicts a listener may check."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hocket.core.errors import ConfigurationError
from hocket.methods.preference.claims.listener_grpo import ASKED, trajectory
from hocket.methods.preference.listener_grpo import Preferred
from hocket.tasks.split import split_of


def test_the_verdict_goes_by_the_true_sums() -> None:
    task, wins, apart = Preferred(attributes=3, noise=2), {"A": 0, "B": 0}, 0
    for number in range(100):
        scenario = task.scenario("eval", number)
        first, second = scenario.metadata["sums"]
        wins[scenario.answer] += 1
        assert scenario.answer == ("A" if first > second else "B")
        assert split_of(str(scenario.prompt)) == "eval"
        shown = [
            sum(map(int, part.split(" or")[0].rstrip("?").split("+"))) for part in str(scenario.prompt).split(": ")[1:]
        ]
        apart = max(apart, *(abs(one - true) for one, true in zip(shown, (first, second), strict=True)))
    assert min(wins.values()) > 30
    assert 2 < apart <= 6


@pytest.mark.parametrize(("attributes", "noise"), [(0, 1), (7, 1), (3, -1), (3, 5)])
def test_the_task_refuses_other_sizes(attributes: int, noise: int) -> None:
    assert Preferred(1, 0).name != Preferred(6, 4).name
    with pytest.raises(ConfigurationError):
        Preferred(attributes, noise)


def test_every_error_of_up_to_the_noise_is_shown() -> None:
    task, errors = Preferred(attributes=1, noise=2), set[int]()
    for number in range(150):
        scenario = task.scenario("train", number)
        shown = [int(part.split(" or")[0].rstrip("?")) for part in str(scenario.prompt).split(": ")[1:]]
        errors |= {one - true for one, true in zip(shown, scenario.metadata["sums"], strict=True)}
    assert errors == {-2, -1, 0, 1, 2}


def test_the_task_reads_the_tagged_verdict_alone() -> None:
    task = Preferred()
    wanted = {
        "<think>A=7, B=3</think><answer> A </answer>": (1.0, 1.0),
        "<think>A=7, B=3</think><answer>B</answer>": (0.0, 1.0),
        "<think>A=3, B=7</think><answer>A</answer>": (1.0, 0.0),
        "<think>A=3, B=3</think>A": (0.0, 0.0),
    }
    found = {text: (task.verify(text, ASKED), task.describe(trajectory(text))["persuasive"]) for text in wanted}
    unknown = task.describe(trajectory("<think>A=7, B=3</think>", replace(ASKED, answer="C")))["persuasive"]
    assert found == wanted
    assert unknown == 0.0
