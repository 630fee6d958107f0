"""A scenario that is asked several times in a step: other draws and another group each time."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hocket
from hocket.core.keys import Key
from hocket.core.occurrences import OccurrenceIds, apart, unmarked
from hocket.core.packing import pack
from hocket.curriculum.level_bandit import LevelBandit
from hocket.curriculum.random_order import Shuffled
from hocket.curriculum.remembering import RememberingCurriculum
from hocket.curriculum.scenario_worth import Weighted
from hocket.distributed.cluster.async_order import collected, merged
from hocket.methods.data_and_rollout.srpo import Unsolved
from hocket.methods.group_relative.curr_reft import FormatStages
from hocket.methods.group_relative.kimi_k1_5 import ByFailure, EasyToHard, PartialRollouts
from hocket.methods.group_relative.ps_grpo import Families
from hocket.methods.group_relative.temporal_r1 import Chosen
from hocket.methods.group_relative.train_long_think_short import ShrinkingBudget
from hocket.methods.teams.cpmobius.method import WithinBand
from hocket.recipes import find
from hocket.rewards.combine import WeightedSum
from hocket.rewards.functions import columns_of
from hocket.rollout.allocation import Allocated
from hocket.rollout.demonstrations import Labelled
from hocket.rollout.dynamic import DynamicSampling
from hocket.rollout.independent import Independent
from hocket.rollout.reference import WithReference
from hocket.rollout.remembering import RememberingRollout
from hocket.rollout.replay import ReusedSuccess, WithReplays
from hocket.rollout.replay_store import ReplayStore
from hocket.train.ledger import Ledger
from hocket.train.loop import RunContext, collect
from hocket.train.step_memory import outcomes
from hocket.types import Assignment, Decoding, Experience, Scenario, Score, Trajectory, Turn

CURRICULA: list[Any] = [
    Shuffled(),
    Chosen(numbers=(0, 1, 1)),
    Families(family=2),
    ShrinkingBudget(),
    Weighted(),
    Weighted(even=0.5),
    ByFailure(),
    EasyToHard(stages=2, per_stage=3),
    LevelBandit(),
    Unsolved(),
    FormatStages(per_stage=3),
]
ROLLOUTS: list[Any] = [
    Independent(samples=2),
    DynamicSampling(samples=2, max_rounds=3, oversample=1.5),
    WithReplays(samples=2, earlier=2),
    ReusedSuccess(samples=2, stages=2),
    Allocated(samples=3, low=2, high=4),
    WithReference(samples=2, references=2),
    WithinBand(samples=2, max_rounds=3),
    PartialRollouts(samples=2, pieces=2),
]


class Rows:
    """A finite task of few scenarios."""

    name, kind = "rows", "text"

    def __init__(self, size: int) -> None:
        self.count = size

    def size(self, split: str) -> int:
        return self.count

    def scenario(self, split: str, number: int) -> Scenario:
        told = {"difficulty": number, "level": number % 2, "demonstration": f"says {number}", "label": number % 2 == 0}
        return Scenario(f"q{number}", f"What is {number}?", str(number), told, seed=7)


class Draws:
    """Plays by keys alone, and notes the key of every sample."""

    def __init__(self, *, open_: bool = False) -> None:
        self.keys: list[int] = []
        self.open = open_

    async def play(self, assignments: Sequence[Assignment], *, key: Key) -> list[Trajectory]:
        found = []
        for one in assignments:
            for sample in range(one.first, one.first + one.samples):
                # What goes on with what was written draws with later counters of its key, and is no second draw.
                own = key.derive(one.scenario.id, one.source, sample, len(one.prefix))
                self.keys.append(own.value)
                said = np.array([*one.prefix, *own.numpy().integers(100, size=one.decoding.max_tokens)], np.int64)
                turn = Turn("policy", "policy", np.zeros(1, np.int64), said[: one.decoding.max_tokens])
                turn.logp, turn.forced = np.zeros(len(turn), np.float32), np.arange(len(turn)) < len(one.prefix)
                cut = self.open and len(turn) < 4
                found.append(Trajectory(one.scenario, [turn], sample, source=one.source, truncated=cut))
        return found


class Parity:
    """1 for an even first token, so that some groups differ and others do not."""

    name, weight, outside = "parity", 1.0, False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float]:
        return [float(one.turns[0].action[0] % 2) for one in trajectories]


def run(curriculum: Any, rollout: Any, rows: int) -> RunContext:
    recipe = find("rloo").but(rollout=rollout, curriculum=curriculum)
    memory: dict[str, Any] = {}
    for name, stage in (("curriculum", curriculum), ("rollout", rollout)):
        if isinstance(stage, (RememberingCurriculum, RememberingRollout)):
            memory[name] = stage.init()
    learner: Any = SimpleNamespace(
        recipe=recipe, memory=memory, begin_activation_cache=lambda: None, frozen=False, policy=SimpleNamespace()
    )
    player = Draws(open_=isinstance(rollout, PartialRollouts))
    parts = {"learners": {"policy": learner}, "decoding": Decoding(max_tokens=4), "key": Key.of(0), "ledger": Ledger()}
    return RunContext(cast(Any, Rows(rows)), player, [cast(Any, Parity())], **cast(Any, parts))


def sampled(found: Experience) -> list[Trajectory]:
    return [one for one in found.trajectories + found.discarded if one.source != "replay"]


@pytest.mark.parametrize("rollout", ROLLOUTS, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("curriculum", CURRICULA, ids=lambda one: type(one).__name__)
def test_no_two_samples_of_a_step_have_one_key(curriculum: Any, rollout: Any) -> None:
    asked_twice = 0
    for prompts, rows in ((4, 3), (5, 5), (6, 2)):
        parts = run(replace(curriculum, prompts=prompts), rollout, rows)
        for step in range(1, 4):
            parts.player.keys.clear()  # type: ignore[attr-defined]
            found, _ = asyncio.run(collect(parts, parts.key.derive("step", step), step))
            keys = parts.player.keys  # type: ignore[attr-defined]
            assert len(keys) == len(set(keys))
            named = Counter((one.scenario.id, one.source, one.sample) for one in sampled(found))
            assert max(named.values(), default=1) == 1
            names = {one.scenario.id for one in sampled(found)}
            asked_twice += len(names) > len({unmarked(name) for name in names})
            parts.ledger.note(step, outcomes(parts, found))
        assert set(parts.ledger._entries) <= {f"q{n}{form}" for n in range(rows) for form in ("", "/binary", "/choice")}
    assert asked_twice or isinstance(rollout, PartialRollouts)


def test_what_is_asked_once_in_a_step_is_asked_as_ever() -> None:
    parts = run(Shuffled(4), Independent(samples=2), 8)
    found, _ = asyncio.run(collect(parts, Key.of(1)))
    plain = Shuffled(4)(parts.task, 0, 4, parts.ledger, parts.key.derive("curriculum"))
    played = Draws().play([Assignment(one, 2, Decoding(max_tokens=4)) for one in plain], key=Key.of(1).derive("play"))
    wanted = [one.turns[0].action.tolist() for one in asyncio.run(played)]
    assert [one.turns[0].action.tolist() for one in found.trajectories] == wanted


@pytest.mark.parametrize("curriculum", [Shuffled(4), Weighted(prompts=4), Chosen(4, numbers=(0, 1))])
def test_groups_that_are_collected_alone_have_keys_of_their_own(curriculum: Any) -> None:
    """By samplers that do not see each other, with rollouts that ask for more."""
    parts = run(curriculum, DynamicSampling(samples=2, max_rounds=3), 3)
    groups = [
        asyncio.run(collected(parts, parts.player, parts.ledger.state(), step, 0, group)).experience
        for group, step in zip(range(8), [1] * 4 + [2] * 4, strict=True)
    ]
    keys = parts.player.keys  # type: ignore[attr-defined]
    assert len(keys) == len(set(keys))
    whole = merged(groups)
    assert len({one.scenario.id for one in whole.trajectories}) == 8
    assert len({unmarked(one.scenario.id) for one in whole.trajectories}) <= 3


class Endless(Rows):
    """Without end, and of few scenarios, as a mixture of files is."""

    def size(self, split: str) -> None:  # type: ignore[override]
        return None

    def scenario(self, split: str, number: int) -> Scenario:
        return super().scenario(split, number % self.count)


class Doubled(Rows):
    """Rows of which two are one scenario."""

    def scenario(self, split: str, number: int) -> Scenario:
        return super().scenario(split, number // 2)


@pytest.mark.parametrize("task", [Endless(3), Doubled(6), Doubled(4)], ids=["endless", "doubled", "doubled, few"])
@pytest.mark.parametrize("curriculum", [Shuffled(5), Families(5, family=2)], ids=["shuffled", "families"])
def test_numbers_that_are_one_scenario_are_drawn_apart_alone_and_together(task: Any, curriculum: Any) -> None:
    parts = run(curriculum, Independent(samples=2), 3)
    parts.task = task
    for group in range(10):
        asyncio.run(collected(parts, parts.player, parts.ledger.state(), 1 + group // 5, 0, group))
    keys = parts.player.keys  # type: ignore[attr-defined]
    assert len(set(keys)) == len(keys) == 20
    keys.clear()
    asyncio.run(collect(parts, parts.key.derive("step", 1), 1))
    assert len(set(keys)) == len(keys) == 10


def test_passes_tell_apart_what_is_asked_alone() -> None:
    task: Any = Rows(3)
    for first, position in itertools.product(range(9), range(9)):
        if position >= first:
            assert Shuffled().again(task, first, position) == position // 3 - first // 3
    assert Weighted().again(task, 5, 7) == 2


@settings(deadline=None)
@given(names=st.lists(st.sampled_from(["a", "b", "a (asked again: 1)", "b/not"]), max_size=12), least=st.integers(0, 2))
def test_ids_of_a_step_are_apart_and_lead_back(names: list[str], least: int) -> None:
    seen = OccurrenceIds()
    found = [seen.of(Scenario(name), least).id for name in names]
    assert len(set(found)) == len(found)
    assert [unmarked(one) for one in found] == [unmarked(name) for name in names]
    if not least and len(set(map(unmarked, names))) == len(names):
        assert found == names
    assert [one.id for one in apart(map(Scenario, ["x", "y", "x"]))] == ["x", "y", "x (asked again: 1)"]


# ---------------------------------------------------------------- what it is for


def expected_gradient(names: Sequence[str], chance: float = 0.3) -> float:
    """The mean of advantage times score over all outcomes of two coins per occurrence; the exact one is p (1 - p)."""
    whole = 0.0
    for drawn in itertools.product((0, 1), repeat=4):
        made = [
            Trajectory(
                Scenario(name),
                [Turn("a", "policy", np.array([5]), np.array([7]), logp=np.zeros(1, np.float32))],
                sample=place % 2,
                scores={"r": Score(float(one))},
            )
            for place, (name, one) in enumerate(zip(names, drawn, strict=True))
        ]
        advantage = find("rloo").credit(WeightedSum()(pack(made), {})).advantage.numpy()
        score = np.array(drawn) - chance
        weight = np.prod([chance if one else 1 - chance for one in drawn])
        whole += float(weight * np.mean(score * advantage))
    return whole


def test_leave_one_out_is_exact_over_the_occurrences_of_a_scenario() -> None:
    first, second = (one.id for one in apart([Scenario("s"), Scenario("s")]))
    assert expected_gradient([first, first, second, second]) == pytest.approx(0.3 * 0.7, abs=1e-12)


def test_a_run_on_few_rows_draws_anew(tmp_path: Path) -> None:
    rows = [{"prompt": f"What is {n} + 2?", "split": "eval" if n == 9 else "train"} for n in (1, 2, 3, 9)]
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    seen: list[bool] = []

    def reward(prompts: list[str], completions: list[str], **columns: Any) -> list[float]:
        for prompt in set(prompts):
            said = [text for one, text in zip(prompts, completions, strict=True) if one == prompt]
            seen.extend([said[:3] == said[3:]] if len(said) == 6 else [])
        return [float(sum(map(ord, text)) % 7) for text in completions]

    small: dict[str, Any] = {"curriculum.prompts": 4, "rollout.samples": 3, "decoding.max_tokens": 8, "threads": 1}
    small |= {"decoding.temperature": 1.8, "evaluation.n": 1, "runs": str(tmp_path / "runs"), "run": "a"}
    run = hocket.train(str(tmp_path / "d.jsonl"), reward=reward, recipe="rloo", steps=2, **small)
    assert len(seen) > 1
    assert not any(seen)
    assert [row["groups/total"] for row in run.metrics if row["step"]] == [4.0, 4.0]


# ---------------------------------------------------------------- what remembers


def test_what_remembers_scenarios_knows_all_occurrences_as_one() -> None:
    first, second = apart([Scenario("s", metadata={"tests": 1}), Scenario("s", metadata={"tests": 1})])
    ledger = Ledger()
    ledger.record(second.id, 1, 1.0)
    ledger.record(first.id, 1, 0.0)
    assert ledger.history("s") == ledger.history(second.id) == (0.5,)
    assert ledger.outcomes(second.id).samples == 2
    assert list(ledger.changed_since(0)) == ["s"]
    store = ReplayStore()
    state = store.add(store.init(), [Trajectory(second, [Turn("a", "p", np.zeros(1), np.ones(2))])])
    assert store.count(state, first.id) == 1
    (back,) = store.draw(state, first, 1, "recent", Key.of(0))
    assert back.scenario is first
    assert columns_of([Trajectory(second, [])])["id"] == ["s"]


def test_a_mismatched_answer_is_of_another_scenario() -> None:
    async def play(assignments: Sequence[Assignment]) -> list[Trajectory]:
        return [Trajectory(one.scenario, [], one.first) for one in assignments]

    rows: Any = Rows(2)
    asked = [Assignment(one) for one in apart(rows.scenario("train", n) for n in (0, 0, 1))]
    nothing: Any = None
    found = asyncio.run(
        Labelled(mismatched=True).collect(asked, play=play, score=nothing, ledger=nothing, key=Key.of(0))
    )
    said = [one.scenario.metadata["demonstration"] for one in found.trajectories[3:]]
    assert said == ["says 1", "says 1", "says 0"]
