"""Teams of the library, played from scripts: who hears what, what each earns, what counts as the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from hocket.agents.workflows.debate import DebateVote
from hocket.agents.workflows.library import find, library
from hocket.agents.workflows.planner_worker import PlannerWorker
from hocket.agents.workflows.single import SingleTurn
from hocket.agents.workflows.workflow import Workflow
from hocket.core.errors import ConfigurationError
from hocket.methods.teams.cory import PioneerObserver
from hocket.methods.teams.mlpo import LeaderPeers
from hocket.methods.teams.rema import MetaReasoner
from hocket.methods.teams.waltzrl import ConversationFeedback
from hocket.testing import Script, rehearse
from hocket.types import Scenario, Trajectory

SUM = Scenario("s", "What is 1 + 2 + 4?", answer="7")


def right(text: str, scenario: Scenario) -> float:
    return float(str(scenario.answer) in text)


def played(workflow: Workflow, replies: Mapping[str, Script], scenario: Scenario = SUM) -> Trajectory:
    (trajectory,) = rehearse(workflow, scenario, replies, verifier=right)
    assert trajectory.failure is None
    return trajectory


def heard(trajectory: Trajectory, role: str) -> list[str]:
    """The last message that each turn of a role answered."""
    return [str(turn.prompt[-1]["content"]) for turn in trajectory.turns if turn.role == role]


def earned(trajectory: Trajectory, name: str = "own") -> Sequence[float | None]:
    value = trajectory.scores[name].value
    assert isinstance(value, list)
    return value


def test_every_name_of_the_library_finds_its_workflow() -> None:
    for name in library():
        assert find(name).roles
    assert isinstance(find("single"), SingleTurn)


def test_settings_stand_in_the_name() -> None:
    assert find("debate?debaters=4&rounds=1") == DebateVote(debaters=4, rounds=1)
    assert find("leader-peers?alone=0.5") == LeaderPeers(alone=0.5)
    assert find("pioneer-observer?shared=false") == PioneerObserver(shared=False)
    with pytest.raises(ConfigurationError, match="workflow debate has no setting 'debater'; did you mean 'debaters'"):
        find("debate?debater=4")
    with pytest.raises(ConfigurationError, match="did you mean 'debate'"):
        find("debates")


WRONG = """
from hocket.agents.workflows import Workflow

class Plain:
    pass

class Silent(Workflow):
    roles = ("a",)

class Word(Workflow):
    roles = "solver"
    async def play(self, scenario, team): ...

class Early(Workflow):
    roles = ("a",)
    def play(self, scenario, team): ...

class Stray(Workflow):
    roles = ("solver", "judge")
    prompts = {"slover": "Solve it."}
    async def play(self, scenario, team): ...

class Needy(Workflow):
    roles = ("a",)
    def __init__(self, what): ...
    async def play(self, scenario, team): ...

