"""Teams that a controller builds: what its actions mean, who reads whom, and what each action earns."""

from __future__ import annotations

from collections import Counter
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hocket import tasks
from hocket.agents.workflows.library import find
from hocket.core.batch import Level
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.teams.mashost import EXIT, MASHOST, PLANNED, BuiltTeam, Graph, Member, read_step, without, written
from hocket.testing import Part, rehearse
from hocket.types import Scenario, Trajectory

ROLES = ("solver", "checker")
SUM = Scenario("s", "What is 1 + 2 + 4?", answer="7")


def right(text: str, scenario: Scenario) -> float:
    return float(str(scenario.answer) in text)


def played(controller: list[str], flow: BuiltTeam | None = None, **replies: list[str] | Part) -> Trajectory:
    flow = flow or BuiltTeam()
    said = {"controller": controller, **{role: replies.get(role, []) for role in flow.members}}
    (found,) = rehearse(flow, SUM, said, verifier=right)
    assert found.failure is None
    return found


def steps(trajectory: Trajectory) -> list[float | None]:
    """What each turn earned by its action; None for agents of the team."""
    score = trajectory.scores["step"]
    assert score.level is Level.TURN
    return [None if value is None else round(value, 9) for value in score.value]  # type: ignore[union-attr]


def graphs(most: int = 4) -> st.SearchStrategy[Graph]:
    def grown(choices: list[tuple[str, list[bool]]]) -> Graph:
        return tuple(
            Member(role, tuple(n for n in range(place) if kept[n])) for place, (role, kept) in enumerate(choices)
        )

    node = st.tuples(st.sampled_from(ROLES), st.lists(st.booleans(), min_size=most, max_size=most))
    return st.lists(node, max_size=most).map(grown)


@given(graphs())
def test_what_is_written_is_read_again(graph: Graph) -> None:
    for place, member in enumerate(graph):
        assert read_step(f"<think>exit</think>\nWell.\n {written(member).upper()}. ", graph[:place], ROLES, 4) == member
        assert read_step(written(place), graph, ROLES, 4) == place
    assert read_step(written(EXIT), graph, ROLES, 4) == EXIT


@given(graphs(), st.text(max_size=20))
def test_what_cannot_be_carried_out_is_no_action(graph: Graph, text: str) -> None:
    for said in ("", "help", f"delete {len(graph) + 1}", "delete 0", f"solver from {len(graph) + 1}", "solver from 0"):
        assert read_step(said, graph, ROLES, 9) is None
    assert read_step("solver", graph, ROLES, len(graph)) is None
    assert read_step("parrot", graph, ROLES, 9) is None
    assert read_step(f"delete {'9' * 5000}", graph, ROLES, 9) is None
    action = read_step(text, graph, ROLES, 9)
    assert not isinstance(action, Member) or all(0 <= place < len(graph) for place in action.reads)


@given(graphs(), st.data())
def test_a_deletion_keeps_all_other_edges(graph: Graph, data: st.DataObject) -> None:
    if not graph:
        return
    gone = data.draw(st.integers(0, len(graph) - 1))
    names = [n for n in range(len(graph)) if n != gone]
    left = without(graph, gone)
    assert [m.role for m in left] == [graph[n].role for n in names]
    edges = {(names[place], names[read]) for place, member in enumerate(left) for read in member.reads}
    assert edges == {(n, read) for n in names for read in graph[n].reads if read != gone}
    assert all(read < place for place, member in enumerate(left) for read in member.reads)


@pytest.mark.parametrize("said", ["delete 0001", "solver from 1, 3", "solver from", "exit now", "exit\nsolver it is"])
def test_odd_texts_are_no_action(said: str) -> None:
    assert read_step(said, (Member("solver"), Member("checker", (0,))), ROLES, 3) is None


def test_agents_hear_whom_they_read_and_the_controller_hears_all() -> None:
    checker = Part("7")
    controller = ["solver", "solver", "checker from 1, 2", "exit"]
    found = played(controller, solver=["it is 6", "or\n8"], checker=checker)
    checker.assert_asked("Agent 1 (solver): it is 6\nAgent 2 (solver): or 8")
    told = [turn.prompt[-1]["content"] for turn in found.turns if turn.role == "controller"]
    assert told[0] == f"{SUM.prompt}\nTeam: nobody yet"
    assert told[3] == (f"{SUM.prompt}\nTeam:\n1 solver: it is 6\n2 solver: or 8\n3 checker from 1, 2: 7")
    assert [turn.parent for turn in found.turns] == [None] * 7
    assert found.answer == "7"
    assert found.scores["team"].value == 1.0
    assert found.scores["cost"].value == pytest.approx(-(3 * 0.05 + 2 * 0.01))
    assert steps(found) == [-0.1, None, -0.1, None, 0.9, None, 0.0]
    assert found.info["graph"] == ["solver", "solver", "checker from 1, 2"]
    assert found.info["exited"]


def test_a_team_may_be_built_first() -> None:
    flow = BuiltTeam(live=False)
    controller = ["solver", "planner", "delete 1", "solver from 1", "nonsense", "exit"]
    found = played(controller, flow, solver=["7"], planner=["add"])
    assert [turn.role for turn in found.turns] == ["controller"] * 6 + ["planner", "solver"]
    assert found.turns[5].prompt[-1]["content"].endswith("Team:\n1 planner\n2 solver from 1")
    assert found.info["said"] == ["add", "7"]
    assert steps(found) == [-0.1, -0.1, -0.1, 0.9, -0.1, 0.0, None, None]


def test_a_wrong_word_at_the_end_costs_what_it_spoils() -> None:
    found = played(["solver", "checker from 1", "exit"], solver=["7"], checker=["8"])
    assert steps(found) == [0.9, None, -1.1, None, 0.0]
    assert found.scores["team"].value == 0.0


