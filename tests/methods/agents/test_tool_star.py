"""Tool-Star's data and rounds: what a trace is, how a hint goes on, which steps compare pairs."""

from __future__ import annotations

import pytest
import torch

from hocket import tasks
from hocket.core.columns import CALLS as CALLS_MADE
from hocket.core.columns import TOOL_CALLS
from hocket.methods.agents.claims.tool_star import CALLS, COLD, HARD, TURNS, bench, start
from hocket.methods.agents.tool_star import TOOL_STAR, DirectTrial, HardPart, OwnTraces, Trace
from hocket.train.config import configure
from hocket.train.trainer import Trainer


def test_a_phase_of_pairs_changes_the_policy():
    made = bench(TOOL_STAR.but(TURNS), 0, start())
    made.run(15)
    before = made.policies["policy"].module.logits.detach().clone()
    made.step()
    assert "pairs/total" in made.history[-1]
    assert "pairs/total" not in made.history[-2]
    assert not torch.equal(before, made.policies["policy"].module.logits)


def test_a_task_without_tools_has_no_calls_to_report(tmp_path):
    """Traces of single answers have no number of calls, so their demonstrations have none either."""
    task = tasks.find("sums")
    pairs = [("recipe", "tool-star-sft"), ("runs", str(tmp_path)), ("run", "run"), ("steps", 1), ("threads", 1)]
    pairs += [("curriculum.prompts", 4), ("evaluation.n", 2), ("decoding.max_tokens", 24)]
    trainer = Trainer(configure(pairs, task), task=task)
    trainer.step()
    assert "tools/calls" not in trainer.step()
    trainer.folder.release()


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
