"""tinker-cookbook's loops, unchanged, against a local server. They run in a process of their own, as a user's would."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from hocket.apps.serve.tinker.command import TinkerServer
from hocket.nano import BASE

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(find_spec("tinker_cookbook") is None, reason="needs the package tinker-cookbook"),
]

NAME = "meta-llama/Llama-3.2-1B"
"""A name for which the cookbook has a renderer of plain text."""

BEFORE = f"""
import asyncio, sys, datasets, transformers
from tinker_cookbook import tokenizer_utils
url, base, out = sys.argv[1:]
tokenizer_utils.register_tokenizer("{NAME}", lambda: transformers.AutoTokenizer.from_pretrained(base))

class Rows(list):  # Sums in the place of a set from the hub.
    def shuffle(self, seed=0): return self
    def select(self, places): return Rows([self[place] for place in places])
    def take(self, count): return Rows(list(self)[:count])
    def to_list(self): return list(self)
    def __getitem__(self, at): return [row[at] for row in self] if isinstance(at, str) else list.__getitem__(self, at)

def sums(count):
    pairs = [(7 * number % 50, 13 * number % 50) for number in range(count)]
    return Rows(dict(question=f"What is {{a}} + {{b}}?", answer=f"#### {{a + b}}", messages=[
        dict(role="user", content=f"What is {{a}} + {{b}}?"), dict(role="assistant", content=str(a + b))])
        for a, b in pairs)

def pairs(count):
    return Rows(dict(
        chosen=f"\\n\\nHuman: What is {{a}} + 3?\\n\\nAssistant: {{a + 3}}",
        rejected=f"\\n\\nHuman: What is {{a}} + 3?\\n\\nAssistant: I do not know") for a in range(count))

def load(name, *names, **settings):
    make = pairs if name == "Anthropic/hh-rlhf" else sums
    return datasets.DatasetDict(train=make(64), test=make(8))

datasets.load_dataset = load
"""

LOOPS = {
    "sl_loop": f"""
from tinker_cookbook.recipes import sl_loop
sl_loop.main(sl_loop.Config(base_url=url, model_name="{NAME}", log_path=out, batch_size=16, max_steps=3, lora_rank=8,
                            save_every=1, learning_rate=1e-3))
""",
    "rl_loop": f"""
from tinker_cookbook.recipes import rl_loop
rl_loop.main(rl_loop.Config(base_url=url, model_name="{NAME}", log_path=out, batch_size=4, group_size=4, max_steps=2,
                            lora_rank=8, save_every=1, max_tokens=24, loss_fn="importance_sampling"))
""",
    "math_rl": f"""
from tinker_cookbook.recipes.math_rl import train
asyncio.run(train.cli_main(train.CLIConfig(
    base_url=url, model_name="{NAME}", renderer_name="role_colon", log_path=out, groups_per_batch=8, group_size=4,
    max_steps=2, lora_rank=8, loss_fn="importance_sampling", learning_rate=1e-3, eval_every=0, save_every=1)))
""",
}

LOOPS["dpo"] = f"""
from tinker_cookbook.recipes.preference.dpo import train
train.cli_main(train.CLIConfig(
    base_url=url, model_name="{NAME}", renderer_name="role_colon", log_path=out, batch_size=8, max_steps=3,
    learning_rate=1e-3, lr_schedule="constant"))
"""

GUESS = f"""
from tinker_cookbook.recipes.multiplayer_rl.guess_number import train
from tinker_cookbook.rl import train as rl
asyncio.run(rl.main(train.build_config(train.CLIConfig(
    model_name="{NAME}", renderer_name="role_colon", log_path=out, group_size=2, batch_size=1, max_tokens=8,
    max_steps=1, eval_every=0, save_every=1))))
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TinkerServer]:
    with TinkerServer(str(BASE), NAME, tmp_path_factory.mktemp("tinker")) as found:
        yield found


def run(code: str, server: TinkerServer, base: str, out: Path) -> list[dict[str, float]]:
    environment = os.environ | {
        "TINKER_BASE_URL": server.address,
        "TINKER_API_KEY": "tml-local",
        "TINKER_TELEMETRY": "0",
        "HF_HUB_OFFLINE": "1",
    }
    command = [sys.executable, "-c", BEFORE + code, server.address, base, str(out)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1100, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    (file,) = out.rglob("metrics.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.mark.parametrize("loop", LOOPS)
def test_a_loop_runs_unchanged(loop: str, server: TinkerServer, tmp_path: Path) -> None:
    metrics = run(LOOPS[loop], server, str(BASE), tmp_path / "out")
    assert len(metrics) >= 2
    if loop == "sl_loop":
        losses = [line["train_mean_nll"] for line in metrics]
        assert losses == sorted(losses, reverse=True)
    if loop == "dpo":
        assert metrics[-1]["dpo_loss"] < metrics[0]["dpo_loss"]
    if loop == "math_rl":  # What the sampler said of its tokens is what the first pass finds.
        assert abs(metrics[0]["optim/kl_sample_train_v1"]) < 1e-6


def test_a_game_between_two_runs_unchanged(tmp_path: Path) -> None:
    base = shutil.copytree(BASE, tmp_path / "base")  # The game's prompts have more letters than nano's context.
    config = json.loads((base / "config.json").read_text())
    (base / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 16384}))
    with TinkerServer(str(base), NAME, tmp_path / "checkpoints") as server:
        assert run(GUESS, server, str(base), tmp_path / "out")
