"""Lessons before a run: the plan they make, when there are none, and that nothing else changes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tiny_runs import REWARDS, TINY, assert_same, call, resume, rows, train, weights

import hocket
from hocket import tasks
from hocket.apps.cli.parser import split_settings
from hocket.core.components import to_plain
from hocket.core.errors import ConfigurationError
from hocket.core.examples import Example
from hocket.credit import EachAgent
from hocket.lab.claims.shipped_check import configured
from hocket.nano import BASE
from hocket.recipes import find
from hocket.tasks.lessons import LessonTask, lessons_of
from hocket.testing import Part, rehearse
from hocket.train.config import configure
from hocket.train.lessons import with_lessons
from hocket.train.pipeline import PlanPipeline, phase_runs

MAZE = "maze?width=3&height=3&steps=4"

TEACHING = [
    "maze",
    "household",
    "openspiel:kuhn_poker",
    "textarena:GuessTheNumber-v0",
    "order-desk",
    "consultation",
    "multihop",
    "code",
    "sql",
    "screens",
    "command:3v3?length=6",
    "calculator?turns=5&listed=false",
]


def planned(name: str, *more: tuple[str, object]) -> list[tuple[str, object]]:
    return list(with_lessons([("task", name), *more], name, tasks.find(name)))


def test_a_run_with_lessons_is_a_plan_of_two_phases() -> None:
    pairs = planned(MAZE, ("seed", 3), ("update.lr", 1e-3), ("steps", 7), ("evaluation.n", 5))
    first, second = phase_runs(pairs)
    assert (first.name, first.config.recipe.name, first.config.task) == ("1-lessons", "sft", f"lessons:{MAZE}")
    assert first.config.steps == lessons_of(tasks.find(MAZE)).steps  # type: ignore[union-attr]
    assert (first.config.seed, first.config.model) == (3, "nano")
    assert (second.name, second.config.task, second.config.model) == ("2-grpo", MAZE, "phase:1-lessons")
    assert (second.config.steps, second.config.evaluation.n, second.config.recipe.update.lr) == (7, 5, 1e-3)
    assert first.config.evaluation.n != 5
    assert first.config.recipe.update.lr != 1e-3


def test_what_suits_afterwards_yields_to_the_run_and_to_the_recipe() -> None:
    (_, suited), (_, own) = phase_runs(planned("maze")), phase_runs(planned("maze", ("rollout.samples", 4)))
    then = lessons_of(tasks.find("maze")).then(find("grpo"))  # type: ignore[union-attr]
    assert suited.config.recipe.rollout.samples == then["rollout.samples"]
    assert suited.config.steps == then["steps"]
    assert suited.config.evaluation.n == then["evaluation.n"]
    assert own.config.recipe.rollout.samples == 4


def test_an_opponent_stays_a_beginner_and_each_seat_is_credited_by_itself() -> None:
    name = "openspiel:kuhn_poker"
    _, second = phase_runs(planned(name))
    assert second.config.roles["player_1"].frozen
    assert second.config.recipe.credit == EachAgent(find("grpo").credit)
    _, own = phase_runs(planned(name, ("credit.scale", None)))
    assert own.config.recipe.credit == find("grpo").but({"credit.scale": None}).credit
    _, together = phase_runs(planned(name, ("recipe", "mars-self-play")))
    assert not together.config.roles
    assert together.config.recipe.credit == find("mars-self-play").credit


def test_a_game_that_lists_its_moves_has_lessons_where_they_are_asked_for() -> None:
    assert planned("openspiel:tic_tac_toe") == [("task", "openspiel:tic_tac_toe")]
    assert len(phase_runs(planned("openspiel:tic_tac_toe", ("lessons", 2)))) == 2


def test_the_number_of_steps_may_be_asked_for() -> None:
    first, _ = phase_runs(planned(MAZE, ("lessons", 5)))
    assert first.config.steps == 5


@pytest.mark.parametrize(
    "more",
    [
        ("lessons", 0),
        ("model", "smollm2"),
        ("workflow", "single"),
        ("recipe", "sft"),
        ("recipe", "reward-model"),
        ("plan", [{"recipe": "grpo", "steps": 2}]),
    ],
)
def test_there_are_none_unless_they_fit(more: tuple[str, object]) -> None:
    assert planned(MAZE, more) == [one for one in [("task", MAZE), more] if one[0] != "lessons"]


@pytest.mark.parametrize("name", ["arpo", "tree-grpo"])
def test_a_rollout_that_branches_at_calls_has_them_on_its_own_task(name: str) -> None:
    task = str(find(name).task)
    pairs = list(with_lessons([("recipe", name), ("seed", 2)], task, tasks.find(task)))
    first, second = phase_runs(pairs)
    assert (first.config.task, second.config.task) == (f"lessons:{task}", task)
    assert second.config.recipe.workflow == find(name).workflow
    untaught = [("recipe", name), ("lessons", 0)]
    assert list(with_lessons(untaught, task, tasks.find(task))) == untaught[:1]


def test_a_saved_configuration_has_no_lessons_of_its_own() -> None:
    whole = ("recipe", to_plain(find("grpo")))
    assert planned(MAZE, whole) == [("task", MAZE), whole]
    assert len(phase_runs(planned(MAZE, ("recipe", "grpo")))) == 2


def test_a_model_of_ones_own_has_lessons_where_they_are_asked_for() -> None:
    first, second = phase_runs(planned(MAZE, ("model", "smollm2"), ("lessons", 2)))
    assert (first.config.model, second.config.model) == ("smollm2", "phase:1-lessons")


@pytest.mark.parametrize(
    ("more", "rates"),
    [
        ({}, (3e-3, 2.5e-4)),
        ({"lora.rank": 16}, (3e-3, 2.5e-4)),
        ({"update.lr": 1e-3}, (3e-3, 1e-3)),
        ({"model": "smollm2"}, (5e-5, None)),
        ({"model": "nano-vlm"}, (1e-3, None)),
        ({"model": "nano-audio", "update.lr": 1e-4}, (1e-3, 1e-4)),
        ({"model": "smollm2", "lora.rank": 16}, (5e-4, 5e-4)),
        ({"model": "smollm2", "lora": None}, (5e-5, None)),
        ({"model": "someone/big-model", "lora": True}, (5e-4, 5e-4)),
        ({"model": "smollm2", "update.lr": 1e-4}, (1e-4, 1e-4)),
    ],
)
def test_the_rates_are_of_the_model_that_learns(more: dict[str, object], rates: tuple[float, float | None]) -> None:
    runs = phase_runs(planned(MAZE, ("lessons", 2), *more.items()))
    assert tuple(run.config.recipe.update.lr for run in runs) == rates
    phases = [{"recipe": "sft", "task": f"lessons:{MAZE}", "steps": 2}, {"recipe": "grpo", "task": MAZE, "steps": 2}]
    if "update.lr" not in more:
        assert phase_runs([*more.items(), ("plan", phases)])[0].config.recipe.update.lr == rates[0]


def test_what_a_run_made_of_the_shipped_model_is_taught_as_it_is(tmp_path: Path) -> None:
    shape = json.loads((BASE / "config.json").read_text())
    for name, hidden in (("small", 128), ("large", 256)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps({**shape, "hidden_size": hidden}))
    rates = [
        [
            run.config.recipe.update.lr
            for run in phase_runs(planned(MAZE, ("model", str(tmp_path / name)), ("lessons", 2)))
        ]
        for name in ("small", "large")
    ]
    assert rates == [[3e-3, 2.5e-4], [5e-5, None]]


def test_a_recipe_with_a_rate_of_its_own_keeps_it_after_the_lessons() -> None:
    mine = find("grpo").but({"update.lr": 7e-6}, name="grpo-slow")
    for model in ("nano", "smollm2"):
        first, second = phase_runs(planned(MAZE, ("recipe", mine), ("model", model), ("lora.rank", 8), ("lessons", 2)))
        assert first.config.recipe.update.lr != 7e-6
        assert second.config.recipe.update.lr == 7e-6


def test_a_recipe_on_its_own_task_has_none() -> None:
    assert find("sdpo").task is not None
    pairs = [("recipe", "sdpo"), ("steps", 2)]
    assert list(with_lessons(pairs, str(find("sdpo").task), tasks.find(str(find("sdpo").task)))) == pairs


def test_claims_about_recipes_as_shipped_run_without_lessons() -> None:
    config = configured(find("grpo"), "maze", tasks.find("maze"), {})
    assert not config.plan
    assert config.model == "nano"
    assert config.recipe.name == "grpo"


def test_a_task_without_lessons_is_left_as_it_was() -> None:
    assert planned("sums", ("steps", 3)) == [("task", "sums"), ("steps", 3)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--task", "sums", "--lessons", "5"], "lessons = 5: task sums has no lessons; drop the setting"),
        (["--task", "consultation?played=true", "--lessons", "5"], "has no lessons"),
        (["--task", "maze", "--lessons=-1"], "--lessons: '-1' is not a whole number of at least 0"),
        (["--task", "lessons:sums"], "task sums has no lessons"),
        (["--task", "lessons:mase"], "there is no task 'mase'"),
        (["--resume", "x", "--lessons", "5"], "lessons cannot change"),
    ],
)
def test_lessons_that_cannot_be_made_are_one_sentence(arguments: list[str], words: str, tmp_path: Path) -> None:
    said = call("train", *arguments, "--runs", tmp_path)
    assert said.code == 2
    assert words in said.err
    assert len(said.err.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_lessons_before_a_plan_are_a_phase_of_it() -> None:
    with pytest.raises(ConfigurationError, match=r"begin it with \{recipe: sft, task: lessons:maze, steps: 3\}"):
        planned("maze", ("plan", [{"recipe": "grpo", "steps": 2}]), ("lessons", 3))


# ---------------------------------------------------------------- runs

TAUGHT = ["--task", MAZE, "--lessons", "3"]


def reward_in(folder: Path) -> str:
    (folder / "rewards.py").write_text(REWARDS)
    return f"{folder / 'rewards.py'}:spread"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with lessons, whose reward tells all episodes apart."""
    runs = tmp_path_factory.mktemp("whole")
    train(runs, "taught", *TAUGHT, "--reward", reward_in(runs), steps=2)
    return runs / "taught"


