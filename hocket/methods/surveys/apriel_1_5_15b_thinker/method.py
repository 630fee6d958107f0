"""Apriel-1.5-15b-Thinker: depth upscaling, staged data and supervised tuning in place of RL (arXiv:2510.01141).

A report on a reasoning model that is made without RL and without preferences: a deeper network that begins with
repeated layers of a smaller one, pretraining goes on in two stages, then answers with reasoning are imitated. An RL
result on such a model has this as the baseline that it must beat at equal compute.

`deepened` is the first step for a checkpoint: after chosen blocks it puts copies of them. A copy's output projections
are zero, so that it adds nothing to the residual stream and the model computes what it did, to the last bit; the copy
learns from there. `hocket deepen MODEL FOLDER --layers N` writes such a model. The report copies middle layers and goes
on with pretraining; that the copies begin at zero is the choice here.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hocket.core.errors import ConfigurationError
from hocket.core.surveys import Axis, Cell, FieldSurvey, Gap, is_a, mentions, row, rows

_BLOCK = re.compile(r"(.*?\.layers)\.(\d+)\.(.+)")
OUTPUTS = ("o_proj", "down_proj")
"""Projections with which a block's attention and feed-forward write to the residual stream."""


def copied_blocks(blocks: int, layers: int) -> list[int]:
    """The blocks to be copied so that there are `layers`: evenly spread, from the middle outwards.

    Raises:
        ConfigurationError: unless `blocks < layers <= 2 * blocks`.
    """
    if not blocks < layers <= 2 * blocks:
        raise ConfigurationError(
            f"--layers {layers}: the model has {blocks} layers, of which each is copied once at most; choose "
            f"{blocks + 1} to {2 * blocks}"
        )
    extra = layers - blocks
    return [(2 * number + 1) * blocks // (2 * extra) for number in range(extra)]


def deepened(state: Mapping[str, Tensor], copied: Sequence[int], *, zeroed: bool = True) -> dict[str, Tensor]:
    """The weights of a model with a copy after each of the blocks `copied`.

    Args:
        zeroed: whether the copies' output projections are 0; else they are copied as well.

    Raises:
        ConfigurationError: when a block has other output projections than `OUTPUTS`.
    """
    matches = {name: _BLOCK.fullmatch(name) for name in state}
    lacking = {(match[1], int(match[2])): set(OUTPUTS) for match in matches.values() if match}
    deeper = dict[str, Tensor]()
    for name, weight in state.items():
        match = matches[name]
        if match is None:
            deeper[name] = weight
            continue
        block, part = int(match[2]), match[3]
        place = block + sum(number < block for number in copied)
        deeper[f"{match[1]}.{place}.{part}"] = weight
        output = next((projection for projection in OUTPUTS if projection in part.split(".")), None)
        lacking[match[1], block].discard(output or "")
        if block in copied:
            copy = torch.zeros_like(weight) if zeroed and output else weight.clone()
            deeper[f"{match[1]}.{place + 1}.{part}"] = copy
    strange = sorted({projection for lack in lacking.values() for projection in lack})
    if strange or not lacking:
        raise ConfigurationError(
            f"the model's blocks have no {' and no '.join(strange or OUTPUTS)}, so it is not known which projections "
            "of a copy are to be 0; choose a model with the layers of Llama, Qwen or Mistral"
        )
    return deeper


def deepened_config(config: Mapping[str, Any], copied: Sequence[int]) -> dict[str, Any]:
    """The `config.json` that belongs to `deepened` weights; lists with an entry a layer grow likewise."""
    blocks = int(config["num_hidden_layers"])
    order = [block for number in range(blocks) for block in [number] * (1 + (number in copied))]
    lists = {
        name: [value[block] for block in order]
        for name, value in config.items()
        if isinstance(value, list) and len(value) == blocks and "layer" in name
    }
    return {**config, **lists, "num_hidden_layers": len(order)}


def write_deepened(source: Path, folder: Path, layers: int) -> tuple[int, int]:
    """Writes the model of the folder `source` with so many layers; returns its weights before and afterwards.

    Raises:
        ConfigurationError: when there is no such model, it cannot be deepened so, or `folder` is not empty.
    """
    from safetensors.torch import load_file, save_file

    config_file, files = source / "config.json", sorted(source.glob("*.safetensors"))
    if not config_file.is_file() or not files:
        raise ConfigurationError(
            f"{source} has no config.json with *.safetensors; name a folder with a model, a run, or nano"
        )
    if folder.exists() and any(folder.iterdir()):
        raise ConfigurationError(f"{folder} is not empty; choose another folder")
    config = json.loads(config_file.read_text(encoding="utf-8"))
    if "num_hidden_layers" not in config:
        raise ConfigurationError(f"{config_file} states no num_hidden_layers; choose a model of language alone")
    copied = copied_blocks(int(config["num_hidden_layers"]), layers)
    state: dict[str, Tensor] = {}
    for file in files:
        state |= load_file(file)
    deeper = deepened(state, copied)
    folder.mkdir(parents=True, exist_ok=True)
    for file in source.iterdir():
        if file.is_file() and file.suffix != ".safetensors" and not file.name.endswith(".safetensors.index.json"):
            shutil.copy(file, folder / file.name)
    plain = json.dumps(deepened_config(config, copied), indent=2, sort_keys=True)
    (folder / "config.json").write_text(plain + "\n", encoding="utf-8")
    save_file(deeper, folder / "model.safetensors", metadata={"format": "pt"})
    return sum(map(Tensor.numel, state.values())), sum(map(Tensor.numel, deeper.values()))


APRIEL_1_5_15B_THINKER = FieldSurvey(
    name="apriel-1-5-15b-thinker",
    title="Apriel-1.5-15b-Thinker",
    source="arXiv:2510.01141",
    witness="`hocket deepen` gives a model of more layers and the same function, to the last bit; from it supervised "
    "tuning and GRPO are compared at equal compute",
    axes=(
        Axis(
            "stage",
            "What it is made by.",
            (
                Cell(
                    "depth-upscaling",
                    "a deeper network from repeated layers",
                    Gap("a command, `hocket deepen`, and no recipe", until=mentions("depth upscaling")),
                ),
                Cell(
                    "continued-pretraining",
                    "text and pictures first, then drawn visual reasoning",
                    Gap("the shipped models' pretraining is no recipe", until=mentions("continued pretraining")),
                ),
                Cell(
                    "staged-data",
                    "data that change by stages",
                    rows("curr-reft", "uav-vl-r1"),
                ),
                Cell("supervised", "answers with their reasoning are imitated", is_a("sft")),
            ),
        ),
        Axis(
            "baseline",
            "What an RL result must beat at equal compute, by the data that there are.",
            (
                Cell("answers", "recorded answers", is_a("sft")),
                Cell("own-answers", "the model's own right answers", row("curr-reft") & is_a("sft")),
                Cell("teacher", "a stronger model", is_a("gkd") | is_a("on-policy-distillation") | is_a("kd-sft")),
                Cell("play", "recorded play of controllers", is_a("bc")),
            ),
        ),
        Axis(
            "left-out",
            "What it does without.",
            (
                Cell("rl", "rewards", is_a("grpo") | is_a("ppo")),
                Cell("preferences", "comparisons", is_a("dpo")),
            ),
        ),
    ),
    named=(Cell("SFT", "likelihood of recorded answers", is_a("sft")),),
)
