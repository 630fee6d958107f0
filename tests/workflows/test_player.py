"""The text player: many episodes, failures and limits, teacher-forced texts."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable

import chats
import engines
import pytest
from test_team import SCENARIO, Doing, echo

from hocket.agents.workflows.episode import LimitReached, Limits
from hocket.agents.workflows.player import TextPlayer
from hocket.agents.workflows.single import SingleTurn
from hocket.agents.workflows.team import Actor, Team
from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.core.batch import Level
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.engine.barrier import Barrier
from hocket.engine.requests import ContextFull, Request
from hocket.stages import Player
from hocket.testing import ScriptedEngine, rehearse
from hocket.types import Assignment, Decoding, Scenario, Score, Trajectory

KEY = Key.of(3)


def player(engine: ScriptedEngine, chat: chats.Chat, workflow: Workflow | None = None) -> TextPlayer:
    return TextPlayer(workflow or SingleTurn(), {"policy": Actor("main", engine, chat)})


def play(given: Player, *assignments: Assignment) -> list[Trajectory]:
    return asyncio.run(given.play(assignments, key=KEY))


# ---------------------------------------------------------------- sampled


def test_trajectories_come_in_assignment_then_sample_order() -> None:
    chat = chats.chat("nano")
    engine = engines.SlowEngine(echo(chat), chat, 0)
    asked = [
        Assignment(Scenario("a", "one"), samples=3),
        Assignment(Scenario("b", "two"), samples=2, first=5),
        Assignment(Scenario("a", "one"), source="baseline", decoding=Decoding(temperature=0.0)),
    ]
    found = play(player(engine, chat), *asked)
    assert [(t.scenario.id, t.source, t.sample) for t in found] == [
        ("a", "own", 0),
        ("a", "own", 1),
        ("a", "own", 2),
        ("b", "own", 5),
        ("b", "own", 6),
        ("a", "baseline", 0),
    ]
    assert len({t.text for t in found}) == 6
    assert found[-1].turns[0].decoding.greedy


def test_a_trajectory_does_not_depend_on_what_is_played_beside_it() -> None:
    chat = chats.chat("nano")
    texts = {}
    for seed, others in enumerate(([], [Assignment(Scenario("z", "two"), samples=7)])):
        engine = engines.SlowEngine(echo(chat), chat, seed)
        asked = [*others, Assignment(Scenario("a", "one"), samples=3)]
        texts[seed] = [t.text for t in play(player(engine, chat), *asked)][-3:]
    assert texts[0] == texts[1]


def test_single_turn_respects_hint_prefix_and_system_prompt() -> None:
    chat = chats.chat("nano")
    engine = ScriptedEngine(["4</answer>"], chat)
    prefix = chat.encode("<answer>")
    asked = Assignment(SCENARIO, hint="Think of pairs.", prefix=prefix)
    (found,) = play(player(engine, chat, SingleTurn(system="Be brief.")), asked)
    (turn,) = found.turns
    assert (
        chat.render(turn.observation)
        == "<|system|>Be brief.<|end|><|user|>What is 2+2?\nThink of pairs.<|end|><|assistant|>"
    )
    assert turn.forced.tolist() == [True, False, False, False]
    assert found.text == "<answer>4</answer>"
    assert found.info == {}


def test_a_batch_runs_only_when_all_episodes_wait() -> None:
    chat = chats.chat("nano")
    engine = engines.WaitingEngine(echo(chat), chat, Barrier())

    async def act(scenario: Scenario, team: Team) -> None:
        await team.policy("one")
        if team.assignment.scenario.id == "long":
            await asyncio.sleep(0.01)
            await team.policy("two")

    given = TextPlayer(Doing(act), {"policy": Actor("main", engine, chat)})
    play(given, Assignment(SCENARIO, samples=5), Assignment(Scenario("long", "x"), samples=2))
    assert engine.batches == [7, 2]


def test_two_engines_never_wait_for_each_other() -> None:
    """Half the episodes ask one engine first, half the other; then all ask both at once."""
    chat, barrier = chats.chat("nano"), Barrier()
    left, right = engines.WaitingEngine(echo(chat), chat, barrier), engines.WaitingEngine(echo(chat), chat, barrier)

    async def act(scenario: Scenario, team: Team) -> None:
        order = (team.left, team.right) if scenario.id == "a" else (team.right, team.left)
        for agent in order:
            await agent("go")
        await asyncio.gather(team.left("on"), team.right("on"))

    given = TextPlayer(Doing(act, "left", "right"), {"left": Actor("l", left, chat), "right": Actor("r", right, chat)})

    async def bounded() -> list[Trajectory]:
        asked = [Assignment(Scenario("a", "x"), samples=3), Assignment(Scenario("b", "x"), samples=4)]
        return await asyncio.wait_for(given.play(asked, key=KEY), 5)

    found = asyncio.run(bounded())
    assert [t.failure for t in found] == [None] * 7
    assert (left.batches, right.batches) == ([3, 4, 7], [4, 3, 7])


def test_engines_of_one_workflow_must_share_their_barrier() -> None:
    chat = chats.chat("nano")
    left, right = (Actor(name, engines.WaitingEngine([], chat, Barrier()), chat) for name in "lr")

    async def act(scenario: Scenario, team: Team) -> None:
        pass

    with pytest.raises(ConfigurationError, match="wait for each other for ever; give them one barrier"):
        TextPlayer(Doing(act, "left", "right"), {"left": left, "right": right})


# ---------------------------------------------------------------- failures and limits


class Raising(Workflow):
    roles = ("policy",)

    async def play(self, scenario: Scenario, team: Team) -> None:
        await team.policy("one")
        if scenario.id == "bad":
            len(5)


def test_a_raising_workflow_fails_alone_with_its_turns_and_its_line() -> None:
    chat = chats.chat("nano")
    given = player(ScriptedEngine(echo(chat), chat), chat, Raising())
    bad, good = play(given, Assignment(Scenario("bad", "x")), Assignment(Scenario("good", "x")))
    line = Raising.play.__code__.co_firstlineno + 3
    assert bad.failure == f"TypeError: object of type 'int' has no len() in play() line {line}"
    assert (len(bad.turns), bad.terminated, bad.truncated) == (1, False, True)
    assert (good.failure, good.terminated) == (None, True)
    pack([bad, good])


@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        (0.5, "TypeError: play() returned float, not an Outcome or None"),
        (Outcome(turn_rewards={"step": [1.0, 2.0]}), "ValueError: turn reward 'step' has 2 values for 1 turns"),
        (Outcome(rewards={"r": "high"}), "TypeError: reward 'r' = 'high'; give a number, or None for no opinion"),
        (
            Outcome(rewards={"r": float("nan")}),
            "ValueError: reward 'r' is nan; give a finite number, or None for no opinion",
        ),
        (
            Outcome(turn_rewards={"step": [float("inf")]}),
            "ValueError: turn reward 'step' is inf; give a finite number, or None for no opinion",
        ),
        (
            Outcome(rewards="good"),
            "TypeError: Outcome.rewards = 'good'; write a dict of what is named, such as {'name': value}",
        ),
    ],
)
def test_an_unusable_outcome_is_a_failure(outcome: object, message: str) -> None:
    async def act(scenario: Scenario, team: Team) -> object:
        await team.policy("one")
        return outcome

    (found,) = rehearse(Doing(act), SCENARIO, ["a"])
    assert found.failure == message
    assert len(found.turns) == 1


@pytest.mark.parametrize("wrong", [17, {"content": "hi"}, ["a", 17], [{"role": 3}]])
def test_what_no_agent_can_be_told_is_a_failure(wrong: object) -> None:
    async def act(scenario: Scenario, team: Team) -> None:
        await team.policy(wrong)

    (found,) = rehearse(Doing(act), SCENARIO, ["a"])
    assert "an agent was given" in str(found.failure)
    assert "give it text, a reply, a message such as" in str(found.failure)


def test_a_reply_that_was_not_awaited_is_told_so() -> None:
    async def act(scenario: Scenario, team: Team) -> None:
        early = team.policy("one")
        try:
            await team.policy(early)  # type: ignore[arg-type]
        finally:
            early.close()

    (found,) = rehearse(Doing(act), SCENARIO, ["a"])
    assert "await the call first" in str(found.failure)


class Gathering(Workflow):
    roles = ("policy",)

    async def broken(self, team: Team) -> None:
        await team.policy("quick")
        raise RuntimeError("no")

    async def play(self, scenario: Scenario, team: Team) -> None:
        await asyncio.gather(team.policy("slow"), self.broken(team))


def test_siblings_of_a_failed_call_are_cancelled() -> None:
    chat = chats.chat("nano")
    cancelled = []

    class Stuck(ScriptedEngine):
        async def submit(self, request: Request) -> object:
            if "slow" in self._chat.render(request.tokens):
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    cancelled.append(request)
                    raise
            return await super().submit(request)

    (found,) = play(player(Stuck(echo(chat), chat), chat, Gathering()), Assignment(SCENARIO))
    assert found.failure.startswith("RuntimeError: no in broken() line")
    assert len(cancelled) == 1
    assert [turn.prompt[-1]["content"] for turn in found.turns] == ["quick"]


def test_cancelling_the_player_ends_every_episode() -> None:
    chat = chats.chat("nano")
    ended = []

    async def act(scenario: Scenario, team: Team) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(scenario.id)

    given = TextPlayer(Doing(act), {"policy": Actor("main", ScriptedEngine(["a"], chat), chat)})

    async def bounded() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(given.play([Assignment(SCENARIO, samples=3)], key=KEY), 0.02)
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(bounded())
    assert ended == ["s"] * 3


def endless() -> Doing:
    async def act(scenario: Scenario, team: Team) -> None:
        while True:
            await team.policy("go on")

    return Doing(act)


def test_limits_of_turns_and_tokens_truncate() -> None:
    def always(text: str) -> Callable[[Request], str]:
        return lambda request: text

    (found,) = rehearse(endless(), SCENARIO, always("abc"), limits=Limits(turns=3))
    assert (len(found.turns), found.truncated, found.failure) == (3, True, None)
    assert found.info["limit"] == "the episode has used its 3 turns; raise limits.turns to allow more"
    (found,) = rehearse(endless(), SCENARIO, always("abc"), limits=Limits(tokens=10))
    assert [len(turn) for turn in found.turns] == [4, 4, 2]
    assert found.turns[-1].decoding.max_tokens == 2
    chat = chats.chat("nano")
    given = TextPlayer(endless(), {"policy": Actor("main", ScriptedEngine(always("abc"), chat), chat)})
    (found,) = play(given, Assignment(SCENARIO, budget=5))
    assert found.length == 5


@pytest.mark.parametrize(("limits", "named"), [(Limits(seconds=0.05), "seconds"), (Limits(call_seconds=0.05), "call")])
def test_limits_of_time_truncate(limits: Limits, named: str) -> None:
    chat = chats.chat("nano")

    class Silent(ScriptedEngine):
        async def submit(self, request: Request) -> object:
            if self.requests:
                await asyncio.sleep(60)
            return await super().submit(request)

    actors = {"policy": Actor("main", Silent(echo(chat), chat), chat)}
    (found,) = play(TextPlayer(endless(), actors, limits), Assignment(SCENARIO))
    assert named in found.info["limit"]
    assert (len(found.turns), found.truncated, found.failure) == (1, True, None)


def test_a_full_context_truncates() -> None:
    chat = chats.chat("nano")

    class Short(ScriptedEngine):
        async def submit(self, request: Request) -> object:
            if len(request.tokens) > 30:
                raise ContextFull("no room")
            return await super().submit(request)

    (found,) = play(player(Short(echo(chat), chat), chat, endless()), Assignment(SCENARIO))
    assert (found.info, found.truncated, found.failure) == ({"limit": "no room"}, True, None)
    assert len(found.turns) == 2


def test_a_limit_inside_a_task_group_is_a_limit_and_can_be_caught() -> None:
    async def grouped(scenario: Scenario, team: Team) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(team.policy.fresh()("go"))

    (found,) = rehearse(Doing(grouped), SCENARIO, ["a", "b", "c"], limits=Limits(turns=2))
    assert found.info["limit"].startswith("the episode has used its 2 turns")

    async def careful(scenario: Scenario, team: Team) -> Outcome:
        try:
            while True:
                await team.policy("go")
        except LimitReached:
            return Outcome(answer="enough")

    (found,) = rehearse(Doing(careful), SCENARIO, ["a", "b"], limits=Limits(turns=2))
    assert (found.info, found.terminated) == ({"answer": "enough"}, True)


def test_a_call_after_the_end_is_refused() -> None:
    kept: list[Team] = []

    async def act(scenario: Scenario, team: Team) -> None:
        kept.append(team)

    rehearse(Doing(act), SCENARIO, ["a"])
    with pytest.raises(Exception, match="called after its episode had ended; await every call"):
        kept[0].policy("late")
    gc.collect()


def test_a_call_that_is_never_awaited_leaves_no_turn() -> None:
    async def act(scenario: Scenario, team: Team) -> None:
        forgotten = team.policy("never")
        await team.policy("one")
        forgotten.close()

    (found,) = rehearse(Doing(act), SCENARIO, ["a"])
    assert [turn.prompt[-1]["content"] for turn in found.turns] == ["one"]


def test_a_script_that_runs_out_says_so() -> None:
    (found,) = rehearse(endless(), SCENARIO, ["a", "b"])
    assert "HocketError: the script has 2 replies and a further one was asked for; lengthen the script" in found.failure
    assert len(found.turns) == 2


# ---------------------------------------------------------------- given texts


@pytest.mark.parametrize("name", chats.EXTENSIBLE)
def test_expert_demonstrations_are_teacher_forced(name: str) -> None:
    chat = chats.chat(name)
    engine = ScriptedEngine([], chat)
    scenario = Scenario("s", "What is 2+2?", answer=4, metadata={"demonstration": "two and two: 4"})
    asked = Assignment(scenario, samples=2, source="expert")
    found = play(player(engine, chat), asked, Assignment(SCENARIO, source="expert"))
    assert [(t.source, t.sample, t.terminated) for t in found] == [
        ("expert", 0, True),
        ("expert", 1, True),
        ("expert", 0, True),
    ]
    (turn,) = found[0].turns
    messages = [*scenario.messages, {"role": "assistant", "content": "two and two: 4"}]
    full = chat.tokenizer.apply_chat_template(messages, tokenize=False)
    taught = chat.render([*turn.observation, *turn.action])
    assert full.startswith(taught)
    assert full[len(taught) :].strip() == ""
    assert turn.action[-1] == chat.end_of_turn
    assert (turn.logp, turn.text) == (None, "two and two: 4")
    assert found[2].text == "4"
    batch = pack(found)
    assert not batch.logp["behaviour"].present.any()
    assert (batch.occurrences.weight == 1).all()
    assert engine.requests == []


def test_expert_demonstrations_of_several_turns_form_a_chain() -> None:
    chat = chats.chat("chatml")
    rest = (
        {"role": "assistant", "content": "first"},
        {"role": "user", "content": "and?"},
        {"role": "assistant", "content": "second"},
    )
    scenario = Scenario("s", "go", metadata={"demonstration": rest})
    (found,) = play(player(ScriptedEngine([], chat), chat), Assignment(scenario, source="expert"))
    first, second = found.turns
    assert second.parent is first
    text = chat.render([token for turn in found.turns for token in (*turn.observation, *turn.action)])
    full = chat.tokenizer.apply_chat_template([*scenario.messages, *rest], tokenize=False)
    assert full == text + "\n"
    assert chat.render(second.observation) == "\n<|im_start|>user\nand?<|im_end|>\n<|im_start|>assistant\n"
    assert len(pack([found]).occurrences) == len("first") + len("second") + 2


def test_imported_pairs_carry_preferences() -> None:
    chat = chats.chat("llama3")
    scenario = Scenario("s", "go", metadata={"chosen": "good", "rejected": "bad"})
    asked = [Assignment(scenario, samples=8, source="imported"), Assignment(SCENARIO)]
    found = play(player(ScriptedEngine(["own"], chat), chat, SingleTurn(system="Be kind.")), *asked)
    assert [(t.text, t.source, t.sample) for t in found] == [
        ("good", "imported", 0),
        ("bad", "imported", 1),
        ("own", "own", 0),
    ]
    assert [t.scores.get("preference") for t in found] == [Score(1.0), Score(0.0), None]
    assert found[0].scores["preference"].level is Level.TRAJECTORY
    assert "Be kind." in chat.render(found[0].turns[0].observation)


def test_missing_texts_are_named() -> None:
    chat = chats.chat("nano")
    given = player(ScriptedEngine([], chat), chat)
    with pytest.raises(ConfigurationError, match=r"scenario 's' has no metadata\['chosen'\]"):
        play(given, Assignment(Scenario("s", "x"), source="imported"))
    with pytest.raises(ConfigurationError, match="has neither metadata"):
        play(given, Assignment(Scenario("s", "x"), source="expert"))


# ---------------------------------------------------------------- configuration


def test_seats_and_roles_must_match() -> None:
    chat = chats.chat("nano")
    actor = Actor("main", ScriptedEngine([], chat), chat)
    with pytest.raises(ConfigurationError, match="role 'policy' of workflow SingleTurn has no policy"):
        TextPlayer(SingleTurn(), {})
    with pytest.raises(ConfigurationError, match=r"roles.polic: workflow SingleTurn has no such role; did you mean"):
        TextPlayer(SingleTurn(), {"policy": actor, "polic": actor})
    with pytest.raises(ConfigurationError, match="no script for role 'policy'; add one"):
        rehearse(SingleTurn(), SCENARIO, {"polic": ["a"]})
    with pytest.raises(ConfigurationError, match="SingleTurn is not an instance of"):
        TextPlayer(SingleTurn, {"policy": actor})
    with pytest.raises(ConfigurationError, match=r"limits.turns must be above 0 .* not 0"):
        Limits(turns=0)


def test_a_template_that_refuses_the_messages_stops_the_run() -> None:
    chat = chats.chat("gemma")
    with pytest.raises(ConfigurationError, match="System role not supported"):
        play(player(ScriptedEngine(["a"] * 9, chat), chat, SingleTurn(system="Be brief.")), Assignment(SCENARIO, 3))


def test_the_workflow_has_a_key_of_its_own() -> None:
    async def act(scenario: Scenario, team: Team) -> Outcome:
        return Outcome(answer=int(team.key.numpy().integers(1 << 30)))

    found = rehearse(Doing(act), SCENARIO, ["a"], samples=3)
    again = rehearse(Doing(act), SCENARIO, ["a"], samples=3)
    answers = [t.info["answer"] for t in found]
    assert answers == [t.info["answer"] for t in again]
    assert len(set(answers)) == 3
