"""Win rates: the fit against another minimiser, planted judges, and the command."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_runs import TINY, call, train

from hocket.apps.report.win_rate import RIDGE, length_controlled, standardised, win_rates
from hocket.core.keys import Key

JUDGES = r"""
import re

def longer(prompts):
    found = [re.search(r"\n\nA:\n(.*)\n\nB:\n(.*)\n\nWhich is better\?", one, re.S).groups() for one in prompts]
    return ["A" if len(a) > len(b) else "B" if len(b) > len(a) else "tie" for a, b in found]

def tied(prompts):
    return ["tie"] * len(prompts)

def first(prompts):
    return ["A"] * len(prompts)
"""


def drawn(seed: int, n: int, shift: float) -> tuple[np.ndarray, np.ndarray]:
    """Verdicts with ties, and length differences."""
    rng = np.random.default_rng(seed)
    longer = rng.normal(shift, 30, n).round()
    chance = 1 / (1 + np.exp(-(0.4 + 0.03 * longer)))
    won = (rng.random(n) < chance).astype(float)
    return np.where(rng.random(n) < 0.15, 0.5, won), longer


@pytest.mark.parametrize("seed", range(4))
def test_the_fit_is_the_minimum_that_another_minimiser_finds(seed: int) -> None:
    won, longer = drawn(seed, 60, 12)
    counts = np.random.default_rng(seed).integers(0, 4, (3, 60)).astype(float)
    x = np.tanh(longer / longer.std())
    for row, found in zip(counts, length_controlled(won, standardised(longer), counts), strict=True):
        ab = torch.zeros(2, dtype=torch.float64, requires_grad=True)
        optimiser = torch.optim.LBFGS([ab], max_iter=500, tolerance_grad=1e-13, tolerance_change=1e-16)

        def loss(row: np.ndarray = row, ab: torch.Tensor = ab) -> torch.Tensor:
            logits = ab[0] + ab[1] * torch.from_numpy(x)
            each = torch.nn.functional.binary_cross_entropy_with_logits(
                logits, torch.from_numpy(won), weight=torch.from_numpy(row), reduction="sum"
            )
            return each + RIDGE / 2 * ab[1] ** 2

        def closure(ab: torch.Tensor = ab, loss: object = loss) -> torch.Tensor:
            ab.grad = None
            value = loss()  # type: ignore[operator]
            value.backward()
            return value

        optimiser.step(closure)
        assert found == pytest.approx(float(torch.sigmoid(ab.detach()[0])), abs=1e-7)


def test_a_judge_of_length_alone_gives_nearly_a_half_once_length_is_controlled_for() -> None:
    longer = np.random.default_rng(1).normal(20, 25, 400).round()
    won = (np.sign(longer) + 1) / 2
    rate, controlled = win_rates(won.tolist(), longer.tolist(), Key.of(0))
    assert rate.value == won.mean() > 0.75
    assert controlled.value == pytest.approx(0.5, abs=0.06)
    assert controlled.low < 0.5 < controlled.high


def test_a_judge_without_regard_to_length_keeps_its_rate() -> None:
    rng = np.random.default_rng(2)
    longer, won = rng.normal(20, 25, 1000), (rng.random(1000) < 0.7).astype(float)
    rate, controlled = win_rates(won.tolist(), longer.tolist(), Key.of(0))
    assert controlled.value == pytest.approx(rate.value, abs=0.03)
    assert rate.high - rate.low == pytest.approx(2 * 1.96 * math.sqrt(0.7 * 0.3 / 1000), rel=0.1)


def test_what_length_cannot_be_told_from() -> None:
    alike = [1.0] * 20
    assert (
        win_rates(alike, [3.0, 5.0] * 10, Key.of(0))[1].value != win_rates(alike, [3.0, -5.0] * 10, Key.of(0))[1].value
    )
    assert math.isnan(win_rates(alike, [3.0, 5.0] * 10, Key.of(0))[1].value)
    assert win_rates(alike, [3.0, -5.0] * 10, Key.of(0))[1].value == 1
    same = win_rates([0.5] * 20, [0.0] * 20, Key.of(0))
    assert [(one.value, one.low, one.high) for one in same] == [(0.5, 0.5, 0.5)] * 2
    assert win_rates([1.0, 0.0, 1.0, 1.0], [2.0] * 4, Key.of(0)) == win_rates(
        [1.0, 0.0, 1.0, 1.0], [2.0] * 4, Key.of(0)
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("against")
    (folder / "judges.py").write_text(JUDGES)
    rows = [{"prompt": f"{n}+{n}=?", "chosen": f"{2 * n}", "rejected": f"no {n}"} for n in range(60)]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    train(folder, "sums", steps=1)
    tiny = [*TINY[:4], "--curriculum.prompts", "4", "--threads", "1", "--decoding.max_tokens", "10"]
    train(
        folder, "pairs", "--recipe", "dpo", "--task", folder / "pairs.jsonl", "--update.lr", "1e-3", steps=3, tiny=tiny
    )
    return folder


def test_the_command_compares(runs: Path) -> None:
    equal = call("eval", "sums", "--against", "sums", "--runs", runs, "--n", "6", "--json")
    assert equal.code == 0, equal.err
    assert equal.json["win_rate"] == equal.json["length_controlled"] == {"value": 0.5, "low": 0.5, "high": 0.5}
    assert (equal.json["ties"], equal.json["n"], equal.json["examples"]) == (6, 6, [])
    judge = f"{runs}/judges.py:longer"
    options = ["--runs", runs, "--judge", judge, "--n", "6", "--decoding.max_tokens", "10"]
    told = call("eval", "pairs", "--against", "nano", *options, "--json").json
    back = call("eval", "nano", "--against", "pairs", *options, "--json").json
    assert told["wins"] + told["ties"] + told["losses"] == told["n"] > 0
    assert (told["wins"], told["losses"]) == (back["losses"], back["wins"])
    assert told["win_rate"]["value"] == pytest.approx(1 - back["win_rate"]["value"])
    assert told["characters"]["source"] == back["characters"]["against"]
    shown = call("eval", "pairs", "--against", "nano", *options)
    assert "length controlled" in shown.out
    assert told["examples"][0]["prompt"].splitlines()[0] in shown.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["pairs", "--against", "nano", "--judge", "JUDGES:tied"], "pairs of different answers a tie"),
        (["pairs", "--against", "nano", "--judge", "JUDGES:first"], "goes by their order"),
        (["pairs", "--against", "nano"], "nothing tells which answers to .* are better; name a judge"),
        (["pairs", "--against", "nowhere"], "there is no run 'nowhere'"),
        (["pairs", "--against", "sums"], "name the task to compare them on by --task"),
        (["nano", "--against", "nano"], "name the task|the task to compare them on is missing"),
        (["sums", "--against", "nano", "--samples", "4"], "choose one"),
        (["sums", "--judge", "nano"], "--judge is for comparing answers"),
    ],
)
def test_what_cannot_be_compared_is_said_in_a_sentence(runs: Path, words: list[str], message: str) -> None:
    words = [word.replace("JUDGES", f"{runs}/judges.py") for word in words]
    said = call("eval", *words, "--runs", runs, "--n", "6")
    assert said.code == 2, said.err
    last = said.err.strip().splitlines()[-1]
    assert re.search(message, last), last