five = 5
"""


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (":Plain", r"Plain is no Workflow; write class Plain\(hocket.agents.workflows.Workflow\)"),
        (":Silent", r"write async def play\(...\) in it"),
        (":Word", r"roles = 'solver'; write a tuple of names"),
        (":Early", r"play is no coroutine; write async def play\(...\)"),
        (":Stray", r"prompts has no role 'slover' to go to; did you mean 'solver'"),
        (":Needy", "missing 1 required positional argument: 'what'"),
        (":five", "is a int, not a hocket.agents.workflows.Workflow"),
        ("", "names a file alone; write .*wrong.py:NAME for a workflow in it"),
    ],
)
def test_what_is_no_workflow_is_refused_with_the_mend(tmp_path: Path, name: str, message: str) -> None:
    file = tmp_path / "wrong.py"
    file.write_text(WRONG)
    with pytest.raises(ConfigurationError, match=message):
        find(f"{file}{name}")


def test_a_plan_is_carried_out_by_workers_who_see_one_step_each() -> None:
    plan = "1. 1 + 2\n2. 4"
    found = played(
        PlannerWorker(),
        {"planner": [plan, "<answer>7</answer>"], "worker": ["<answer>3</answer>", "four, that is <answer>4</answer>"]},
    )
    assert heard(found, "worker") == ["1 + 2", "4"]
    assert heard(found, "planner")[1] == "Results:\n1 + 2 = 3\n4 = 4"
    assert found.answer == "<answer>7</answer>"
    assert [turn.parent for turn in found.turns if turn.role == "worker"] == [None, None]
    assert found.turns[-1].parent is found.turns[0]


def test_a_plan_without_steps_is_the_answer() -> None:
    found = played(PlannerWorker(), {"planner": ["<answer>7</answer>"], "worker": []})
    assert [turn.role for turn in found.turns] == ["planner"]
    assert found.answer == "<answer>7</answer>"


def test_a_debate_ends_with_the_first_of_the_plurality() -> None:
    replies = {"debater_1": ["5", "6"], "debater_2": ["7", "7"], "debater_3": ["8", "so <answer>7</answer>"]}
    found = played(DebateVote(), replies)
    assert found.answer == "7"
    assert heard(found, "debater_1") == [SUM.prompt, "Another: 7\nAnother: 8"]
    assert found.scores["team"].value == 1.0
    assert earned(found) == [None, None, None, 0.0, 1.0, 1.0]


def test_the_observer_reads_the_pioneer_and_both_earn_both() -> None:
    replies = {"pioneer": ["it is 7"], "observer": ["7"]}
    found = played(PioneerObserver(), replies)
    assert heard(found, "observer") == [f"{SUM.prompt}\nAnother answer: it is 7"]
    assert found.scores["both"].value == 2.0
    assert found.answer == "it is 7"


def test_without_the_pair_each_is_alone() -> None:
    found = played(PioneerObserver(shared=False, shown=False), {"pioneer": ["7"], "observer": ["8"]})
    assert heard(found, "observer") == [SUM.prompt]
    assert earned(found) == [1.0, 0.0]


def test_peers_revise_after_the_leader_and_its_last_answer_counts() -> None:
    replies = {"leader": ["6", "7"], "peer_1": ["5", "7"], "peer_2": ["6", "6"]}
    found = played(LeaderPeers(peers=2, rounds=2), replies)
    assert heard(found, "leader") == [f"{SUM.prompt}\nPeer 1: 5\nPeer 2: 6", "Peer 1: 7\nPeer 2: 6"]
    assert heard(found, "peer_1") == [SUM.prompt, "The leader says: 6"]
    assert (found.answer, found.scores["team"].value) == ("7", 1.0)


def test_a_leader_may_be_alone_in_all_samples_or_none() -> None:
    for number in range(8):
        scenario = Scenario(f"s{number}", "What is 3 + 4?", answer="7")
        replies = {"leader": lambda request: "7", "peer_1": lambda request: "8"}
        samples = rehearse(LeaderPeers(peers=1, alone=0.5), scenario, replies, samples=6, verifier=right)
        assert len({len(one.turns) for one in samples}) == 1


def test_advice_is_passed_on_until_the_meta_thinker_stops() -> None:
    flow = MetaReasoner(rounds=3, format_weight=1.0, longest=12)
    found = played(flow, {"meta": ["add them up please", "[FINISH]"], "reasoner": ["7"]})
    assert heard(found, "reasoner") == [f"{SUM.prompt}\nAdvice: add them up please"]
    assert heard(found, "meta")[1] == "The answer was: 7"
    # The first advice is too long to be well formed, and each agent's shares add up to 1.
    assert earned(found, "format") == [0.0, 1.0, 0.5]
    assert found.scores["team"].value == 1.0


def test_feedback_earns_what_it_improves_and_how_it_flags() -> None:
    flow = ConversationFeedback(rounds=2, improvement=1.0, label=0.5, form=0.1)
    found = played(flow, {"conversation": ["6", "7"], "feedback": ["needless", "ok"]})
    assert [turn.role for turn in found.turns] == ["conversation", "feedback", "conversation", "feedback"]
    assert earned(found) == pytest.approx([0.0, 1.0 + 0.5 + 0.1, 1.0, 0.0 + 0.5 + 0.1])
    assert found.answer == "7"


def test_feedback_that_spoils_a_good_answer_pays_for_it() -> None:
    found = played(ConversationFeedback(), {"conversation": ["7", "6"], "feedback": ["needless"]})
    assert earned(found) == pytest.approx([1.0, -1.0 + 0.0 + 0.1, 0.0])


def test_a_workflow_that_asks_for_a_verdict_needs_a_task_that_gives_one() -> None:
    with pytest.raises(ConfigurationError, match="no verify"):
        rehearse(PioneerObserver(), SUM, {"pioneer": ["7"], "observer": ["7"]})
