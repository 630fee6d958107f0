"""Statistics per sample: declared by stages, measured by the loop, kept by the ledger; and MMR1's, which is BLEU."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from hocket.core.columns import InfoColumn
from hocket.core.keys import Key
from hocket.core.statistics import Moments, SampleStatistic, Summary
from hocket.curriculum.scenario_worth import Value, Weighted
from hocket.lab.bench import Bench
from hocket.lab.toys.rates import coins
from hocket.methods.base.grpo import GRPO
from hocket.methods.data_and_rollout.cures import CURES
from hocket.methods.data_and_rollout.mmr1_vas import MMR1_VAS, bleu, unlikeness_of, unlikenesses
from hocket.train.ledger import Ledger, SampleOutcome
from hocket.train.overlap import PendingOutcomes
from hocket.types import Scenario, Trajectory, Turn


def sample(*decisions: object, scenario: str = "q") -> Trajectory:
    return Trajectory(Scenario(scenario, "?"), [Turn("a", "p", np.zeros(1, np.int64), np.array(decisions))])


def outcome(scenario: str, reward: float | None, **statistics: float) -> SampleOutcome:
    return SampleOutcome(scenario, reward, statistics)


def test_bleu_is_sacrebleus():
    made = pytest.importorskip("sacrebleu.metrics.bleu").BLEU(
        max_ngram_order=3, tokenize="none", smooth_method="floor", smooth_value=0.1, effective_order=True
    )
    for seed in range(80):
        rng = Key.of(seed).numpy()
        own, *others = [[str(n) for n in rng.integers(0, 4, rng.integers(1, 9))] for _ in range(rng.integers(2, 6))]
        due = made.sentence_score(" ".join(own), [" ".join(one) for one in others]).score / 100
        assert abs(due - bleu(own, others)) < 1e-12


def test_groups_are_scenarios_and_one_sample_alone_has_no_unlikeness():
    group = [sample(1, 2, 3), sample(1, 2, 3), sample(4, scenario="other"), sample(1.5, 2.5), sample()]
    assert unlikenesses(group) == [0.0, 0.0, None, 1.0, 1.0]
    assert unlikenesses([sample([0.0, 1.0], [1.0, 1.0]), sample([0.0, 1.0], [1.0, 1.0])]) == [0.0, 0.0]
    assert bleu((), [(), (1,)]) == 1.0


# ---------------------------------------------------------------- what the ledger keeps


def test_the_ledger_keeps_moments_and_the_last_group_and_a_checkpoint_has_them():
    ledger, again = Ledger(), Ledger()
    ledger.note(1, [outcome("q", 1.0), outcome("other", 0.0)])
    assert ledger.outcomes("q").statistics == {}
    ledger.note(2, [outcome("q", 1.0, apart=0.9), outcome("q", None, apart=0.5)])
    ledger.note(3, [outcome("q", 1.0, apart=0.25), outcome("q", 0.0, apart=0.75, size=2.0)])
    ledger.note(4, [outcome("q", 0.0)])
    apart = Summary(Moments(2, 0.9 + 0.25, 0.9**2 + 0.25**2), Moments(1, 0.75, 0.75**2), 3, 2, 1.0)
    assert ledger.outcomes("q").statistics == {"apart": apart, "size": Summary(Moments(), Moments(1, 2, 4), 3, 1, 2)}
    assert apart.last_mean == 0.5
    assert Summary().last_mean is None
    again.restore(ledger.state())
    assert again.outcomes("q") == ledger.outcomes("q")
    assert again.outcomes("other").statistics == {}


def test_checkpoints_that_kept_one_half_of_a_summary_beside_the_counts_still_load():
    ledger = Ledger()
    ledger.note(5, [outcome("q", 1.0), outcome("r", 0.0)])
    state = {name: column for name, column in ledger.state().items() if name != "statistics"}
    state["norms"] = np.array([[2.0, 3.0, 5.0, 1.0, 4.0, 16.0], [0.0] * 6])
    state["unlikeness"] = np.array([[0.0] * 3, [5.0, 2.0, 1.5]])
    ledger.restore(state)
    assert ledger.outcomes("q").statistics == {"norms": Summary(Moments(2, 3, 5), Moments(1, 4, 16))}
    assert ledger.outcomes("r").statistics == {"unlikeness": Summary(step=5, samples=2, total=1.5)}


def test_what_a_step_earned_is_kept_until_the_ledger_may_know_it():
    earned, again, ledger = PendingOutcomes(), PendingOutcomes(), Ledger()
    earned.keep(3, [outcome("q", 1.0, apart=0.25), outcome("q", 0.0, size=2.0, apart=0.75), outcome("r", None)])
    again.restore(earned.state())
    again.settle(ledger)
    assert ledger.outcomes("q").statistics["apart"].last_mean == 0.5
    assert ledger.outcomes("q").statistics["size"].failures == (1, 2, 4)
    assert ledger.outcomes("r").statistics == {}
    again.restore({"step": 1, "scenarios": ["q"], "rewards": [1.0]})
    again.restore({"step": 4, "scenarios": ["s"] * 2, "rewards": [1.0] * 2, "norms": [float("nan"), 3.0]})
    again.settle(ledger)
    assert ledger.outcomes("s").statistics["norms"].successes == (1, 3, 9)
    again.restore(PendingOutcomes().state())


# ---------------------------------------------------------------- who has them measured


def lengths(batch):
    return [float(length) for length in batch.occurrences.trajectory.bincount(minlength=batch.trajectories)]


DRAWN = SampleStatistic("drawn", InfoColumn("drawn", "1."), of_samples=lambda samples: [1.0 for _ in samples])
LEARNT = SampleStatistic("learnt", InfoColumn("learnt", "How many decisions."), of_batch=lengths)


@dataclass(frozen=True)
class Declaring(Value):
    """Declares two statistics."""

    statistics: ClassVar[frozenset[SampleStatistic]] = frozenset({DRAWN, LEARNT})

    def __call__(self, outcomes, rewards):
        return 1.0


def statistics_after_a_step(recipe):
    world, start = coins((0.5, 0.5))
    result = (bench := Bench(world, recipe, start=start, prompts=2)).step()
    return bench.parts.ledger.outcomes("lab/0").statistics, result


def test_a_stage_declares_them_and_its_wrappers_need_not():
    found, result = statistics_after_a_step(GRPO.but({"curriculum": Weighted(value=Declaring())}))
    group = [one for one in result.trajectories if one.scenario.id == "lab/0"]
    assert found["drawn"].last_mean == found["learnt"].last_mean == 1.0
    assert found["drawn"].samples == len(group)
    assert {DRAWN.column.get(one) for one in group} == {1.0}
    assert statistics_after_a_step(GRPO)[0] == {}


def test_the_papers_are_measured_only_where_a_stage_asks():
    found, _ = statistics_after_a_step(MMR1_VAS)
    assert found.keys() == {"unlikeness"}
    without = MMR1_VAS.but({"curriculum.value": MMR1_VAS.curriculum.value.outcome})
    assert statistics_after_a_step(without)[0] == {}
    assert statistics_after_a_step(CURES)[0].keys() == {"norms"}
    assert {column.name for column in CURES.reads} >= {"score_norm"}
    assert unlikeness_of(Ledger().outcomes("new")) is None


def test_a_statistic_has_one_function():
    with pytest.raises(ValueError, match="either of_samples or of_batch"):
        SampleStatistic("none", InfoColumn("none", "Nothing."))
