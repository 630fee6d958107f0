"""Curricula and rewards with memory: threaded by the loop, kept in checkpoints, refused where it would be lost."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tiny_runs import TINY, assert_same, call, train

from hocket import tasks
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.apps.report.evaluation import load
from hocket.core.annotators import Annotator
from hocket.core.columns import Column
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.outcomes import total_reward
from hocket.credit import GroupRelative
from hocket.curriculum.random_order import Shuffled
from hocket.curriculum.remembering import RememberingCurriculum
from hocket.lab.talk import TalkBench
from hocket.methods.base.grpo import GRPO
from hocket.objectives import ClippedSurrogate
from hocket.recipes import find
from hocket.rewards.novelty import Novelty
from hocket.rewards.remembering import Recalled, RememberingReward, after, memories, recalled
from hocket.rewards.score import grade
from hocket.rewards.verifiers import ExactMatch
from hocket.rollout.independent import Independent
from hocket.stages import Curriculum, Grade, Hook, LedgerView, Reward, Rollout, State, Task
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.checkpoint import Checkpoints
from hocket.train.config import configure
from hocket.train.step_memory import remember
from hocket.train.trainer import resumed
from hocket.types import Experience, Scenario, Score, Trajectory

SUMS = ["--task", "worked-sums", "--curriculum", "{type: hocket.curriculum.LevelBandit, level: key_steps, prompts: 2}"]
NOVEL = ["--reward", "task", "--reward", "hocket.rewards.Novelty=0.1"]


class Once(Workflow):
    roles = ("policy",)
    scores = True

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        reply = await team.policy(f"question {scenario.id}")
        return Outcome(answer=reply.text, rewards={"reward": float(reply.text == "a")})


@dataclass(frozen=True)
class Counting(RememberingCurriculum):
    """Remembers what it was asked for, and what that earned."""

    prompts: int = 2

    def init(self) -> State:
        return {"calls": [], "earned": []}

    def ask_with(
        self, state: State, task: Task, asked: int, count: int, ledger: LedgerView, key: Key
    ) -> tuple[list[Scenario], State]:
        chosen = Shuffled(self.prompts)(task, asked, count, ledger, key)
        return chosen, {**state, "calls": [*state["calls"], count]}

    def after(self, state: State, trajectories: Sequence[Trajectory], weights: Mapping[str, float]) -> State:
        return {**state, "earned": [*state["earned"], [total_reward(one, weights) for one in trajectories]]}


@dataclass(frozen=True)
class Sooner(RememberingReward):
    """How many answers it has seen, and the last of them."""

    name: str = "sooner"
    weight: float = 1.0
    seen: list[float] = field(default_factory=list, compare=False)

    def init(self) -> State:
        return {"count": 0, "last": ""}

    async def score_with(self, state: State, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        self.seen.append(float(state["count"]))
        return [float(state["count"])] * len(trajectories)

    def after(self, state: State, trajectories: Sequence[Trajectory]) -> State:
        return {"count": state["count"] + len(trajectories), "last": trajectories[-1].scenario.id}


@dataclass(frozen=True)
class Backwards(Rollout):
    """Samples every scenario by itself; the last one's are scored first, and all twice."""

    samples: int = 2
    patience: tuple[int, ...] = (3, 2, 1)

    async def collect(self, asked: Any, *, play: Any, score: Grade, **told: Any) -> Experience:
        async def one(place: int) -> list[Trajectory]:
            found: list[Trajectory] = await play([replace(asked[place], samples=self.samples)])
            for _ in range(self.patience[place]):
                await asyncio.sleep(0)
            await score(found)
            await score(found)
            return found

        groups = await asyncio.gather(*map(one, range(len(asked))))
        return Experience(groups[0], [*groups[1], *(groups[2] if len(groups) > 2 else ())])


def bench(*rewards: Reward, prompts: int = 2, **changes: Any) -> TalkBench:
    asked = [Scenario(str(number), answer="a") for number in range(4)]
    return TalkBench(Once(), asked, ("a", "b"), GRPO.but(name="mine", **changes), rewards=rewards, prompts=prompts)


# ---------------------------------------------------------------- threaded


def test_a_curriculum_is_threaded_through_every_call_of_a_step_and_told_once_of_it() -> None:
    found = bench(curriculum=Counting(), rollout=replace(find("dapo").rollout, samples=2, max_rounds=3))
    for _ in range(3):
        found.step()
    state = found.parts.lead.memory["curriculum"]
    assert sum(state["calls"]) == found.parts.asked
    assert len(state["calls"]) > 3, "the rollout never asked for more"
    assert len(state["earned"]) == 3
    assert sum(map(len, state["earned"])) == 2 * found.parts.asked
    assert {value for step in state["earned"] for value in step} <= {0.0, 1.0}


def test_a_rollout_with_memory_does_not_undo_what_the_curriculum_remembered_meanwhile() -> None:
    found = bench(curriculum=Counting(), rollout=find("repo-replay").rollout)
    for _ in range(2):
        found.step()
    memory = found.parts.lead.memory
    assert memory["curriculum"]["calls"] == [2, 2]
    assert len(memory["curriculum"]["earned"]) == 2
    assert memory["rollout"]["step"] == 2


