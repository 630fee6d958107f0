"""`hocket optimise`: a search over texts, its folder, and what it refuses."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from hocket.agents.search.gepa import Gepa
from hocket.agents.search.plain import RandomMutation, Reflective
from hocket.agents.search.searcher import SEARCHERS, CaseResult, SearchBench, search
from hocket.apps.cli.parser import main
from hocket.core.errors import ConfigurationError
from hocket.core.intervals import wilson
from hocket.core.keys import Key
from hocket.core.texts import Texts, problem
from hocket.lab.texts_worlds import InstructedPolicy, Mentors, searched
from hocket.methods.search.mass.workflow import Blocks
from hocket.methods.search.optagent.workflow import Network
from hocket.testing import Part, rehearse
from hocket.train.optimise.run import SearchRun, SearchSettings, corrected_interval, resumed
from hocket.types import Scenario

MODEL = '''
import re

def answers(messages, number):
    """Adds when its system prompt tells it to, else says the first number."""
    numbers = [int(one) for one in re.findall(r"-?\\d+", messages[-1]["content"])]
    told = messages[0]["role"] == "system" and "Add" in messages[0]["content"]
    return f"<answer>{sum(numbers) if told else numbers[0]}</answer>"

def reflects(prompts):
    last = [int(re.findall(r"\\d+", one)[-1]) for one in prompts]
    return [f"Think. {one}" if one < 500 else "Add the numbers." for one in last]

def silent(prompts):
    return ["" for one in prompts]
'''


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "scripted.py"
    path.write_text(MODEL)
    return path


def settings(model: Path, **more: Any) -> SearchSettings:
    given = {"budget": 120, "practice": 6, "development": 8, "evaluation": 5, **more}
    return SearchSettings(model=f"{model}:answers", reflector=f"{model}:reflects", **given)


def test_a_search_that_was_cut_anywhere_comes_to_the_same(model: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    first = SearchRun(settings(model), whole).run()
    files = ("trials.jsonl", "best.json", "summary.json")
    due = [(whole / one).read_bytes() for one in files]
    journal = (whole / "journal.jsonl").read_bytes()
    assert first["development"]["best"] > first["development"]["start"]
    for part in range(4):
        cut = tmp_path / f"cut-{part}"
        cut.mkdir()
        # A torn last line, as a crash leaves it.
        (cut / "journal.jsonl").write_bytes(journal[: len(journal) * part // 4])
        for name in ("search.json", "signature.json"):
            (cut / name).write_bytes((whole / name).read_bytes())
        SearchRun(resumed(cut), cut).run()
        assert [(cut / one).read_bytes() for one in files] == due


def test_the_evaluation_split_is_opened_once_and_never_while_searching(model: Path, tmp_path: Path) -> None:
    run = SearchRun(settings(model), tmp_path / "run")
    asked: list[tuple[str, int]] = []
    scenario = run.task.scenario

    class Watched:
        def __getattr__(self, name: str) -> Any:
            return getattr(run.task, name)

        def scenario(self, split: Any, number: int) -> Any:
            asked.append((split, number))
            return scenario(split, number)

    run.target.task = Watched()  # type: ignore[assignment]
    run.run()
    splits = [split for split, _ in asked]
    assert splits == sorted(splits, reverse=True)
    assert splits.count("eval") == 2 * 5
    assert {number for split, number in asked if split == "train"} <= set(range(14))


def test_the_corrected_interval_covers_all_of_several_at_once() -> None:
    draw, tried, n = np.random.default_rng(0), 10, 50
    best = draw.binomial(n, 0.6, (2000, tried)).max(1)
    covered = {
        k: np.mean(
            [low <= 0.6 for low in (corrected_interval([1.0] * int(b) + [0.0] * int(n - b), k)[0] for b in best)]
        )
        for k in (1, tried)
    }
    assert covered[tried] > 0.95 > 0.9 > covered[1]
    assert corrected_interval([1.0, 0.0], 1) == pytest.approx(wilson(1, 2))
    assert wilson(5, 9, NormalDist().inv_cdf(0.975)) == pytest.approx(wilson(5, 9))


def test_the_budget_is_kept_and_equal_questions_cost_once() -> None:
    for budget in (12, 13, 30, 100, 101):
        for searcher in (RandomMutation(), Reflective()):
            bench = searched(InstructedPolicy(), Mentors(), searcher, budget=budget)
            assert bench.spent <= budget
            assert bench.best.score >= bench.trials[0].score
            digests = [trial.texts.digest for trial in bench.trials]
            assert len(set(digests)) == len(digests)


def test_reflection_needs_fewer_calls_than_random_mutation() -> None:
    for seed in range(4):
        ours, blind = (
            searched(InstructedPolicy(), Mentors(seed=seed), s, seed=seed, budget=108)
            for s in (Reflective(), RandomMutation())
        )
        assert ours.best.score == 1.0 > blind.best.score


def test_an_episode_of_many_calls_is_foreseen() -> None:
    class Talkative(InstructedPolicy):
        def play(self, *args: Any, **keywords: Any) -> list[CaseResult]:
            return [CaseResult(**{**vars(one), "calls": 3}) for one in super().play(*args, **keywords)]

    bench = searched(Talkative(), Mentors(), RandomMutation(), budget=100)
    assert bench.spent == 72


def test_empty_texts_change_no_prompt_and_differences_are_told() -> None:
    assert Texts().system("policy", "own") == "own"
    assert Texts().system("policy") is None
    texts = Texts({"policy": "a\nb"}, ("first",), (("x", "y"),))
    changes = sorted(texts.changes(Texts({"policy": "a\nc"})))
    assert changes == ["+ edge: x reads y", "+ lesson: first", "+ policy: b", "- policy: c"]
    assert Texts.from_json(json.loads(json.dumps(texts.to_json()))) == texts
    assert texts.digest == Texts.from_json(texts.to_json()).digest != Texts().digest
    built = Texts(blocks={"predict": 3})
    assert Texts.from_json(built.to_json()) == built
    assert built.changes(Texts()) == ["+ 3 x predict"]


@pytest.mark.parametrize(
    ("texts", "word"),
    [
        (Texts({"planer": "x"}), "planner"),
        (Texts({"planner": "no place"}), "{question}"),
        (Texts(edges=(("planner", "planner"),)), "circle"),
        (Texts(edges=(("planner", "nobody"),)), "nobody"),
    ],
)
def test_texts_that_cannot_be_played_are_told(texts: Texts, word: str) -> None:
    assert word in str(problem(texts, ("planner", "worker"), {"planner": "Plan {question}"}))


def flags(model: Path, out: Path) -> list[str]:
    sizes = ["--budget", "80", "--practice", "6", "--development", "8", "--evaluation", "4"]
    models = ["--model", f"{model}:answers", "--reflector", f"{model}:reflects"]
    return ["optimise", "--searcher", "reflective", *models, *sizes, "--out", str(out), "--quiet"]


def test_the_command_prints_one_document(model: Path, tmp_path: Path, capsys: Any) -> None:
    assert main([*flags(model, tmp_path / "run"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["calls"] <= 80
    assert found["evaluation"]["best"] > found["evaluation"]["start"]
    assert main(["optimise", "--resume", str(tmp_path / "run"), "--quiet", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == found


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--budget", "5"], "raise --budget or lower --development"),
        (["--searcher", "reflectiv"], "did you mean 'reflective'"),
        (["--searcher.batch", "0"], "searcher.batch = 0"),
        (["--searcher.bach", "3"], "batch"),
        (["--reflector", "MODEL:silent"], "returned nothing"),
        (["--task", "gym:CartPole-v1"], "not answered in text"),
        (["--start", "gone.json"], "gone.json is missing"),
        (["--practice", "0"], "--practice: '0' is not a whole number of at least 1"),
        (["--tokens", "3"], "raise --tokens"),
        (["--searcher", "mass"], "--workflow blocks"),
        (["--model", "nano", "--start", "word " * 4000], "context"),
    ],
)
def test_bad_input_is_one_sentence(model: Path, tmp_path: Path, capsys: Any, more: Sequence[str], words: str) -> None:
    given = [one.replace("MODEL", str(model)) for one in more]
    assert main([*flags(model, tmp_path / "run"), *given]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert len(re.findall("hocket:", said)) == 1
    assert not (tmp_path / "run" / "summary.json").exists()


def test_a_journal_of_another_search_is_refused(model: Path, tmp_path: Path) -> None:
    SearchRun(settings(model), tmp_path / "run").run()
    with pytest.raises(ConfigurationError, match="budget = 120, not 150"):
        SearchRun(settings(model, budget=150), tmp_path / "run")


def test_a_bench_draws_anew_only_when_asked() -> None:
    seen: list[int] = []

    class Watched(InstructedPolicy):
        def play(self, *args: Any, first: int = 0, **keywords: Any) -> list[CaseResult]:
            seen.append(first)
            return super().play(*args, first=first, **keywords)

    bench = SearchBench(Watched(), lambda question: "x", Texts(), Key.of(0), 100, 4, 4)
    bench.begin()
    for again in (0, 0, 1, 2):
        bench.practise(Texts(), range(4), 3, again=again)
    assert seen == [0, 0, 3, 6]
    assert bench.spent == 4 + 3 * 12


def test_the_page_shows_every_searcher_and_its_own_one_runs(model: Path, tmp_path: Path, capsys: Any) -> None:
    page = (Path(__file__).parents[2] / "docs" / "search.md").read_text()
    assert set(re.findall(r"^\| `([\w-]+)` \|", page, re.M)) == set(SEARCHERS.own)
    own = tmp_path / "mine.py"
    own.write_text(page.partition("```python\n")[2].partition("```")[0])
    assert main([*flags(model, tmp_path / "run"), "--searcher", f"{own}:POLITE", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tried"] == 2


class Plain:
    """`InstructedPolicy` as a plain function, for the package alone."""

    propose_new_texts = None

    def evaluate(self, batch: Sequence[int], candidate: dict[str, str], capture_traces: bool = False) -> Any:
        from gepa.core.adapter import EvaluationBatch

        key = Key.of(0)
        played = InstructedPolicy().play(Texts(dict(candidate)), batch, 1, greedy=True, key=key)
        return EvaluationBatch([None] * len(batch), [one.score for one in played], played if capture_traces else None)

    def make_reflective_dataset(self, candidate: Any, evaluated: Any, components: Sequence[str]) -> Any:
        shown = [
            {
                "Inputs": one.question,
                "Generated Outputs": one.answer,
                "Feedback": "This is right." if one.score >= 1 else f"This scored {one.score:g} of 1.",
            }
            for one in evaluated.trajectories
        ]
        return dict.fromkeys(components, shown)


class Quiet:
    def log(self, message: str) -> None:
        """Nothing."""


@pytest.mark.parametrize("merge", [False, True])
def test_gepa_behind_the_bench_is_gepa_on_a_plain_function(merge: bool) -> None:
    package = pytest.importorskip("gepa")

    def reflect(asked: str) -> str:
        rules = re.findall(r"Rule \d\.", asked)
        wrong = re.findall(r"kind (\d)\.(?:(?!kind).)*?scored 0", asked, re.S)
        return "```" + " ".join(dict.fromkeys([*rules, *(f"Rule {kind}." for kind in wrong[:1])])) + "```"

    key = Key.of(5)
    bench = SearchBench(InstructedPolicy(), reflect, Texts({"policy": "Be right."}), key, 10_000, 12, 12)
    best = search(bench, Gepa(proposals=12, merge=merge))
    found = package.optimize(
        {"policy": "Be right."},
        list(range(12)),
        list(range(12, 24)),
        adapter=Plain(),
        reflection_lm=reflect,
        stop_callbacks=[lambda state: state.i + 1 >= 12],
        use_merge=merge,
        logger=Quiet(),
        seed=key.derive("gepa").word >> 33,
    )
    assert [dict(trial.texts.prompts) for trial in bench.trials] == found.candidates
    assert [trial.score for trial in bench.trials] == found.val_aggregate_scores
    assert best.score > bench.trials[0].score
    assert len(found.candidates) > 3


def test_gepa_keeps_the_budget_and_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gepa", None)
    with pytest.raises(ConfigurationError, match=r"hocket\[gepa\]"):
        searched(InstructedPolicy(), Mentors(), Gepa())
    monkeypatch.undo()
    pytest.importorskip("gepa")
    bench = searched(InstructedPolicy(), Mentors(), Gepa(), budget=90)
    assert bench.spent <= 90
    assert bench.asked > 0
    with pytest.raises(ConfigurationError, match="returned nothing"):
        searched(InstructedPolicy(), lambda question: "", Gepa())


def test_a_team_of_blocks_plays_them_in_order_and_calls_as_many_as_it_says() -> None:
    parts = {
        "summariser": Part("short"),
        "predictor": Part(*(f"<answer>{n}</answer>" for n in (1, 2, 1, 2))),
        "reflector": Part("why?", "sure?"),
        "debater": Part("<answer>2</answer>", "<answer>2</answer>"),
    }
    flow = Blocks({"summarise": 1, "reflect": 1, "debate": 1})
    (one,) = rehearse(flow, Scenario("q", "What?", answer="2"), parts, verifier=lambda text, case: float("2" in text))
    due = ["summariser", "predictor", "predictor", "reflector", "predictor", "reflector", "predictor", "debater"]
    assert sorted(turn.role for turn in one.turns) == sorted([*due, "debater"])
    assert len(one.turns) == flow.calls == 9
    assert parts["debater"].questions == ["short\nAnswer: <answer>2</answer>", "short\nAnswer: <answer>1</answer>"]
    assert "Criticism: why?" in parts["predictor"].questions[2]
    assert one.scores["team"].value == 1.0
    with pytest.raises(ConfigurationError, match="somebody must answer"):
        Blocks({"predict": 0})
    with pytest.raises(ConfigurationError, match="did you mean 'debate'"):
        Blocks({"debates": 1})


def test_tokens_are_a_budget_too() -> None:
    class Wordy(InstructedPolicy):
        def play(self, *args: Any, **keywords: Any) -> list[CaseResult]:
            return [CaseResult(**{**vars(one), "tokens": 5}) for one in super().play(*args, **keywords)]

    key, mentor = Key.of(0), Mentors()
    bench = SearchBench(Wordy(), mentor, Texts(), key, 1000, 12, 12, most_tokens=200)
    search(bench, RandomMutation())
    assert bench.tokens == 180 == 5 * bench.spent
    with pytest.raises(ConfigurationError, match="tokens = 59"):
        SearchBench(Wordy(), mentor, Texts(), key, 1000, 12, 12, most_tokens=59).begin()


def test_a_network_calls_those_again_that_read() -> None:
    first, second = Part("<answer>1</answer>"), Part("<answer>2</answer>", "<answer>1</answer>")
    third = Part("<answer>3</answer>")
    flow = Network(agents=3, edges=(("agent_2", "agent_1"),))
    parts = {"agent_1": first, "agent_2": second, "agent_3": third}
    (one,) = rehearse(
        flow, Scenario("q", "What?", answer="1"), parts, verifier=lambda text, scenario: float("1" in text)
    )
    assert [turn.role for turn in one.turns] == ["agent_1", "agent_2", "agent_3", "agent_2"]
    assert second.questions[1] == "Another: <answer>1</answer>"
    assert one.answer == "<answer>1</answer>"
    assert one.scores["team"].value == 1.0
    with pytest.raises(ConfigurationError, match="an agent that answers"):
        Network(agents=0)