def test_a_team_of_nobody_has_no_answer_and_steps_are_limited() -> None:
    empty = played(["exit"])
    assert (empty.answer, empty.scores["team"].value, steps(empty)) == ("", 0.0, [0.0])
    stuck = played(["solver", "?", "delete 1"], BuiltTeam(steps=3), solver=["7"])
    assert not stuck.info["exited"]
    assert (stuck.answer, steps(stuck)) == ("", [-0.1, None, -0.1, -0.1])
    full = played(["solver"] * 3, BuiltTeam(steps=3, most=2), solver=["7", "7"])
    assert full.info["graph"] == ["solver", "solver"]


def test_a_controller_that_is_not_understood_leaves_the_first_to_answer_alone() -> None:
    found = played(["what", "delete 1", "critic"], BuiltTeam(steps=3), solver=["7"])
    assert (found.answer, found.scores["team"].value, found.scores["cost"].value) == ("7", 1.0, -0.05)
    assert steps(found) == [-0.1, -0.1, -0.1, None]


@given(st.lists(st.sampled_from(["solver", "checker from 1", "delete 1", "what", "exit"]), min_size=8, max_size=8))
def test_actions_sum_up_to_the_verdict_less_their_price(controller: list[str]) -> None:
    found = played(controller, solver=["7", "6"] * 4, checker=["6", "7"] * 4)
    known = [value for value in steps(found) if value is not None]
    paid = 0.1 * (len(known) - found.info["exited"])
    if set(controller) <= {"checker from 1", "delete 1", "what"}:
        return  # Nothing could be carried out, so nobody earned what the first member answered.
    assert sum(known) == pytest.approx(float(found.scores["team"].value) - paid)  # type: ignore[arg-type]


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="small letters"):
        BuiltTeam(members={"exit": ""})
    with pytest.raises(ValueError, match="at least 1"):
        BuiltTeam(most=0)
    assert find("built-team?steps=3&live=false") == BuiltTeam(steps=3, live=False)


# ---------------------------------------------------------------- lessons


def lesson_of(task: Any, number: int) -> tuple[Scenario, list[tuple[list[Any], str]]]:
    """A scenario, and what is asked and said in one lesson of building, in order."""
    scenario = task.scenario("train", number)
    talks = task.lessons.play(scenario, Key.of(number).derive("lesson").numpy())
    return scenario, [([dict(one) for one in talk.prompt], str(talk.said[0]["content"])) for talk in talks]


def test_lessons_are_episodes_of_building() -> None:
    task: Any = tasks.find(str(MASHOST.task))
    systems = {text: role for role, text in task.workflow.prompts.items()}
    teams = set[int]()
    for number in range(60):
        scenario, lesson = lesson_of(task, number)
        script: dict[str, list[str]] = {role: [] for role in task.workflow.roles}
        for prompt, said in lesson:
            script[systems[prompt[0]["content"]]].append(said)
        (found,) = rehearse(task.workflow, scenario, script, verifier=task.verify)
        assert [([dict(one) for one in turn.prompt], turn.text) for turn in found.turns] == lesson
        assert found.info["exited"] == (script["controller"][-1] == EXIT)
        assert len(script["controller"]) <= task.workflow.steps
        teams.add(len(found.info["graph"]))
    assert teams == {1, 2, 3, 4}


def test_a_beginner_builds_without_a_look_and_is_wrong_one_time_in_ten() -> None:
    task: Any = tasks.find(str(MASHOST.task))
    correct, first = list[float](), Counter[str]()
    for number in range(200):
        scenario, lesson = lesson_of(task, number)
        first[lesson[0][1]] += 1
        for prompt, said in lesson:
            if prompt[0]["content"] == task.workflow.prompts["planner"]:
                assert said == PLANNED
            elif prompt[0]["content"] != task.workflow.prompts["controller"]:
                correct.append(float(task.verify(said, scenario)))
    assert 0.85 < fmean(correct) < 0.95
    assert len(first) == 3
    assert min(first.values()) > 40


def test_a_beginner_ends_two_in_five_shrinks_one_in_ten_and_reads_half() -> None:
    task: Any = tasks.find(str(MASHOST.task))
    flow, taken, reads = task.workflow, Counter[str](), list[float]()
    for number in range(400):
        graph: Graph = ()
        for prompt, said in lesson_of(task, number)[1]:
            if prompt[0]["content"] != flow.prompts["controller"]:
                continue
            step = read_step(said, graph, tuple(flow.members), flow.most)
            if graph:
                kind = "end" if step == EXIT else "delete" if isinstance(step, int) else "add"
                taken[kind if step == EXIT or len(graph) < flow.most else "full"] += 1
                reads += [len(step.reads) / len(graph)] if isinstance(step, Member) else []
            if isinstance(step, int):
                graph = without(graph, step)
            elif isinstance(step, Member):
                graph = (*graph, step)
    assert taken["end"] / taken.total() == pytest.approx(0.4, abs=0.04)
    assert taken["delete"] / (taken["delete"] + taken["add"]) == pytest.approx(0.1, abs=0.04)
    assert fmean(reads) == pytest.approx(0.5, abs=0.04)


def test_a_built_task_keeps_settings_learns_slowly_and_needs_answers_in_words() -> None:
    named: Any = tasks.find("built:sums?extract=number")
    assert (named.name, named.inner.extract) == ("built:sums?extract=number", "number")
    assert named.size("eval") == named.inner.size("eval")
    assert named.lessons.then(MASHOST)["update.lr"] == 2.5e-4
    with pytest.raises(ConfigurationError, match="maze is no task of answers in words; take one such as sums"):
        tasks.find("built:maze")