def test_a_reward_scores_a_step_from_the_state_before_it_and_remembers_once_in_order() -> None:
    reward = Sooner()
    found = bench(reward, rollout=Backwards(), prompts=3)
    for _ in range(2):
        found.step()
    assert reward.seen == [0.0] * 6 + [6.0] * 6
    [recalled] = [one for one in found.parts.rewards if isinstance(one, Recalled)]
    again = bench(Sooner(), rollout=Backwards(patience=(1, 2, 3)), prompts=3)
    for _ in range(2):
        again.step()
    assert memories(again.parts.rewards) == memories(found.parts.rewards)
    last = run_last(found)
    assert recalled.state == {"count": 12, "last": last}


def test_a_reward_remembers_what_it_was_shown_of_the_samples_of_the_step() -> None:
    found, scores = bench(Sooner(), curriculum=Counting()), {"sooner": Score(0.0)}

    def one(name: str, **more: Any) -> Trajectory:
        return Trajectory(Scenario(name), [], **{"scores": dict(scores), **more})

    kept = [one("own"), one("replay", source="replay"), one("failed", failure="it broke")]
    remember(found.parts, Experience([*kept, one("helped", source="helped")], [one("unseen", scores={})]))
    assert memories(found.parts.rewards)["sooner"] == {"told": 1, "state": {"count": 2, "last": "helped"}}
    assert list(map(len, found.parts.lead.memory["curriculum"]["earned"])) == [3], "of its own: own, failed, unseen"


def run_last(found: TalkBench) -> str:
    """The scenario that the last step asked last."""
    parts = found.parts
    asked = parts.lead.recipe.curriculum(parts.task, 3, 3, parts.ledger, parts.key.derive("curriculum"))
    return asked[-1].id


def test_calls_without_the_loop_are_those_of_a_first_step() -> None:
    found, one = bench(), Trajectory(Scenario("s"), [])
    parts = found.parts
    told: Any = (parts.task, 0, 2, parts.ledger, parts.key)
    assert Counting()(*told) == Shuffled(2)(*told)
    assert asyncio.run(_scored(Sooner(), one)) == [0.0]


async def _scored(reward: Reward, *trajectories: Trajectory) -> list[float | None]:
    return list(await reward(trajectories, key=Key.of(0)))


def test_the_journal_tells_what_was_said_from_the_same_memory_alone() -> None:
    """Sooner answers from outside, for all anybody knows."""
    kept: dict[str, Any] = {}
    journal: Any = SimpleNamespace(get=kept.get, put=kept.__setitem__)
    asked, reward = [Trajectory(Scenario("s"), [])], Sooner()
    rewards = recalled((reward,))

    def said() -> Any:
        run_async(grade(asked, rewards, Key.of(0), journal))
        return asked[0].scores["sooner"].value

    assert (said(), said(), len(reward.seen)) == (0.0, 0.0, 1)
    rewards = after(rewards, asked)
    assert (said(), said(), len(reward.seen)) == (1.0, 1.0, 2)


def test_without_memory_nothing_is_threaded_or_kept(tmp_path: Path) -> None:
    found = bench(ExactMatch())
    given = found.parts.rewards
    found.step()
    assert found.parts.rewards is given
    assert found.parts.lead.memory == {}
    train(tmp_path, "run", steps=1)
    state = Checkpoints(tmp_path / "run" / "checkpoints").load(tmp_path / "run" / "checkpoints" / "step-000001")
    assert "rewards" not in state


# ---------------------------------------------------------------- runs


def test_evaluation_scores_by_what_is_remembered_and_changes_nothing(tmp_path: Path) -> None:
    train(tmp_path, "run", *SUMS, "--reward", "task", "--reward", f"{__file__}:Sooner", steps=2)
    trainer = resumed(tmp_path / "run", steps=3)
    parts = trainer.parts
    before = memories(parts.rewards), parts.lead.memory
    assert before[0]["sooner"]["state"]["count"] == 16
    assert {one.scores["sooner"].value for one in trainer.evaluate(8).trajectories} == {16.0}
    assert (memories(parts.rewards), parts.lead.memory) == before
    trainer.folder.release()
    assert memories(load(tmp_path / "run", (), task=None, which="last").parts.rewards) == before[0]


def test_a_run_with_memory_can_be_replayed(tmp_path: Path) -> None:
    train(tmp_path, "run", *SUMS, *NOVEL, "--recipe", "repo-replay", steps=3)
    said = call("replay", tmp_path / "run", "--quiet")
    assert "all weights and metrics are equal" in said.out, said.out + said.err


