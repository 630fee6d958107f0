"""What evaluation tells of recorded responses to unseen scenarios."""

from __future__ import annotations

import asyncio
import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_runs import assert_same, call, rows, summary, train

from hocket.core.intervals import wilson
from hocket.core.keys import Key
from hocket.policies.causal_lm import CausalLM
from hocket.tasks import find as find_task
from hocket.train import config as configuration
from hocket.train.assemble import build_parts
from hocket.train.unseen_scenarios import measured

TINY = ["--evaluation.n", "6", "--evaluation.every", "1", "--curriculum.prompts", "4", "--threads", "1"]
TINY += ["--decoding.max_tokens", "8"]


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def pairs(folder: Path, **more: Any) -> Path:
    made = [
        {"prompt": f"{n}+{n}=?", "chosen": f"<answer>{2 * n}</answer>", "rejected": f"I do not know {n}."}
        for n in range(2, 42)
    ]
    return written(folder / "pairs.jsonl", [{**row, **more} for row in made])


def parts_of(recipe: str, task: Any, **settings: Any) -> Any:
    found = find_task(str(task))
    pairs = [("recipe", recipe), ("task", str(task)), ("threads", 1), ("decoding.max_tokens", 8), *settings.items()]
    return build_parts(configuration.configure(pairs, found), found)


def moved(parts: Any) -> None:
    """Changes the weights a little, so that the policy is no longer its reference."""
    draws = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for tensor in parts.lead.policy.module.parameters():
            tensor.add_(0.03 * tensor.std().nan_to_num() * torch.randn(tensor.shape, generator=draws))


def loglikelihood(policy: CausalLM, prompt: str, response: str) -> tuple[float, int]:
    """The log-prob of a response with its end of turn by a plain pass of the model, float64 sum, and its tokens."""
    from hocket.agents.workflows.chat import Chat

    chat = Chat(policy.tokenizer)
    opening = chat.opening([{"role": "user", "content": prompt}])
    said = chat.demonstration(response)
    tokens = torch.tensor([[*opening, *said]])
    with torch.no_grad():
        logits = policy.module.model(tokens).logits[0].double()
    logp = torch.log_softmax(logits, -1)[len(opening) - 1 : -1]
    return float(logp.gather(1, tokens[0, len(opening) :, None]).sum()), len(said)


@pytest.mark.parametrize("recipe", ["dpo", "simpo"])
def test_the_figures_of_pairs_are_those_of_plain_passes_of_the_model(tmp_path: Path, recipe: str) -> None:
    parts = parts_of(recipe, pairs(tmp_path))
    reference = parts.lead.policy.frozen_copy()
    moved(parts)
    found = asyncio.run(measured(parts, (), n=50, key=Key.of(0)))
    size = parts.task.size("eval")
    wanted, lengths = [], []
    for number in range(size):
        scenario = parts.task.scenario("eval", number)
        told, long = [], []
        for name in ("chosen", "rejected"):
            own, count = loglikelihood(parts.lead.policy, scenario.prompt, scenario.metadata[name])
            base, _ = loglikelihood(reference, scenario.prompt, scenario.metadata[name])
            told.append(0.1 * (own - base) if recipe == "dpo" else parts.lead.recipe.objective.beta * own / count)
            long.append(count)
        wanted.append(told)
        lengths.append(long)
    better, worse = torch.tensor(wanted, dtype=torch.float64).unbind(1)
    share = float((better > worse).double().mean())
    low, high = wilson(share * size, size)
    expected = {
        "pairs/accuracy": share,
        "pairs/low": low,
        "pairs/high": high,
        "pairs/total": size,
        "pairs/margin": float((better - worse).mean()),
        "pairs/chosen": float(better.mean()),
        "pairs/rejected": float(worse.mean()),
        "pairs/length_chosen": sum(one for one, _ in lengths) / size,
        "pairs/length_rejected": sum(other for _, other in lengths) / size,
    }
    assert {name: found.recorded[name] for name in expected} == pytest.approx(expected, abs=2e-4)
    assert (found.success, found.low, found.high, found.n) == pytest.approx((share, low, high, size))
    assert 0 < share < 1 or recipe == "simpo"


def test_measuring_changes_and_remembers_nothing(tmp_path: Path) -> None:
    rows = [{"prompt": f"{n}+1", "completion": f"it is {n}", "label": n % 2 == 0} for n in range(30)]
    parts = parts_of("bco", written(tmp_path / "labels.jsonl", rows))
    before = {name: value.clone() for name, value in parts.lead.policy.module.state_dict().items()}
    memory, asked = str(parts.lead.memory), parts.asked
    first = asyncio.run(measured(parts, (), n=50, key=Key.of(0)))
    again = asyncio.run(measured(parts, (), n=50, key=Key.of(0)))
    assert first.metrics() == again.metrics()
    assert (str(parts.lead.memory), parts.asked) == (memory, asked)
    assert all(torch.equal(before[name], value) for name, value in parts.lead.policy.module.state_dict().items())
    assert first.measure.name == "labels/accuracy"
    assert first.success == 0.5  # The policy is its reference.


