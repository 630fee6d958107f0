"""Plans carried out several times: which of them are compared."""

from __future__ import annotations

import asyncio
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.core.components import from_plain, to_plain
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.lab.talk import TalkBench
from hocket.methods.agents.mpo_meta_plan import PlanPairs, PlanRuns
from hocket.recipes import find
from hocket.rewards.combine import WeightedSum
from hocket.train.ledger import Ledger
from hocket.train.loop import Playing
from hocket.types import Assignment, Scenario, Score, Trajectory, Turn

ROWS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 10), st.sampled_from("ab"), st.booleans()),
    min_size=1,
    max_size=12,
)
"""The plan, how many turns follow, the reward in tenths, the scenario, whether it counts."""


@settings(max_examples=40, deadline=None, derandomize=True)
@given(ROWS)
def test_best_and_worst_mean_and_ties_are_skipped(rows):
    plans: dict[tuple[str, int], Turn] = {}
    found = []
    for plan, more, reward, scenario, counts in rows:
        fresh = [Turn("actor", "q", np.zeros(1, np.int64), np.zeros(2, np.int64)) for _ in range(more)]
        new = Turn("adviser", "p", np.zeros(1, np.int64), np.full(plan + 1, plan))
        source = "own" if counts else "baseline"
        turns = [plans.setdefault((scenario, plan), new), *fresh]
        found.append(Trajectory(Scenario(scenario), turns, scores={"r": Score(reward / 10)}, source=source))
    batch = WeightedSum()(pack(found), {})
    seen = PlanPairs()(batch)
    wanted = []
    for scenario in dict.fromkeys(row[3] for row in rows):
        mine = [row for row in rows if row[3] == scenario and row[4]]
        order = list(dict.fromkeys(row[0] for row in mine))
        quality = {
            plan: Fraction(sum(row[2] for row in mine if row[0] == plan), sum(row[0] == plan for row in mine))
            for plan in order
        }
        if quality and max(quality.values()) > min(quality.values()):
            wanted.append((scenario, *(pick(order, key=quality.__getitem__) for pick in (max, min))))
    taken = []
    for (better, worse), turns in zip(seen.pairs.tolist(), seen.compared.tolist(), strict=True):
        assert rows[better][3] == rows[worse][3]
        for row, turn in ((better, turns[0]), (worse, turns[1])):
            first = int((seen.trajectory == row).nonzero()[0])
            assert int(batch.turn[seen.decision[first]]) == turn
        taken.append((rows[better][3], rows[better][0], rows[worse][0]))
    # Rounding may choose another one of plans that are worth exactly the same.
    assert [one[0] for one in sorted(taken)] == [one[0] for one in sorted(wanted)]
    for scenario, best, worst in taken:
        mine = [row for row in rows if row[3] == scenario and row[4]]
        mean = {p: Fraction(sum(r[2] for r in mine if r[0] == p), sum(r[0] == p for r in mine)) for p, *_ in mine}
        assert mean[best] == max(mean.values())
        assert mean[worst] == min(mean.values())
    outside = set(range(len(rows))) - set(seen.pairs.flatten().tolist())
    assert not any(float(seen.weight[seen.trajectory == row].abs().sum()) for row in outside)


class Planned(Workflow):
    roles = ("adviser", "agent")

    async def play(self, scenario, team):
        plan = await team.adviser("plan")
        said = await team.agent(f"{plan}, now")
        lucky = float(team.key.derive("luck").numpy().random())
        return Outcome(rewards={"r": float(str(said) == str(plan))}, info={"lucky": lucky})


def test_runs_replay_their_plan_and_plans_drawn_twice_are_one():
    bench = TalkBench(Planned(), [Scenario("a", "a"), Scenario("b", "b")], ("red", "blue"), find("mpo-meta-plan"))
    asked = [Assignment(one, decoding=bench.parts.decoding, first=3) for one in bench.scenarios]

    async def score(trajectories: list[Trajectory]) -> None:
        return None

    play = Playing(bench.player, Key.of(2))
    found = asyncio.run(PlanRuns(5, 4).collect(asked, play=play, score=score, ledger=Ledger(), key=Key.of(0)))
    assert len(found.trajectories) == 40
    for name in "ab":
        mine = [one for one in found.trajectories if one.scenario.id == name]
        assert len({one.sample for one in mine}) == 20
        assert len({one.info["lucky"] for one in mine}) == 1
        plans = {
            one.turns[0].text: {id(o.turns[0]) for o in mine if o.turns[0].text == one.turns[0].text} for one in mine
        }
        assert all(len(same) == 1 for same in plans.values())
        for start in range(0, 20, 4):
            assert len({id(one.turns[0]) for one in mine[start : start + 4]}) == 1
        assert len({one.turns[1].text for one in mine}) == 2
    assert found.metrics["rollout/plans"] == 4.0


def test_they_are_values_and_refuse_nonsense():
    recipe = find("mpo-meta-plan")
    assert from_plain(to_plain(recipe)) == recipe
    with pytest.raises(ValueError, match="plans must be at least 2"):
        PlanRuns(plans=1)
    with pytest.raises(ValueError, match="margin"):
        PlanPairs(margin=-1.0)
