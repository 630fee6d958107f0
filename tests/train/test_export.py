"""A run's policy where other programs read it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_runs import call, train

from hocket.core.errors import ConfigurationError
from hocket.train.export import base_of, export_run, push
from hocket.train.gguf_file import write_gguf


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with an adapter."""
    runs = tmp_path_factory.mktemp("runs")
    train(runs, "r", "--lora.rank", "2", "--update.lr", "0.05", "--recipe", "sft", steps=2, tiny=TINY)
    return runs / "r"


TINY = ["--evaluation.n", "4", "--curriculum.prompts", "2", "--threads", "1", "--decoding.max_tokens", "8"]


def logits(folder: Path, **more: Any) -> torch.Tensor:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32, **more)
    with torch.no_grad():
        found: torch.Tensor = model(torch.arange(3, 40)[None]).logits
    return found


@pytest.mark.global_rng
def test_merged_and_alone(run: Path, tmp_path: Path) -> None:
    from peft import AutoPeftModelForCausalLM, PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from hocket.nano import BASE

    said = call("export", run, "--merge", "--out", tmp_path / "merged", "--json")
    assert said.code == 0, said.err
    assert said.json["kind"] == "merged model"
    assert "model.safetensors" in said.json["files"]
    assert not any("adapter" in name for name in said.json["files"])
    alone = export_run(run, tmp_path / "alone")
    assert alone.kind == "adapter"
    files = {"adapter_config.json", "adapter_model.safetensors", "chat_template.jinja", "tokenizer.json"}
    assert set(alone.files) == {*files, "tokenizer_config.json"}
    base = AutoModelForCausalLM.from_pretrained(str(BASE), dtype=torch.float32)
    with torch.no_grad():
        plain = base(torch.arange(3, 40)[None]).logits
        adapted = PeftModel.from_pretrained(base, str(tmp_path / "alone"))(torch.arange(3, 40)[None]).logits
    merged = logits(tmp_path / "merged")
    assert (merged - plain).abs().max() > 1e-3
    torch.testing.assert_close(merged, adapted, rtol=1e-4, atol=1e-4)
    # The adapter's folder alone says what it adapts, and how texts are read.
    named = AutoPeftModelForCausalLM.from_pretrained(str(tmp_path / "alone"), dtype=torch.float32)
    assert named.peft_config["default"].base_model_name_or_path == str(BASE.resolve())
    with torch.no_grad():
        torch.testing.assert_close(named(torch.arange(3, 40)[None]).logits, adapted, rtol=1e-5, atol=1e-5)
    words = AutoTokenizer.from_pretrained(str(tmp_path / "alone"))
    ask = [{"role": "user", "content": "What is 2 + 2?"}]
    assert words.apply_chat_template(ask) == AutoTokenizer.from_pretrained(str(BASE)).apply_chat_template(ask)


@pytest.mark.parametrize(
    ("config", "base"),
    [
        ("model: Owner/model-1B", "Owner/model-1B"),
        ("model: Owner/model-1B\nroles: {solver: {policy: policy, model: Owner/other}}", "Owner/other"),
        ("model: nano\nroles: {policy: {model: null}}", None),
        ("model: some/folder/that/was/removed", "some/folder/that/was/removed"),
    ],
)
def test_the_base_of_an_adapter(tmp_path: Path, config: str, base: str | None) -> None:
    from hocket.nano import BASE

    (tmp_path / "config.yaml").write_text(config)
    assert base_of(tmp_path, "policy") == (base or str(BASE.resolve()))


