"""Studies as they are read, fitted to recipes, and searched."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field, make_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hocket.apps.studies.conduct import checked, cost
from hocket.apps.studies.folder import StudyFolder
from hocket.apps.studies.planning import Planner, StudyRun, equal_budget, stated
from hocket.apps.studies.running import Meter
from hocket.apps.studies.study import (
    TUNING_SEEDS,
    Study,
    StudyMethod,
    Tuning,
    entries,
    read,
    rival,
    tasks_of,
    without_recipe,
)
from hocket.apps.studies.tuning import best, rounds, runs_of_search, tuning_seeds, units
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.recipes import find
from hocket.types import Assignment, Replay, Scenario, Trajectory, Turn

GRPO = StudyMethod("grpo", "grpo")


def test_a_file_and_flags_and_flags_win(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "recipes: [grpo, {recipe: dapo, label: wide, rollout.samples: 4}]\ntasks: sums\nsteps: 9\n"
        "settings: {update: {epochs: 2}, decoding.max_tokens: 20}\ntuning: {grid: {update.lr: [1.0e-4, 1.0e-3]}}\n"
    )
    study = read(file, [("steps", 3), ("measure.n", 7), ("update.lr", 1e-3), ("tuning.seeds", 2)])
    assert (study.name, study.steps, study.measure.n, study.tuning.seeds) == ("mine", 3, 7, 2)
    assert study.tasks == ("sums",)
    assert study.settings == {"update.epochs": 2, "decoding.max_tokens": 20, "update.lr": 1e-3}
    assert study.tuning.grid == {"update.lr": [1e-4, 1e-3]}
    assert entries(study) == [GRPO, StudyMethod("wide", "dapo", {"rollout.samples": 4})]
    again = tmp_path / "again.yaml"
    import yaml

    again.write_text(yaml.safe_dump(study.to_json()))
    assert read(again) == study


def test_rows_of_the_catalogue_bring_their_recipes() -> None:
    study = Study(catalogue=("dr-grpo", "no-such-row"))
    assert {entry.label for entry in entries(study)} >= {"grpo", "dr-grpo"}
    assert without_recipe(study) == ["no-such-row"]


# ---------------------------------------------------------------- equal budgets


@pytest.mark.parametrize("name", ["grpo", "remax", "rloo", "dr-grpo", "nlpo"])
def test_every_recipe_samples_as_many_answers(name: str) -> None:
    study = Study(prompts=8, samples=8)
    recipe = find(name)
    found, metered = equal_budget(recipe, study, {})
    each = found["rollout.samples"] + (1 if name == "remax" else 0)
    assert not metered
    assert abs(found["curriculum.prompts"] * each - 64) <= each / 2


def test_a_group_size_of_its_own_stays_and_the_usual_one_follows_the_study() -> None:
    study = Study(prompts=8, samples=16)
    assert equal_budget(find("grpo"), study, {})[0] == {"rollout.samples": 16, "curriculum.prompts": 8}
    assert equal_budget(find("grpo"), study, {"rollout.samples": 4})[0]["curriculum.prompts"] == 32
    pairs = find("grpo").but({"rollout.samples": 2})
    assert equal_budget(pairs, study, {})[0] == {"rollout.samples": 2, "curriculum.prompts": 64}


def test_a_rollout_that_decides_itself_is_metered() -> None:
    assert equal_budget(find("dapo"), Study(), {}) == ({"rollout.samples": 8, "curriculum.prompts": 8}, True)


def test_what_samples_nothing_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="samples no answers"):
        equal_budget(find("sft"), Study(), {})


# ---------------------------------------------------------------- runs and their keys


def key(study: Study, entry: StudyMethod = GRPO, seed: int = 0, **settings: Any) -> str:
    return Planner(study).run(entry, study.tasks[0], seed, settings or None).key


def test_a_key_is_the_content_of_a_run() -> None:
    study = Study()
    assert key(study) == key(Study(name="other", seeds=9)) == key(study, StudyMethod("another label", "grpo"))
    others = [
        key(study, seed=1),
        key(Study(steps=29)),
        key(Study(settings={"update.epochs": 2})),
        key(Study(), **{"update.lr": 1e-3}),
        key(study, StudyMethod("dr-grpo", "dr-grpo")),
        key(Study(tasks=("sums?instruct=true",))),
    ]
    assert len({key(study), *others}) == 1 + len(others)


def test_a_new_setting_that_is_off_changes_no_key() -> None:
    first = [("size", int, 1)]
    before = make_dataclass("Piece", first)
    after = make_dataclass("Piece", [*first, ("extra", bool, False), ("names", list[str], field(default_factory=list))])
    switched = make_dataclass("Piece", [*first, ("extra", bool, True)])
    assert stated(before()) == stated(after())
    assert len({str(stated(value)) for value in (before(), before(2), before(0), switched(), after(1, None))}) == 5
    assert stated(after(1, True)) == stated(switched())


def test_a_changed_file_is_another_run(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    text = "from hocket.recipes import GRPO\nfrom hocket.credit import GroupRelative\n"
    text += "class Mine(GroupRelative):\n    pass\nMINE = GRPO.but(name='mine', credit=Mine())\n"
    file.write_text(text)
    entry = StudyMethod("mine", f"{file}:MINE")
    first = key(Study(), entry)
    assert key(Study(), entry) == first
    file.write_text(text + "# changed\n")
    assert key(Study(), entry) != first


def test_settings_are_left_out_where_a_recipe_cannot_take_them() -> None:
    study = Study(recipes=("reinforce",), settings={"update.epochs": 2, "objective.low": 0.1})
    planner = Planner(study)
    assert planner.recipe(GRPO, "sums").update.epochs == 2
    assert planner.recipe(StudyMethod("reinforce", "reinforce"), "sums").update.epochs == 1
    assert planner.refused == {"reinforce": ("update.epochs", "objective.low")}
    with pytest.raises(ConfigurationError, match="epoch"):
        Planner(Study(settings={"update.epoch": 2})).run(GRPO, "sums", 0)


def test_what_a_method_sets_itself_stays_when_its_family_is_tuned() -> None:
    entry = StudyMethod("slow", "grpo", {"update.lr": 1e-5})
    assert Planner(Study()).recipe(entry, "sums", {"update.lr": 1e-3}).update.lr == 1e-5


# ---------------------------------------------------------------- searches

searches = st.builds(
    Tuning,
    seeds=st.integers(1, 4),
    halving=st.one_of(st.none(), st.integers(2, 5)),
)


@given(st.integers(1, 30), searches)
def test_a_search_narrows_and_counts_its_runs(candidates: int, tuning: Tuning) -> None:
    found = rounds(candidates, tuning)
    assert bool(found) == (candidates > 1)
    for before, after in itertools.pairwise(found):
        assert 2 <= after.candidates < before.candidates
        assert after.seeds > before.seeds
    had, runs = 0, 0
    for stage in found:
        runs += stage.candidates * (stage.seeds - had)
        had = stage.seeds
    assert runs_of_search(candidates, tuning) == runs
    if found and tuning.halving is None:
        assert runs == candidates * tuning.seeds


def test_the_best_go_on_and_the_unmeasured_do_not() -> None:
    assert best({0: 0.1, 1: float("nan"), 2: 0.9, 3: 0.9}, 1) == [2]
    assert best({0: 0.1, 1: float("nan"), 2: 0.9, 3: 0.9}, 3) == [0, 2, 3]


def test_tuning_and_testing_seeds_never_meet() -> None:
    assert not set(tuning_seeds(1000)) & set(Study(seeds=TUNING_SEEDS).testing_seeds)
    with pytest.raises(ValueError, match="seeds"):
        Study(seeds=TUNING_SEEDS + 1)


def test_families_are_tuned_together_and_every_search_is_as_large() -> None:
    study = Study(recipes=("grpo", "dr-grpo", "cispo", "ppo"), tuning=Tuning(grid={"update.lr": [1e-4, 1e-3]}))
    found = units(study, Planner(study), entries(study))
    names = {unit.name: [member.label for member in unit.members] for unit in found}
    assert names["group-relative, ClippedSurrogate"] == ["grpo", "dr-grpo"]
    assert names["actor-critic, ClippedSurrogate"] == ["ppo"]
    assert len(found) == 3
    assert {len(unit.candidates) for unit in found} == {2}


# ---------------------------------------------------------------- teams at equal tokens


def test_a_study_of_teams_has_a_method_for_each_at_equal_tokens() -> None:
    study = read(None, [("teams", "single,planner-worker"), ("tokens", 900), ("steps", 3)])
    methods = entries(study)
    assert [one.label for one in methods] == ["single", "planner-worker"]
    planner = Planner(study)
    runs = [planner.run(one, "sums", 0) for one in methods]
    assert [dict(run.pairs)["workflow"] for run in runs] == ["single", "planner-worker"]
    assert all(run.metered and run.unit == "tokens" and run.budget == 900 for run in runs)
    both = read(None, [("teams", "single,debate"), ("tokens", 900), ("recipes", "grpo,rloo")])
    labels = [one.label for one in entries(both)]
    assert labels[0] == "grpo as single"
    assert sorted(labels) == ["grpo as debate", "grpo as single", "rloo as debate", "rloo as single"]


def test_teams_need_a_budget_of_tokens() -> None:
    with pytest.raises(ConfigurationError, match="the same budget of tokens"):
        read(None, [("teams", "single,debate")])


# ---------------------------------------------------------------- tasks of a method's own, and lessons first

PAIRS = """
baseline: grpo maze
recipes:
  - {recipe: grpo, label: grpo maze, tasks: [maze]}
  - {recipe: gigpo, tasks: [maze]}
  - {recipe: grpo, label: grpo sums, tasks: sums, against: grpo sums}
  - {recipe: dr-grpo, tasks: [sums], against: grpo sums, update.lr: 1.0e-3}
