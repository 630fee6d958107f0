"""Stages that changed nothing are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tiny_runs import rows, train

from hocket.apps.report.diagnosis import diagnose
from hocket.lab.microscope import RecordedBatch
from hocket.recipe import Recipe
from hocket.recipes import find, parent_of
from hocket.train.idle import idle_stages


def recorded(**more: Any) -> list[dict[str, Any]]:
    """Four answers to one question, two of them right, of different lengths."""
    return [
        {"group": "g", "scores": {"reward": float(n % 2)}, "logp": [-1.0] * (n + 1), "text": "a", "label": "a", **more}
        for n in range(4)
    ]


def idle(recipe: Recipe, rows: list[dict[str, Any]]) -> list[str]:
    batch = RecordedBatch({"version": 1, "trajectories": rows}).batch
    return idle_stages(recipe, parent_of(recipe), list(recipe.credit_steps(batch, dict(recipe.init()), {})))


@pytest.mark.parametrize(
    ("recipe", "more", "wanted"),
    [
        ("e-grpo", {}, ["EntityMatch"]),
        ("e-grpo", {"info": {"entities": ["a"]}}, []),
        ("otc", {"info": {"tool_calls": 0}}, ["ToolEfficiency"]),
        ("dapo", {}, ["OverlongPenalty"]),
        ("grpo", {}, []),
        ("dr-grpo", {}, []),
    ],
)
def test_shapings_without_effect_are_named(recipe: str, more: dict[str, Any], wanted: list[str]) -> None:
    assert idle(find(recipe), recorded(**more)) == wanted


def test_a_credit_that_gives_what_its_origin_gives_is_named() -> None:
    # States that are all different: turn by turn there is nothing to compare.
    apart = [{**row, "turn": [0] * len(row["logp"]), "state": [str(n)]} for n, row in enumerate(recorded())]
    assert idle(find("gigpo"), apart) == ["EpisodeAndTurn"]
    alike = [{**row, "state": ["same"]} for row in apart]
    assert idle(find("gigpo"), alike) == []


def test_a_recipe_that_a_run_has_changed_is_held_against_its_parent() -> None:
    apart = [{**row, "turn": [0] * len(row["logp"]), "state": [str(n)]} for n, row in enumerate(recorded())]
    assert idle(find("gigpo").but({"objective.horizon": 96}), apart) == ["EpisodeAndTurn"]


def test_a_shaping_that_cuts_segments_is_not_idle() -> None:
    told = [{**row, "entropy": [1.0] * len(row["logp"])} for row in recorded()]
    cut = [{**row, "info": {"pieces": ["a</think>", "b", "c", "d"][: len(row["logp"])]}} for row in told]
    assert idle(find("fc-entropy-grpo"), cut) == []
    whole = [{**row, "info": {"pieces": ["a"] * len(row["logp"])}} for row in told]
    assert idle(find("fc-entropy-grpo").but({"credit": find("grpo").credit}), whole) == ["SegmentsByText"]


def test_nothing_is_said_without_signal() -> None:
    assert idle(find("dapo"), [{**row, "scores": {"reward": 1.0}} for row in recorded()]) == []


def test_a_run_says_what_had_no_effect(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "def length(completions, **_):\n    return [float(len(one)) for one in completions]\n"
    )
    train(tmp_path, "one", "--recipe", "e-grpo", "--reward", f"{tmp_path}/mine.py:length", steps=2)
    found = rows(tmp_path / "one")
    assert [row["idle/EntityMatch"] for row in found[1:]] == [1.0, 1.0]
    assert all("reward/shaped" in row for row in found[1:])
    assert any(sentence.startswith("EntityMatch changed nothing") for sentence in diagnose(found))
