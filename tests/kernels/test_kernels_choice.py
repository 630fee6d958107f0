"""Log-probs, entropies and draws from logits, against float64."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_oracle import (
    TYPES,
    assert_close,
    drawn,
    inverse_cdf,
    logits_of,
    same,
    softmax_facts,
    softmax_gradient,
    subsets,
    threads,
)

from hocket.core.keys import Key, uniforms
from hocket.policies import kernels

torch.set_num_threads(1)
pytestmark = pytest.mark.skipif(not kernels.available(), reason="no kernels here")
EXAMPLES = settings(max_examples=40, deadline=None)
SEEDS = st.integers(0, 10**6)
VOCABULARIES = st.one_of(st.integers(2, 70), st.sampled_from([127, 128, 129, 512, 1000, 4099]))
SMALLEST, LARGEST = 2.0**-53, 1 - 2.0**-53
"""The uniforms that `hocket.core.keys` makes lie between these."""


def logprob_inputs(seed, rows, vocabulary, dtype, scale=3.0, banned=0.0):
    draw = Key.of(seed).derive("actions").numpy()
    logits = logits_of(seed, rows, vocabulary, dtype, scale, banned)
    action = torch.from_numpy(draw.integers(0, vocabulary, rows))
    temperature = torch.from_numpy(np.exp(draw.uniform(-2.0, 1.5, rows))).float()
    temperature[draw.random(rows) < 0.3] = 1.0
    return logits, action, temperature


def noise(logits, temperature):
    """fp32 knows a score of size s to s / 2^23 or so."""
    largest = logits.masked_fill(logits.isneginf(), 0.0).abs().max(1).values.double()
    return 3.0 + 0.3 * largest / temperature.double()


# ---------------------------------------------------------------- log-probs and entropies


@EXAMPLES
@given(
    seed=SEEDS,
    rows=st.integers(1, 9),
    vocabulary=VOCABULARIES,
    dtype=st.sampled_from(TYPES),
    scale=st.sampled_from([0.0, 1.0, 10.0, 3000.0]),
    banned=st.sampled_from([0.0, 0.5, 0.97]),
)
def test_token_logprobs(seed, rows, vocabulary, dtype, scale, banned):
    logits, action, temperature = logprob_inputs(seed, rows, vocabulary, dtype, scale, banned)
    logp, peak, total, entropy = kernels.token_logprobs(logits, action, temperature, entropy=True)
    due, _, due_total, due_entropy = softmax_facts(logits, temperature)
    size = noise(logits, temperature)
    expected = due.gather(1, action[:, None])[:, 0]
    assert torch.equal(logp.isneginf(), expected.isneginf())
    some = ~expected.isneginf()
    assert_close(logp[some], expected[some], size[some])
    assert (logp <= 0).all()
    assert_close(total, due_total, size * due_total)
    assert_close(entropy, due_entropy, size * (1 + due_entropy))
    bare = kernels.token_logprobs(logits, action, temperature, entropy=False)
    assert same(bare[0], logp)
    assert same(bare[1], peak)
    assert same(bare[2], total)
    assert bare[3] is None


@EXAMPLES
@given(
    seed=SEEDS,
    rows=st.integers(1, 9),
    vocabulary=VOCABULARIES,
    dtype=st.sampled_from(TYPES),
    scale=st.sampled_from([0.0, 1.0, 10.0, 3000.0]),
    banned=st.sampled_from([0.0, 0.5, 0.97]),
    spread=st.booleans(),
)
def test_token_logprobs_backward(seed, rows, vocabulary, dtype, scale, banned, spread):
    logits, action, temperature = logprob_inputs(seed, rows, vocabulary, dtype, scale, banned)
    g, h = drawn(seed + 1, rows), drawn(seed + 2, rows) if spread else None
    _, peak, total, entropy = kernels.token_logprobs(logits, action, temperature, entropy=spread)
    found = logits.clone()
    kernels.token_logprobs_backward(found, action, temperature, peak, total, entropy, g, h)
    due = softmax_gradient(logits, action, temperature, g, h)
    facts = softmax_facts(logits, temperature)
    size = noise(logits, temperature) * (g.abs() + (0 if h is None else h.abs() * (1 + facts[3]) * 4)) / temperature
    assert_close(found, due, size[:, None].expand_as(due))
    assert (found[logits.isneginf() & (torch.arange(vocabulary) != action[:, None])] == 0).all()


def test_gradient_is_autograds():
    """The formula of the oracle itself, on numbers without -inf."""
    logits, action, temperature = logprob_inputs(3, 5, 40, torch.float32)
    g, h = drawn(1, 5), drawn(2, 5)
    leaf = logits.double().requires_grad_()
    logp = torch.log_softmax(leaf / temperature.double()[:, None], 1)
    loss = (g * logp.gather(1, action[:, None])[:, 0]).sum() - (h * (logp.exp() * logp).sum(1)).sum()
    loss.backward()
    torch.testing.assert_close(softmax_gradient(logits, action, temperature, g, h), leaf.grad)


@pytest.mark.parametrize("dtype", TYPES)
def test_token_logprobs_of_rows_apart(dtype):
    logits, action, temperature = logprob_inputs(1, 203, 321, dtype, banned=0.2)
    g, h = drawn(1, 203), drawn(2, 203)

    def both(rows):
        facts = kernels.token_logprobs(logits[rows], action[rows], temperature[rows], entropy=True)
        back = logits[rows].clone()
        kernels.token_logprobs_backward(back, action[rows], temperature[rows], *facts[1:], g[rows], h[rows])
        return *facts, back

    whole = both(torch.arange(203))
    for rows in subsets(5, 203):
        assert all(same(one[rows], other) for one, other in zip(whole, both(rows), strict=True))
    with threads(2):
        assert all(same(one, other) for one, other in zip(whole, both(torch.arange(203)), strict=True))


@pytest.mark.parametrize("dtype", TYPES)
def test_token_logprobs_of_extreme_logits(dtype):
    logits = torch.full((7, 100), -1e4)
    logits[0, 5] = 1e4
    logits[1] = 1e4
    logits[2], logits[2, 9] = -torch.inf, 1e4
    logits[3, ::2] = 1e4
    logits[4] = torch.linspace(-1e4, 1e4, 100)
    logits[5] = 1e-40
    logits[6], logits[6, [3, 7]] = -torch.inf, torch.tensor([-1e4, -1e4])
    logits = logits.to(dtype)
    action = torch.tensor([5, 0, 9, 1, 0, 42, 7])
    temperature = torch.tensor([1.0, 0.5, 2.0, 1.0, 1.0, 1.0, 0.25])
    logp, peak, total, entropy = kernels.token_logprobs(logits, action, temperature, entropy=True)
    due, _, _, due_entropy = softmax_facts(logits, temperature)
    assert_close(logp, due.gather(1, action[:, None])[:, 0], noise(logits, temperature))
    assert_close(entropy, due_entropy, 5.0)
    g, h = torch.ones(7), torch.full((7,), -0.5)
    found = logits.clone()
    kernels.token_logprobs_backward(found, action, temperature, peak, total, entropy, g, h)
    expected = softmax_gradient(logits, action, temperature, g, h)
    assert_close(found, expected, 50.0)
    assert found.isfinite().all()


@pytest.mark.parametrize("dtype", TYPES)
def test_what_is_certain_has_log_prob_zero(dtype):
    """Whatever the temperature: no rounding of logit / temperature may show."""
    logits = torch.full((400, 33), -torch.inf)
    logits[torch.arange(400), torch.arange(400) % 33] = drawn(1, 400, scale=30.0)
    logits = logits.to(dtype)
    action, temperature = logits.argmax(1), drawn(2, 400).exp()
    logp, _, _, entropy = kernels.token_logprobs(logits, action, temperature, entropy=True)
    assert (logp == 0).all()
    assert (entropy == 0).all()
    if dtype is torch.float32:
        assert (draw(logits, torch.full((400,), 0.5), temperature)[1] == 0).all()


def test_a_banned_action_has_probability_zero():
    logits = drawn(1, 2, 40)
    logits[0, 3] = -torch.inf
    logp, peak, total, entropy = kernels.token_logprobs(logits, torch.tensor([3, 3]), torch.ones(2), entropy=True)
    assert logp[0] == -torch.inf
    assert logp[1].isfinite()
    assert entropy.isfinite().all()
    found = logits.clone()
    kernels.token_logprobs_backward(found, torch.tensor([3, 3]), torch.ones(2), peak, total, None, torch.zeros(2), None)
    assert torch.equal(found, torch.zeros(2, 40))


# ---------------------------------------------------------------- draws


def draw(logits, uniform, temperature=None, greedy=None, forced=None):
    rows = len(logits)
    temperature = torch.ones(rows) if temperature is None else temperature
    greedy = torch.zeros(rows, dtype=torch.bool) if greedy is None else greedy
    forced = torch.full((rows,), -1) if forced is None else forced
    return kernels.draw(logits, torch.as_tensor(uniform, dtype=torch.float64), temperature, greedy, forced)


@EXAMPLES
@given(
    seed=SEEDS,
    rows=st.integers(1, 30),
    vocabulary=VOCABULARIES,
    scale=st.sampled_from([0.0, 1.0, 5.0, 3000.0]),
    banned=st.sampled_from([0.0, 0.5, 0.97]),
)
def test_draw(seed, rows, vocabulary, scale, banned):
    """Every kind of row beside every other: drawn, greedy, forced."""
    logits, action, temperature = logprob_inputs(seed, rows, vocabulary, torch.float32, scale, banned)
    uniform = Key.of(seed).numpy().random(rows)
    pick = torch.from_numpy(Key.of(seed).derive("kind").numpy().integers(0, 4, rows))
    greedy = pick == 0
    forced = torch.where(pick == 1, action, -1)
    token, logp = draw(logits, uniform, temperature, greedy, forced)
    assert token.dtype is torch.int64
    assert torch.equal(token[pick == 0], logits[pick == 0].argmax(1))
    assert torch.equal(token[pick == 1], action[pick == 1])

    probability = softmax_facts(logits, temperature)[0].exp()
    cumulative = probability.cumsum(1)
    rest = pick > 1
    at = token[:, None]
    slack = 2e-6 * noise(logits, temperature)[rest]
    assert (probability.gather(1, at)[rest] > 0).all()
    uniform = torch.from_numpy(uniform)[rest]
    assert (cumulative.gather(1, at)[rest, 0] >= uniform - slack).all()
    before = (cumulative - probability).gather(1, at)[rest, 0]
    assert (before <= uniform + slack).all()

    warm = torch.where(greedy, 1.0, temperature)
    for spread in (True, False):
        assert same(kernels.token_logprobs(logits, token, warm, entropy=spread)[0], logp)


@pytest.mark.parametrize("vocabulary", [2, 15, 16, 17, 1000, 32003])
def test_draw_reads_the_inverse_distribution(vocabulary):
    """Far from steps of the cumulative sum there is one right answer."""
    logits, _, temperature = logprob_inputs(5, 40, vocabulary, torch.float32)
    uniform = torch.from_numpy(Key.of(6).numpy().random(40))
    cumulative = softmax_facts(logits, temperature)[0].exp().cumsum(1)
    clear = (cumulative - uniform[:, None]).abs().min(1).values > 1e-5
    assert clear.sum() >= 12
    assert torch.equal(draw(logits, uniform, temperature)[0][clear], inverse_cdf(logits, uniform, temperature)[clear])


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_even_uniforms_give_even_shares(temperature):
    """With uniforms (i + 1/2) / N a token of probability p comes N p times, give or take one."""
    number, vocabulary = 20_000, 23
    row = drawn(3, vocabulary, scale=2.0)
    row[[0, 4, 22]] = -torch.inf
    logits = row.expand(number, -1).contiguous()
    token, _ = draw(logits, (torch.arange(number).double() + 0.5) / number, torch.full((number,), temperature))
    counts = token.bincount(minlength=vocabulary)
    due = torch.softmax(row.double() / temperature, 0) * number
    assert (counts - due).abs().max() <= 1.1
    assert (counts[[0, 4, 22]] == 0).all()
    assert (token.diff() >= 0).all()


@pytest.mark.parametrize("temperature", [0.7, 1.0, 1.4])
def test_draws_follow_the_distribution(temperature):
    number, vocabulary = 40_000, 12
    row = drawn(3, vocabulary)
    row[[0, 7]] = -torch.inf
    words = np.array([Key.of(1).derive(i).word for i in range(number // 100)], np.uint64).repeat(100)
    uniform = uniforms(words, np.tile(np.arange(100, dtype=np.uint64), number // 100))
    token, _ = draw(row.expand(number, -1).contiguous(), uniform, torch.full((number,), temperature))
    counts = token.bincount(minlength=vocabulary).double()
    due = torch.softmax(row.double() / temperature, 0) * number
    assert (counts[[0, 7]] == 0).all()
    some = due > 0
    # 9 degrees of freedom: 33.7 is passed once in ten thousand.
    assert float(((counts - due)[some].square() / due[some]).sum()) < 33.7


@pytest.mark.parametrize("uniform", [5e-324, 1e-300, SMALLEST, 1e-9])
@pytest.mark.parametrize("vocabulary", [5, 16, 33, 1000])
def test_small_uniforms_pick_the_first_possible_token(uniform, vocabulary):
    logits = drawn(1, 4, vocabulary)
    first = torch.tensor([0, 1, 3, vocabulary - 1])
    for row in range(4):
        logits[row, : first[row]] = -torch.inf
    token, logp = draw(logits, torch.full((4,), uniform))
    assert torch.equal(token, first)
    assert logp.isfinite().all()


def test_small_uniforms_pass_by_what_is_impossible_in_fp32():
    """Tokens 1e4 below the largest: e^-10000 is smaller than any uniform."""
    logits = torch.full((3, 40), -1e4)
    logits[0, 39], logits[1, 17], logits[2, [20, 21]] = 1.0, 1.0, torch.tensor([0.5, 0.5])
    token, _ = draw(logits, torch.full((3,), SMALLEST))
    assert token.tolist() == [39, 17, 20]


@pytest.mark.parametrize("uniform", [LARGEST, 1 - 2.0**-52, 1.0, 1 - 1e-12])
@pytest.mark.parametrize("vocabulary", [5, 16, 33, 1000, 32003])
def test_large_uniforms_pick_the_last_possible_token(uniform, vocabulary):
    """However sums are rounded, nothing impossible is drawn behind it."""
    logits = drawn(1, 6, vocabulary, scale=0.5)
    last = torch.tensor([0, 1, 3, vocabulary - 1, vocabulary - 2, vocabulary // 2])
    for row in range(6):
        logits[row, last[row] + 1 :] = -torch.inf
    token, logp = draw(logits, torch.full((6,), uniform))
    # Rounding may end the sum a little early; a token's share is 1e-5 at least.
    assert (token <= last).all()
    assert (token >= last - 2 * (vocabulary > 1000)).all()
    assert logp.isfinite().all()


def test_greedy_takes_the_first_of_ties():
    for vocabulary in (2, 7, 16, 31, 32, 100, 515):
        logits = drawn(1, vocabulary, vocabulary).clamp(max=1.0)
        for row in range(vocabulary):
            logits[row, row:] = logits[row, row:].clamp(max=1.0)
            logits[row, [row, (row * 7) % vocabulary, vocabulary - 1]] = 5.0
        rows = len(logits)
        for temperature in (0.0, 0.7):
            token, logp = draw(
                logits, torch.full((rows,), 0.99), torch.full((rows,), temperature), torch.ones(rows) > 0
            )
            assert torch.equal(token, (logits == 5.0).int().argmax(1))
            assert same(logp, kernels.token_logprobs(logits, token, torch.ones(rows), entropy=False)[0])


def test_greedy_among_banned_and_extreme():
    logits = torch.full((4, 50), -torch.inf)
    logits[0, 49] = -1e4
    logits[1, 16:] = -1e4
    logits[2] = torch.linspace(1e4, -1e4, 50)
    logits[3, [31, 33]] = torch.tensor([-0.0, 0.0])
    token, logp = draw(logits, torch.full((4,), 0.5), greedy=torch.ones(4) > 0)
    assert token.tolist() == [49, 16, 0, 31]
    assert_close(logp, -torch.tensor([1.0, 34.0, 1.0, 2.0]).double().log(), 1.0)


def test_a_forced_token_comes_whatever_else_is_said():
    logits = logits_of(1, 4, 60)
    logits[3, 9] = -torch.inf
    forced = torch.tensor([59, 0, 17, 9])
    token, logp = draw(logits, torch.full((4,), 0.5), torch.full((4,), 0.5), forced=forced)
    assert torch.equal(token, forced)
    assert logp[3] == -torch.inf
    assert_close(logp[:3], softmax_facts(logits, torch.full((4,), 0.5))[0].gather(1, forced[:, None])[:3, 0], 4.0)


def test_draws_of_rows_apart():
    logits, _, temperature = logprob_inputs(1, 203, 321, torch.float32, banned=0.2)
    uniform = torch.from_numpy(Key.of(2).numpy().random(203))
    token, logp = draw(logits, uniform, temperature)
    for rows in subsets(5, 203):
        some = draw(logits[rows], uniform[rows], temperature[rows])
        assert torch.equal(some[0], token[rows])
        assert same(some[1], logp[rows])
    with threads(2):
        again = draw(logits, uniform, temperature)
    assert torch.equal(again[0], token)
    assert same(again[1], logp)


def test_inputs_are_not_changed():
    logits, action, temperature = logprob_inputs(1, 5, 50, torch.float32)
    before = logits.clone()
    kernels.token_logprobs(logits, action, temperature, entropy=True)
    draw(logits, torch.full((5,), 0.5), temperature)
    assert same(before, logits)


@pytest.mark.parametrize("vocabulary", [32_003, 151_936])
def test_large_vocabularies(vocabulary):
    logits, action, temperature = logprob_inputs(2, 3, vocabulary, torch.float32, 2.0)
    logp, _, _, entropy = kernels.token_logprobs(logits, action, temperature, entropy=True)
    due, _, _, due_entropy = softmax_facts(logits, temperature)
    assert_close(logp, due.gather(1, action[:, None])[:, 0], noise(logits, temperature))
    assert_close(entropy, due_entropy, 10.0)
