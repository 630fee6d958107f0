"""Questions whose answers depend on the role for whom is asked."""

from __future__ import annotations

import numpy as np
import pytest

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.core.markup import tagged
from hocket.methods.group_relative.multirole_r1 import MULTIROLE_R1, ROLES, MergedRoles, Perspectives, headed, roles_of
from hocket.stages import Split
from hocket.tasks.split import split_of

TASK = Perspectives()


def _goods(split: Split, number: int) -> list[str]:
    return str(TASK.scenario(split, number).prompt).split(". For")[0].split(", ")


@pytest.mark.parametrize("number", range(30))
def test_the_answer_is_what_suits_the_role(number: int) -> None:
    scenario = TASK.scenario("train", number)
    offered, asked = str(scenario.prompt).split(". For the ")
    merits = {name: (int(a), int(b)) for name, a, b in (one.split() for one in offered.split(", "))}
    worth = {"cook": lambda one: one[0], "buyer": lambda one: one[1], "guest": sum}[asked.rstrip("?")]
    assert scenario.answer == max(merits, key=lambda name: worth(merits[name]))
    picks = {max(merits, key=lambda name: of(merits[name])) for of in (lambda one: one[0], lambda one: one[1], sum)}
    assert len(picks) == 2
    verdicts = [TASK.verify(f"<answer>{name}</answer>", scenario) for name in merits]
    assert verdicts == [float(name == scenario.answer) for name in merits]


def test_beginners_think_rightly_as_the_role_they_name_and_as_the_one_they_are_told():
    right = []
    for number in range(60):
        scenario = TASK.scenario("train", number)
        (lesson,) = TASK.lessons.play(scenario, np.random.default_rng(number))
        asked, said = str(lesson.prompt[0]["content"]), str(lesson.said[0]["content"])
        (role,) = roles_of(said)
        question = Perspectives().scenario("train", number)
        merits = dict(zip(question.metadata["goods"], question.metadata["merits"], strict=True))
        worth = dict(zip(ROLES, (lambda one: one[0], lambda one: one[1], sum), strict=True))[role]
        assert tagged(said) == max(merits, key=lambda name: worth(merits[name]))
        line = asked.partition("\n")[2]
        assert line in ("", f"Answer as a {role}.")
        if not line:
            right.append(TASK.verify(said, scenario))
    assert 0.3 < np.mean(right) < 0.95
    assert 10 < len(right) < 50, "half of them are asked as a role"
    assert TASK.lessons.steps == 150
    assert TASK.lessons.then(MULTIROLE_R1) == {"steps": 25, "update.lr": 1e-3, "evaluation.n": 100}


def test_train_and_eval_differ_and_settings_are_refused():
    seen = {split: {frozenset(_goods(split, number)) for number in range(200)} for split in ("train", "eval")}
    assert not seen["train"] & seen["eval"]
    assert {split_of(str(sorted(one))) for one in seen["eval"]} == {"eval"}
    with pytest.raises(ConfigurationError, match="perspectives"):
        tasks.find("perspectives?size=3")


def test_bounds_and_headings():
    with pytest.raises(ValueError, match="samples and least must be at least 1, not 0 and 2"):
        MergedRoles(samples=0)
    with pytest.raises(ValueError, match=r"ask must name the role by {role}, not 'Answer\.'"):
        MergedRoles(ask="Answer.")
    assert headed("cook", "too dear") == "As a cook: too dear"
    assert headed("cook", "Role: cook: too dear") == "Role: cook: too dear"
