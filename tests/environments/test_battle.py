"""Battles of soldiers who choose skills: what their names say, what runs, and equal episodes side by side."""

import pytest

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.search.compass_smac.battle_skills import CHARGE, SKILLS
from hocket.methods.search.compass_smac.skills import refusal
from hocket.methods.search.compass_smac.squad_world import battles
from hocket.methods.search.compass_smac.world import action_name, action_number, carry_out, drills, program_in
from hocket.types import Scenario


class _Said:
    """Programs whose answers are given; refuses all."""

    def __init__(self, said="stay"):
        self.said, self.views = said, []

    def act(self, calls):
        self.views += [view for _, view in calls]
        return [self.said] * len(calls)

    def admitted(self, library, program, tests):
        return dict(library), "it is refused"


def _opened(seed, programs=None, **settings):
    battle = battles(programs or _Said(), **settings).make(Scenario("battle"))
    battle.reset(Key.of(seed))
    return battle


def test_the_skills_that_a_squad_begins_with_pass_their_check():
    tests = drills(battles().ground)
    assert [refusal(program, tests) for program in (*SKILLS.values(), CHARGE)] == [None] * 5
    for way in ("north", "south", "west", "east", "attack 1"):
        assert refusal(f'def go(view):\n    "goes"\n    return "{way}"\n', tests) is not None


def test_a_choice_runs_until_something_is_new_or_its_time_is_over():
    battle = _opened(0, hops=0)
    steps = []
    while battle.acting:
        before, known = battle.steps, battle.course.knows()[0].copy()
        battle.act(dict.fromkeys(battle.acting, "hold"))
        steps.append(battle.steps - before)
        assert steps[-1] == 4 or not battle.acting or (battle.course.knows()[0] != known).any()
    assert max(steps) == 4
    assert min(steps) < 4


def test_a_skill_that_says_no_legal_action_stays_and_is_told():
    battle = _opened(0, _Said("fly"))
    place = battle.course.place[0, :3].copy()
    battle.act(dict.fromkeys(battle.acting, "hunt"))
    assert battle.steps == 1
    assert (battle.course.place[0, :3] == place).all()
    assert "Your skill hunt failed" in battle.observe("soldier_1").text


def test_what_is_no_skill_runs_the_one_chosen_before():
    battle = _opened(0)
    battle.act({"soldier_1": "hunt", "soldier_2": "nonsense", "soldier_3": CHARGE})
    assert battle.chosen == {"soldier_1": "hunt", "soldier_2": "hold", "soldier_3": "hold"}
    assert battle.illegal == {"soldier_1": 0, "soldier_2": 1, "soldier_3": 1}
    assert "There is no such skill" in battle.observe("soldier_2").text
    assert "it is refused" in battle.observe("soldier_3").text


def test_battles_side_by_side_are_each_what_it_is_alone():
    several, alone = [_opened(seed, hops=1) for seed in range(4)], _opened(2, hops=1)
    while left := [battle for battle in several if battle.acting]:
        carry_out(left, [dict.fromkeys(battle.acting, "hold") for battle in left])
    earned = 0.0
    while alone.acting:
        earned += alone.act(dict.fromkeys(alone.acting, "hold"))["soldier_1"]
    assert alone.course.health[0].tolist() == several[2].course.health[0].tolist()
    assert alone.course.place[0].tolist() == several[2].course.place[0].tolist()
    assert alone.won == several[2].won == (earned > 1 - 1e-9)


def test_actions_and_programs_are_read():
    assert [action_number(action_name(number), 3) for number in range(8)] == list(range(8))
    assert action_number("attack 4", 3) is None
    assert program_in(f"I write:\n```python\n{CHARGE}```\nThat is all.") == CHARGE
    assert program_in("hunt") is None


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("battle:3", "write battle:3v3"),
        ("battle:3v3?hopes=1", "did you mean 'hops'"),
        ("battle:3v3?skills=hold+hnt", "did you mean 'hunt'"),
        ("battle:3v3?hold=0", "at least 1 step"),
    ],
)
def test_wrong_names_are_refused_in_a_sentence(name, why):
    with pytest.raises(ConfigurationError, match=why):
        tasks.find(name)


def test_few_words_tell_the_places_that_a_soldier_knows_of():
    battle = tasks.find("battle:3v3?brief=true").workflow.world.make(Scenario("battle"))
    battle.reset(Key.of(0))
    battle.course.place[0, :, 1] = [0, 0, 1, 3, 9, 12]
    battle.course.place[0, :, 0] = [1, 6, 11, 2, 12, 12]
    text = battle.observe("soldier_1").text
    assert text == "At 1,0 4. Ally 6,0 4 told. Ally 11,1 4 told. Foe 2,3 3. Did hold."
    assert "Foe 2,3 3 told." in battle.observe("soldier_3").text


def test_an_account_counts_what_was_chosen_with_and_without_foes():
    battle = _opened(0)
    battle.choose({"soldier_1": "hunt", "soldier_2": "hunt", "soldier_3": "nonsense"})
    battle.course.place[0, 3] = battle.course.place[0, 0] + [0, 1]
    battle._now = None
    battle.choose(dict.fromkeys(battle.agents, "gather"))
    assert battle.account == "lost after 0 steps; foes known: gather 3; none known: hunt 2, hold 1"


def test_a_task_that_teaches_a_searcher_is_told_in_few_words():
    lessons = tasks.find("battle:3v3?brief=true").lessons
    assert lessons.searchers["compass-smac"].task == "battle:3v3?hops=2&brief=true&searcher=compass-smac"
    with pytest.raises(ConfigurationError, match="taught are"):
        tasks.find("battle:3v3?searcher=compass-smac")
