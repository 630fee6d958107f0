"""Every architecture with a form: it is what the architecture computes, and sampler and learner agree on it."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

sys.path.insert(0, str(Path(__file__).parent.parent / "engine"))
import tiny_forms
import tiny_models
from tiny_runs import REWARDS, rows, train
from transformers import AutoTokenizer

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.engine.local import LocalEngine
from hocket.engine.requests import Request
from hocket.nano import BASE
from hocket.objectives.balance import LoadBalance
from hocket.policies import kernels
from hocket.policies.causal_lm import CausalLM
from hocket.policies.family import Precision, head_of, logit_states
from hocket.policies.form_reading import form_of, known_form
from hocket.policies.forms import KNOWN, routing_weights
from hocket.policies.prefix_tree import tree_of
from hocket.policies.sequences import Row
from hocket.policies.settings import LoraSettings
from hocket.policies.support import supports
from hocket.policies.tree_forward import tree_states
from hocket.types import Decoding, Quantity, Scenario, Trajectory, Turn

torch.set_num_threads(1)

QUICK = (
    "cohere",
    "cohere2",
    "deepseek_v3",
    "exaone4",
    "gemma",
    "gemma2",
    "gemma3_text",
    "gemma4_text",
    "gemma4_text, experts",
    "glm4",
    "glm4_moe",
    "gpt_oss",
    "granite",
    "hunyuan_v1_dense",
    "lfm2",
    "mistral",
    "nemotron",
    "olmo3",
    "phi3",
    "qwen2_moe",
    "qwen3_5_text",
    "qwen3_moe",
    "qwen3_next",
    "smollm3",
    "starcoder2",
)
TRAINED = ("gpt_oss", "cohere2", "qwen3_moe", "qwen3_next", "lfm2_moe")
EACH = [kind if kind in QUICK else pytest.param(kind, marks=pytest.mark.slow) for kind in tiny_forms.TABLE]


class Wide(TorchFunctionMode):
    """Architectures compute parts in fp32 whatever their weights are; here they are made in fp64."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def wide(given: Any) -> Any:
            return torch.float64 if given is torch.float32 else given

        if func is torch.Tensor.float:
            func = torch.Tensor.double
        return func(*map(wide, args), **{name: wide(given) for name, given in (kwargs or {}).items()})


def of_the_model(model: Any, sequences: Sequence[list[int]]) -> Tensor:
    """Log-probs `[K, V]` by the model's own pass, a sequence at a time."""
    return torch.cat([model(input_ids=torch.tensor([one])).logits[0].log_softmax(-1) for one in sequences])


def of_the_form(model: Any, sequences: Sequence[list[int]], precision: Precision = "fp32") -> Tensor:
    """The same by its form, over the tree of shared prefixes."""
    asked, first = [], 0
    for one in sequences:
        asked.append(Row(np.array(one, np.int64), np.arange(len(one)), first + np.arange(len(one))))
        first += len(one)
    states = tree_states(model, tree_of(asked), precision)
    return head_of(model)(logit_states(model, states)).log_softmax(-1)


def two_sequences() -> list[list[int]]:
    """They share a prefix three times as long as the windows."""
    draw = Key.of(0).numpy()
    prefix = draw.integers(3, 43, 3 * tiny_forms.WINDOW).tolist()
    return [prefix + draw.integers(3, 43, length).tolist() for length in (5, 13)]


def test_the_table_is_whole():
    assert {kind.partition(",")[0] for kind in tiny_forms.TABLE} == KNOWN
    assert set(QUICK) < set(tiny_forms.TABLE)


def test_the_page_lists_the_same():
    page = Path(__file__).parent.parent.parent / "docs" / "engines.md"
    table = page.read_text().split("| group | `model_type` |")[1].split("\n\n")[0]
    assert sorted(re.findall(r"`(\w+)`", table)) == sorted(KNOWN)