def test_what_was_taught_is_said(whole: Path) -> None:
    told = (whole / "1-lessons" / "messages.txt").read_text()
    assert "lessons of 3 steps teach which moves are open" in told
    assert "--lessons 0 leaves them out" in told
    assert "lessons:maze" in (whole / "report.html").read_text()
    assert "which moves are open" in (whole / "1-lessons" / "report.html").read_text()
    assert f"task: lessons:{MAZE}" in (whole / "1-lessons" / "config.yaml").read_text()


def test_the_run_begins_with_the_weights_of_the_lessons(whole: Path) -> None:
    assert rows(whole / "1-lessons")[-1]["step"] == 3
    assert rows(whole / "2-grpo")[-1]["step"] == 2
    assert weights(whole / "1-lessons") != weights(whole / "2-grpo")
    assert str(whole / "1-lessons") in (whole / "2-grpo" / "config.yaml").read_text()


def test_without_lessons_a_run_has_the_bits_of_the_run_alone(tmp_path: Path) -> None:
    train(tmp_path, "zero", "--task", MAZE, "--lessons", "0", steps=2)
    name = [("task", MAZE), ("recipe", find("grpo")), ("runs", str(tmp_path)), ("run", "alone"), ("steps", 2)]
    _, tiny = split_settings(TINY, set())
    hocket.Trainer(configure([*name, *tiny], tasks.find(MAZE)), task=tasks.find(MAZE)).run()
    assert_same(tmp_path / "zero", tmp_path / "alone")


