"""What `hocket doctor --model` counts: parts against models that are really made, and sums against measured peaks."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "policies"))
sys.path.insert(0, str(Path(__file__).parent.parent / "engine"))
import tiny_forms
import tiny_models
from torch.profiler import ProfilerActivity, profile
from transformers import AutoConfig, AutoModelForCausalLM

from hocket.apps.cli.model_memory import examine_model, size_of
from hocket.core.errors import ConfigurationError
from hocket.policies import family
from hocket.policies.causal_lm import CausalLM
from hocket.policies.settings import LoraSettings
from hocket.policies.shapes import model_size
from hocket.policies.stored_weights import freeze_in
from hocket.train import footprint as count
from hocket.train import memory
from hocket.train.footprint import GIB, TrainingPlan, adapted_plan, footprint, least_plan, longest_context, outlined

SIZES = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 100,
    "max_position_embeddings": 4096,
}


def config(kind: str = "llama", **more):
    return AutoConfig.for_model(kind, **{**SIZES, **more}, bos_token_id=None, eos_token_id=1, pad_token_id=0)


LARGE = config(hidden_size=4096, intermediate_size=12288, num_hidden_layers=36, num_attention_heads=32, head_dim=128)


# ---------------------------------------------------------------- sizes


def test_layers_may_differ_and_be_inside_another_configuration() -> None:
    size = model_size(AutoConfig.for_model("gemma4"))
    assert len({layer.key for layer in size.layers}) == 2
    assert size.widest.key == max(layer.key for layer in size.layers)
    assert size.vocabulary == AutoConfig.for_model("gemma4").text_config.vocab_size
    windows = {layer.window for layer in size.layers}
    assert None in windows
    assert len(windows) == 2


def test_what_is_cached_stops_at_windows_and_recurrent_states() -> None:
    window = model_size(config("gemma2", sliding_window=100))
    assert window.cached(1000) - window.cached(999) == model_size(config("gemma2")).layers[1].cached(1)
    recurrent = model_size(AutoConfig.for_model("qwen3_next"))
    linear = sum(layer.recurrent for layer in recurrent.layers)
    assert linear > 0
    assert recurrent.cached(20) - recurrent.cached(10) == 10 * sum(
        layer.cached(1) for layer in recurrent.layers if not layer.recurrent
    )


def test_experts_count_as_many_as_a_token_takes() -> None:
    size = model_size(config("qwen3_moe", num_experts=8, num_experts_per_tok=2, moe_intermediate_size=40))
    assert size.layers[0].inner == 80


MIXTURES = [
    kind
    for kind in tiny_forms.TABLE
    if "moe" in kind or kind in ("deepseek_v3", "gemma4_text, experts", "gpt_oss", "mixtral", "olmoe")
]


@pytest.mark.parametrize("kind", MIXTURES)
def test_layers_are_as_wide_as_their_modules(kind: str) -> None:
    """The first layers of some mixtures are dense, and some have experts that every token takes."""
    with torch.device("meta"):
        made = AutoModelForCausalLM.from_config(tiny_forms.config(kind))
    for layer, module in zip(model_size(made.config).layers, made.model.layers, strict=True):
        routed, dense = 0, 0
        for path, part in module.named_modules():
            if isinstance(getattr(part, "down_proj", None), torch.nn.Parameter):
                routed = part.down_proj.shape[1 if part.is_transposed else 2]
            elif isinstance(part, torch.nn.Linear) and path.endswith(("down_proj", "output_linear", ".w2")):
                dense += part.in_features
        assert layer.inner == dense + layer.chosen * routed
        assert (layer.chosen > 0) == (routed > 0)


def test_a_mixture_is_not_taken_for_its_dense_form() -> None:
    """A token takes 2 of 64 experts; what it keeps grows with those, the weights with all."""
    few, many = (
        outlined(config("qwen3_moe", num_experts=64, num_experts_per_tok=chosen, moe_intermediate_size=40))
        for chosen in (2, 16)
    )
    plan = TrainingPlan(checkpointing=True)
    assert footprint(few, plan).weights == footprint(many, plan).weights
    assert footprint(few, plan).activations < footprint(many, plan).activations
    dense = outlined(config("qwen3", intermediate_size=64 * 40))
    assert footprint(few, plan).activations < footprint(dense, plan).activations


# ---------------------------------------------------------------- parts


@pytest.mark.global_rng  # The model draws its own weights.
@pytest.mark.parametrize("kind", ["llama", "gemma2"])
def test_weights_gradients_and_state_are_those_of_the_model(kind: str) -> None:
    model = AutoModelForCausalLM.from_config(config(kind))
    count = sum(weight.numel() for weight in model.parameters())
    whole = footprint(outlined(config(kind)), TrainingPlan())
    assert (whole.weights, whole.gradients, whole.optimiser) == (4 * count, 4 * count, 8 * count)
    lora = LoraSettings(rank=4)
    outline = outlined(config(kind), lora)
    adapted = footprint(outline, TrainingPlan(lora=lora))
    assert adapted.gradients == 4 * outline.adapter == adapted.optimiser / 2
    assert adapted.weights == 4 * (count + outline.adapter)


def test_fewer_bits_take_less() -> None:
    lora = LoraSettings(rank=4)
    outline = outlined(LARGE, lora)
    kinds = ("fp32", "bf16", "int8", "nf4")
    stored = [footprint(outline, TrainingPlan(lora=lora, weights=kind)).weights for kind in kinds]
    assert stored == sorted(stored, reverse=True)
    assert stored[-1] < stored[0] / 3
    whole = outlined(LARGE)
    states = [
        footprint(whole, TrainingPlan(weights="bf16", precision="bf16", optimiser=kind)).optimiser
        for kind in ("adamw+masters", "adamw", "muon", "adamw8bit")
    ]
    assert states == sorted(states, reverse=True)


@pytest.mark.global_rng  # The model draws its own weights.
def test_codes_leave_stacked_experts_in_bf16() -> None:
    mixture = config("qwen3_moe", num_experts=8, num_experts_per_tok=2, moe_intermediate_size=40)
    model = AutoModelForCausalLM.from_config(mixture)
    freeze_in(model, "nf4")
    stacks = [weight for weight in model.parameters() if weight.ndim == 3]
    assert stacks
    assert {weight.dtype for weight in stacks} == {torch.bfloat16}
    outline = outlined(mixture, LoraSettings(rank=4))
    assert outline.stacked == sum(weight.numel() for weight in stacks)
    plan = TrainingPlan(lora=LoraSettings(rank=4), weights="nf4", precision="bf16")
    assert footprint(outline, plan).weights > 2 * outline.stacked


def test_a_reference_is_a_copy_only_of_weights_that_are_trained() -> None:
    lora = LoraSettings(rank=4)
    assert footprint(outlined(config()), TrainingPlan(reference=True)).reference > 0
    assert footprint(outlined(config(), lora), TrainingPlan(lora=lora, reference=True)).reference == 0


@pytest.mark.parametrize("kind", ["llama", "gemma2"])
def test_every_part_grows_with_what_it_is_of(kind: str) -> None:
    outline = outlined(config(kind))
    base = TrainingPlan(context=256, prompt=64, prompts=2, samples=2)
    for more in ({"context": 300}, {"samples": 4}, {"prompts": 3}):
        assert footprint(outline, replace(base, **more)).total > footprint(outline, base).total
    again = footprint(outline, replace(base, checkpointing=True))
    assert again.activations < footprint(outline, base).activations


# ---------------------------------------------------------------- what fits


def test_the_longest_context_is_the_last_that_fits() -> None:
    outline, plan = outlined(LARGE), TrainingPlan(samples=8, device="cuda", weights="bf16", precision="bf16")
    room = footprint(outline, least_plan(plan, 3000)).total / 0.92
    longest = longest_context(outline, plan, room)
    assert 2984 <= longest <= 3000
    assert longest_context(outline, plan, 2 * GIB) == 0
    assert longest_context(outline, plan, 2000 * GIB) == 4096


def test_a_plan_becomes_smaller_until_it_fits() -> None:
    outline = outlined(LARGE)
    plan = TrainingPlan(context=1024, prompt=256, device="cuda", weights="bf16", precision="bf16")
    assert adapted_plan(outline, plan, 1e15) == replace(plan, rows=128)
    whole, least = footprint(outline, plan).total, footprint(outline, least_plan(plan, 1024)).total
    found = adapted_plan(outline, plan, (0.3 * whole + 0.7 * least) / 0.92)
    assert found is not None
    assert (found.rows, found.token_budget) != (plan.rows, plan.token_budget)
    assert adapted_plan(outline, plan, least / 0.92 / 2) is None


def test_a_configuration_alone_is_enough(tmp_path: Path) -> None:
    """No weights, no tokenizer, and a model that could not be made on this machine."""
    config(
        hidden_size=8192, intermediate_size=28672, num_hidden_layers=24, num_attention_heads=64, head_dim=128
    ).save_pretrained(str(tmp_path))
    report = examine_model(str(tmp_path), [("lora.rank", 8)], context=512, memory="80GiB")
    assert report.weights > 15e9
    assert not report.ways[0].fits
    assert report.ways[-1].fits
    assert "--weights nf4" in report.ways[-1].flags
    assert report.advice.startswith("hocket train --model")
    assert "--lora.rank 8" in report.advice
    none = examine_model(str(tmp_path), [], memory="8GiB")
    assert none.advice.startswith("nothing fits into 8.0 GiB")


def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    config().save_pretrained(str(tmp_path))
    with pytest.raises(ConfigurationError, match="reads 4096 tokens at most"):
        examine_model(str(tmp_path), [], context=5000, memory="8GiB")
    with pytest.raises(ConfigurationError, match=r"lora\.targets"):
        examine_model(str(tmp_path), [("lora.targets", ["nothing"])], memory="8GiB")
    with pytest.raises(ConfigurationError, match="write a size"):
        size_of("much")
    assert (size_of("24GiB"), size_of("24"), size_of("24GB"), size_of("512MiB")) == (24 * GIB, 24 * GIB, 24e9, GIB / 2)


CARD = {
    "Qwen2.5-0.5B": ("qwen2", (896, 4864, 24, 14, 2), {"max_position_embeddings": 32768}),
    "Qwen3-1.7B": ("qwen3", (2048, 6144, 28, 16, 8), {"head_dim": 128, "max_position_embeddings": 40960}),
    "Qwen3-4B": ("qwen3", (2560, 9728, 36, 32, 8), {"head_dim": 128, "max_position_embeddings": 40960}),
    "Qwen3-8B": ("qwen3", (4096, 12288, 36, 32, 8), {"head_dim": 128, "max_position_embeddings": 40960}),
}
NAMES = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads")


@pytest.mark.parametrize("name", CARD)
def test_the_page_says_what_the_doctor_says(name: str, tmp_path: Path) -> None:
    kind, sizes, more = CARD[name]
    made = {**dict(zip(NAMES, sizes, strict=True)), **more, "vocab_size": 151936}
    AutoConfig.for_model(kind, **made, tie_word_embeddings=name != "Qwen3-8B").save_pretrained(str(tmp_path))
    ways = examine_model(str(tmp_path), [("lora.rank", 16)], context=2048, memory="24GiB").ways
    lines, model = [], ""
    for line in (Path(__file__).parents[2] / "docs" / "memory.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        model = cells[1] or model if len(cells) == 6 else ""
        lines += [cells] if model == name else []
    assert lines
    for _, _, typed, sums, longest, _ in lines:
        flags = re.findall("`([^`]+)`", typed)
        rows = [next(way for way in ways if way.flags == flag) for flag in flags]
        assert all(way.fits for way in rows)
        assert re.findall(r"[\d.]+", sums) == [f"{way.total:.1f}" for way in rows]
        assert re.findall(r"[\d,]+\d", longest) == [f"{way.context:,}" for way in rows]


# ---------------------------------------------------------------- measured

A = "--curriculum.prompts 4 --rollout.samples 4 --decoding.max_tokens 24"
CASES = [
    ("llama", {}, 100, "--precision fp32"),
    ("llama", {}, 900, "--precision fp32"),
    ("llama", {}, 900, "--precision bf16"),
    ("llama", {}, 900, "--precision fp32 --memory.checkpointing true"),
    ("llama", {}, 300, "--precision fp32 --lora.rank 16"),
    ("llama", {}, 300, "--precision fp32 --recipe grpo-kl"),
    ("qwen3", {"num_hidden_layers": 12, "hidden_size": 768, "intermediate_size": 2304}, 300, "--precision fp32"),
    ("qwen3", {"num_hidden_layers": 12, "hidden_size": 768, "intermediate_size": 2304}, 300, "--lora.rank 16"),
    ("gemma2", {}, 300, "--precision fp32"),
    ("gemma2", {}, 300, "--precision fp32 --lora.rank 16"),
    ("qwen3_moe", {"num_experts": 16, "num_experts_per_tok": 4, "moe_intermediate_size": 256}, 300, "--precision fp32"),
]


@pytest.mark.slow
@pytest.mark.global_rng
@pytest.mark.parametrize(("kind", "more", "prompt", "flags"), CASES)
def test_the_sum_is_the_measured_peak_within_15_percent(kind, more, prompt, flags, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    from hocket.nano import BASE

    sizes = {"hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 8, "num_attention_heads": 8}
    made = {**sizes, "num_key_value_heads": 4, "head_dim": 64, **more}
    words = AutoTokenizer.from_pretrained(str(BASE))
    settings = config(kind, **made, tie_word_embeddings=True)
    settings.vocab_size, settings.eos_token_id = AutoConfig.from_pretrained(str(BASE)).vocab_size, words.eos_token_id
    model = AutoModelForCausalLM.from_config(settings)
    model.save_pretrained(str(tmp_path / "model"))
    words.save_pretrained(str(tmp_path / "model"))
    rows = [
        {"prompt": " ".join(str((7 * n + k * k) % 10) for k in range(prompt // 2)), "answer": "3"} for n in range(40)
    ]
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "reward.py").write_text(
        "import hashlib\n\n\ndef drawn(prompts, completions, completion_ids, **columns):\n"
        "    return [hashlib.md5(str(list(ids)).encode()).digest()[0] / 255 for ids in completion_ids]\n"
    )
    command = f"{A} {flags} --steps 2 --evaluation.n 2 --update.lr 1e-9 --run case --task {tmp_path}/data.jsonl"
    command += f" --reward {tmp_path}/reward.py:drawn --runs {tmp_path} --model {tmp_path}/model"
    subprocess.run([sys.executable, "-m", "hocket", "train", *command.split()], check=True, capture_output=True)
    last = json.loads((tmp_path / "case" / "metrics.jsonl").read_text().splitlines()[-1])
    lora = LoraSettings(rank=16) if "lora" in flags else None
    plan = TrainingPlan(
        lora=lora,
        precision="bf16" if "bf16" in flags else "fp32",
        prompts=4,
        samples=4,
        context=prompt + 2 + round(last["length/mean"]),
        prompt=prompt + 2,
        reference="grpo-kl" in flags,
        checkpointing="checkpointing" in flags,
    )
    assert last["groups/with_signal"] == 4
    counted = footprint(outlined(settings, lora), plan).total / 2**20
    assert counted == pytest.approx(last["memory/peak"], rel=0.15)
    assert last["memory/predicted"] == pytest.approx(last["memory/peak"], rel=0.25)


LOADED = """
import resource, sys, torch
from pathlib import Path
from hocket.core.keys import Key
from hocket.policies.causal_lm import CausalLM
from hocket.policies import family
from hocket.policies.causal_lm import CausalLM
from hocket.policies.settings import LoraSettings
def status(name):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name)) * 1024
lora = LoraSettings(rank=4)
CausalLM.from_pretrained(sys.argv[2], lora=lora, weights=sys.argv[3], key=Key.of(0))  # What is imported is here.
before = status("VmRSS")
Path("/proc/self/clear_refs").write_text("5")
policy = CausalLM.from_pretrained(sys.argv[1], lora=lora, weights=sys.argv[3], key=Key.of(0))
print(status("VmHWM") - before, status("VmRSS") - before)
"""


@pytest.mark.slow
@pytest.mark.global_rng
def test_no_process_holds_a_whole_fp32_copy_first(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    from hocket.nano import BASE

    AutoTokenizer.from_pretrained(str(BASE)).save_pretrained(str(tmp_path))
    sizes = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 20, "num_attention_heads": 16}
    settings = AutoConfig.for_model(
        "llama", **sizes, num_key_value_heads=8, head_dim=64, vocab_size=2000, bos_token_id=None, eos_token_id=1
    )
    made = AutoModelForCausalLM.from_config(settings, dtype=torch.bfloat16)
    count = sum(weight.numel() for weight in made.parameters())
    assert count > 300e6
    made.save_pretrained(str(tmp_path))
    del made
    peaks = {}
    for weights in ("bf16", "nf4", "fp32"):
        found = subprocess.run(
            [sys.executable, "-c", LOADED, str(tmp_path), str(BASE), weights],
            check=True,
            capture_output=True,
            text=True,
        )
        peaks[weights] = [int(value) / count for value in found.stdout.split()[-2:]]
    assert peaks["nf4"][1] < 4 / 3
    assert peaks["nf4"][0] < 3.2
    assert peaks["bf16"][0] < 3.2
    assert peaks["fp32"][0] < 6.2  # With the pages of the file, 2 bytes a weight, which the system can drop.


def allocated(work: Callable[[], object]) -> int:
    """Bytes that torch's allocator holds at most while `work` runs, beside what it held before."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched:
        work()
    events = [event for event in watched.profiler.kineto_results.events() if event.name() == "[memory]"]
    changes = [event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())]
    return max(itertools.accumulate(changes))


