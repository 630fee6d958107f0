"""Recipes that learn from recorded responses, and data that does or does not hold them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import call

import hocket
from hocket.core.errors import ConfigurationError
from hocket.core.examples import Example
from hocket.policies.causal_lm import CausalLM
from hocket.recipes import find
from hocket.tasks import of
from hocket.train.examples import check_examples, replayed

PAIRS = [
    {"prompt": f"{n}+{n}=?", "chosen": f"<answer>{2 * n}</answer>", "rejected": "I do not know."} for n in range(2, 12)
]
LABELLED = [{"prompt": f"{n}+{n}=?", "completion": "a", "label": n % 2 == 0} for n in range(20)]
SHOWN = [{"prompt": f"{n}+{n}=?", "completion": f"<answer>{2 * n}</answer>"} for n in range(2, 12)]
RANKED = [{"prompt": f"{n}+{n}=?", "responses": ["a", "b"]} for n in range(2, 12)]
LONG = [{"prompt": "p", "chosen": "c", "rejected": "r", "split": "eval"}, {**PAIRS[0], "chosen": "d " * 4000}]
TINY = ["--evaluation.n", "4", "--curriculum.prompts", "2", "--threads", "1", "--decoding.max_tokens", "10", "--quiet"]


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize(
    ("rows", "setting", "recipe", "words"),
    [
        (PAIRS, "", "sft", "recipe sft learns from demonstrations, and task FILE holds pairs; give a task with prompt"),
        (LABELLED, "", "dpo", "learns from pairs, and task FILE holds labelled responses; give a task with"),
        (LABELLED, "", "sft", "learns from demonstrations, and task FILE holds labelled responses"),
        (SHOWN, "", "dpo", "learns from pairs, and task FILE holds demonstrations"),
        (RANKED, "", "dpo", "learns from pairs, and task FILE holds ranked responses"),
        ([{"prompt": "a", "answer": 1}, {"prompt": "b"}, {"prompt": "c"}], "", "sft", "neither a completion nor an"),
        ([PAIRS[0], {**PAIRS[1], "rejected": 7}], "", "dpo", "FILE, line 2: rejected is a number"),
        (LONG, "", "dpo", "FILE, line 2: scenario 'data:2' has 8009 tokens, more than the 1024 that fit"),
        (LONG, "?truncate=start", "dpo", "without its prompt too; set truncate=end"),
        (PAIRS, "?max_length=8", "dpo", "more than the 8 that fit"),
        (PAIRS, "?max_length=0", "dpo", "max_length must be at least 2 tokens, not 0"),
        (PAIRS, "?truncate=middle", "dpo", "truncate = 'middle'; choose from end, refuse, start"),
    ],
)
def test_data_that_does_not_fit_is_refused_before_anything_is_sampled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: Any, setting: str, recipe: str, words: str
) -> None:
    def sampled(*arguments: object, **keywords: object) -> None:
        raise AssertionError("something was sampled")

    monkeypatch.setattr("hocket.engine.local.LocalEngine.sample", sampled)
    monkeypatch.setattr("hocket.agents.workflows.player.TextPlayer.play", sampled)
    path = written(tmp_path / "data.jsonl", rows)
    said = call("train", *TINY, "--recipe", recipe, "--task", f"{path}{setting}", "--runs", tmp_path / "runs")
    assert said.code == 2, said.err
    assert words.replace("FILE", str(path)) in said.err.strip().splitlines()[-1]
    assert not list((tmp_path / "runs").glob("*"))


def test_a_pairwise_recipe_on_a_task_of_the_library() -> None:
    from hocket.tasks import find as find_task

    with pytest.raises(ConfigurationError, match="recipe dpo learns from pairs, and task sums holds"):
        check_examples(find("dpo"), find_task("sums"))
    check_examples(find("sft"), find_task("sums"))
    check_examples(find("grpo"), of(PAIRS))
    assert replayed(find("grpo")) is None
    assert replayed(find("pta-grpo")) is None or replayed(find("pta-grpo")) is Example.DEMONSTRATION


def test_rows_from_python_train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tiny = {"evaluation.n": 2, "curriculum.prompts": 2, "threads": 1, "decoding.max_tokens": 8}
    run = hocket.train(PAIRS, recipe="dpo", steps=2, **tiny)
    losses = [row["loss"] for row in run.metrics if row["step"]]
    assert losses[0] == pytest.approx(0.6931, abs=1e-3)
    assert losses[1] != losses[0]
    with pytest.raises(ConfigurationError, match=r"data\[1\]: chosen and rejected are the same"):
        hocket.train([PAIRS[0], {**PAIRS[1], "chosen": "x", "rejected": "x"}], recipe="dpo", **tiny)


def test_truncated_examples_are_what_is_learnt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    evaluate = CausalLM.evaluate

    def watched(self: Any, batch: Any, *arguments: Any, **keywords: Any) -> Any:
        seen.extend(int(length) for length in batch.lengths())
        return evaluate(self, batch, *arguments, **keywords)

    monkeypatch.setattr(CausalLM, "evaluate", watched)
    path = written(tmp_path / "data.jsonl", PAIRS)
    task = f"{path}?truncate=end&max_length=16"
    options = ["--recipe", "dpo", "--task", task, "--runs", tmp_path / "runs", "--steps", "1"]
    said = call("train", *TINY, *options)
    assert said.code == 0, said.err
    assert seen
    assert max(seen) < 16


def test_tools_of_a_row_are_shown_to_the_policy() -> None:
    from hocket.agents.workflows.chat import Tools
    from hocket.agents.workflows.player import TextPlayer
    from hocket.agents.workflows.single import SingleTurn
    from hocket.agents.workflows.team import Actor
    from hocket.types import Assignment, Scenario

    shown: list[Tools | None] = []

    class Watched:
        def opening(self, messages: Any, tools: Tools | None = None) -> tuple[int, ...]:
            shown.append(tools)
            return (1, 2)

        def demonstration(self, said: Any, history: Any, tools: Any) -> tuple[int, ...]:
            return (3,)

    actor = Actor("policy", engine=object(), chat=Watched())  # type: ignore[arg-type]
    player = TextPlayer(SingleTurn(), {"policy": actor})
    tools = [{"type": "function", "function": {"name": "add"}}]
    for metadata in ({"demonstration": "a", "tools": tools}, {"demonstration": "a"}):
        player._taught(Assignment(Scenario("s", "p", metadata=metadata)), 0)
    assert shown == [tools, None]