@pytest.mark.global_rng
def test_averaged_with_another_model(run: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    from hocket.nano import BASE

    said = call("export", run, "--average", BASE, "--share", "0.25", "--out", tmp_path / "mean", "--json")
    assert said.code == 0, said.err
    assert said.json["kind"] == "averaged model"
    export_run(run, tmp_path / "own", merge=True)
    found, own, base = (load_file(where / "model.safetensors") for where in (tmp_path / "mean", tmp_path / "own", BASE))
    assert any(not torch.equal(own[name], found[name]) for name in found)
    for name, mean in found.items():
        expected = 0.75 * own[name].double() + 0.25 * base[name].double()
        torch.testing.assert_close(mean, expected.to(mean.dtype), rtol=0, atol=0)
    assert not torch.isnan(logits(tmp_path / "mean")).any()
    export_run(run, tmp_path / "same", average=run)
    same = load_file(tmp_path / "same" / "model.safetensors")
    assert all(torch.equal(same[name], own[name]) for name in own)


@pytest.mark.global_rng
def test_another_architecture_is_not_averaged(run: Path, tmp_path: Path) -> None:
    llama(tmp_path / "llama", torch.float32, tied=False)
    said = call("export", run, "--average", tmp_path / "llama", "--out", tmp_path / "mean")
    assert said.code == 2
    assert "is another model: weight" in said.err
    assert "average models of one architecture and vocabulary" in said.err
    assert call("export", run, "--average", run, "--share", "2", "--out", tmp_path / "mean").code == 2
    said = call("export", run, "--share", "0.3", "--out", tmp_path / "mean")
    assert said.code == 2
    assert "--share is the weight of a second model: name that model with --average" in said.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["llama"]


def test_what_cannot_be_exported_is_refused_and_leaves_nothing(run: Path, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for arguments, words in (
        (["--out", tmp_path / "there"], "there exists already; choose another folder with --out"),
        (["--out", tmp_path / "x", "--policy", "polcy"], "has no policy 'polcy'; did you mean 'policy'"),
        (["--out", tmp_path / "x", "--gguf"], "export --gguf knows Llama models, and this one is qwen3"),
    ):
        said = call("export", run, *arguments)
        assert said.code == 2
        assert words in said.err
        assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_push(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    told: list[Any] = []

    class Api:
        def create_repo(self, name: str, **settings: Any) -> Any:
            told.append((name, settings))
            return huggingface_hub.RepoUrl(f"https://huggingface.co/{name}")

        def upload_folder(self, **settings: Any) -> None:
            told.append(settings)
            if (tmp_path / "refuse").exists():
                raise OSError("no\nroute")

    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    assert push(tmp_path, "me/model", private=True) == "https://huggingface.co/me/model"
    assert told[0] == ("me/model", {"private": True, "exist_ok": True})
    assert told[1]["repo_id"] == "me/model"
    assert told[1]["folder_path"] == str(tmp_path)
    with pytest.raises(ConfigurationError, match="'a/b/c' is no name of a repository; write OWNER/NAME"):
        push(tmp_path, "a/b/c")
    (tmp_path / "refuse").touch()
    with pytest.raises(Exception, match=r"push me/model: no route; .* is kept"):
        push(tmp_path, "me/model")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ConfigurationError, match="push me/model: HF_HUB_OFFLINE is set"):
        push(tmp_path, "me/model")


# ---------------------------------------------------------------- GGUF

TEXTS = ["the cat sat on the mat 12 times", "hello there, 345 cats!", "naïve café — 90 %"]


def llama(folder: Path, dtype: torch.dtype, *, tied: bool) -> None:
    """A tiny Llama with a byte-level tokenizer of its own."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    digits, level = pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, level])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<|im_start|>", "<|im_end|>"]
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, special_tokens=special)
    tokenizer.train_from_iterator(TEXTS, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", bos_token="<|im_start|>")
    fast.chat_template = "{{ messages }}"
    fast.save_pretrained(str(folder))
    config = LlamaConfig(
        vocab_size=304, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, tie_word_embeddings=tied, eos_token_id=1, bos_token_id=0,
    )  # fmt: skip
    torch.manual_seed(0)
    LlamaForCausalLM(config).to(dtype).save_pretrained(str(folder))


@pytest.mark.global_rng
@pytest.mark.parametrize(("dtype", "tied"), [(torch.float32, False), (torch.bfloat16, True)])
def test_a_gguf_file_is_the_same_model(tmp_path: Path, dtype: torch.dtype, tied: bool) -> None:
    pytest.importorskip("gguf")
    from transformers import AutoTokenizer

    llama(tmp_path / "model", dtype, tied=tied)
    write_gguf(tmp_path / "model", tmp_path / "model.gguf", name="tiny")
    ours, theirs = logits(tmp_path / "model"), logits(tmp_path, gguf_file="model.gguf")
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    before = AutoTokenizer.from_pretrained(str(tmp_path / "model"))
    after = AutoTokenizer.from_pretrained(str(tmp_path), gguf_file="model.gguf")
    assert after.chat_template == before.chat_template
    assert after.eos_token_id == before.eos_token_id
    every = range(len(before))
    assert after.convert_ids_to_tokens(every) == before.convert_ids_to_tokens(every)
    for text in TEXTS:
        ids = before(text)["input_ids"]
        assert after.decode(ids) == text


@pytest.mark.global_rng
def test_models_that_gguf_would_not_say_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("gguf")
    llama(tmp_path / "model", torch.float32, tied=True)
    shutil.copytree(tmp_path / "model", tmp_path / "scaled")
    config = json.loads((tmp_path / "scaled" / "config.json").read_text())
    config["rope_parameters"] = {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}
    (tmp_path / "scaled" / "config.json").write_text(json.dumps(config))
    with pytest.raises(ConfigurationError, match="plain positions"):
        write_gguf(tmp_path / "scaled", tmp_path / "a.gguf", name="a")
    file = tmp_path / "model" / "tokenizer.json"
    plain = json.loads(file.read_text())
    plain["pre_tokenizer"] = {"type": "Whitespace"}
    file.write_text(json.dumps(plain))
    with pytest.raises(ConfigurationError, match="and this is another"):
        write_gguf(tmp_path / "model", tmp_path / "b.gguf", name="b")