@pytest.mark.parametrize("kind", EACH)
def test_log_probs_and_gradients_are_the_architectures_own(kind):
    model, sequences = tiny_forms.model(kind, dtype=torch.float64), two_sequences()
    with Wide():
        assert supports(model, 64)
        due = of_the_model(model, sequences)
        factor = torch.randn(due.shape, generator=Key.of(3).torch(), dtype=torch.float64)
        (due * factor).sum().backward()
        due_gradients = tiny_forms.weights(model)
        model.zero_grad()
        found = of_the_form(model, sequences)
        (found * factor).sum().backward()
    assert (found - due).abs().max() <= 1e-9
    gradients = tiny_forms.weights(model)
    assert gradients.keys() == due_gradients.keys()
    largest = max(float(gradient.abs().max()) for gradient in due_gradients.values())
    for name, gradient in due_gradients.items():
        assert (gradients[name] - gradient).abs().max() <= 1e-9 * largest, name


def sampled(policy: CausalLM, count: int = 9, *, pages: bool = True) -> tuple[list[Trajectory], Tensor]:
    """Trajectories of few prompts, one longer than the windows and shared, and the log-probs recorded."""
    draw = Key.of(5).numpy()
    prompts = [tuple(draw.integers(3, 43, length).tolist()) for length in (24, 7)]
    asked = [
        Request(prompts[number % 2], Decoding(temperature=1.3, max_tokens=18), Key.of(number))
        for number in range(count)
    ]
    engine = LocalEngine(policy)
    samples = engine.sample(asked)
    assert (engine.counts.passes > 0) is pages
    trajectories = [
        Trajectory(
            Scenario(str(number)),
            [Turn("a", "policy", np.array(request.tokens), sample.tokens, decoding=request.decoding)],
        )
        for number, (request, sample) in enumerate(zip(asked, samples, strict=True))
    ]
    return trajectories, torch.from_numpy(np.concatenate([sample.logp for sample in samples]))


@pytest.mark.skipif(not kernels.available(16), reason="no kernels here")
@pytest.mark.parametrize("kind", EACH)
def test_sampler_and_learner_agree_to_the_last_bit(kind):
    policy = CausalLM(tiny_forms.model(kind), tiny_models.tokenizer())
    trajectories, recorded = sampled(policy)
    found = policy.evaluate(pack(trajectories), [Quantity.LOGP]).logp.detach()
    assert torch.equal(found, recorded)
    policy.share_prefixes = False
    apart = policy.evaluate(pack(trajectories), [Quantity.LOGP]).logp.detach()
    assert (apart - recorded).abs().max() < 2e-4


@pytest.mark.parametrize("kind", EACH)
def test_in_bf16_only_products_are_rounded(kind):
    """By 2^-9 each, of three layers. A router may send a token elsewhere for it, so not every token is near."""
    model, sequences = tiny_forms.model(kind), two_sequences()
    with torch.no_grad():
        found, due = (of_the_form(model, sequences, precision) for precision in ("bf16", "fp32"))
    assert found.dtype is torch.float32
    assert 0 < (found - due).abs().median() < 0.05 * due.std()


# ---------------------------------------------------------------- adapters


ADAPTERS: list[tuple[str, dict[str, Any]]] = [
    ("gemma3_text", {}),
    ("gemma4_text", {}),
    ("gemma4_text, experts", {}),
    ("phi3", {}),
    ("qwen2_moe", {}),
    ("deepseek_v3", {"targets": ("*self_attn*",)}),
    ("qwen3_5_text", {}),
    ("qwen3", {"rslora": True}),
    ("starcoder2", {"dora": True, "targets": ("q_proj", "v_proj", "c_fc")}),
    ("gemma3_text", {"dora": True}),
]


