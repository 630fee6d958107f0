"""Plans whose phases own task, rewards, learner and evaluation: a run each, one after the other."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import TINY, call, in_child, last_checkpoint, rows, train, weights

from hocket.apps.cli.parser import main
from hocket.core.errors import ConfigurationError
from hocket.policies.scorer import saved
from hocket.run import train as train_in_python
from hocket.tasks.sums import Sums
from hocket.train.pipeline import PlanPipeline, phase_runs

RLHF = """
plan:
  - {recipe: sft, steps: 2, task: sums, evaluation: {between: 6}}
  - {recipe: reward-model, steps: 2, task: graded-sums, name: judge}
  - {recipe: ppo, steps: 2, task: sums, reward: ["model:phase:judge"]}
"""
PHASES = ("1-sft", "2-judge", "3-ppo")
ROUNDS: list[dict[str, Any]] = [
    {"recipe": "sft", "steps": 1, "once": True},
    {"recipe": "reward-model", "steps": 1, "task": "graded-sums", "name": "judge"},
    {"recipe": "grpo", "steps": 2, "reward": ["model:phase:judge=2"], "rollout.samples": 3},
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the plan was run without interruption, as `runs/run`."""
    place = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        Path("rlhf.yaml").write_text(RLHF)
        said = call("train", "rlhf.yaml", *TINY, "--run", "run", "--quiet", "--json")
    assert said.code == 0, said.err
    assert [phase["name"] for phase in said.json["phases"]] == list(PHASES)
    return place


def test_a_phase_goes_on_from_the_one_that_trained_the_same_network(whole: Path) -> None:
    folder = whole / "runs" / "run"
    written = {name: (folder / name / "config.yaml").read_text() for name in PHASES}
    learnt = f"model: {folder.resolve()}/1-sft/checkpoints/step-000002/policy\n"
    assert "model: nano\n" in written["1-sft"]
    assert learnt in written["2-judge"]
    assert learnt in written["3-ppo"]
    assert f"model:{folder.resolve()}/2-judge" in written["3-ppo"]
    tasks = [json.loads((folder / name / "summary.json").read_text())["task"] for name in PHASES]
    assert tasks == ["sums", "graded-sums", "sums"]


def test_the_first_phase_is_the_run_that_it_would_be_alone(whole: Path, tmp_path: Path) -> None:
    train(tmp_path, "1-sft", "--recipe", "sft", "--evaluation.between", "6", steps=2)
    assert weights(whole / "runs" / "run" / "1-sft") == weights(tmp_path / "1-sft")


def test_the_scorer_of_a_phase_pays_in_another(whole: Path) -> None:
    folder = whole / "runs" / "run"
    assert saved(str(last_checkpoint(folder / "2-judge") / "policy"))
    episodes = sorted((folder / "3-ppo" / "rollouts").glob("step-*.jsonl"))
    lines = [json.loads(line) for line in episodes[-1].read_text().splitlines()]
    assert len({line["scores"]["2-judge"] for line in lines}) > 1


def test_the_page_of_a_plan_tells_what_each_phase_gained(whole: Path) -> None:
    page = (whole / "runs" / "run" / "report.html").read_text()
    assert all(f'href="{name}/report.html"' in page for name in PHASES)
    assert "Preference accuracy" in page
    assert "finished, 2 of 2 steps" in page


def test_measuring_a_plan_measures_its_last_run(whole: Path) -> None:
    said = call("eval", "run", "--runs", whole / "runs", "--n", "4", "--json")
    assert said.code == 0, said.err
    assert "/3-ppo/" in said.json["source"]