tasks: [maze, sums]
lessons: {maze: 40}
"""


def test_methods_have_tasks_of_their_own_and_each_what_it_is_compared_with(tmp_path: Path) -> None:
    file = tmp_path / "pairs.yaml"
    file.write_text(PAIRS)
    study = read(file)
    methods = entries(study)
    assert [(tasks_of(one, study), rival(one, study)) for one in methods] == [
        (("maze",), "grpo maze"),
        (("maze",), "grpo maze"),
        (("sums",), "grpo sums"),
        (("sums",), "grpo sums"),
    ]
    assert methods[3].settings == {"update.lr": 1e-3}
    found = cost(replace(study, seeds=2, seconds={"maze": 3600, "sums": 1800}), StudyFolder(tmp_path))
    assert (found.testing, found.seconds) == (8, 4 * 3600 + 4 * 1800)


def test_runs_after_lessons_are_other_runs_and_begin_with_what_was_taught() -> None:
    plain, taught = Study(tasks=("maze",)), Study(tasks=("maze",), lessons={"maze": 40})
    assert key(plain) != key(taught) != key(Study(tasks=("maze",), lessons={"maze": 20}))
    assert key(plain) == key(Study(tasks=("maze",), lessons={"maze": 0}))
    run = Planner(taught).run(GRPO, "maze", 3)
    assert run.lessons == 40
    assert StudyRun.from_json(run.to_json()) == run


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (("tasks: [maze]}", "tasks: [mase]}"), "did you mean 'maze'"),
        (("against: grpo sums, up", "against: grpo sumz, up"), "did you mean 'grpo sums'"),
        (("tasks: [sums], against: grpo sums, ", ""), "runs on sums, and grpo maze"),
        (("tasks: sums,", "tasks: 3,"), "list of the study's tasks"),
        (("lessons: {maze: 40}", "lessons: {mase: 40}"), "did you mean 'maze'"),
        (("lessons: {maze: 40}", "lessons: {maze: yes}"), "supervised steps"),
        (("lessons: {maze: 40}", "lessons: {sums: 40}"), "it has no lessons"),
    ],
)
def test_pairs_that_do_not_fit_are_refused(change: tuple[str, str], word: str, tmp_path: Path) -> None:
    file = tmp_path / "pairs.yaml"
    assert change[0] in PAIRS
    file.write_text(PAIRS.replace(*change))

    def checked_as_read() -> None:
        study = read(file)
        checked(study, Planner(study))

    with pytest.raises(ConfigurationError, match=word):
        checked_as_read()


def test_candidates_count_and_what_is_replayed_does_not() -> None:
    scenario = Scenario("s", "question")
    said = [Turn("a", "main", np.zeros(1, np.int64), np.zeros(size, np.int64)) for size in (3, 2, 1)]
    left = Trajectory(scenario, said[2:])

    class Playing:
        async def play(self, assignments: Any, *, key: Any) -> list[Trajectory]:
            return [Trajectory(scenario, said[:2], branches=[left])]

    async def played() -> Meter:
        meter, player = Meter(), Playing()
        meter.attach(player)
        await player.play([Assignment(scenario, replay=Replay((said[0],)))], key=Key.of(0))
        return meter

    meter = asyncio.run(played())
    assert (meter.answers, meter.tokens) == (2, 2 + 1)


@pytest.mark.parametrize("source", ["expert", "imported"])
def test_what_was_given_is_not_counted(source: Any) -> None:
    scenario = Scenario("s", "question")
    own, given = (Turn("a", "main", np.zeros(1, np.int64), np.zeros(size, np.int64)) for size in (3, 40))

    class Playing:
        async def play(self, assignments: Any, *, key: Any) -> list[Trajectory]:
            return [Trajectory(scenario, [own]), Trajectory(scenario, [given], source=source)]

    meter, player = Meter(), Playing()
    meter.attach(player)
    asyncio.run(player.play([Assignment(scenario), Assignment(scenario, source=source)], key=Key.of(0)))
    assert (meter.answers, meter.tokens) == (1, 3)


def test_hooks_see_the_player_that_is_metered() -> None:
    """A player with others in its seats is made by `replace`, and one that plays through it counts once."""
    scenario = Scenario("s", "question")
    turn = Turn("a", "main", np.zeros(1, np.int64), np.zeros(3, np.int64))

    @dataclass(frozen=True)
    class Playing:
        guests: int = 0

        async def play(self, assignments: Any, *, key: Any) -> list[Trajectory]:
            if self.guests:
                return await replace(self, guests=0).play(assignments, key=key)
            return [Trajectory(scenario, [turn])]

    meter, player = Meter(), Playing()
    meter.attach(player)
    assert isinstance(player, Playing)
    assert player == player.__class__()
    asyncio.run(replace(player, guests=1).play([Assignment(scenario)], key=Key.of(0)))
    assert (meter.answers, meter.tokens) == (1, 3)