@pytest.mark.parametrize(("kind", "more"), [*ADAPTERS, pytest.param("lfm2", {}, marks=pytest.mark.slow)])
def test_adapters_are_followed(tmp_path, kind, more):
    CausalLM(tiny_forms.model(kind), tiny_models.tokenizer()).save(tmp_path)
    policy = CausalLM.from_pretrained(tmp_path, lora=LoraSettings(rank=3, alpha=6.0, **more), key=Key.of(0))
    assert supports(policy.model, 40)
    with torch.no_grad():
        for parameter in policy.parameter_groups()["policy"]:
            parameter.add_(torch.randn(parameter.shape, generator=Key.of(8).torch()) * 0.1)
    trajectories, recorded = sampled(policy, 4)
    batch = pack(trajectories)
    found = policy.evaluate(batch, [Quantity.LOGP]).logp
    assert torch.equal(found.detach(), recorded)
    found.sum().backward()
    gradients = tiny_forms.weights(policy.module)
    policy.module.zero_grad()
    policy.share_prefixes = False
    due = policy.evaluate(batch, [Quantity.LOGP]).logp
    due.sum().backward()
    torch.testing.assert_close(found, due, atol=2e-4, rtol=0)
    for name, gradient in tiny_forms.weights(policy.module).items():
        torch.testing.assert_close(gradients[name], gradient, atol=2e-3, rtol=2e-3)


def test_checkpointing_hands_keys_on_to_layers_that_borrow_them():
    policy = CausalLM(tiny_forms.model("gemma4_text"), tiny_models.tokenizer())
    batch, found = pack(sampled(policy, 2)[0]), []
    for again in (False, True):
        policy.checkpointing = again
        policy.evaluate(batch, [Quantity.LOGP]).logp.sum().backward()
        found.append(tiny_forms.weights(policy.module))
        policy.module.zero_grad()
    assert found[0].keys() == found[1].keys()
    assert all(torch.equal(gradient, found[1][name]) for name, gradient in found[0].items())


@pytest.mark.parametrize(("kind", "targets"), [("deepseek_v3", None), ("qwen3_moe", ("all-linear", "*experts*"))])
def test_experts_have_adapters_of_their_own(tmp_path, kind, targets):
    """By the architecture's own forward pass; deepseek's experts belong to all linear layers."""
    CausalLM(tiny_forms.model(kind), tiny_models.tokenizer()).save(tmp_path)
    policy = CausalLM.from_pretrained(tmp_path, lora=LoraSettings(rank=3, targets=targets), key=Key.of(0))
    with torch.no_grad():
        for parameter in policy.parameter_groups()["policy"]:
            parameter.add_(torch.randn(parameter.shape, generator=Key.of(8).torch()) * 0.05)
    trajectories, recorded = sampled(policy, 4, pages=False)
    found = policy.evaluate(pack(trajectories), [Quantity.LOGP]).logp
    torch.testing.assert_close(found.detach(), recorded, atol=1e-4, rtol=0)
    found.sum().backward()
    gradients = [one.grad for name, one in policy.model.named_parameters() if ".experts." in name and ".lora_" in name]
    assert gradients
    assert all(gradient is not None and gradient.abs().max() > 0 for gradient in gradients)


@pytest.mark.parametrize("kind", ["gemma3_text", *(pytest.param(one, marks=pytest.mark.slow) for one in TRAINED)])
def test_a_run_learns_from_it(tmp_path, kind):
    """Two GRPO steps from the command line; the second samples with what the first has learnt."""
    words = AutoTokenizer.from_pretrained(str(BASE))
    more = {"vocab_size": len(words), "eos_token_id": words.eos_token_id, "max_position_embeddings": 512}
    CausalLM(tiny_forms.model(kind, **more), words).save(tmp_path / "model")
    (tmp_path / "rewards.py").write_text(REWARDS)
    told = ["--model", tmp_path / "model", "--reward", f"{tmp_path / 'rewards.py'}:spread", "--precision", "fp32"]
    train(tmp_path, "run", *told, steps=2)
    steps = [row for row in rows(tmp_path / "run") if "agreement/largest" in row]
    assert [row["agreement/largest"] for row in steps] == [0.0, 0.0]
    assert all(row["gradient/norm"] > 0 for row in steps)