@pytest.mark.parametrize("stop", [1, 3, 4])
def test_a_run_stopped_in_its_lessons_or_after_ends_equal(stop: int, whole: Path, tmp_path: Path) -> None:
    _, tiny = split_settings(TINY, set())
    of_run = [("lessons", 3), ("steps", 2), ("runs", str(tmp_path / "runs")), ("run", "cut")]
    pairs = planned(MAZE, *tiny, *of_run, ("reward", (reward_in(tmp_path),)))
    left = stop
    for trainer in PlanPipeline.begin(phase_runs(pairs), pairs).trainers():
        trainer.step()  # measures
        while left and not trainer.done:
            trainer.step()
            left -= 1
        if not trainer.done:
            trainer.save()
            trainer.finish("interrupted")
            break
        trainer.finish("finished")
    resume(tmp_path / "runs", "cut", "--quiet")
    for phase in ("1-lessons", "2-grpo"):
        one, other = whole / phase, tmp_path / "runs" / "cut" / phase
        assert rows(one) == rows(other)
        assert len(rows(one)) > 2
        assert weights(one) == weights(other)


def test_lessons_from_python(tmp_path: Path) -> None:
    _, tiny = split_settings(TINY, set())
    run = hocket.train(MAZE, steps=1, lessons=1, runs=str(tmp_path), run="x", **dict(tiny))
    assert [path.name for path in run.phases] == ["1-lessons", "2-grpo"]
    alone = hocket.train(
        MAZE, steps=1, reward=lambda completions, **columns: [0.0] * len(completions), runs=str(tmp_path), **dict(tiny)
    )
    assert not alone.phases


