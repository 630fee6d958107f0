"""The vectorised sampler against a plain one, token by token."""

import numpy as np
import pytest
import torch

from hocket.core.keys import Key, uniforms
from hocket.engine.requests import Request
from hocket.engine.sampling import Plan, draw
from hocket.types import Decoding

WAYS = [
    Decoding(),
    Decoding(temperature=0.5),
    Decoding(top_k=3),
    Decoding(top_k=1),
    Decoding(top_p=0.6),
    Decoding(top_p=0.01),
    Decoding(min_p=0.2),
    Decoding(temperature=1.5, top_k=6, top_p=0.7, min_p=0.1),
    Decoding(banned=(0, 3)),
    Decoding(temperature=0.8, banned=(1,), top_k=4, top_p=0.9),
    Decoding(temperature=0.0),
    Decoding(temperature=0.0, top_k=2, top_p=0.1, banned=(2, 5)),
]


def plain_distribution(logits, way):
    """Probabilities as each rule is defined, one token at a time, in float64."""
    scores = logits / (way.temperature or 1.0)
    p = np.exp(scores - scores.max())
    for token in way.banned:
        p[token] = 0.0
    p /= p.sum()
    if way.top_k is not None:
        p[np.argsort(-p, kind="stable")[way.top_k :]] = 0.0
        p /= p.sum()
    if way.top_p < 1.0:
        mass, kept = 0.0, np.zeros_like(p)
        for token in np.argsort(-p, kind="stable"):
            if mass >= way.top_p:
                break
            mass += p[token]
            kept[token] = p[token]
        p = kept / kept.sum()
    p[p < way.min_p * p.max()] = 0.0
    return p / p.sum()


def plain_draw(logits, way, uniform):
    if way.greedy:
        allowed = logits.copy()
        allowed[list(way.banned)] = -np.inf
        p = np.exp(logits - logits.max())
        token = int(allowed.argmax())
        return token, np.log(p[token] / p.sum())
    p = plain_distribution(logits, way)
    token = int(np.searchsorted(np.cumsum(p), uniform * p.sum()))
    return token, np.log(p[token])


@pytest.mark.parametrize("seed", range(8))
def test_draw_equals_the_plain_sampler(seed):
    key = Key.of(seed)
    ways = WAYS * 5
    logits = key.derive("logits").numpy().normal(size=(len(ways), 11)) * 2
    asked = [Request((1,), way, key.derive(row)) for row, way in enumerate(ways)]
    plan = Plan.of(asked, 11, torch.device("cpu"))
    for counter in range(6):
        tokens, logp = draw(torch.from_numpy(logits).float(), plan, counter)
        for row, way in enumerate(ways):
            uniform = uniforms(np.array([asked[row].key.word], np.uint64), counter)[0]
            token, expected = plain_draw(logits[row], way, uniform)
            assert int(tokens[row]) == token
            assert abs(float(logp[row]) - expected) < 1e-4


def test_rows_of_a_plan_draw_as_before():
    key = Key.of(0)
    asked = [Request((1,), way, key.derive(row)) for row, way in enumerate(WAYS)]
    logits = torch.from_numpy(key.numpy().normal(size=(len(WAYS), 11))).float()
    plan = Plan.of(asked, 11, torch.device("cpu"))
    chosen = torch.tensor([7, 2, 2, 11, 0])
    whole, part = draw(logits, plan, 3), draw(logits[chosen], plan.rows(chosen), 3)
    assert torch.equal(whole[0][chosen], part[0])
    assert torch.equal(whole[1][chosen], part[1])


def test_imposed_tokens_have_their_uncut_log_prob():
    logits = torch.tensor([[0.0, 1.0, 2.0, 3.0]]).repeat(2, 1)
    plan = Plan.of([Request((1,), Decoding(top_k=1), Key.of(i)) for i in range(2)], 4, torch.device("cpu"))
    tokens, logp = draw(logits, plan, 0, torch.tensor([0, -1]))
    assert tokens.tolist() == [0, 3]
    assert torch.allclose(logp, torch.stack([torch.log_softmax(logits[0], 0)[0], torch.tensor(0.0)]))