def test_in_a_plan_a_reward_goes_on_where_it_pays_again_and_a_curriculum_begins_anew() -> None:
    task = tasks.find("sums")
    plan = [{"recipe": GRPO.but(name=f"mine-{n}", curriculum=Counting()), "steps": 1} for n in range(2)]
    rewards = (Sooner(), ExactMatch())
    parts = build_parts(configure([("plan", plan)], task), task, rewards=rewards)
    parts.rewards = tuple(replace(one, told=4) if isinstance(one, Recalled) else one for one in parts.rewards)
    parts.rewards_by_phase = (rewards, rewards, (Sooner(name="later"),))
    parts.enter_phase(1, parts.learners)
    assert {name: one["told"] for name, one in memories(parts.rewards).items()} == {"sooner": 4}
    parts.enter_phase(2, parts.learners)
    assert {name: one["told"] for name, one in memories(parts.rewards).items()} == {"later": 0}


@pytest.mark.slow
def test_samplers_side_by_side_come_to_the_same(tmp_path: Path) -> None:
    train(tmp_path, "alone", *SUMS, *NOVEL, steps=3)
    train(tmp_path, "several", *SUMS, *NOVEL, "--cluster", "local", "--samplers", "2", steps=3)
    assert_same(tmp_path / "alone", tmp_path / "several")


# ---------------------------------------------------------------- refused

AHEAD = {
    "overlap": ["--overlap", "1"],
    "lag": ["--lag", "2", "--cluster", "local", "--samplers", "1"],
    "arrival": ["--order", "arrival", "--cluster", "local", "--samplers", "1"],
}


@pytest.mark.parametrize("way", AHEAD)
@pytest.mark.parametrize(
    ("flags", "said"),
    [(SUMS, "LevelBandit of recipe grpo remembers"), (NOVEL, "Novelty (reward novelty) remembers")],
)
def test_steps_that_are_collected_ahead_are_refused(way: str, flags: list[str], said: str, tmp_path: Path) -> None:
    found = call("train", *TINY, *flags, "--steps", "1", "--runs", tmp_path, *AHEAD[way])
    assert found.code == 2
    assert said in found.err
    assert "steps cannot be collected ahead; drop one of them" in found.err
    assert not list(tmp_path.glob("*/metrics.jsonl"))


class Made:
    """Something with memory that nobody threads."""

    def init(self) -> State:
        return {}


@dataclass(frozen=True)
class Loss(ClippedSurrogate, Made):
    pass


@dataclass(frozen=True)
class Around(Hook, Made):
    pass


@dataclass(frozen=True)
class Whom(Curriculum, Made):
    prompts: int = 2


@dataclass(frozen=True)
class Within(Curriculum):
    of: Curriculum = Counting()
    prompts: int = 2


@dataclass(frozen=True)
class Paid(ExactMatch, Made):
    pass


@dataclass(frozen=True)
class Twice(Reward):
    of: Reward = Sooner()
    name: str = "twice"
    weight: float = 2.0


@dataclass(frozen=True)
class Sampled(Independent, Made):
    pass


@dataclass(frozen=True)
class Annotated(Annotator, Made):
    pass


@dataclass(frozen=True)
class Reading(GroupRelative):
    reads: frozenset[Column] = frozenset({Annotated("mine", "nothing", lambda batch, policy, decisions: decisions)})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"objective": Loss()}, r"Loss has init\(\), but what it remembers is not threaded in objective"),
        ({"regularisers": (Loss(),)}, "Loss .* not threaded in regularisers; memory may live in curriculum, rollout"),
        ({"hooks": (Around(),)}, r"Around has init\(\), but the memory of a hook is made by begin\(\)"),
        ({"curriculum": Whom()}, "Whom .* by RememberingCurriculum alone; .* hocket.curriculum.RememberingCurriculum"),
        ({"curriculum": Within()}, "Counting remembers from step to step, so it cannot stand inside Within"),
        ({"rewards": (Paid(),)}, "Paid .* derive it from hocket.rewards.RememberingReward"),
        ({"rewards": (Twice(),)}, "Sooner remembers from step to step, so it cannot stand inside Twice"),
        ({"rollout": Sampled()}, "Sampled .* derive it from hocket.rollout.RememberingRollout"),
        ({"credit": Reading()}, "Annotated .* not threaded in reads"),
    ],
)
def test_memory_that_nobody_would_thread_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        GRPO.but(name="mine", **changes)


@pytest.mark.parametrize("reward", [Paid(), Twice()])
def test_so_is_that_of_rewards_that_the_run_names(reward: Reward) -> None:
    task = tasks.find("sums")
    with pytest.raises(ConfigurationError, match=f"reward {reward.name}: .* remember"):
        build_parts(configure([], task), task, rewards=(reward,))


def test_a_file_names_curricula_and_rewards_with_memory(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from dataclasses import dataclass\n\n"
        "from hocket.rewards import Novelty\n\n\n"
        "@dataclass(frozen=True)\nclass Mine(Novelty):\n    name: str = 'mine'\n"
    )
    train(tmp_path, "run", "--reward", "task", "--reward", f"{file}:Mine=0.5", steps=1)
    parts = resumed(tmp_path / "run", steps=2).parts
    assert list(memories(parts.rewards)) == ["mine"]
    assert run_async(_scored(Novelty(), Trajectory(Scenario("s"), []))) == [1.0]
