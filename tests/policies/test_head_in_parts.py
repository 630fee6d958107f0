"""The head in parts, whose logits are made again for the backward pass: the same numbers in less memory."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from hocket.core.keys import Key
from hocket.policies import heads

torch.set_num_threads(1)


def random(*shape):
    return torch.randn(shape, generator=Key.of(3).derive(*shape).torch())


@settings(max_examples=30, deadline=None)
@given(
    rows=st.integers(1, 90),
    vocabulary=st.integers(2, 70),
    budget=st.sampled_from([1, 700, 2**24]),
    bias=st.booleans(),
    entropy=st.booleans(),
)
def test_parts_equal_the_whole_in_double_precision(rows, vocabulary, budget, bias, entropy):
    head = nn.utils.skip_init(nn.Linear, 8, vocabulary, bias=bias)
    with torch.no_grad():
        head.weight.copy_(random(vocabulary, 8))
        if bias:
            head.bias.copy_(random(vocabulary))
    features = random(rows, 8).requires_grad_()
    action = Key.of(5).numpy().integers(0, vocabulary, rows)
    action, temperature = torch.from_numpy(action), random(rows).abs() + 0.5
    pull = random(2, rows)

    def found():
        said = heads.read_head(head, features, action, temperature, entropy=entropy)
        total = (said.logp * pull[0]).sum() + ((said.entropy * pull[1]).sum() if entropy else 0.0)
        return said, torch.autograd.grad(total, [features, *head.parameters()])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heads, "LOGIT_BUDGET", budget)
        said, gradients = found()
    due = torch.log_softmax(
        (features.double() @ head.weight.double().t() + (head.bias if bias else 0)) / temperature[:, None], 1
    )
    chosen = due.gather(1, action[:, None]).squeeze(1)
    spread = -(due.exp() * due).sum(1)
    assert (said.logp - chosen).abs().max() < 1e-5
    total = (chosen * pull[0]).sum() + ((spread * pull[1]).sum() if entropy else 0.0)
    expected = torch.autograd.grad(total, [features, *head.parameters()])
    for one, other in zip(gradients, expected, strict=True):
        assert (one - other).abs().max() < 2e-5 * (1 + other.abs().max())


def test_parts_hold_no_matrix_of_logits_and_no_second_matrix_of_weights(monkeypatch):
    monkeypatch.setattr(heads, "LOGIT_BUDGET", 16 * 1000)
    head, features = nn.utils.skip_init(nn.Linear, 8, 1000, bias=False), random(200, 8).requires_grad_()
    with torch.no_grad():
        head.weight.copy_(random(1000, 8))
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x.numel()) or x, lambda x: x):
        said = heads.read_head(head, features, torch.zeros(200, dtype=torch.long), torch.ones(200))
    assert max(kept) == 8 * 1000
    said.logp.sum().backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        said.logp.sum().backward()
