"""Model folders of others: what they name lies in them, and code that they bring is never run."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import architectures
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import CONFIG_MAPPING

from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.inside import check_model_folder, leads_out
from hocket.core.keys import Key
from hocket.nano import BASE
from hocket.policies.causal_lm import CausalLM
from hocket.policies.loading import read_config, read_model, read_tokenizer
from hocket.policies.support import supports
from hocket.train.checkpoint import COMPLETE, Checkpoints, problem
from hocket.train.export import export_run


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return Path(shutil.copytree(BASE, tmp_path / "model"))


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "a/../../secret", "..\\secret", "link", "folder/secret"])
def test_names_that_lead_out(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    (tmp_path / "secret").write_text("s")
    (folder / "own").write_text("o")
    (folder / "link").symlink_to("../secret")
    (folder / "within").symlink_to("own")
    (folder / "folder").symlink_to("..")
    assert leads_out(folder, name)
    assert not leads_out(folder, "own")
    assert not leads_out(folder, "within")
    assert not leads_out(folder, "not-there")


def test_a_snapshot_of_the_hub_links_to_what_lies_beside_it(tmp_path: Path) -> None:
    repository = tmp_path / "models--a--b"
    snapshot = repository / "snapshots" / "0123"
    snapshot.mkdir(parents=True)
    (repository / "blobs").mkdir()
    (repository / "blobs" / "x").write_text("x")
    (snapshot / "config.json").symlink_to("../../blobs/x")
    check_model_folder(snapshot)
    (snapshot / "evil").symlink_to("../../../secret")
    with pytest.raises(ConfigurationError, match="evil is a link out of its folder"):
        check_model_folder(snapshot)


@pytest.mark.parametrize("name", ["../other/model.safetensors", "/other/model.safetensors", "x/../../y"])
def test_an_index_takes_weights_of_its_folder_alone(name: str, model: Path) -> None:
    (model / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {"a": "model.safetensors", "b": name}})
    )
    with pytest.raises(ConfigurationError, match=r"index.json takes weights from .* which is no file of its folder"):
        read_config(str(model))


def test_links_out_of_a_model_are_refused(model: Path) -> None:
    (model / "model.safetensors").rename(model.parent / "weights")
    (model / "model.safetensors").symlink_to("../weights")
    with pytest.raises(ConfigurationError, match=r"model.safetensors is a link out of its folder"):
        read_config(str(model))


@pytest.mark.parametrize("base", ["/secret", "../secret", ".", "a/b/c", 3, ["x"]])
def test_an_adapter_s_base_lies_in_no_other_folder(base: object, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(model)
    (model / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": base}))
    with pytest.raises(ConfigurationError, match=r"adapter_config.json takes its base from"):
        read_config(str(model))
    (model / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "Qwen/Qwen2.5-0.5B"}))
    check_model_folder(model)


def test_code_that_a_model_brings_is_never_run(model: Path) -> None:
    mark = model.parent / "MARK"
    code = f"import pathlib\npathlib.Path({str(mark)!r}).touch()\nraise SystemExit\n"
    (model / "evil.py").write_text(code)
    config = json.loads((model / "config.json").read_text())
    config |= {"model_type": "evil", "auto_map": {"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model"}}
    (model / "config.json").write_text(json.dumps(config))
    with pytest.raises(ConfigurationError, match="cannot be read: it needs code of its own, which is never run"):
        read_config(str(model))
    told = json.loads((model / "tokenizer_config.json").read_text())
    told |= {"tokenizer_class": "Evil", "auto_map": {"AutoTokenizer": ["evil.Tokenizer", None]}}
    (model / "tokenizer_config.json").write_text(json.dumps(told))
    try:
        read_tokenizer(str(model))
    except ConfigurationError:
        pass  # It may also be read by transformers' own class.
    assert not mark.exists()


def checkpoint(folder: Path, place: str = "policy") -> Path:
    def save(where: Path) -> None:
        (where / "config.json").write_text('{"model_type": "llama"}')

    written = Checkpoints(folder / "checkpoints").save(1, {"a": 1}, {"policy": save})
    complete = json.loads((written / COMPLETE).read_text())
    complete["policies"] = {"policy": place}
    (written / COMPLETE).write_text(json.dumps(complete))
    return written


@pytest.mark.parametrize("place", ["../../../other", "/other", "policy/../../x"])
def test_policies_of_a_checkpoint_lie_in_it(place: str, tmp_path: Path) -> None:
    assert problem(checkpoint(tmp_path / "whole")) is None
    assert problem(checkpoint(tmp_path / "spoilt", place)) == f"{place} lies elsewhere"
    with pytest.raises(HocketError, match="lies elsewhere"):
        Checkpoints(tmp_path / "spoilt" / "checkpoints").latest()


def test_what_is_linked_into_a_policy_is_not_exported(tmp_path: Path) -> None:
    written = checkpoint(tmp_path / "run")
    (tmp_path / "secret").write_text("s")
    (written / "policy" / "extra.txt").symlink_to(tmp_path / "secret")
    with pytest.raises(ConfigurationError, match=r"extra.txt is a link"):
        export_run(tmp_path / "run", tmp_path / "out")
    (written / "policy" / "extra.txt").unlink()
    export_run(tmp_path / "run", tmp_path / "out")
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["config.json"]


def test_a_control_network_is_no_language_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"observations": 4, "actions": 2, "discrete": true, "hidden": [8]}')
    with pytest.raises(ConfigurationError, match="holds a control network, which has no words"):
        read_tokenizer(str(tmp_path))


def changed(model: Path, **settings: object) -> Path:
    file = model / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **settings}))
    return model


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"model_type": "nobodys"}, r"has no architecture 'nobodys'"),
        ({"model_type": "nobodys", "auto_map": {"AutoConfig": "c.C"}}, r"code of its own, which is never run"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, r"quantised \(gptq\).*--weights nf4"),
        (
            {"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}},
            r"quantised \(bitsandbytes\)",
        ),
    ],
)
def test_what_cannot_be_trained_is_refused_before_its_weights_are_read(settings, sentence: str, model: Path) -> None:
    (model / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(ConfigurationError, match=sentence):
        read_model(str(changed(model, **settings)), torch.float32)


def test_a_tokenizer_of_a_larger_model_is_refused_before_weights_are_read(model: Path) -> None:
    (model / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(ConfigurationError, match=r"as token 50, and the model knows 50 tokens"):
        CausalLM.from_pretrained(changed(model, vocab_size=50), key=Key.of(0))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is counted on Linux")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_are_read_from_files_without_a_copy(dtype: torch.dtype, tmp_path: Path) -> None:
    """In parts of 4 MB, of 19 and 9 MB; the system drops pages of files when it needs room."""
    sizes = {"hidden_size": 384, "intermediate_size": 1536, "num_hidden_layers": 2, "num_attention_heads": 6}
    config = architectures.CONFIG_MAPPING["llama"](**sizes, vocab_size=64)
    made = architectures.filled(config, "llama").to(dtype)
    made.save_pretrained(str(tmp_path), max_shard_size="4MB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    read_model(str(tmp_path), dtype)  # The first time more than weights is allocated.
    before = own_memory()
    read = read_model(str(tmp_path), dtype)
    assert own_memory() - before < 0.3 * sum(weight.nbytes for weight in read.parameters())


def own_memory() -> int:
    """Bytes of this process that no file holds."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) * 1024


