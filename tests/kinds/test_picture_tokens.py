"""Generators of picture tokens, and duration heads, train, resume and are measured like all others."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tiny_runs import call, resume, rows, summary, train

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.generative.ar_grpo.codes import CODES, ORDERS, Layout, Order, patches, pixels
from hocket.methods.generative.ar_grpo.kind import TokenPlayer
from hocket.methods.generative.ar_grpo.policy import TokenPainter
from hocket.methods.generative.ar_grpo.pretraining import pretrain
from hocket.methods.generative.ar_grpo.task import DigitTokens, halves
from hocket.methods.generative.dmospeech_2.speech import drawn_utterance, lengths, spectra, utter
from hocket.types import Assignment, Decoding

SMALL = ["--evaluation.n", "4", "--evaluation.between", "4", "--threads", "1", "--curriculum.prompts", "2"]
SMALL += ["--rollout.samples", "4"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "recipe"),
    [("digit-tokens", "ar-grpo"), ("digit-tokens?order=scales", "var-grpo"), ("spoken-symbols", "dmospeech-2")],
)
def test_a_run_that_was_left_ends_with_the_same_bits(tmp_path: Path, task: str, recipe: str) -> None:
    words = ["--task", task, "--recipe", recipe, "--checkpoint.steps", "1"]
    train(tmp_path, "whole", *words, steps=2, tiny=SMALL)
    train(tmp_path, "parts", *words, steps=1, tiny=SMALL)
    resume(tmp_path, "parts", "--steps", "2")
    weights = [
        load_file(next((tmp_path / run / "checkpoints").glob("step-000002/policy/model.safetensors")))
        for run in ("whole", "parts")
    ]
    assert all(np.array_equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert rows(tmp_path / "whole")[2]["agreement/largest"] < 1e-5
    assert summary(tmp_path / "whole")["measure"] == "accuracy"
    measured = call("eval", tmp_path / "whole", "--n", "4", "--json")
    assert measured.code == 0, measured.err


@pytest.mark.parametrize("order", ORDERS)
def test_what_codes_made_is_read_back(order: Order) -> None:
    layout, draws = Layout(order), Key.of(0).torch()
    # Each scale's codes are far smaller than the coarser one's and have zero mean over every area of it.
    books = torch.randn(layout.books, CODES, 4, generator=draws) * 0.01 ** torch.arange(layout.books)[:, None, None]
    tokens = torch.randint(0, CODES, (3, layout.length), generator=draws)
    if order == "scales":
        tokens[:, 2:] = 0
        books[1:, 0] = 0.0
    assert torch.equal(layout.encode(layout.decode(tokens, books), books), tokens)
    assert sum(layout.blocks) == layout.length == len(layout.side) == len(layout.book)


def test_patches_are_squares_of_the_picture() -> None:
    picture = torch.arange(128.0).reshape(1, 8, 16)
    assert patches(picture)[0, 1, 2].tolist() == [36.0, 37.0, 52.0, 53.0]
    assert torch.equal(pixels(patches(picture)), picture)
    digits = halves(picture.reshape(1, -1).numpy() / 64.0 - 1.0)
    assert digits[0, 1, :3].tolist() == [1.0, 1.125, 1.25]


def test_training_and_evaluation_ask_for_different_pictures() -> None:
    task = DigitTokens()
    asked = {
        split: {tuple(task.scenario(split, number).metadata["labels"]) for number in range(200)}
        for split in ("train", "eval")
    }
    assert not asked["train"] & asked["eval"]
    assert task.scenario("train", 0).messages[-1]["content"].count(",") == 1


@pytest.mark.slow
def test_pretraining_writes_the_generator_that_it_makes(tmp_path: Path) -> None:
    first = pretrain("scales", tmp_path / "first.safetensors", 2)
    held = load_file(tmp_path / "first.safetensors")
    assert all(torch.equal(weight, held[name]) for name, weight in first.module.state_dict().items())
    assert len(torch.unique(held["books"][0], dim=0)) == CODES


def test_a_cut_off_distribution_is_refused() -> None:
    request = Assignment(DigitTokens("scales").scenario("train", 0), 1, decoding=Decoding(top_p=0.9))
    with pytest.raises(ConfigurationError, match="leave decoding"):
        asyncio.run(TokenPlayer(TokenPainter.shipped("policy", "scales")).play([request], key=Key.of(0)))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--task", "digit-tokens?order=spiral"], "order = 'spiral'; choose from raster, scales"),
        (["--task", "digit-tokens", "--recipe", "ppo"], "draws picture tokens, without value; use ar-grpo"),
        (["--task", "spoken-symbols", "--decoding.guidance", "2"], "decoding.guidance is for samplers"),
    ],
)
def test_what_does_not_fit_is_one_sentence(words: list[str], sentence: str, tmp_path: Path) -> None:
    output = call("train", "--runs", tmp_path, "--steps", "1", "--evaluation.n", "1", "--threads", "1", *words)
    assert output.code == 2, output.err
    assert sentence in " ".join(output.err.split())


def test_a_symbol_sounds_for_its_share_and_stops_when_out_of_breath() -> None:
    utterance = replace(drawn_utterance(Key.of(7).numpy()), text=(2, 5), colour=np.zeros(12), pace=1.0)
    natural = round(utterance.natural)
    label = (utter(utterance, natural, Key.of(8).numpy()) @ spectra().T).argmax(1)
    first = lengths()[2] / (lengths()[2] + lengths()[5]) * natural
    assert abs(int((label == 2).sum()) - first) < 2  # The frame at the border is of both.
    stretched = np.linalg.norm(utter(utterance, 3 * natural, Key.of(8).numpy()), axis=1) < 1.0
    assert 2 <= stretched.sum() <= 6  # Two frames of silence in each symbol, by a noisy measure.
    assert utter(utterance, 0, Key.of(8).numpy()).shape == (1, 12)
