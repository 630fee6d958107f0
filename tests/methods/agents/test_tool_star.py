"""Tool-Star's data and rounds: what a trace is, how a hint goes on, which steps compare pairs."""

from __future__ import annotations

import pytest
import torch

from hocket.core.columns import CALLS as CALLS_MADE
from hocket.core.columns import TOOL_CALLS
from hocket.lab.microscope import RecordedBatch
from hocket.methods.agents.claims.tool_star import CALLS, COLD, HARD, TURNS, bench, start
from hocket.methods.agents.tool_star import TOOL_STAR, TOOL_STAR_RL, DirectTrial, HardPart, OwnTraces, Trace
from hocket.types import Evaluation

ROWS = [
    {"group": "g", "scores": {"correct": score}, "logp": [-1.0, -0.5], "logp_ref": [-1.2, -0.4]}
    for score in (1.1, 1.0, 0.0, -1.0)
]


@pytest.mark.parametrize(("step", "pairs"), [(1, False), (30, False), (31, True), (40, True), (41, False), (71, True)])
def test_ten_steps_of_forty_compare_pairs(step, pairs):
    batch = RecordedBatch({"version": 1, "trajectories": ROWS}).batch.but(step=step)
    credited, _ = TOOL_STAR.compute_credit(batch, TOOL_STAR.init(), {})
    seen = credited.occurrences
    assert (seen.pairs is not None) is pairs
    logp = torch.tensor([-1.0, -0.5] * 4, dtype=torch.float64)
    terms = TOOL_STAR.loss(Evaluation(logp), credited)
    if pairs:
        assert seen.pairs.tolist() == [[0, 3]], "the best against the worst"
        assert len(terms[0].value) == 1
    else:
        alone, _ = TOOL_STAR_RL.compute_credit(batch, TOOL_STAR_RL.init(), {})
        assert torch.equal(seen.advantage, alone.occurrences.advantage)
        assert terms[0].total() == TOOL_STAR_RL.loss(Evaluation(logp), alone)[0].total()


def test_a_phase_of_pairs_changes_the_policy():
    made = bench(TOOL_STAR.but(TURNS), 0, start())
    made.run(15)
    before = made.policies["policy"].module.logits.detach().clone()
    made.step()
    assert "pairs/total" in made.history[-1]
    assert "pairs/total" not in made.history[-2]
    assert not torch.equal(before, made.policies["policy"].module.logits)


def test_a_trace_with_a_hint_goes_on_from_what_was_said_before():
    """The search that came before the hinted call is part of the trace, and of what is imitated."""
    made = bench(COLD, 0, start(search=0.8, python=1e-6), HARD)
    kept = [one for _ in range(3) for one in made.step().trajectories]
    hinted = [one for one in kept if [turn.text for turn in one.turns[:2]] == list(CALLS.values())]
    assert hinted
    for one in hinted:
        told, cost = f"price {one.scenario.metadata['price']}", f"cost {one.scenario.answer}"
        assert one.text == f"<answer>{one.scenario.answer}</answer>"
        assert len(one.turns) == 3
        assert one.scenario in HARD
        assert (TOOL_CALLS.get(one), [call["result"] for call in CALLS_MADE.get(one)]) == (2, [told, cost])
        assert one.scores["correct"].value == 1
        assert [message["content"] for message in Trace(one).said] == [
            CALLS["search"],
            told,
            CALLS["python"],
            cost,
            one.text,
        ]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: DirectTrial(tries=0), "tries must be at least 1"),
        (lambda: DirectTrial(share=0.0), r"share in \(0, 1\]"),
        (lambda: OwnTraces(most=0), "most must be at least 1"),
        (lambda: HardPart(samples=0), "samples must be at least 1"),
    ],
)
def test_settings_that_make_no_sense(make, said):
    with pytest.raises(ValueError, match=said):
        make()
