"""Several answers to one question: what goes on, what is left beside, and who earned what."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping

import pytest

from hocket.agents.workflows.chat import Chat
from hocket.agents.workflows.episode import Limits
from hocket.agents.workflows.player import TextPlayer
from hocket.agents.workflows.reply import Reply
from hocket.agents.workflows.team import Actor, Team
from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.core.batch import Level
from hocket.core.candidates import TURN_REWARD, Branching
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.engine.requests import Request
from hocket.nano.tokenizer import build_tokenizer
from hocket.testing import ScriptedEngine
from hocket.types import Assignment, Decoding, Scenario, Trajectory

SCENARIO = Scenario("x", "begin")
WORTH = {"one": 0.0, "two": 2.0, "three": 1.0}


def worth(reply: Reply) -> float:
    return WORTH.get(reply.text, -1.0)


class Walk(Workflow):
    """Three turns of one agent that remembers; the second is a plain call."""

    roles = ("walker",)

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        first = await team.walker.candidates("where", score=worth, state="s")
        between = await team.walker(f"went {first}")
        last = await team.walker.candidates(f"then {between}", score=worth)
        return Outcome(answer=str(last), rewards={"goal": 1.0})


def cycle() -> ScriptedEngine:
    """Says one, two, three, one, ..., whatever is asked."""
    texts = iter(["one", "two", "three"] * 50)
    return ScriptedEngine(lambda request: next(texts), Chat(build_tokenizer()))


def played(workflow: Workflow, branching: Branching, engine: ScriptedEngine | None = None, **limits: int) -> Trajectory:
    engine = engine or cycle()
    actors = {role: Actor("main", engine, Chat(build_tokenizer())) for role in workflow.roles}
    player = TextPlayer(workflow, actors, Limits(**limits))
    asked = Assignment(SCENARIO, decoding=Decoding(max_tokens=8), options=(branching,))
    (found,) = asyncio.run(player.play([asked], key=Key.of(1)))
    return found


def test_the_best_goes_on_and_the_others_are_trajectories_of_one_turn() -> None:
    found = played(Walk(), Branching(3))
    assert found.failure is None
    first, between, last = found.turns
    assert first.text == "two"
    assert (between.parent, last.parent) == (first, between)
    # Draws go on where the candidates left off: "one" is plain, then two, three, one are drawn.
    assert (between.text, last.text) == ("one", "two")
    assert found.scores[TURN_REWARD].level is Level.TURN
    assert list(found.scores[TURN_REWARD].value) == [2.0, None, 2.0]  # type: ignore[arg-type]
    assert [one.turns[0].text for one in found.branches] == ["one", "three", "three", "one"]
    assert all(one.source == "branch" and len(one.turns) == 1 for one in found.branches)
    assert [list(one.scores[TURN_REWARD].value) for one in found.branches] == [[0.0], [1.0], [1.0], [0.0]]  # type: ignore[arg-type]


def test_siblings_share_parent_prompt_and_state() -> None:
    found = played(Walk(), Branching(3))
    groups = {0: found.branches[:2], 2: found.branches[2:]}
    for place, others in groups.items():
        for one in others:
            assert one.turns[0].parent is found.turns[place].parent
            assert one.turns[0].observation.tolist() == found.turns[place].observation.tolist()
            assert one.turns[0].prompt == found.turns[place].prompt
            assert one.turns[0].state == found.turns[place].state
    assert found.turns[0].state == "s"
    batch = pack([found, *found.branches])
    assert batch.turns == 7
    assert batch.decisions == sum(len(turn) for one in (found, *found.branches) for turn in one.turns)
    # The context of a branch is the trunk's: nothing is stored twice.
    assert batch.parent.tolist() == [-1, 0, 1, -1, -1, 1, 1]


def test_the_first_goes_on_when_the_rollout_says_so() -> None:
    found = played(Walk(), Branching(3, take="first"))
    assert [turn.text for turn in found.turns] == ["one", "one", "two"]
    assert len(found.branches) == 4


def test_one_candidate_is_a_plain_call_and_nothing_is_scored() -> None:
    class Refuses(Walk):
        async def play(self, scenario: Scenario, team: Team) -> Outcome:
            def never(reply: Reply) -> float:
                raise AssertionError("one candidate needs no score")

            said = await team.walker.candidates("where", score=never)
            return Outcome(rewards={"goal": float(said.text == "one")})

    found = played(Refuses(), Branching())
    assert found.failure is None
    assert found.branches == []
    assert set(found.scores) == {"goal"}


def test_the_first_candidate_is_the_plain_answer() -> None:
    keys: list[list[Key]] = []
    for number in (1, 3):
        engine = ScriptedEngine(lambda request: "one", Chat(build_tokenizer()))
        played(Walk(), Branching(number), engine)
        keys.append([request.key for request in engine.requests])
    plain, several = keys
    assert several[0] == plain[0]
    assert several[3] == plain[1]
    assert len(set(map(str, several))) == len(several) == 7


def test_the_mixed_reward_weighs_what_the_team_gets() -> None:
    class Mixed(Workflow):
        roles = ("walker",)

        async def play(self, scenario: Scenario, team: Team) -> Outcome:
            async def judge(reply: Reply) -> Mapping[str, float]:
                await asyncio.sleep(0)
                return {"team": WORTH[reply.text], "form": 0.25, "brief": -1.0}

            await team.walker.candidates("where", score=judge)
            return Outcome()

    found = played(Mixed(), Branching(3, alpha=0.5))
    assert list(found.scores[TURN_REWARD].value) == [0.25]  # type: ignore[arg-type]
    assert [list(one.scores[TURN_REWARD].value) for one in found.branches] == [[-0.75], [-0.25]]  # type: ignore[arg-type]


def test_a_score_that_is_no_number_fails_the_episode_in_a_sentence() -> None:
    class Broken(Walk):
        async def play(self, scenario: Scenario, team: Team) -> Outcome:
            await team.walker.candidates("where", score=lambda reply: math.nan)
            return Outcome()

    found = played(Broken(), Branching(2))
    assert found.failure is not None
    assert "finite number" in found.failure
    assert found.branches == []


def test_candidates_spend_tokens_and_count_as_one_turn() -> None:
    class Spend(Walk):
        async def play(self, scenario: Scenario, team: Team) -> Outcome:
            for _ in range(9):
                await team.walker.fresh().candidates("where", score=worth)
            return Outcome()

    few = played(Spend(), Branching(3), turns=2)
    assert len(few.turns) == 2
    assert len(few.branches) == 4
    assert "2 turns" in few.info["limit"]
    each = sum(len(one.turns[0]) for one in (few, *few.branches[:2]))
    cut = played(Spend(), Branching(3), tokens=each + 1)
    # A second call begins with what is left; a third finds nothing.
    assert len(cut.turns) == 2
    assert "tokens" in cut.info["limit"]


def test_branches_come_in_the_order_in_which_they_were_asked() -> None:
    class Both(Workflow):
        roles = ("left", "right")

        async def play(self, scenario: Scenario, team: Team) -> Outcome:
            await asyncio.gather(*(team[role].candidates("go", score=worth) for role in self.roles))
            return Outcome()

    class Slow(ScriptedEngine):
        async def submit(self, request: Request) -> object:  # type: ignore[override]
            sample = self._sample(request)
            await asyncio.sleep(0.002 * (50 - len(self.requests)))
            return sample

    def said(request: Request) -> str:
        return ("one", "two", "three")[request.key.word % 3]

    chat = Chat(build_tokenizer())
    quick, slow = (played(Both(), Branching(4), kind(said, chat)) for kind in (ScriptedEngine, Slow))
    seen = [[(one.turns[0].agent, one.turns[0].text) for one in found.branches] for found in (quick, slow)]
    assert seen[0] == seen[1]
    assert [agent for agent, _ in seen[0]] == ["left"] * 3 + ["right"] * 3


@pytest.mark.parametrize("settings", [{"candidates": 0}, {"take": "last"}])
def test_wrong_settings_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="must be"):
        Branching(**settings)  # type: ignore[arg-type]
