"""Libraries of skills and lessons: what enters, what runs, what a question calls up."""

import pytest

from hocket.agents.tools.recall import called_up, recalled
from hocket.core.errors import ConfigurationError
from hocket.core.texts import Recall, Texts, about
from hocket.methods.search.compass_smac.skills import act, admitted, name_of, refusal

DOUBLE = 'def double(view):\n    "twice what is seen"\n    return str(2 * view["n"])\n'
TESTS = ["assert {skill}({'n': 3}) == '6'", "assert {skill}({'n': 0}) == '0'"]


def test_a_skill_that_passes_its_check_enters_and_takes_the_place_of_its_name():
    library, why = admitted({}, DOUBLE, TESTS)
    assert (library, why) == ({"double": DOUBLE}, None)
    other = DOUBLE.replace("2 * view", "view['n'] + view")
    assert admitted(library, other, TESTS) == ({"double": other}, None)


@pytest.mark.parametrize(
    ("program", "why"),
    [
        (DOUBLE.replace("2", "3"), "its check failed"),
        (DOUBLE.replace('return str(2 * view["n"])', "while True: pass"), "its check failed"),
        (DOUBLE.replace('return str(2 * view["n"])', "raise SystemExit(0)"), "its check failed"),
        (DOUBLE.replace('return str(2 * view["n"])', "return open('/etc/passwd').read()"), "its check failed"),
        (DOUBLE.replace('    "twice what is seen"\n', ""), "no docstring"),
        (DOUBLE.replace("view", "self, view"), "not one Python function of one argument"),
        (DOUBLE + DOUBLE.replace("double", "again"), "not one Python function"),
        ("def double(view", "not one Python function"),
        ("twice = 2\n", "not one Python function"),
        (DOUBLE + "#" * 4000, "longer than 4000"),
    ],
)
def test_a_skill_that_fails_its_check_never_enters(program, why):
    library, reason = admitted({"hold": "as it was"}, program, TESTS)
    assert library == {"hold": "as it was"}
    assert why in reason


def test_every_test_must_pass_and_there_must_be_one():
    assert refusal(DOUBLE, [*TESTS, "assert {skill}({'n': 1}) == '3'"]) is not None
    assert "at least one test" in refusal(DOUBLE, [])


def test_skills_say_what_they_say_and_one_that_fails_costs_its_own_answers():
    endless = DOUBLE.replace('return str(2 * view["n"])', "while view['n']: pass\n    return 'zero'")
    broken = DOUBLE.replace("view[", "view[0][")
    noisy = DOUBLE.replace("    return", "    print('said 7')\n    return")
    calls = [(DOUBLE, {"n": 2}), (broken, {"n": 2}), (noisy, {"n": 4}), (DOUBLE, {"n": 2}), ("1 +", {})]
    assert act(calls) == ["4", None, "8", "4", None]
    assert act([(DOUBLE, {"n": 2}), (endless, {"n": 1}), (noisy, {"n": 4})]) == ["4", None, "8"]
    assert act([]) == []


def test_what_a_skill_leaves_in_its_view_or_its_module_is_not_the_verdict():
    cheat = 'import builtins\ndef double(view):\n    "cheats"\n    builtins.print = None\n    return "6"\n'
    assert refusal(cheat, TESTS) is not None
    assert (name_of(cheat), about(cheat)) == ("double", "cheats")


LESSONS = ("Sum the tens first.", "Count apples by dozens.", "Turn west at walls.")


def test_a_question_calls_up_the_nearest_lessons_in_the_order_of_the_library():
    assert called_up(Recall(1), "How many apples are in two dozens?", LESSONS) == (1,)
    assert called_up(Recall(2), "walls and tens", LESSONS) == (0, 2)
    assert called_up(Recall(5), "walls", LESSONS) == (0, 1, 2)
    assert called_up(Recall(1), "nothing of it", LESSONS) == (0,)


def test_worth_decides_alone_where_nearness_is_none():
    recall = Recall(2, 0.0, {LESSONS[2]: 1.5, LESSONS[0]: -1.0})
    assert called_up(recall, "apples, dozens, tens", LESSONS) == (1, 2)


def test_recall_shows_fewer_lessons_and_skills_of_one_version():
    skills = {"double": DOUBLE, "halve": DOUBLE.replace("double", "halve").replace("twice", "half of")}
    texts = Texts(library=LESSONS, recall=Recall(1), skills=skills)
    shown = recalled(texts, "half of apples")
    assert (shown.library, list(shown.skills)) == ((LESSONS[1],), ["halve"])
    assert "halve: half of what is seen" in shown.system("policy")
    assert Texts.from_json(texts.to_json()) == texts
    assert recalled(Texts(library=LESSONS), "apples").library == LESSONS
    assert any("+skill double" in line.replace(" ", "", 1) for line in texts.changes(Texts()))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ({"recall": {"top": 0}}, "at least 1 entry"),
        ({"recall": {"worth": {}}}, "with top"),
        ({"recall": {"top": 1, "neerness": 1}}, "did you mean 'nearness'"),
        ({"skills": ["double"]}, "programs by name"),
    ],
)
def test_texts_that_are_none_are_refused_in_a_sentence(data, why):
    with pytest.raises(ConfigurationError, match=why):
        Texts.from_json(data)