# ---------------------------------------------------------------- what has no form


def test_an_unknown_name_is_read_by_its_modules():
    model = tiny_forms.model("gemma2")
    model.config.model_type = "newcomer"
    assert form_of(model) == known_form(tiny_forms.model("gemma2"))
    assert supports(model, 64)


def test_an_unknown_name_whose_layers_do_more_has_none():
    model = tiny_forms.model("llama")
    model.config.model_type = "newcomer"
    layer = model.model.layers[1]
    own = layer.forward
    layer.forward = lambda *given, **more: own(*given, **more) * 1.1
    assert form_of(model) is not None
    assert not supports(model, 1)


@pytest.mark.parametrize("place", ["model", "model.layers.1", "model.layers.1.self_attn", "model.layers.1.mlp"])
def test_a_weight_without_a_place_has_no_form(place):
    model = tiny_forms.model("llama")
    model.get_submodule(place).more = nn.Bilinear(4, 4, 4, device="meta")
    assert form_of(model) is None


def test_angles_that_change_with_the_length_serve_up_to_there():
    factors = {"short_factor": [1.0] * 8, "long_factor": [2.0] * 8, "original_max_position_embeddings": 64}
    rope = {"rope_type": "longrope", "rope_theta": 1e4, **factors}
    model = tiny_forms.model("phi3", rope_parameters=rope, original_max_position_embeddings=64)
    assert supports(model, 64)
    assert not supports(model, 65)


@pytest.mark.parametrize(
    ("kind", "settings", "longest"),
    [
        ("llama4_text", {"attention_chunk_size": 40}, 40),
        ("llama4_text", {"floor_scale": 30}, 29),
        (
            "ministral3",
            {
                "rope_parameters": {
                    "rope_type": "default",
                    "rope_theta": 1e4,
                    "llama_4_scaling_beta": 0.1,
                    "original_max_position_embeddings": 50,
                }
            },
            50,
        ),
    ],
)
def test_chunks_and_scales_by_position_serve_up_to_where_they_act(kind, settings, longest):
    model = tiny_forms.model(kind, **settings)
    assert supports(model, longest)
    assert not supports(model, longest + 1)
    tokens = Key.of(2).numpy().integers(3, 43, longest).tolist()
    torch.testing.assert_close(of_the_form(model, [tokens]), of_the_model(model, [tokens]), atol=1e-4, rtol=0)


# ---------------------------------------------------------------- routes


@pytest.mark.skipif(not kernels.available(16), reason="no kernels here")
@pytest.mark.parametrize("kind", [kind for kind in QUICK if "moe" in kind or "experts" in kind or kind == "gpt_oss"])
def test_tokens_are_sent_where_sampling_sent_them(kind):
    """With the weights of sampling nothing changes. Where routers have moved since, only the weights of experts do."""
    policy = CausalLM(tiny_forms.model(kind), tiny_models.tokenizer())
    policy.replay_routes = True
    policy.begin_activation_cache()
    trajectories, recorded = sampled(policy)
    batch, routes = pack(trajectories), policy.routes
    assert torch.equal(policy.evaluate(batch, [Quantity.LOGP]).logp.detach(), recorded)
    assert routes.metrics() == {"routes/known": 1.0, "routes/differing": 0.0}
    with torch.no_grad():
        for name, weight in policy.module.named_parameters():
            if weight.ndim == 2 and name.endswith(("gate.weight", "router.weight", "wg.weight", "router.proj.weight")):
                weight.add_(0.5 * torch.randn(weight.shape, generator=Key.of(4).torch()))
    replayed = policy.evaluate(batch, [Quantity.LOGP]).logp
    assert 0.02 < routes.metrics()["routes/differing"] < 0.6
    replayed.sum().backward()
    policy.end_activation_cache()
    free = policy.evaluate(batch, [Quantity.LOGP]).logp.detach()
    assert (replayed - free).abs().max() > 1e-3


