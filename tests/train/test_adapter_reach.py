"""A run says what its adapters reach: in its first lines, as a warning where it is little, and in its summary."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).parent.parent / "engine"))
sys.path.insert(0, str(Path(__file__).parent.parent / "policies"))
import tiny_forms
import tiny_models

from hocket.core.keys import Key
from hocket.policies.causal_lm import CausalLM
from hocket.policies.lora import add_adapter
from hocket.policies.settings import LoraSettings
from hocket.train import adapters


def learner(frozen: bool = False, kind: str = "qwen3", **settings) -> SimpleNamespace:
    words = tiny_models.tokenizer()
    made = tiny_forms.model(kind) if "moe" in kind else tiny_models.model(kind, len(words))
    if settings:
        add_adapter(made, LoraSettings(**settings), Key.of(0))
    return SimpleNamespace(policy=CausalLM(made, words), frozen=frozen)


def test_each_reach_is_said_once() -> None:
    learners = {
        "a": learner(rank=2),
        "b": learner(rank=2),
        "c": learner(rank=3),
        "d": learner(),
        "e": learner(True, rank=2),
    }
    assert len(adapters.lines(learners)) == 2
    assert "embed_tokens" in adapters.lines(learners)[0]
    assert adapters.warnings(learners) == []
    assert sorted(adapters.summary(learners)) == ["a", "b", "c"]
    assert adapters.summary({"d": learner()}) == {}


def test_a_small_reach_and_a_slower_pass_are_warnings() -> None:
    small = adapters.warnings({"a": learner(rank=2, targets=("layers.0.self_attn.k_proj",))})
    assert len(small) == 1
    assert "--lora.targets" in small[0]
    slower = adapters.warnings({"a": learner(kind="qwen3_moe", rank=2, targets=("all-linear", "*experts*"))})
    assert len(slower) == 1
    assert "so the model takes the forward pass of transformers" in slower[0]
    assert adapters.warnings({"a": learner(rank=2, dora=True)}) == []
