"""Every causal architecture of transformers is computed exactly or refused in one sentence; the page lists them."""

import matrix
import pytest
import torch
import transformers

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.engine.rereading_session import RereadingSession
from hocket.policies.causal_lm import CausalLM
from hocket.policies.forms import expected
from hocket.policies.lora import merged_state
from hocket.policies.shapes import model_size
from hocket.train.probe import LayerShapes

torch.set_num_threads(1)

QUICK = (
    "afmoe",
    "bloom",
    "cohere2_moe",
    "deepseek_v2",
    "exaone_moe",
    "falcon",
    "gemma4_text",
    "gpt2",
    "gpt_neox",
    "granitemoeshared",
    "hyperclovax",
    "llama4_text",
    "minicpm3",
    "minimax_m2",
    "mpt",
    "opt",
    "phimoe",
    "roberta",
    "vaultgemma",
    "xglm",
)


def test_the_page_is_that_of_the_rows():
    held = matrix.rows()
    assert matrix.PAGE.read_text() == matrix.page(held)
    if transformers.__version__ == matrix.VERSION:
        assert tuple(held) == matrix.architectures.NAMES
    for row in held.values():
        assert row.note or row.path != "refused", row
        assert row.path == "refused" or max(row.agreement, row.sampler) <= matrix.EXACT, row


@pytest.mark.parametrize("name", QUICK)
def test_log_probs_are_those_of_an_unpadded_pass_in_fp64(name):
    policy = matrix.policy_of(name)
    assert matrix.path_of(policy) == matrix.rows()[name].path
    assert matrix.from_exact(policy, matrix.written(0))[0] <= matrix.EXACT


@pytest.mark.slow
@pytest.mark.parametrize("name", matrix.architectures.NAMES)
def test_two_steps_are_made_or_refused(name):
    row, due = matrix.measured(name), matrix.rows()[name]
    assert (row.path, row.lora, row.note) == (due.path, due.lora, due.note)
    assert row.path == "refused" or max(row.agreement, row.sampler) <= matrix.EXACT


@pytest.mark.parametrize(
    ("name", "changes", "sentence"),
    [
        ("bert", {"is_decoder": False}, "is_decoder = false in its config.json, so that every token would read"),
        ("gemma3_text", {"use_bidirectional_attention": True}, "use_bidirectional_attention = true"),
        ("doge", {"keep_window_size": 5}, "keep_window_size = 5 .* less than its context of 128 tokens"),
        ("xmod", {"default_language": None}, "no default_language"),
        ("xlnet", {}, "'xlnet', which reads tokens that come later"),
        ("t5", {}, "'t5', which transformers has no causal language model for"),
    ],
)
def test_what_writes_no_text_from_left_to_right_is_refused_before_there_are_weights(name, changes, sentence):
    config = matrix.architectures.shrunk(matrix.CONFIG_MAPPING[name], **changes)
    with pytest.raises(ConfigurationError, match=sentence):
        matrix.check_architecture(config, "folder")


@pytest.mark.parametrize(
    "names",
    [
        ("dots3_note_text", "gemma4", "gemma4_text", "mamba", "marian", "rwkv"),
        pytest.param(matrix.architectures.NAMES, marks=pytest.mark.slow),
    ],
)
def test_sizes_are_read_of_every_configuration(names):
    """Also where layers differ in their heads, and where settings have other names."""
    for name in names:
        if name in matrix.UNFIT:
            continue
        config = matrix.architectures.shrunk(matrix.CONFIG_MAPPING[name])
        size = model_size(config)
        assert size.cached(20) > 0, name
        assert size.vocabulary > 0, name
        assert all(side > 0 for sides in LayerShapes.of(config).matrices for side in sides), name
        assert isinstance(expected(config), bool), name


def test_reading_anew_gives_the_logits_of_whole_passes():
    model = matrix.architectures.tiny("openai-gpt")
    draw = Key.of(3).numpy()
    contexts = [tuple(draw.integers(3, 43, 6).tolist()) for _ in range(3)]
    with torch.inference_mode():
        session = RereadingSession(model, contexts)
        session.step(torch.tensor([5, 6, 7]))
        session.keep(torch.tensor([True, False, True]))
        session.step(torch.tensor([8, 9]))
        due = model(input_ids=torch.tensor([[*contexts[0], 5, 8], [*contexts[2], 7, 9]])).logits[:, -1]
    assert session.rows.tolist() == [0, 2]
    assert torch.equal(session.logits, due)


def test_heads_without_a_kernel_are_learnt_by_other_operators():
    """Of 20 numbers; samples come from the model's own cache."""
    config = matrix.architectures.shrunk(matrix.CONFIG_MAPPING["llama"], head_dim=20)
    policy = CausalLM(matrix.architectures.filled(config, "llama"), matrix.tiny_models.tokenizer())
    trajectories = matrix.sampled(policy, 0)
    recorded = torch.cat([torch.from_numpy(one.turns[0].logp) for one in trajectories])
    difference, logp = matrix.from_exact(policy, trajectories)
    assert matrix.path_of(policy) == "fast"
    assert max(difference, matrix.worst(logp - recorded)) <= matrix.EXACT


SPACES = ("falcon_h1", "gemma3n_text", "granitemoehybrid", "nemotron_h")


@pytest.mark.parametrize("name", ["mamba2", *(pytest.param(name, marks=pytest.mark.slow) for name in SPACES)])
def test_an_adapter_without_a_form_is_that_of_the_merged_model(name):
    """The architecture's kernels may read weights past the layers that carry an adapter."""
    policy, merged = matrix.policy_of(name, adapted=True), matrix.policy_of(name)
    with torch.no_grad():
        for weight in policy.parameter_groups()["policy"]:
            weight.add_(torch.randn(weight.shape, generator=Key.of(8).torch()) * 0.05)
    trajectories = matrix.sampled(policy, 0)
    batch = matrix.pack(trajectories)
    recorded = torch.cat([torch.from_numpy(one.turns[0].logp) for one in trajectories])
    plain = merged.evaluate(batch, [matrix.Quantity.LOGP]).logp.detach()
    merged.model.load_state_dict(merged_state(policy.model))
    found, due = (one.evaluate(batch, [matrix.Quantity.LOGP]).logp.detach() for one in (policy, merged))
    assert max(matrix.worst(found - due), matrix.worst(found - recorded)) < 1e-4
    assert matrix.worst(found - plain) > 0.1


@pytest.mark.parametrize("name", ["openai-gpt", "mamba"])
def test_prompts_of_unequal_lengths_are_sampled_without_padding_where_a_model_does_not_pad(name):
    policy = matrix.policy_of(name)
    trajectories = matrix.sampled(policy, 0)
    recorded = torch.cat([torch.from_numpy(one.turns[0].logp) for one in trajectories])
    assert matrix.worst(matrix.from_exact(policy, trajectories)[1] - recorded) <= matrix.EXACT
