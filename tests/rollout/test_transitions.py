"""Rows that a store keeps and draws."""

import numpy as np
import pytest
import torch

from hocket.core.batch import Level
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.core.signals import paid_at_decisions
from hocket.core.stored_rows import ALLOWED_THEN, FOLLOWING, GOES_ON, NOISE, PAID, PLACE
from hocket.rollout.sum_tree import SumTree
from hocket.rollout.transitions import Transitions, rows_of
from hocket.types import End, Scenario, Score, Trajectory, Turn

GAMMA = 0.9


def episode(start, size, *, terminated=True, policy="policy", final=True, logp=True, vector=False):
    """An episode that observes start, start + 1, .. and is paid 1, 2, .."""
    seen = np.arange(start, start + size, dtype=np.float32)[:, None]
    action = np.full((size, 2), 0.25, np.float32) if vector else np.arange(size) % 2
    turn = Turn("agent", policy, seen, action, np.full(size, -0.5, np.float32) if logp else None)
    last = np.array([start + size], np.float32) if final else None
    score = Score(np.arange(1, size + 1, dtype=float), Level.DECISION)
    ends = {"terminated": terminated, "truncated": not terminated, "final_state": last}
    return Trajectory(Scenario(f"s{start}"), [turn], scores={"reward": score}, **ends)


def rewarded(*trajectories):
    batch = pack(trajectories)
    return paid_at_decisions(batch, batch.scores["reward"].values)


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("terminated", [True, False])
def test_a_row_joins_n_decisions_as_a_loop_does(steps, terminated):
    rows = rows_of(rewarded(episode(0, 5), episode(10, 4, terminated=terminated)), steps, GAMMA)
    expected = []
    for start, size, over in ((0, 5, True), (10, 4, terminated)):
        for t in range(size):
            paid, reach = 0.0, t
            while reach < min(t + steps, size):
                paid += GAMMA ** (reach - t) * (reach + 1)
                reach += 1
            goes_on = 0.0 if over and reach == size else GAMMA ** (reach - t)
            expected.append((start + t, paid, start + reach, goes_on))
    names = ("observed", "paid", "following", "goes_on")
    np.testing.assert_allclose(np.stack([rows[name].reshape(-1) for name in names], 1), expected, rtol=1e-6)


def test_a_cut_episode_without_a_final_state_loses_the_rows_that_would_read_it():
    rows = rows_of(rewarded(episode(0, 5, terminated=False, final=False)), 2, GAMMA)
    assert rows["observed"].flatten().tolist() == [0, 1, 2]
    assert len(rows_of(rewarded(episode(0, 5, final=False)), 2, GAMMA)["paid"]) == 5


def test_a_full_store_drops_its_oldest_rows():
    store = Transitions(size=6, rows=2, begin=0)
    state = store.init()
    for start, size in ((0, 4), (10, 4), (100, 9)):
        state = store.add(state, rewarded(episode(start, size)))
        kept = sorted(state["rings"]["policy"]["columns"]["observed"][:, 0].tolist())
        expected = {0: [0, 0, 0, 1, 2, 3], 10: [2, 3, 10, 11, 12, 13], 100: [103, 104, 105, 106, 107, 108]}
        assert kept == expected[start]


def test_a_drawn_batch_carries_its_rows_and_equal_keys_draw_equal_rows():
    store = Transitions(size=50, rows=4, begin=0, gamma=GAMMA)
    state = store.add(store.init(), rewarded(episode(0, 20, vector=True)))
    batch, again, other = (store.draw(state, 64, Key.of(seed)) for seed in (1, 1, 2))
    assert torch.equal(batch.annotations[NOISE.name], again.annotations[NOISE.name])
    assert not torch.equal(batch.annotations[PLACE.name], other.annotations[PLACE.name])
    seen = torch.from_numpy(batch.observation[0])[:, 0]
    assert torch.equal(batch.annotations[FOLLOWING.name][:, 0], seen + 1)
    assert torch.equal(batch.annotations[PAID.name], seen + 1)
    assert torch.equal(batch.annotations[GOES_ON.name] == 0, seen == 19)
    assert batch.annotations[NOISE.name].shape == (64, 2, 2)
    assert batch.trajectories == batch.decisions == len(batch.occurrences) == 64
    assert set(seen.tolist()) <= set(range(20))
    assert len(set(seen.tolist())) > 10


def test_unknown_log_probs_stay_unknown():
    store = Transitions(size=50, rows=4, begin=0)
    state = store.add(store.init(), rewarded(episode(0, 10, logp=False), episode(20, 10)))
    batch = store.draw(state, 200, Key.of(0))
    recorded, seen = batch.logp["behaviour"], torch.from_numpy(batch.observation[0])[:, 0]
    assert torch.equal(recorded.present, seen >= 20)
    assert recorded.values.isfinite().all()


