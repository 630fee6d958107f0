"""Rows of a team that a store keeps and draws."""

import numpy as np
import pytest
import torch

from hocket.core.batch import Level
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.core.signals import paid_at_decisions, rewards_by_occurrence
from hocket.core.stored_rows import FOLLOWING, GOES_ON, JOINT_THEN, PAID, TEAM_PAID, WORD, moments
from hocket.rollout.joint_transitions import JointTransitions, joint_rows
from hocket.types import End, Scenario, Score, Trajectory, Turn

GAMMA = 0.9


def team(lasts=(4, 2), *, turns=False, terminated=True, final=True):
    """Agent k sees 100 k + t, is paid 10 k + t at time t, and ends after `lasts[k]` steps; the joint state is t."""
    found = Trajectory(Scenario("s"), [], terminated=terminated, truncated=not terminated)
    paid = []
    for number, last in enumerate(lasts):
        time = np.arange(last)
        seen = (100 * number + time)[:, None].repeat(1 + number, 1).astype(np.float32)
        turn = Turn(f"agent_{number}", f"policy_{number}", seen, time % 2, np.zeros(last, np.float32))
        turn.time, turn.joint = time * 2 + number if turns else time, time[:, None].astype(np.float32)
        end = np.full(1 + number, 100 * number + last, np.float32) if final else None
        over = terminated or last < max(lasts)
        turn.end = End(over, not over, end, np.array([last], np.float32))
        found.turns.append(turn)
        paid.append(10.0 * number + time)
    found.scores["reward"] = Score(np.concatenate(paid), Level.DECISION)
    batch = pack([found])
    return paid_at_decisions(batch, batch.scores["reward"].values)


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("terminated", [True, False])
def test_a_row_is_a_moment_of_all_agents(steps, terminated):
    rows = joint_rows(team(terminated=terminated), ["agent_0", "agent_1"], steps, GAMMA)
    for t in range(4):
        assert rows["0/observed"][t] == t
        assert rows["joint"][t] == t
        assert rows["joint_then"][t] == min(t + steps, 4)
        own = []
        for number, last in enumerate((4, 2)):
            assert rows[f"{number}/present"][t] == (t < last)
            if t >= last:
                own.append(0.0)
                continue
            reach = min(t + steps, last)
            own.append(sum(GAMMA ** (k - t) * (10 * number + k) for k in range(t, reach)))
            assert rows[f"{number}/following"][t][0] == 100 * number + reach
            over = reach == last and (terminated or last < 4)
            assert rows[f"{number}/goes_on"][t] == pytest.approx(0.0 if over else GAMMA ** (reach - t))
        assert rows["team_paid"][t] == pytest.approx(np.mean(own))


def test_a_drawn_row_is_a_trajectory_of_its_agents_decisions():
    store = JointTransitions(size=20, rows=4, begin=0, gamma=GAMMA)
    state = store.add(store.init(), team())
    batch, again = (store.draw(state, 32, Key.of(0)) for _ in range(2))
    assert (batch.trajectories, batch.decisions, batch.turns) == (32, 64, 2)
    occurrences = batch.occurrences
    assert torch.equal(moments(batch)[occurrences.decision], occurrences.trajectory)
    assert torch.equal(batch.annotations[WORD.name], again.annotations[WORD.name])
    time = torch.from_numpy(batch.joint[0])[:, 0]
    assert len(set(time.tolist())) == 4
    for agent in range(2):
        mine = batch.agent[batch.turn] == agent
        weight = torch.zeros(64)
        weight[occurrences.decision] = occurrences.weight
        live = weight[mine] != 0
        assert torch.equal(live, time < (4, 2)[agent])
        seen = torch.from_numpy(batch.observation[agent])[live]
        assert torch.equal(seen[:, 0], 100 * agent + time[live])
        assert torch.equal(batch.annotations[FOLLOWING.name][mine][live][:, 0], seen[:, 0] + 1)
        assert torch.equal(batch.annotations[PAID.name][mine][live], 10 * agent + time[live])
        assert torch.equal(batch.annotations[JOINT_THEN.name][mine][:, 0], time + 1)
        assert torch.equal(batch.annotations[GOES_ON.name][mine] > 0, time < (3, 1)[agent])
    paid = rewards_by_occurrence(batch).float()
    assert torch.equal(paid, batch.annotations[PAID.name][occurrences.decision])
    expected = (time + torch.where(time < 2, 10 + time, 0.0)) / 2
    assert torch.equal(batch.annotations[TEAM_PAID.name][:32], expected)
    own = batch.of_policy("policy_1")
    assert torch.equal(batch.agent[batch.turn[own.occurrences.decision]], torch.ones(32, dtype=torch.long))


def test_selected_rows_keep_their_agents_together():
    store = JointTransitions(size=20, rows=4, begin=0, gamma=GAMMA)
    batch = store.draw(store.add(store.init(), team()), 8, Key.of(0))
    part = batch.select(torch.tensor([1, 4, 6]))
    assert moments(part)[part.occurrences.decision].tolist() == [1, 1, 4, 4, 6, 6]
    taken = batch.take(torch.tensor([2, 3, 12, 13]))
    assert sorted(moments(taken).tolist()) == [1, 1, 6, 6]


def test_a_gradient_for_each_moment_and_the_largest_error_of_a_row_counts():
    store = JointTransitions(size=8, rows=2, begin=0, take="prioritised", alpha=1.0)
    state = store.add(store.init(), team())
    assert store.gradients(state, 6) == 6  # Two policies with six decisions each, of two agents.
    places = np.array([0, 1], np.int64)
    errors = {"policy_0": (places, np.array([1.0, -5.0])), "policy_1": (places, np.array([3.0, 2.0]))}
    priorities = store.learnt(state, errors)["rings"]["team"]["tree"].priorities
    assert priorities[:2] == pytest.approx([3.0, 5.0])


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"turns": True}, "take turns"), ({"final": False, "terminated": False}, "no final observation")],
)
def test_what_has_no_moments_is_refused(settings, message):
    store = JointTransitions(size=8, rows=2, begin=0)
    with pytest.raises(ConfigurationError, match=message):
        store.add(store.init(), team(**settings))


def test_a_new_agent_is_refused():
    store = JointTransitions(size=8, rows=2, begin=0)
    state = store.add(store.init(), team((3, 3)))
    with pytest.raises(ConfigurationError, match="agent_2 is none of them"):
        store.add(state, team((3, 3, 3)))
    with pytest.raises(ValueError, match="leave data unset"):
        JointTransitions(data="d.npz")
