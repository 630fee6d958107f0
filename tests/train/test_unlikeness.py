"""How different answers are: BLEU against its reference implementation, and the way into the ledger and back."""

import numpy as np
import pytest

from hocket.core.keys import Key
from hocket.core.unlikeness import UNLIKENESS, bleu, note_unlikeness
from hocket.lab.bench import Bench
from hocket.lab.toys.rates import coins
from hocket.methods.data_and_rollout.mmr1_vas import MMR1_VAS
from hocket.train.ledger import Ledger, Told
from hocket.train.overlap import Earned
from hocket.types import Scenario, Trajectory, Turn


def said(*decisions: object, scenario: str = "q") -> Trajectory:
    return Trajectory(Scenario(scenario, "?"), [Turn("a", "p", np.zeros(1, np.int64), np.array(decisions))])


def test_bleu_is_sacrebleus():
    made = pytest.importorskip("sacrebleu.metrics.bleu").BLEU(
        max_ngram_order=3, tokenize="none", smooth_method="floor", smooth_value=0.1, effective_order=True
    )
    for seed in range(80):
        rng = Key.of(seed).numpy()
        own, *others = [[str(n) for n in rng.integers(0, 4, rng.integers(1, 9))] for _ in range(rng.integers(2, 6))]
        due = made.sentence_score(" ".join(own), [" ".join(one) for one in others]).score / 100
        assert abs(due - bleu(own, others)) < 1e-12


def test_groups_are_scenarios_and_one_sample_alone_tells_nothing():
    group = [said(1, 2, 3), said(1, 2, 3), said(4, scenario="other"), said(1.5, 2.5), said()]
    note_unlikeness(group)
    told = [UNLIKENESS.get(one) for one in group]
    assert told[:2] == [0.0, 0.0]
    assert told[2] is None
    assert told[3:] == [1.0, 1.0]
    vectors = [said([0.0, 1.0], [1.0, 1.0]), said([0.0, 1.0], [1.0, 1.0])]
    note_unlikeness(vectors)
    assert [UNLIKENESS.get(one) for one in vectors] == [0.0, 0.0]
    assert bleu((), [(), (1,)]) == 1.0


def test_the_ledger_keeps_the_last_group_that_told_it_and_a_checkpoint_has_it():
    ledger, again = Ledger(), Ledger()
    ledger.note(1, [Told("q", 1.0), Told("other", 0.0)])
    assert ledger.outcomes("q").unlikeness is None
    assert "unlikeness" not in ledger.state()
    ledger.note(2, [Told("q", 1.0, unlikeness=0.9), Told("q", None, unlikeness=0.5)])
    ledger.note(3, [Told("q", 1.0, unlikeness=0.25), Told("q", 0.0, unlikeness=0.75)])
    ledger.note(4, [Told("q", 0.0)])
    assert ledger.outcomes("q").unlikeness == 0.5
    again.restore(ledger.state())
    assert again.outcomes("q") == ledger.outcomes("q")
    assert again.outcomes("other").unlikeness is None


def test_what_a_step_earned_is_kept_until_the_ledger_may_know_it():
    earned, again, ledger = Earned(), Earned(), Ledger()
    earned.keep(3, [Told("q", 1.0, None, 0.25), Told("q", 0.0, 2.0, 0.75), Told("r", 0.0)])
    again.restore(earned.state())
    again.settle(ledger)
    assert ledger.outcomes("q").unlikeness == 0.5
    assert ledger.outcomes("q").norms == (2.0, 4.0, 2.0, 4.0)
    assert ledger.outcomes("r").unlikeness is None
    again.restore({"step": 1, "scenarios": ["q"], "rewards": [1.0]})
    again.restore(Earned().state())


def test_it_is_measured_only_where_a_stage_asks():
    world, start = coins((0.5, 0.5))
    asks, does_not = (
        Bench(world, recipe, start=start, prompts=2).run(1)
        for recipe in (MMR1_VAS, MMR1_VAS.but({"curriculum.value": MMR1_VAS.curriculum.value.outcome}))
    )
    assert asks.parts.ledger.outcomes("lab/0").unlikeness is not None
    assert does_not.parts.ledger.outcomes("lab/0").unlikeness is None
