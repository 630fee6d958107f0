"""`hocket deepen`: what it writes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from hocket.apps.cli.parser import main
from hocket.methods.surveys.apriel_1_5_15b_thinker.method import deepened_config

BLOCK = {"self_attn.o_proj.weight": 1.0, "mlp.down_proj.weight": 2.0, "mlp.up_proj.weight": 3.0}


def _model(folder: Path, blocks: int = 2, parts: dict[str, float] = BLOCK) -> Path:
    """A folder with weights in two files, as large models are stored."""
    folder.mkdir()
    config = {"model_type": "qwen3", "num_hidden_layers": blocks, "layer_types": [f"kind {n}" for n in range(blocks)]}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text("{}")
    (folder / "model.safetensors.index.json").write_text("{}")
    for block in range(blocks):
        state = {f"model.layers.{block}.{part}": torch.full((2,), value + 10 * block) for part, value in parts.items()}
        save_file({f"model.norm{block}.weight": torch.ones(1), **state}, folder / f"model-{block}.safetensors")
    return folder


def test_a_model_in_several_files_is_written_as_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, folder = _model(tmp_path / "small"), tmp_path / "deep"
    assert main(["deepen", str(source), str(folder), "--layers", "3", "--json"]) == 0
    counts = json.loads(capsys.readouterr().out)
    assert (counts["layers"], counts["weights_before"], counts["weights"]) == (3, 14, 20)
    assert sorted(file.name for file in folder.iterdir()) == ["config.json", "model.safetensors", "tokenizer.json"]
    config = json.loads((folder / "config.json").read_text())
    assert config["num_hidden_layers"] == 3
    assert config["layer_types"] == ["kind 0", "kind 1", "kind 1"]
    state = load_file(folder / "model.safetensors")
    firsts = [[float(state[f"model.layers.{block}.{part}"][0]) for part in BLOCK] for block in range(3)]
    assert firsts == [[1, 2, 3], [11, 12, 13], [0, 0, 13]]
    assert "model.norm1.weight" in state


def test_only_lists_of_layers_grow() -> None:
    config = {"num_hidden_layers": 2, "mlp_layer_types": ["a", "b"], "eos_token_id": [1, 2], "layer_norm": [1]}
    deeper = {"num_hidden_layers": 3, "mlp_layer_types": ["a", "a", "b"], "eos_token_id": [1, 2], "layer_norm": [1]}
    assert deepened_config(config, [0]) == deeper


@pytest.mark.parametrize(
    ("layers", "parts", "message"),
    [
        (2, BLOCK, "--layers 2: the model has 2 layers"),
        (5, BLOCK, "choose 3 to 4"),
        (3, {"attn.c_proj.weight": 1.0}, "have no down_proj and no o_proj"),
        (3, {"self_attn.o_proj.weight": 1.0}, "have no down_proj, so"),
    ],
)
def test_what_cannot_be_deepened_is_refused(
    layers: int, parts: dict[str, float], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = _model(tmp_path / "small", parts=parts)
    assert main(["deepen", str(source), str(tmp_path / "deep"), "--layers", str(layers)]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "deep").exists()


def test_no_model_and_a_full_folder_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["deepen", str(tmp_path / "none"), str(tmp_path / "deep"), "--layers", "3"]) == 2
    assert "has no config.json" in capsys.readouterr().err
    source = _model(tmp_path / "small")
    assert main(["deepen", str(source), str(source), "--layers", "3"]) == 2
    assert "is not empty" in capsys.readouterr().err