def test_weights_that_are_no_numbers_are_refused(model: Path) -> None:
    weights = load_file(model / "model.safetensors")
    name = sorted(weights)[-1]
    weights[name].view(-1)[3] = float("nan")
    save_file(weights, model / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ConfigurationError, match=rf"1 of the [\d,]+ numbers of '{re.escape(name)}' are NaN"):
        read_model(str(model), torch.float32)


def test_a_file_of_weights_that_is_cut_short_is_refused(model: Path) -> None:
    file = model / "model.safetensors"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(ConfigurationError, match=r"cannot be read: a \.safetensors file of it is cut short or broken"):
        read_model(str(model), torch.float32)


def test_a_bin_file_is_read_as_tensors_alone(model: Path) -> None:
    weights = load_file(model / "model.safetensors")
    (model / "model.safetensors").unlink()
    torch.save(weights, model / "pytorch_model.bin")
    assert torch.equal(
        read_model(str(model), torch.float32).state_dict()["model.norm.weight"], weights["model.norm.weight"]
    )
    (model / "pytorch_model.bin").write_bytes(b"\x80\x02cos\nsystem\nq\x00X\x04\x00\x00\x00trueq\x01\x85q\x02Rq\x03.")
    with pytest.raises(ConfigurationError, match="holds more than tensors, or is broken"):
        read_model(str(model), torch.float32)


@pytest.mark.parametrize("kind", ["gemma4", pytest.param("gemma3", marks=pytest.mark.slow)])
def test_of_images_and_text_the_text_model_is_read_and_saved_by_its_own_names(kind: str, tmp_path: Path) -> None:
    whole = architectures.tiny(kind)
    whole.save_pretrained(str(tmp_path / "whole"))
    text = read_model(str(tmp_path / "whole"), torch.float32)
    text.save_pretrained(str(tmp_path / "text"))
    again = read_model(str(tmp_path / "text"), torch.float32)
    ids = torch.arange(3, 20)[None]
    with torch.no_grad():
        due, *found = (model(input_ids=ids).logits for model in (whole, text, again))
    for logits in found:
        torch.testing.assert_close(logits, due, atol=1e-4, rtol=0)
    assert supports(text, 64)
    assert read_config(str(tmp_path / "whole")).model_type == text.config.model_type == f"{kind}_text"


def test_of_gemma3n_the_text_model_is_read_without_the_library_of_its_encoder(tmp_path: Path) -> None:
    text = architectures.tiny("gemma3n_text")
    CONFIG_MAPPING["gemma3n"](text_config=text.config.to_dict()).save_pretrained(str(tmp_path))
    weights = {name.replace("model.", "model.language_model."): weight for name, weight in text.state_dict().items()}
    del weights["lm_head.weight"]
    weights["model.vision_tower.timm_model.stem.weight"] = torch.zeros(2)
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    found = read_model(str(tmp_path), torch.float32)
    ids = torch.arange(3, 20)[None]
    with torch.no_grad():
        assert torch.equal(found(input_ids=ids).logits, text(input_ids=ids).logits)
    found.save_pretrained(str(tmp_path / "text"))
    assert read_config(str(tmp_path / "text")).model_type == "gemma3n_text"