@pytest.mark.global_rng  # The model draws its own weights.
@pytest.mark.parametrize(("feed", "precision"), [(10**6, "fp32"), (512, "bf16")])
def test_a_pass_with_checkpointing_takes_what_is_counted(feed, precision, monkeypatch) -> None:
    monkeypatch.setattr(family, "FEED_TOKENS", feed)
    monkeypatch.setattr(count, "FEED_TOKENS", feed)
    settings = config("qwen3", hidden_size=128, intermediate_size=512, num_hidden_layers=4, head_dim=32)
    policy = CausalLM(AutoModelForCausalLM.from_config(settings), tiny_models.tokenizer(), precision=precision)
    policy.checkpointing, policy.token_budget = True, float("inf")
    measured = allocated(lambda: memory._pass(policy, 16, 128, 127))
    plan = TrainingPlan(prompts=16, samples=1, context=128, prompt=1, rows=0, checkpointing=True, token_budget=1e12)
    counted = footprint(outlined(settings), replace(plan, precision=precision))
    assert measured <= 1.05 * (counted.activations + counted.gradients + counted.copies)
    assert measured == pytest.approx(counted.activations + counted.gradients + counted.copies, rel=0.25)


def test_a_long_sequence_fits_into_what_its_parts_sum_to() -> None:
    """0.6 billion weights in full, 65,536 tokens at once: twenty gibibytes, half of them with less state."""
    kind, sizes, more = "qwen3", (1024, 3072, 28, 16, 8), {"head_dim": 128, "max_position_embeddings": 131_072}
    made = {**dict(zip(NAMES, sizes, strict=True)), **more, "vocab_size": 151_936, "tie_word_embeddings": True}
    outline = outlined(AutoConfig.for_model(kind, **made))
    alone = {"prompts": 1, "samples": 1, "prompt": 1, "rows": 0, "precision": "bf16", "device": "cuda"}
    plan = TrainingPlan(context=65_536, checkpointing=True, **alone)
    assert footprint(outline, plan).total < 20 * GIB
    assert footprint(outline, replace(plan, checkpointing="host", optimiser="adamw8bit")).total < 11 * GIB
    assert footprint(outline, replace(plan, checkpointing=False)).total > 60 * GIB
    several = footprint(outline, replace(plan, prompts=2))
    assert several.total > footprint(outline, plan).total + outline.inside
