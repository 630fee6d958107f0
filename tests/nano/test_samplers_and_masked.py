"""The shipped sampler of pictures and masked language model, and how they are made."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from hocket.core.keys import Key
from hocket.nano import SHIPPED
from hocket.nano.flow import FlowPretraining, pretrain_flow
from hocket.nano.mdlm import LENGTH, MaskedPretraining, masked_tokenizer, pairs_of, pretrain_masked
from hocket.policies.denoising.denoiser import Denoiser
from hocket.policies.masked_lm import MaskedLM
from hocket.tasks.split import split_of


@pytest.mark.parametrize("name", ["nano-flow", "nano-mdlm"])
def test_what_is_shipped_is_small_and_made_in_minutes(name: str) -> None:
    made = json.loads((SHIPPED[name] / "pretraining.json").read_text())
    assert made["parameters"] <= 1_000_000
    assert made["seconds"] <= 600
    assert sum(file.stat().st_size for file in SHIPPED[name].iterdir()) < 2_500_000
    policy = Denoiser.from_folder(SHIPPED[name]) if name == "nano-flow" else MaskedLM.from_folder(SHIPPED[name])
    assert sum(weight.numel() for weight in policy.module.parameters()) == made["parameters"]
    defaults = FlowPretraining() if name == "nano-flow" else MaskedPretraining()
    assert made["settings"] == vars(defaults)


def test_pretraining_writes_what_policies_read(tmp_path: Path) -> None:
    made = pretrain_flow(FlowPretraining(updates=2, batch=4, width=16, heads=2, layers=1), tmp_path / "flow")
    assert made["updates"] == 2
    assert Denoiser.from_folder(tmp_path / "flow").shape.unprompted


@pytest.mark.slow
def test_masked_pretraining_writes_what_policies_read(tmp_path: Path) -> None:
    masked = MaskedPretraining(updates=1, batch=4, width=8, heads=2, layers=1)
    assert 0.0 <= pretrain_masked(masked, tmp_path)["accuracy"] <= 1.0
    assert MaskedLM.from_folder(tmp_path).length == LENGTH


@pytest.mark.slow
def test_lessons_are_of_the_pretraining_part() -> None:
    tokenizer = masked_tokenizer()
    sets = []
    for held_out in (False, True):
        some = itertools.islice(pairs_of(Key.of(1).numpy(), tokenizer, held_out=held_out), 60)
        questions = {tokenizer.decode(prompt).removeprefix("<|user|>").partition("<|end|>")[0] for prompt, _ in some}
        assert all(split_of(question) == "pretrain" for question in questions)
        sets.append(questions)
    assert not sets[0] & sets[1]
