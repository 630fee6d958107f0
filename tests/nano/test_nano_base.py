"""The shipped base and the pretraining that makes such bases."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast, Qwen3ForCausalLM

from hocket.nano import BASE
from hocket.nano.corpus import chats, render
from hocket.nano.measure import accuracy, ask, complete, interval, prompt_ids, style_shares, team, tool_use
from hocket.nano.model import nano_config, new_model
from hocket.nano.pretrain import Pretraining, loss_of, pack, pretrain
from hocket.nano.tokenizer import build_tokenizer
from hocket.tasks.arithmetic import problems

Base: TypeAlias = tuple[Qwen3ForCausalLM, PreTrainedTokenizerFast]

TINY = Pretraining(rows=2, max_steps=2, measure_every=1, measure_problems=2, card_problems=0)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def base() -> Base:
    """The shipped model and its tokenizer."""
    return AutoModelForCausalLM.from_pretrained(BASE).eval(), AutoTokenizer.from_pretrained(BASE)


def test_importing_the_package_loads_neither_torch_nor_transformers() -> None:
    code = "import sys, hocket.nano; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "transformers"} & set(loaded)


def test_base_is_weak_with_answers_at_once_and_strong_with_working(base: Base) -> None:
    model, tokenizer = base
    asked = list(itertools.islice(problems("eval", 0), 200))
    questions = [problem.question for problem in asked]
    greedy = accuracy(ask(model, tokenizer, questions), asked)["value"]
    worked = accuracy(ask(model, tokenizer, questions, forced="<think>"), asked)["value"]
    assert 0.20 <= greedy <= 0.45
    assert worked >= greedy + 0.3


def test_samples_of_the_base_mix_styles(base: Base) -> None:
    model, tokenizer = base
    questions = [problem.question for problem in itertools.islice(problems("eval", 1), 200)]
    texts = ask(model, tokenizer, questions, generator=torch.Generator().manual_seed(0))
    assert 0.25 <= style_shares(texts)["worked"] <= 0.55
    assert all(share > 0.0 for share in style_shares(texts).values())


def test_base_knows_tools_and_teams(base: Base) -> None:
    model, tokenizer = base
    figures = tool_use(model, tokenizer, "eval", 100, 3) | team(model, tokenizer, "eval", 100, 3)
    for name in ("tool calls well-formed", "plans well-formed", "worker answers well-formed"):
        assert figures[name]["value"] >= 0.95, name


def test_base_matches_its_tokenizer_and_is_small(base: Base) -> None:
    model, tokenizer = base
    assert tokenizer.get_vocab() == build_tokenizer().get_vocab()
    assert tokenizer.chat_template == build_tokenizer().chat_template
    assert model.config.vocab_size == len(tokenizer)
    assert model.config.max_position_embeddings >= 1024
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id
    assert all(parameter.dtype == torch.float32 for parameter in model.parameters())
    assert sum(file.stat().st_size for file in BASE.iterdir()) < 6e6


def test_completions_do_not_depend_on_their_batch_and_match_generate(base: Base) -> None:
    model, tokenizer = base
    prompts = [
        prompt_ids(tokenizer, [{"role": "user", "content": problem.question}])
        for problem in itertools.islice(problems("eval", 2), 12)
    ]
    together = complete(model, prompts)
    for prompt, completion in zip(prompts, together, strict=True):
        assert complete(model, [prompt]) == [completion]
        ids = torch.tensor([prompt])
        made = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=128)
        assert made[0, len(prompt) :].tolist() == completion


def test_packing_changes_no_loss() -> None:
    """The packed loss is the mean over the trained tokens of each chat alone."""
    tokenizer = build_tokenizer()
    model = new_model(nano_config(tokenizer), torch.Generator().manual_seed(1))
    config = Pretraining(rows=3)
    sequences = render(itertools.islice(chats(0), 6), tokenizer)
    together = pack(iter(sequences), config, tokenizer)
    assert int((together.chat >= 0).sum()) == sum(map(len, sequences))
    total, count = 0.0, 0
    for ids in sequences:
        alone = pack(iter([ids]), Pretraining(rows=1), tokenizer)
        trained = int((alone.targets != -100).sum())
        total, count = total + loss_of(model, alone, "fp32").item() * trained, count + trained
    assert loss_of(model, together, "fp32").item() == pytest.approx(total / count, rel=1e-5)


@pytest.mark.slow
def test_pretraining_is_repeatable_and_complete(tmp_path: Path) -> None:
    seen: list[dict[str, object]] = []
    first = pretrain(TINY, tmp_path / "a", progress=seen.append)
    second = pretrain(TINY, tmp_path / "b")
    weights = (tmp_path / "a/model.safetensors").read_bytes()
    assert weights == (tmp_path / "b/model.safetensors").read_bytes()
    assert [entry["step"] for entry in seen] == [2]
    assert first["step"] == second["step"]
    names = {file.name for file in (tmp_path / "a").iterdir()}
    assert {"config.json", "generation_config.json", "tokenizer.json", "chat_template.jinja", "README.md"} <= names
    assert json.loads((tmp_path / "a/pretraining.json").read_text())["settings"]["seed"] == 0
    assert "hocket pretrain --seed 0" in (tmp_path / "a/README.md").read_text()
    # Another seed gives other weights, and replaces the folder that was there.
    pretrain(replace(TINY, seed=1), tmp_path / "a")
    assert (tmp_path / "a/model.safetensors").read_bytes() != weights
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_interval_is_wilsons() -> None:
    low, high = interval(8, 10)
    assert low == pytest.approx(0.4902, abs=1e-3)
    assert high == pytest.approx(0.9433, abs=1e-3)
    assert interval(0, 50)[0] == 0.0
    assert interval(50, 50)[1] == pytest.approx(1.0)