def test_replayed_weights_are_the_routers_own():
    """What a router would have given the experts of sampling, where it chooses others now."""
    for kind in ("mixtral", "glm4_moe", "ernie4_5_moe", "gpt_oss", "qwen2_moe"):
        form = known_form(tiny_forms.model(kind)).layers[-1].feed
        logits = torch.randn(40, 8, generator=Key.of(1).torch())
        best = logits.topk(2).indices
        found = routing_weights(form, logits, best)
        if form.scores == "softmax":
            due = torch.softmax(logits.gather(1, best), -1)
            due = due if form.normalised else torch.softmax(logits, -1).gather(1, best)
        else:
            due = 1.5 * torch.sigmoid(logits).gather(1, best)
            due = due / torch.sigmoid(logits).gather(1, best).sum(-1, keepdim=True)
        torch.testing.assert_close(found, due)


def test_a_run_replays_its_routes(tmp_path):
    words = AutoTokenizer.from_pretrained(str(BASE))
    more = {"vocab_size": len(words), "eos_token_id": words.eos_token_id, "max_position_embeddings": 512}
    CausalLM(tiny_forms.model("qwen3_moe", **more), words).save(tmp_path / "model")
    (tmp_path / "rewards.py").write_text(REWARDS)
    told = ["--model", tmp_path / "model", "--reward", f"{tmp_path / 'rewards.py'}:spread", "--precision", "fp32"]
    more_told = ["--router_replay", "true", "--update.epochs", "2", "--update.lr", "1e-2"]
    train(tmp_path, "run", *told, *more_told, steps=2)
    steps = [row for row in rows(tmp_path / "run") if "agreement/largest" in row]
    assert [row["agreement/largest"] for row in steps] == [0.0, 0.0]
    assert all(row["routes/known"] == 1.0 and row["routes/differing"] > 0 for row in steps)


# ---------------------------------------------------------------- even use


def test_unevenness_is_the_load_balancing_loss():
    """That of transformers, which sums over the choices of a token, of a model with one layer of experts."""
    from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func

    model = tiny_forms.model("mixtral", num_hidden_layers=1)
    policy = CausalLM(model, tiny_models.tokenizer())
    tokens = Key.of(2).numpy().integers(3, 43, 30)
    batch = pack([Trajectory(Scenario("0"), [Turn("a", "policy", tokens[:1], tokens[1:])])])
    found = policy.evaluate(batch, [Quantity.LOGP, Quantity.BALANCE]).get(Quantity.BALANCE)
    # The last layer is computed where decisions stand, which is everywhere but at the last token.
    out = model(input_ids=torch.from_numpy(tokens[:-1])[None], output_router_logits=True)
    due = load_balancing_loss_func(out.router_logits, 4, 2) / 2
    torch.testing.assert_close(found, due.expand(29))
    (gradient,) = torch.autograd.grad(found.mean(), model.model.layers[0].mlp.gate.weight)
    assert gradient.abs().max() > 1e-4


def test_experts_come_to_be_used_evenly():
    policy = CausalLM(tiny_forms.model("qwen3_moe"), tiny_models.tokenizer())
    policy.require(frozenset({Quantity.BALANCE}))
    trajectories, _ = sampled(policy)
    batch, loss = pack(trajectories), LoadBalance(1.0)
    optimiser = torch.optim.SGD(policy.module.parameters(), lr=0.1)
    seen = []
    for _ in range(8):
        terms = loss(policy.evaluate(batch, loss.needs), batch)
        seen.append(terms.total().item())
        optimiser.zero_grad()
        terms.total().backward()
        optimiser.step()
    assert seen[0] > 1.05
    assert seen[-1] - 1 < 0.7 * (seen[0] - 1)


def test_nothing_is_balanced_where_nothing_is_routed():
    policy = CausalLM(tiny_forms.model("llama"), tiny_models.tokenizer())
    with pytest.raises(ConfigurationError, match="drop LoadBalance"):
        policy.require(frozenset({Quantity.BALANCE}))
