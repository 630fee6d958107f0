"""The microscope's contract: lists in the input's order, numbers that do not depend on it, clear refusals."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from unrecorded import recordable

from hocket.apps.cli.parser import main
from hocket.core.annotators import Annotator
from hocket.core.errors import ConfigurationError, HocketError
from hocket.lab.microscope import inspect, relation
from hocket.recipes import all_recipes, find


def document(seed: int = 0, *, groups: int = 3, samples: int = 4) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    rows = []
    for group in range(groups):
        for sample in range(samples):
            size = int(rng.integers(1, 6))
            column = lambda low, high, n=size: rng.uniform(low, high, n).tolist()  # noqa: E731
            rows.append(
                {
                    "id": f"{group}-{sample}",
                    "group": f"g{group}",
                    "scores": {"correct": float(rng.integers(0, 2))},
                    "logp": column(-3, -0.1),
                    "logp_behaviour": column(-3, -0.1),
                    "logp_ref": column(-3, -0.1),
                    "entropy": column(0, 2),
                    "value": column(-1, 1),
                    "source": "baseline" if sample == 0 else "own",
                    "text": f"<answer>{sample}</answer>",
                    "label": str(sample % 3),
                    "embedding": [1.0, float(sample), 2.0],
                    "info": {
                        "pieces": ["two "] * size,
                        "exit": sample,
                        "beliefs": [0.5],
                        "metadata": {"budget": 3, "group": "a"},
                    },
                }
            )
    return {"version": 1, "trajectories": rows}


SECOND = {
    "safe-rlhf-v": "cost",
    "rluf": "love",
    "mpo-mixed": "preference",
    "mobile-r1-steps": "right",
    "mobile-r1": "finished",
}
"""Recipes that read a second score, and its name."""

RECORDABLE = sorted(
    name
    for name, recipe in all_recipes().items()
    if recordable(name, recipe) and not any(isinstance(one, Annotator) for one in recipe.reads)
)


@pytest.mark.parametrize("name", RECORDABLE)
def test_every_recipe_answers_in_the_inputs_order_and_whatever_that_order_is(name: str) -> None:
    plain = document()
    for row in plain["trajectories"] if name in SECOND else ():
        row["scores"] = {"reward": row["scores"]["correct"], SECOND[name]: 0.5}
    backwards = {**plain, "trajectories": plain["trajectories"][::-1]}
    found, mirrored = inspect(find(name), plain), inspect(find(name), backwards)
    assert found["loss"] == pytest.approx(mirrored["loss"], rel=1e-9, abs=1e-12)
    for field in ("advantages", "gradient", "weight"):
        assert [len(row) for row in found[field]] == [len(row["logp"]) for row in plain["trajectories"]]
        for row, other in zip(found[field], mirrored[field][::-1], strict=True):
            assert row == pytest.approx(other, rel=1e-7, abs=1e-12)
    assert found["kept"] == [any(weight != 0 for weight in row) for row in found["weight"]]


def test_a_reward_model_by_hand() -> None:
    scores = {"good": [0.3, 1.0], "bad": [0.1, 0.5]}
    rows = [
        {"group": "a", "scores": {"r": float(name == "good")}, "logp": [0.0, 0.0], "score": given}
        for name, given in scores.items()
    ]
    found = inspect(find("reward-model"), {"version": 1, "trajectories": rows})
    assert found["loss"] == pytest.approx(math.log1p(math.exp(-0.5)))
    slope = 1 / (1 + math.exp(0.5))
    assert found["gradient_score"] == [pytest.approx([0.0, -slope]), pytest.approx([0.0, slope])]
    with pytest.raises(HocketError, match="learns a scorer and needs score"):
        inspect(find("reward-model"), {"version": 1, "trajectories": [{**row, "score": None} for row in rows]})


def test_grpo_by_hand() -> None:
    rows = [
        {"group": "a", "scores": {"r": reward}, "logp": [-1.0, -2.0]} for reward in (1.0, 0.0, 0.0, 1.0)
    ]  # fmt: skip
    found = inspect(find("grpo"), {"version": 1, "trajectories": rows})
    deviation = np.std([1, 0, 0, 1], ddof=1)
    for row, gradient, reward in zip(found["advantages"], found["gradient"], (1, 0, 0, 1), strict=True):
        expected = (reward - 0.5) / (deviation + 1e-6)
        assert row == pytest.approx([expected] * 2, abs=1e-12)
        assert gradient == pytest.approx([-expected / 8] * 2, abs=1e-12)  # A mean over 4 sequences of 2 tokens each.


def test_a_shared_prefix_is_one_decision_credited_twice() -> None:
    rows = [
        {"id": "x", "group": "a", "scores": {"r": 1.0}, "logp": [-1.0, -2.0]},
        {"id": "y", "group": "a", "scores": {"r": 0.0}, "logp": [-1.0, -0.5], "parent": {"id": "x", "length": 1}},
    ]
    found = inspect(find("grpo"), {"version": 1, "trajectories": rows})
    assert found["advantages"][0][0] == -found["advantages"][1][0]
    assert found["gradient"][0][0] == pytest.approx(0.0)  # The two opposite credits of the shared decision cancel.
    assert found["gradient"][0][1] == pytest.approx(-found["gradient"][1][1])


def test_recipes_are_told_equal_proportional_or_different() -> None:
    batch = document()
    for row in batch["trajectories"]:
        row["source"] = "own"
        row["logp_behaviour"] = row["logp"]
    grpo = inspect(find("grpo"), batch)
    assert relation(grpo, inspect(find("grpo"), batch)) == "equal"
    assert relation(grpo, inspect(find("dr-grpo"), batch)) == "different"
    rloo = inspect(find("rloo"), batch)
    centred = inspect(find("rloo").but(name="mean", **{"credit.leave_one_out": False}), batch)
    assert relation(centred, rloo) == "proportional (x 1.333)"  # G/(G-1) with groups of four.


def test_a_missing_field_is_named() -> None:
    batch = document()
    for row in batch["trajectories"]:
        del row["logp_ref"], row["value"]
    with pytest.raises(HocketError, match="logp_ref"):
        inspect(find("grpo-kl"), batch)
    with pytest.raises(HocketError, match="value"):
        inspect(find("ppo"), batch)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 2}, "version"),
        ({"trajectories": []}, "no trajectories"),
        ({"trajectories": [{"group": "a", "scores": {}}]}, "logp"),
        ({"trajectories": [{"group": "a", "scores": {}, "logp": [], "lgp": 1}]}, "lgp"),
        ({"trajectories": [{"group": "a", "scores": {}, "logp": [0.0], "turn": [0, 1]}]}, "turn"),
    ],
)
def test_bad_batches_are_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        inspect(find("grpo"), {**document(), **change})


def test_the_command_prints_one_json_list_and_reports_what_cannot_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    batch = document()
    for row in batch["trajectories"]:
        del row["value"]
    file = tmp_path / "batch.json"
    file.write_text(json.dumps(batch))
    flags = ["microscope", "--batch", str(file), "--recipe", "grpo", "--recipe", "ppo", "--json"]
    assert main([*flags, "--set", "credit.scale=null"]) == 0
    grpo, ppo = json.loads(capsys.readouterr().out)
    assert set(ppo) == {"recipe", "error"}
    assert set(grpo) >= {"recipe", "loss", "advantages", "gradient", "weight", "kept", "metrics"}
    rewards = [row["scores"]["correct"] for row in batch["trajectories"][1:4]]
    assert grpo["advantages"][1][0] == pytest.approx(rewards[0] - sum(rewards) / 3)
    assert main(["microscope", "--batch", str(file), "--recipe", "ppo", "--json"]) == 2