@pytest.mark.parametrize(("recipe", "names"), [("search-r1", ["1-lessons", "2-search-r1"]), ("gigpo", ["run"])])
def test_a_recipe_alone_begins_with_lessons_where_it_earns_nothing_without(
    recipe: str, names: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """From Python as from the command line."""
    started: list[str] = []
    monkeypatch.setattr(
        "hocket.run._run_phases", lambda driver, pipeline, **keywords: started.extend(run.name for run in pipeline.runs)
    )
    monkeypatch.setattr("hocket.run._run", lambda driver, trainer: started.append("run"))
    hocket.train(recipe=recipe, runs=str(tmp_path))
    assert started == names


# ---------------------------------------------------------------- what is taught


@pytest.mark.parametrize("name", TEACHING)
def test_lessons_are_demonstrations_that_differ_by_split(name: str) -> None:
    task = LessonTask(tasks.find(name), name)
    assert task.example is Example.DEMONSTRATION
    for number in range(3):
        one, again = task.scenario("train", number), tasks.find(f"lessons:{name}").scenario("train", number)
        assert one == again
        said = [message for message in one.metadata["demonstration"] if message["role"] == "assistant"]
        assert said
        assert one.metadata["demonstration"][-1]["role"] == "assistant"
    assert task.scenario("train", 0).metadata["of"] != task.scenario("eval", 0).metadata["of"]


@pytest.mark.parametrize("name", TEACHING)
def test_a_lesson_opens_as_an_episode_does(name: str) -> None:
    task = tasks.find(name)
    lessons = lessons_of(task)
    assert lessons is not None
    scenario = task.scenario("train", 0)
    lesson = lessons.play(scenario, np.random.default_rng(0))[0]
    workflow = getattr(task, "workflow", None)
    if workflow is None:
        assert lesson.prompt == tuple(scenario.messages)
        return
    part = Part(otherwise="?")
    rehearse(workflow, scenario, dict.fromkeys(workflow.roles, part))
    opening = part.asked[0]
    assert [message["role"] for message in lesson.prompt] == [message["role"] for message in opening]
    if name == "order-desk":  # What the customer volunteers is drawn.
        assert lesson.prompt[0] == opening[0]
        assert tuple(lesson.tools) == tuple(workflow.tools["agent"])
    else:
        assert tuple(lesson.prompt) == tuple(opening)


def test_a_customer_who_is_played_has_lessons_of_its_own_words() -> None:
    task = tasks.find("order-desk?played=true")
    lessons = lessons_of(task)
    assert lessons is not None
    for number in range(4):
        scenario = task.scenario("train", number)
        agent, customer = lessons.play(scenario, np.random.default_rng(number))
        told = [[str(one["content"]) for one in lesson.said if one["role"] == "user"] for lesson in (agent, customer)]
        said = [str(one["content"]) for one in customer.said if one["role"] == "assistant"]
        assert said == [str(agent.prompt[-1]["content"]), *told[0], "###STOP###"]
        part, other = Part(otherwise="?"), Part(otherwise="?")
        rehearse(task.workflow, scenario, {"agent": part, "user": other})  # type: ignore[attr-defined]
        assert tuple(customer.prompt) == tuple(other.asked[0])


def test_lessons_of_the_calculator_call_it_any_number_of_times() -> None:
    task = tasks.find("calculator?turns=4")
    lessons = lessons_of(task)
    assert lessons is not None
    made = set()
    for number in range(30):
        scenario = task.scenario("train", number)
        (lesson,) = lessons.play(scenario, np.random.default_rng(number))
        results = [str(one["content"]) for one in lesson.said if one["role"] == "tool"]
        assert set(results) <= {str(scenario.answer)}
        made.add(len(results))
        if results:
            assert lesson.said[-1]["content"] == f"<answer>{scenario.answer}</answer>"
    assert made == {0, 1, 2, 3}


def test_a_doctor_who_is_a_beginner_asks_before_it_names_a_condition() -> None:
    task = tasks.find("consultation")
    lessons = lessons_of(task)
    assert lessons is not None
    right, asked = 0, set()
    for number in range(60):
        scenario = task.scenario("train", number)
        (lesson,) = lessons.play(scenario, np.random.default_rng(number))
        *questions, last = [str(one["content"]) for one in lesson.said if one["role"] == "assistant"]
        assert all(one.startswith("Do you have ") for one in questions)
        assert last.startswith("Diagnosis: ")
        asked.add(len(questions))
        right += last == scenario.answer
    assert asked == {1, 2}
    assert 20 < right < 50


def test_a_beginner_in_a_household_goes_astray_at_times() -> None:
    task = tasks.find("household")
    lessons = lessons_of(task)
    assert lessons is not None
    lengths, shortest = list[int](), list[int]()
    for number in range(30):
        scenario = task.scenario("train", number)
        moves = lessons.play(scenario, np.random.default_rng(number))
        lengths.append(len(moves))
        shortest.append(int(scenario.metadata["shortest"]))
    assert sum(shortest) * 1.1 < sum(lengths) < sum(shortest) * 1.6


@pytest.mark.parametrize("name", ["maze", "household", "openspiel:kuhn_poker", "textarena:GuessTheNumber-v0"])
def test_a_beginner_makes_legal_moves(name: str) -> None:
    task = tasks.find(name)
    lessons = lessons_of(task)
    assert lessons is not None
    for number in range(4):
        for lesson in lessons.play(task.scenario("train", number), np.random.default_rng(number)):
            moves = [str(one["content"]) for one in lesson.said if one["role"] == "assistant"]
            told = [str(one["content"]) for one in (*lesson.prompt, *lesson.said) if one["role"] == "user"]
            if "Legal moves:" in told[0]:
                for move, heard in zip(moves, told, strict=True):
                    assert move in heard.rpartition("Legal moves: ")[2].replace("\n", ", ").split(", ")
            else:
                assert all(1 <= int(move.strip("[]")) <= 20 for move in moves)
                assert len(set(moves)) == len(moves)