def test_every_policy_of_a_team_draws_the_same_rows():
    team = Trajectory(Scenario("s"), [], scores={}, terminated=True)
    for number, name in enumerate("ab"):
        seen = np.arange(6, dtype=np.float32)[:, None].repeat(1 + number, 1)
        turn = Turn(name, name, seen, np.zeros(6, np.int64), np.zeros(6, np.float32), time=np.arange(6))
        turn.end = End(True, False)
        team.turns.append(turn)
    batch = pack([team])
    store = Transitions(size=20, rows=4, begin=0)
    state = store.add(store.init(), paid_at_decisions(batch, torch.arange(12.0, dtype=torch.float64)))
    drawn = store.draw(state, 8, Key.of(0))
    one, other = drawn.observation
    assert drawn.names["policy"] == ("a", "b")
    assert other.shape == (8, 2)
    assert one[:, 0].tolist() == other[:, 0].tolist()
    mine = drawn.of_policy("b")
    assert drawn.annotations[PAID.name][mine.occurrences.decision].tolist() == [6 + x for x in other[:, 0]]


def test_allowed_actions_are_kept_now_and_then():
    one = episode(0, 3, terminated=False)
    allowed = np.array([[True, False], [False, True], [True, True]])
    one.turns[0].extras["allowed"] = allowed
    rows = rows_of(rewarded(one), 1, GAMMA)
    assert rows["allowed"].tolist() == allowed.tolist()
    assert rows["allowed_then"].tolist() == [[False, True], [True, True], [True, True]]
    store = Transitions(size=50, rows=4, begin=0)
    batch = store.draw(store.add(store.init(), rewarded(one)), 4, Key.of(0))
    assert batch.allowed[0].shape == batch.annotations[ALLOWED_THEN.name].shape == (4, 2)


def test_a_sum_tree_draws_in_proportion_and_its_bits_do_not_depend_on_the_order_of_writing():
    rng = np.random.default_rng(0)
    priorities = rng.random(37) ** 3
    tree, other = SumTree(37), SumTree(37)
    tree.put(np.arange(37), priorities)
    for part in np.array_split(rng.permutation(37), 5):
        other.put(part, priorities[part])
    assert np.array_equal(tree.nodes, other.nodes)
    place, share = tree.draw((np.arange(100_000) + 0.5) / 100_000)
    np.testing.assert_allclose(np.bincount(place, minlength=37) / 1e5, priorities / priorities.sum(), atol=2e-5)
    np.testing.assert_allclose(share, (priorities / priorities.sum())[place])


def test_prioritised_rows_are_drawn_by_their_errors_and_weighed_against_it():
    store = Transitions(size=8, rows=2, begin=0, take="prioritised", alpha=1.0, beta=1.0)
    state = store.add(store.init(), rewarded(episode(0, 4)))
    state = store.learnt(state, {"policy": (np.arange(4), np.array([3.0, 1.0, 0.0, -4.0], np.float32))})
    batch = store.draw(state, 4000, Key.of(0))
    place, weight = batch.annotations[PLACE.name].numpy(), batch.occurrences.weight.numpy()
    np.testing.assert_allclose(np.bincount(place, minlength=4) / 4000, [3 / 8, 1 / 8, 0, 1 / 2], atol=0.03)
    np.testing.assert_allclose([weight[place == row].mean() for row in (0, 1, 3)], [1 / 3, 1, 1 / 4], rtol=1e-4)
    state = store.add(state, rewarded(episode(9, 1)))
    assert state["rings"]["policy"]["tree"].priorities[4] == pytest.approx(4.0)  # The largest so far.


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size": 100, "rows": 256}, "fewer rows than a mini-batch"),
        ({"begin": 11, "size": 10, "rows": 4}, "waits for more rows"),
        ({"take": "best"}, "uniform or prioritised"),
        ({"gamma": 1.5}, "gamma"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        Transitions(**settings)


def test_rows_of_another_shape_are_refused():
    store = Transitions(size=50, rows=4, begin=0)
    state = store.add(store.init(), rewarded(episode(0, 4)))
    with pytest.raises(ConfigurationError, match="action"):
        store.add(state, rewarded(episode(0, 4, vector=True)))


def test_sequences_hold_the_rows_before_a_drawn_one_in_its_episode():
    store = Transitions(size=12, rows=4, begin=0, length=4)
    state = store.init()
    for start, size in ((0, 5), (100, 6), (200, 7)):  # The ring keeps the last of the second and all of the third.
        state = store.add(state, rewarded(episode(start, size)))
    batch = store.draw(state, 64, Key.of(0))
    assert batch.turns == batch.trajectories == 64
    for number, seen in enumerate(batch.observation):
        first, last = seen[0, 0], seen[-1, 0]
        assert seen[:, 0].tolist() == list(range(int(first), int(last) + 1))
        oldest = 200 if last >= 200 else 101
        assert len(seen) == min(4, last - oldest + 1)
        mine = batch.turn == number
        assert batch.annotations["step"][mine].tolist() == [x % 100 for x in seen[:, 0]]
        size = 7 if last >= 200 else 6
        assert batch.annotations["to_go"][mine].tolist() == [sum(range(int(x) % 100 + 1, size + 1)) for x in seen[:, 0]]
    assert torch.equal(batch.occurrences.trajectory, batch.turn)
