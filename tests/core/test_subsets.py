"""Drawing subsets by scores: how often, and exact log-probs and gradients."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.subsets import LARGEST, best, drawn, gradient, logp

SCORES = np.array([0.3, -1.2, 2.0, 0.0, 0.7])


def _by_orders(scores, chosen):
    """The sum over the orders in which a set is drawn, one member after the other."""
    weights, total = np.exp(scores), 0.0
    for order in itertools.permutations(chosen):
        left, chance = weights.sum(), 1.0
        for place in order:
            chance *= weights[place] / left
            left -= weights[place]
        total += chance
    return math.log(total)


def test_the_log_prob_is_the_sum_over_orders_and_all_sets_sum_to_one():
    for count in range(1, 6):
        found = {one: logp(SCORES, one) for one in itertools.combinations(range(5), count)}
        for one, value in found.items():
            assert value == pytest.approx(_by_orders(SCORES, one), abs=1e-12)
            assert logp(SCORES + 700, one[::-1]) == pytest.approx(value, abs=1e-12)
        assert sum(map(math.exp, found.values())) == pytest.approx(1, abs=1e-12)


def test_the_gradient_is_that_of_the_log_prob():
    for one in ((2,), (0, 3), (4, 1, 2), (0, 1, 2, 3, 4)):
        slope = gradient(SCORES, one)
        for place in range(5):
            step = np.eye(5)[place] * 1e-6
            numeric = (logp(SCORES + step, one) - logp(SCORES - step, one)) / 2e-6
            assert slope[place] == pytest.approx(numeric, abs=1e-8)
        assert slope.sum() == pytest.approx(0, abs=1e-12)


def test_gumbel_top_k_draws_sets_as_often_as_they_are_likely():
    times = 20_000
    seen = Counter(frozenset(drawn(SCORES, 2, Key.of(0).derive(n))) for n in range(times))
    for one in itertools.combinations(range(5), 2):
        chance = math.exp(logp(SCORES, one))
        assert abs(seen[frozenset(one)] / times - chance) < 4 * math.sqrt(chance * (1 - chance) / times)


def test_the_best_are_the_highest_and_of_equals_the_first():
    assert best([1.0, 3.0, 3.0, 2.0], 2) == (1, 2)
    assert best([0.0, 0.0], 5) == (0, 1)


def test_sets_that_have_no_exact_log_prob_are_refused():
    for chosen in (range(LARGEST + 1), (1, 1)):
        with pytest.raises(ConfigurationError, match=f"at most {LARGEST} different places"):
            logp(np.zeros(20), tuple(chosen))
