"""Contexts named by a function: what has equal names shares its logits; and what training tells of each score."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hocket.lab.bench import Bench
from hocket.lab.policy import Tabular
from hocket.lab.world import World
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.mixed_r1 import Routed
from hocket.recipes import find

WORLD = World(
    questions=3,
    tokens=2,
    horizon=2,
    reward=lambda question, answer: float(answer[0]),
    context=lambda question, prefix: (question % 2, prefix),
    text=lambda question, answer: str(answer[0]),
    metadata=lambda question: {"reward": "match" if question < 2 else "open"},
)


def test_equal_names_share_a_row():
    policy = Tabular(WORLD)
    assert policy.row(0, (1,)) == policy.row(2, (1,)) != policy.row(1, (1,))
    assert len(policy.logits) == 6, "two names for each of three prefixes"


def test_what_is_learnt_on_one_question_holds_for_another():
    bench = Bench(WORLD, GRPO.but(rewards=WORLD.rewards), lr=0.2).run(20)
    rates = [bench.policy.expectation(q, [a[0] for a in WORLD.answers()]).item() for q in range(3)]
    assert rates[0] == rates[2] > 0.8


def test_a_score_is_reported_over_those_it_has_an_opinion_on():
    class Answered(World):
        def scenario(self, split, number):
            return replace(super().scenario(split, number), answer="1")

    world = Answered(**{name: getattr(WORLD, name) for name in WORLD.__dataclass_fields__})
    bench = Bench(world, find("mixed-r1").but(rewards=(Routed("match"), Routed("open"))))
    step = bench.step()
    for kind in ("match", "open"):
        given = [t.scores[kind].value for t in step.trajectories if t.scores[kind].value is not None]
        assert len(given) == (16 if kind == "match" else 8)
        assert step.metrics[f"reward/{kind}"] == pytest.approx(sum(given) / len(given))
    assert [row["reward"] for row in step.batch.info["metadata"]] == ["match"] * 16 + ["open"] * 8