def test_a_finished_plan_stays_as_it_is_and_its_last_phase_is_lengthened(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("runs").symlink_to(whole / "runs")
    before = rows(Path("runs/run/3-ppo"))
    assert call("train", "--resume", "run", "--quiet").code == 0
    assert rows(Path("runs/run/3-ppo")) == before
    shutil.copytree(whole / "runs" / "run", "longer/run")
    assert call("train", "--resume", "run", "--runs", "longer", "--steps", "3", "--quiet").code == 0
    assert [row["step"] for row in rows(Path("longer/run/3-ppo"))] == [0, 1, 2, 3]


def test_a_resumed_plan_takes_other_trackers(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole / "runs" / "run", tmp_path / "run")
    said = call("train", "--resume", "run", "--runs", tmp_path, "--steps", "3", "--track", "nowhere", "--quiet")
    assert said.code == 2
    assert "nowhere" in said.err


# ---------------------------------------------------------------- interruptions


class Gone(Exception):
    pass


class Ends:
    """Ends a process, as it were, at a step of a phase."""

    def __init__(self, phase: str, step: int) -> None:
        self.where = (phase, step)

    def started(self, trainer: Any) -> None:
        pass

    def stepped(self, trainer: Any, row: dict[str, Any]) -> None:
        if (trainer.folder.name, row["step"]) == self.where:
            trainer.folder.release()
            raise Gone

    def said(self, message: str) -> None:
        pass


def assert_equal(left: Path, right: Path) -> None:
    """All metrics and the final weights are equal; where the runs lie is not."""
    assert rows(left) == rows(right)
    assert weights(left) == weights(right)
    assert weights(left)


def _drive(pipeline: PlanPipeline, observer: Ends) -> None:
    for trainer in pipeline.trainers(observer=observer):
        trainer.run()


@pytest.mark.parametrize(
    ("phase", "step"),
    [*(pytest.param(*at, marks=pytest.mark.slow) for at in (("1-sft", 2), ("2-judge", 1), ("3-ppo", 0))), ("3-ppo", 1)],
)
def test_an_interrupted_plan_ends_equal(
    phase: str, step: int, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = PlanPipeline.at(whole / "runs" / "run")
    pipeline = PlanPipeline.begin(found.runs, [("run", "run")])
    with pytest.raises(Gone):
        _drive(pipeline, Ends(phase, step))
    assert call("train", "--resume", "run", "--quiet").code == 0
    for name in PHASES:
        assert_equal(whole / "runs" / "run" / name, Path("runs/run") / name)


@pytest.mark.slow
@pytest.mark.parametrize("phase", PHASES)
def test_a_killed_plan_ends_equal(phase: str, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rlhf.yaml").write_text(RLHF)
    metrics = Path("runs/run") / phase / "metrics.jsonl"

    def under_way() -> bool:
        return metrics.is_file() and metrics.read_bytes().count(b"\n") >= 2

    ended = in_child(lambda: main(["train", "rlhf.yaml", *TINY, "--run", "run", "--quiet"]), until=under_way)
    assert ended == -signal.SIGKILL
    assert call("train", "--resume", "run", "--quiet").code == 0
    for name in PHASES:
        assert_equal(whole / "runs" / "run" / name, Path("runs/run") / name)


# ---------------------------------------------------------------- what a plan means


def test_rounds_go_through_a_plan_again() -> None:
    found = phase_runs([("plan", ROUNDS), ("rounds", 2), ("seed", 5), ("update.lr", 1e-3)])
    assert [run.name for run in found] == ["1-sft", "2-judge", "3-grpo", "4-judge", "5-grpo"]
    begins = [run.config.model for run in found]
    assert begins == ["nano", "phase:1-sft", "phase:1-sft", "phase:2-judge", "phase:3-grpo"]
    assert [run.config.reward for run in found[2::2]] == [("model:phase:2-judge=2",), ("model:phase:4-judge=2",)]
    assert found[0].config.seed == 5
    assert len({run.config.seed for run in found}) == 5
    assert all(run.config.recipe.update.lr == 1e-3 for run in found)
    assert [run.config.recipe.rollout.samples for run in found[2::2]] == [3, 3]


def test_a_plan_that_owns_nothing_is_one_run() -> None:
    assert phase_runs([("plan", [{"recipe": "sft", "steps": 1}, {"recipe": "grpo", "steps": 1}])]) == ()
    assert phase_runs([("recipe", "grpo")]) == ()


def test_what_a_phase_states_wins_over_the_plan() -> None:
    plan = [{"recipe": "sft", "steps": 1, "seed": 3, "model": "nano"}, {"recipe": "grpo", "steps": 1, "model": "nano"}]
    found = phase_runs([("seed", 9), ("evaluation.n", 7), ("plan", plan)])
    assert [run.config.model for run in found] == ["nano", "nano"]
    assert found[0].config.seed == 3
    assert {run.config.evaluation.n for run in found} == {7}


REFUSED: dict[str, tuple[list[tuple[str, Any]], str]] = {
    "an unknown phase": (
        [("plan", [ROUNDS[1], {**ROUNDS[2], "reward": ["model:phase:jugde"]}])],
        "phase grpo: 'phase:jugde': no earlier phase is called 'jugde'.*'judge'",
    ),
    "a later phase": ([("plan", [ROUNDS[2], ROUNDS[1]])], "no earlier phase is called 'judge'; this is the first"),
    "a reward that writes": (
        [("plan", [ROUNDS[0], {**ROUNDS[2], "reward": ["model:phase:sft"]}])],
        "phase 1-sft is no scorer, it writes",
    ),
    "a policy out of a scorer": (
        [("plan", [ROUNDS[1], {"recipe": "grpo", "steps": 1, "model": "phase:judge"}])],
        "model = 'phase:1-judge' is a scorer, which cannot write",
    ),
    "a judge that scores": (
        [("plan", [ROUNDS[1], {"recipe": "grpo", "steps": 1, "model": "nano", "judge": "phase:judge"}])],
        "judge = 'phase:1-judge' is a scorer",
    ),
    "pairs that a task has not": (
        [("plan", [{"recipe": "dpo", "steps": 1, "task": "sums"}])],
        "phase dpo: recipe dpo learns from.*and task sums holds",
    ),
    "a setting nobody has": ([("plan", ROUNDS), ("objective.hihg", 1)], "no recipe of the plan.*objective.hihg"),
    "a setting of its own": ([("plan", [{"recipe": "grpo", "steps": 1, "stepz": 3}])], "phase grpo:.*'stepz'"),
    "a setting of the whole": ([("plan", [{"recipe": "grpo", "steps": 1, "runs": "x"}])], "plan.0.runs.*whole plan"),
    "a name": ([("plan", [{"recipe": "grpo", "steps": 1, "name": "a b"}])], "plan.0.name = 'a b'"),
    "no rounds": ([("plan", ROUNDS), ("rounds", 0)], "rounds = 0.*at least 1"),
    "rounds of nothing": ([("rounds", 2)], "rounds repeats"),
    "controllers": (
        [("plan", [{"recipe": "grpo", "steps": 1, "task": "gym:CartPole-v1"}])],
        "CartPole-v1 is not for language models",
    ),
    "a reward that is not there": (
        [("plan", [{"recipe": "grpo", "steps": 1, "reward": ["nofile.py:fn"]}])],
        "phase grpo:.*nofile.py",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_unfit_plan_is_refused_before_anything_is_done(case: str) -> None:
    pairs, words = REFUSED[case]
    with pytest.raises(ConfigurationError, match=words):
        phase_runs(pairs)


SEARCH = """
plan:
  - {searcher: reflective, name: prompts, budget: 60, practice: 2, development: 4, evaluation: 2, start: "Be right.",
     reflector: "REFLECTS:reflects"}
  - {recipe: grpo, steps: 1}
  - {searcher: reflective, name: again, budget: 30, practice: 2, development: 4, evaluation: 2,
     reflector: "REFLECTS:reflects"}
  - {recipe: grpo, steps: 1}
"""


def test_a_search_is_a_phase_that_later_ones_play_by_and_goes_on_where_it_was_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "r.py").write_text("def reflects(asked):\n    return [f'Add ({len(one)}).' for one in asked]\n")
    monkeypatch.chdir(tmp_path)
    Path("plan.yaml").write_text(SEARCH.replace("REFLECTS", str(tmp_path / "r.py")))
    assert call("train", "plan.yaml", *TINY, "--run", "run", "--quiet").code == 0
    folder = Path("runs/run")
    best = json.loads((folder / "1-prompts" / "best.json").read_text())
    assert best["prompts"]["policy"] in (folder / "2-grpo" / "rollouts" / "step-000001.jsonl").read_text()
    second = json.loads((folder / "3-again" / "search.json").read_text())
    assert second["start"] == str((folder / "1-prompts" / "best.json").resolve())
    assert "2-grpo/checkpoints" in second["model"]
    config = (folder / "4-grpo" / "config.yaml").read_text()
    assert f"texts: {(folder / '3-again' / 'best.json').resolve()}" in config
    shutil.copytree(folder, tmp_path / "due")
    for name in ("2-grpo", "3-again", "4-grpo"):
        shutil.rmtree(folder / name)
    (folder / "1-prompts" / "summary.json").unlink()
    journal = folder / "1-prompts" / "journal.jsonl"
    journal.write_bytes(journal.read_bytes()[: journal.stat().st_size // 2])
    assert call("train", "--resume", "run", "--quiet").code == 0
    for name in ("2-grpo", "4-grpo"):
        assert_equal(tmp_path / "due" / name, folder / name)


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ({"searcher": "reflectiv"}, "phase reflectiv.*did you mean 'reflective'"),
        ({"searcher": "reflective", "budget": 0}, "phase reflective: budget = 0"),
        ({"searcher": "reflective", "searcher.bach": 3}, "phase reflective.*bach"),
        ({"searcher": "reflective", "steps": 3}, "phase reflective.*no recipe or steps"),
    ],
)
def test_an_unfit_search_is_refused(item: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        phase_runs([("plan", [item, {"recipe": "grpo", "steps": 1}])])
    with pytest.raises(ConfigurationError, match="last phase of the plan is a search"):
        phase_runs([("plan", [{"recipe": "grpo", "steps": 1}, {"searcher": "reflective"}])])


def test_a_plan_refused_in_its_first_run_leaves_its_name_free(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text("plan: [{recipe: grpo, steps: 1, model: ./nomodel}]")
    said = call("train", file, *TINY, "--runs", tmp_path, "--run", "mine", "--quiet")
    assert said.code == 2
    assert "nomodel" in said.err
    assert not (tmp_path / "mine").exists()


def test_a_damaged_plan_is_refused(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text("phases: 3")
    with pytest.raises(ConfigurationError, match=r"plan\.yaml cannot be read"):
        PlanPipeline.at(tmp_path)


class Mine(Sums):
    """A task that only this process knows."""

    def __init__(self) -> None:
        super().__init__()
        self.name = "mine"


def test_plans_run_from_python_with_objects(tmp_path: Path) -> None:
    plan = [{"recipe": "sft", "steps": 1, "name": "warm"}, {"recipe": "grpo", "steps": 1}]
    tiny = {"evaluation.n": 4, "rollout.samples": 2, "curriculum.prompts": 2, "threads": 1, "decoding.max_tokens": 8}
    run = train_in_python(Mine(), plan=plan, runs=str(tmp_path), run="both", **tiny)
    assert [path.name for path in run.phases] == ["1-warm", "2-grpo"]
    assert run.path == run.phases[1]
    assert run.summary["task"] == "mine"