def test_a_file_of_pairs_has_no_accuracy_of_answers(tmp_path: Path) -> None:
    said = call(
        "train", *TINY, "--recipe", "dpo", "--task", pairs(tmp_path), "--runs", tmp_path, "--run", "a", "--steps=3"
    )
    assert said.code == 0, said.err
    told = rows(tmp_path / "a")
    assert all(row.get("eval/accuracy") is None for row in told)
    shares = [row["eval/pairs/accuracy"] for row in told]
    assert shares[0] == 0.5
    assert shares[-1] > 0.5
    found = summary(tmp_path / "a")
    assert found["measure"] == "pairs/accuracy"
    assert found["gain"] == pytest.approx(shares[-1] - shares[0])
    assert found["best"]["success"] == max(shares[1:])
    assert all(sample["right_after"] is None for sample in found["samples"])
    page = (tmp_path / "a" / "report.html").read_text()
    for text in (said.out + said.err, page):
        assert "accuracy" not in text.lower().replace("pairs/accuracy", "").replace("preference accuracy", "").replace(
            "accuracy on recorded", ""
        )
        assert "preference accuracy" in text.lower()


def test_pairs_with_answers_have_both(tmp_path: Path) -> None:
    said = call(
        "train", *TINY, "--recipe", "dpo", "--task", "graded-sums", "--runs", tmp_path, "--run", "a", "--steps=1"
    )
    assert said.code == 0, said.err
    told = rows(tmp_path / "a")[-1]
    assert {"eval/accuracy", "eval/pairs/accuracy", "eval/pairs/low", "eval/pairs/length_chosen"} <= set(told)
    assert summary(tmp_path / "a")["measure"] == "accuracy"
    assert "preference accuracy" in said.out + said.err
    shown = call("eval", "a", "--runs", tmp_path, "--n", "6", "--json")
    assert shown.json["recorded"]["pairs/accuracy"] == told["eval/pairs/accuracy"]
    assert [row[0] for row in shown.json["rows"]] == ["greedy accuracy", "preference accuracy"]


def test_the_loss_is_measured_where_demonstrations_have_no_answers(tmp_path: Path) -> None:
    made = [{"prompt": f"say {n}", "completion": f"{n}!"} for n in range(30)]
    said = call(
        *["train", *TINY, "--recipe", "sft", "--task", written(tmp_path / "d.jsonl", made)],
        *["--runs", tmp_path, "--run", "a", "--steps=3"],
    )
    assert said.code == 0, said.err
    losses = [row["eval/loss"] for row in rows(tmp_path / "a")]
    assert losses[-1] < losses[0]
    found = summary(tmp_path / "a")
    assert found["measure"] == "loss"
    assert found["best"]["success"] == min(losses[1:])  # Less is better.


def test_an_interrupted_run_measures_the_same(tmp_path: Path) -> None:
    train(
        tmp_path, "whole", "--recipe", "dpo", "--task", pairs(tmp_path), "--checkpoint.steps", "1", steps=3, tiny=TINY
    )
    shutil.copytree(tmp_path / "whole", tmp_path / "parts")
    for folder in (tmp_path / "parts" / "checkpoints").glob("step-*"):
        if int(folder.name[-6:]) > 1:
            shutil.rmtree(folder)
    said = call("train", "--resume", "parts", "--runs", tmp_path, "--quiet", "--start-over")
    assert said.code == 0, said.err
    assert_same(tmp_path / "whole", tmp_path / "parts")
    shown = call("eval", "parts", "--runs", tmp_path, "--n", "6", "--json").json
    last = rows(tmp_path / "whole")[-1]
    assert shown["recorded"]["pairs/margin"] == last["eval/pairs/margin"] != 0


def test_a_label_alone_in_evaluation_is_not_measured(tmp_path: Path) -> None:
    rows = [{"prompt": f"{n}", "completion": f"it is {n}", "label": n % 2 == 0, "split": "train"} for n in range(8)]
    parts = parts_of("kto", written(tmp_path / "l.jsonl", [*rows, {**rows[0], "prompt": "x", "split": "eval"}]))
    found = asyncio.run(measured(parts, (), n=50, key=Key.of(0)))
    assert math.isnan(found.success)
    assert found.recorded == {}
